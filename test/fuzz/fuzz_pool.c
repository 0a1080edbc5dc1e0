/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: any text as a pool file. What is accepted is a sound inventory that can be placed on,
 * reported and shown; what is refused gets a message. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json/json_read.h"
#include "webhook/cli/pool.h"
#include "webhook/edge/pool/gpu_servers.h"
#include "webhook/edge/pool/ledger_memory.h"
#include "webhook/edge/pool/pool_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static void check(const struct inventory *inv)
{
	size_t n = 0;

	for (size_t i = 0; i < inv->n_servers; i++) {
		const struct gpu_server *s = &inv->servers[i];

		need(i == 0 || strcmp(s[-1].name, s->name) < 0, "servers out of order");
		need(inventory_server(inv, slice_of(s->name)) == s, "a server is not found");
		need(strchr(s->address, ':') != NULL, "an address without a port");
		need((s->n_gpus == 0) == (s->probe_url != NULL), "neither GPUs nor a probe");
		need(s->first_gpu == n, "GPUs counted wrongly");
		n += s->n_gpus;
		for (size_t j = 0; j < s->n_gpus; j++) {
			need(s->gpus[j].bytes > 0 && s->gpus[j].model[0] != '\0', "an empty GPU");
			need(inventory_gpu(s, slice_of(s->gpus[j].id)) == &s->gpus[j],
				"a GPU is not found");
		}
	}
	need(n == inv->n_gpus, "GPUs counted wrongly");
}

/* Any page of it is JSON, whatever names say. */
static void show(struct ledger *l, struct arena *a)
{
	struct pool_view view;
	struct json j = {0};
	struct err err = {0};
	struct buf out;
	char *copy;

	need(l->ops->view(l, true, a, &view, &err) == 0, err.msg);
	for (uint64_t page = 0; page < 3; page++) {
		buf_init(&out, 64u << 20);
		need(pool_report_page(&view, (struct slice){0}, &(struct pool_page){page, page}, a,
			     &out, &err) == 0,
			err.msg);
		need(json_read_copy(&j, out.data, out.len, 10000000, &copy, &err) == 0, err.msg);
		json_release(&j);
		free(copy);
		buf_release(&out);
	}
}

/* A pod that asks by what the first server offers. */
static void use(const struct inventory *inv, struct arena *a)
{
	struct ledger *l = ledger_memory_new(0);
	struct demand_container containers[] = {{.name = SLICE("a"), .amount = 2, .percent = 37},
		{.name = SLICE("b"), .amount = 1, .memory_mb = 500}};
	struct filter filters[] = {{SLICE("server.name=a"), SLICE("server.name"), SLICE("a")},
		{SLICE("zone=lab"), SLICE("zone"), SLICE("lab")}};
	struct demand d = {.containers = containers,
		.n_containers = 2,
		.filters = filters,
		.n_filters = inv->n_servers % 3};
	struct claim_ask ask = {.uid = SLICE("u"), .demand = &d};
	struct claim_answer answer;
	struct buf json, table;
	struct err err = {0};
	int rc;

	need(l != NULL, "no ledger");
	need(ledger_memory_set_inventory(l, inv, &err) == 0, "the ledger does not take it");
	rc = l->ops->take(l, &ask, a, &answer, &err);
	need(rc == 0 || (rc == ERR_REFUSED && err.msg[0] && err.reason[0]), "a refusal in silence");
	buf_init(&json, 64u << 20);
	buf_init(&table, 64u << 20);
	need(pool_report(l, &json, &err) == 0, err.msg);
	need(pool_table_write(buf_as_slice(&json), &table, &err) == 0, err.msg);
	for (size_t i = 0; i < table.len; i++)
		need((unsigned char)table.data[i] >= 0x20 || table.data[i] == '\n',
			"a control character in the table");
	show(l, a);
	buf_release(&table);
	buf_release(&json);
	ledger_memory_free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct inventory inv = {0};
	struct err err = {0};
	struct buf warnings;
	struct arena a;
	int rc;

	arena_init(&a, 64u << 20);
	buf_init(&warnings, 1u << 20);
	rc = gpu_servers_parse(
		(struct slice){(const char *)data, size}, "pool.yaml", &a, &inv, &warnings, &err);
	if (rc == 0) {
		check(&inv);
		use(&inv, &a);
	} else {
		need(rc == (int)err.code && err.msg[0], "an error without a message");
		need(strncmp(err.msg, "pool.yaml", 9) == 0 || rc == ERR_NOMEM, err.msg);
	}
	buf_release(&warnings);
	arena_release(&a);
	return 0;
}
