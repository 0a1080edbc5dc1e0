/* SPDX-License-Identifier: Apache-2.0 */
/* gate: `gpugate gpus`: who uses which GPU, as NVML tells it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gate/gate_options.h"
#include "gate/gpus.h"
#include "gate/process/family.h"
#include "probe/runtime/nvml.h"

#define LINE_MAX_BYTES (4u << 20)
#define ARENA_MAX (32u << 20)
#define UUID_MAX 96
#define PCI_MAX 32
#define PROCESSES_MAX 2048
#define EXIT_USAGE 2

struct looker {
	struct nvml *nvml;
	struct arena arena;
	struct usage_look look;
};

/* The processes of a GPU or an instance behind those of others. */
static int look_at_one(struct looker *l, nvml_device device, const char *uuid, struct err *err)
{
	struct usage_gpu *gpu = &l->look.gpus[l->look.n_gpus];
	struct nvml_process *found = arena_space(&l->arena, PROCESSES_MAX, sizeof(*found));
	size_t n = 0;
	int rc = found ? nvml_processes(l->nvml, device, found, PROCESSES_MAX, &n, err)
		       : err_set(err, ERR_NOMEM, "out of memory");

	if (rc != 0)
		return rc;
	*gpu = (struct usage_gpu){.id = arena_strdup(&l->arena, slice_of(uuid)),
		.processes = arena_array(&l->arena, n, sizeof(*gpu->processes)),
		.n_processes = n};
	if (l->arena.failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		gpu->processes[i] = (struct usage_process){.pid = (int)found[i].pid,
			.known = found[i].bytes != UINT64_MAX,
			.bytes = found[i].bytes != UINT64_MAX ? found[i].bytes : 0};
	l->look.n_gpus++;
	return 0;
}

/* A GPU, or each of its instances. */
static int look_at_gpu(struct looker *l, int number, struct err *err)
{
	char uuid[UUID_MAX], pci[PCI_MAX];
	nvml_device device, instance;
	size_t before = l->look.n_gpus;
	int rc = nvml_identify(l->nvml, number, uuid, sizeof(uuid), pci, sizeof(pci), err), most;

	if (rc == 0)
		rc = nvml_find(l->nvml, pci, &device, err);
	if (rc != 0)
		return rc;
	most = nvml_instances_max(l->nvml, device);
	for (int i = 0; i < most && l->look.n_gpus < USAGE_GPUS_MAX; i++) {
		char name[UUID_MAX];

		rc = nvml_instance(l->nvml, device, i, &instance, name, sizeof(name), err);
		if (rc == 0)
			rc = look_at_one(l, instance, name, err);
		if (rc != 0 && rc != ERR_NOTFOUND)
			return rc;
	}
	if (l->look.n_gpus > before || l->look.n_gpus == USAGE_GPUS_MAX)
		return 0;
	return look_at_one(l, device, uuid, err);
}

static int look_at_all(struct looker *l, struct err *err)
{
	int n = nvml_count(l->nvml), rc = 0;

	l->look.gpus = arena_array(&l->arena, USAGE_GPUS_MAX, sizeof(*l->look.gpus));
	if (!l->look.gpus)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (n < 0)
		return err_set(err, ERR_IO, "NVML does not say how many GPUs there are");
	for (int i = 0; i < n && rc == 0; i++)
		rc = look_at_gpu(l, i, err);
	return rc;
}

/* False: nobody reads any more. */
static bool say(const struct usage_look *look)
{
	struct buf line;
	bool said;

	buf_init(&line, LINE_MAX_BYTES);
	usage_look_write(look, &line);
	buf_char(&line, '\n');
	said = !line.failed && write(STDOUT_FILENO, line.data, line.len) == (ssize_t)line.len;
	buf_release(&line);
	return said;
}

/* The driver numbers processes as the machine does: elsewhere its numbers are those of others. */
static int check_namespace(struct err *err)
{
	if (family_of_machine())
		return 0;
	return err_set(err, ERR_REFUSED,
		"gpugate does not see the machine's processes: as a pod it needs hostPID");
}

static int look(const struct gate_gpus_options *o)
{
	struct looker l = {0};
	struct err err = {0};
	int rc = o->nvml ? 0 : check_namespace(&err);

	if (rc != 0 || nvml_open(o->nvml, &l.nvml, &err) != 0) {
		(void)say(&(struct usage_look){.error = err.msg});
		return EXIT_FAILURE;
	}
	do {
		l.look = (struct usage_look){.error = ""};
		arena_init(&l.arena, ARENA_MAX);
		rc = look_at_all(&l, &err);
		if (rc != 0)
			l.look = (struct usage_look){.error = err.msg};
		if (!say(&l.look))
			rc = ERR_IO;
		arena_release(&l.arena);
		if (rc == 0 && o->every_ms)
			(void)nanosleep(&(struct timespec){.tv_sec = o->every_ms / 1000,
						.tv_nsec = o->every_ms % 1000 * 1000000},
				NULL);
	} while (rc == 0 && o->every_ms);
	nvml_close(l.nvml);
	return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int gpus_main(int argc, char **argv)
{
	struct gate_gpus_options options;
	struct err err = {0};
	struct log log;

	log_init(&log, STDERR_FILENO);
	if (gate_gpus_options_read(argc, argv, &options, &log, &err) != 0) {
		(void)fprintf(stderr, "gpugate: %s; `gpugate --help` tells more\n", err.msg);
		return EXIT_USAGE;
	}
	if (options.answer == GATE_HELP) {
		gate_help(stdout);
		return EXIT_SUCCESS;
	}
	return look(&options);
}
