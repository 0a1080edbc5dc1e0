/* SPDX-License-Identifier: Apache-2.0 */
/* cli: asks the registries that the settings name for the start of their API, from here, as a
 * replica would. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "webhook/cli/doctor/doctor_read.h"

/* For one, and for all of them. */
#define ASK_MS 5000
#define ASK_ALL_MS 30000

/* The replicas' file with CAs: beside poolgate.yaml it is a key of the same ConfigMap, and else for
 * a replica alone to read. *io becomes its path here, and *ret_fd what is to be closed, or -1.
 * False: it is not there. */
static bool find_ca(
	struct doctor_facts *f, const char **io, char path[static FILES_MEMORY_PATH], int *ret_fd)
{
	const struct json *j = &f->config.json;
	const char *pem;

	*ret_fd = -1;
	if (!*io || (f->in_cluster_account && access(*io, R_OK) == 0))
		return true;
	pem = sight_str(j, json_path(j, json_root(j), "data", *io, NULL), &f->arena);
	*ret_fd = pem ? files_in_memory(slice_of(pem), path, NULL) : -1;
	*io = path;
	return *ret_fd >= 0;
}

static void ask(struct doctor_facts *f, const struct registry *r, int64_t end_ms,
	struct doctor_registry *to)
{
	struct registry asked = *r;
	char path[FILES_MEMORY_PATH];
	int64_t deadline_ms = clock_ms() + ASK_MS;
	struct err err = {0};
	int fd;

	to->ca_found = find_ca(f, &asked.ca, path, &fd);
	to->asked = to->ca_found && clock_ms() < end_ms;
	if (to->asked && registry_check(&asked, deadline_ms < end_ms ? deadline_ms : end_ms,
				 &to->trouble, &err) != 0)
		f->arena.failed = true;
	if (to->trouble != REGISTRY_WELL)
		to->why = arena_strdup(&f->arena, slice_of(err.msg));
	if (fd >= 0)
		(void)close(fd);
}

void doctor_read_registries(struct doctor_facts *f)
{
	int64_t end_ms = clock_ms() + ASK_ALL_MS;

	for (size_t i = 0; i < f->settings.n_registries; i++) {
		const struct registry *r = &f->settings.registries[i];
		struct doctor_registry *to = doctor_more(f, &f->registries, sizeof(*to));

		if (!to)
			return;
		to->host = arena_strdup(&f->arena, r->host);
		to->ca = r->ca;
		ask(f, r, end_ms, to);
	}
}
