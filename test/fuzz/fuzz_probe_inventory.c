/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: what a probe answers, and the GPUServer that it is brought into; between them stands a line
 * "%%", without it the server is one with claims on GPU a. Brought in twice it changes nothing the
 * second time; no GPU with a claim is lost; what comes out is written and read again. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/fuzz/require.h"
#include "webhook/core/server/probe_inventory.h"

#define BETWEEN "\n%%\n"
#define SPEC "\"spec\":{\"address\":\"a:1\",\"probe\":{\"url\":\"http://a\"}}"

static const char usual[] =
	"{\"apiVersion\":\"poolgate.io/"
	"v1alpha1\",\"kind\":\"GPUServer\",\"metadata\":{\"name\":\"s\",\"uid\":\"u\","
	"\"resourceVersion\":\"1\"}," SPEC
	",\"status\":{\"version\":1,\"gpus\":[{\"id\":\"a\",\"model\":\"M\","
	"\"memory\":100,\"fit\":true},{\"id\":\"b\",\"model\":\"M\",\"memory\":100,\"fit\":true}],"
	"\"claims\":[{"
	"\"uid\":\"p\",\"state\":\"bound\",\"gpus\":[{\"id\":\"a\",\"bytes\":50}]}]}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_object(struct slice text, struct arena *a, struct server_object *ret)
{
	struct json j = {0};
	struct err err = {0};
	char *copy;
	bool good;

	good = json_read_copy(&j, text.at, text.len, 100000, &copy, &err) == 0 &&
	       server_object_read(&j, json_root(&j), a, ret, &err) == 0;
	free(copy);
	json_release(&j);
	return good;
}

static void check_inventory(const struct probe_inventory *inv)
{
	REQUIRE(inv->n_gpus <= SERVER_GPUS_MAX && inv->age_s >= 0 && inv->stale_after_s >= 0);
	for (size_t i = 0; i < inv->n_gpus; i++) {
		const struct probe_gpu *g = &inv->gpus[i];

		REQUIRE(g->id[0] && g->model[0] && g->why);
		REQUIRE(g->fit ? g->bytes > 0 && !g->why[0] : g->why[0] != '\0');
		for (size_t k = 0; k < i; k++)
			REQUIRE(strcmp(inv->gpus[k].id, g->id) != 0);
	}
	if (inv->state == PROBE_UNKNOWN)
		REQUIRE(!probe_inventory_fresh(inv));
}

/* The bytes that are claimed of GPUs that the status lists. */
static uint64_t held(const struct server_status *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->n_gpus; i++)
		sum += server_status_claimed(s, i) > 0;
	return sum;
}

static void check_written(const struct server_object *o, struct arena *a)
{
	struct server_object again;
	struct buf text, whole;

	buf_init(&text, 64 << 20);
	buf_init(&whole, 64 << 20);
	server_object_write(o, &text);
	REQUIRE(!text.failed && text.len > 2);
	buf_add(&whole, text.data, text.len - 1);
	buf_str(&whole, "," SPEC "}");
	REQUIRE(read_object(buf_as_slice(&whole), a, &again));
	REQUIRE(again.status.n_gpus == o->status.n_gpus);
	for (size_t i = 0; i < o->status.n_gpus; i++) {
		const struct gpu *x = &o->status.gpus[i].gpu, *y = &again.status.gpus[i].gpu;

		REQUIRE(strcmp(x->id, y->id) == 0 && x->bytes == y->bytes && x->fit == y->fit &&
			x->missing == y->missing);
	}
	buf_release(&text);
	buf_release(&whole);
}

static void bring_in(struct server_object *o, const struct probe_inventory *inv, struct arena *a)
{
	uint64_t before = held(&o->status);

	(void)server_status_from_probe(o, inv, a);
	REQUIRE(!a->failed);
	REQUIRE(held(&o->status) >= before);
	for (size_t i = 0; i < inv->n_gpus; i++) {
		const struct gpu *g = &o->status.gpus[i].gpu;

		REQUIRE(strcmp(g->id, inv->gpus[i].id) == 0 && !g->missing);
		REQUIRE(g->fit == inv->gpus[i].fit && g->bytes == inv->gpus[i].bytes);
	}
	for (size_t i = inv->n_gpus; i < o->status.n_gpus; i++)
		REQUIRE(o->status.gpus[i].gpu.missing && server_status_claimed(&o->status, i) > 0);
	REQUIRE(!server_status_from_probe(o, inv, a));
	if (o->status.n_gpus <= SERVER_STATUS_GPUS_MAX)
		check_written(o, a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	const char *cut = size ? memmem(text, size, BETWEEN, strlen(BETWEEN)) : NULL;
	size_t len = cut ? (size_t)(cut - text) : size;
	struct slice object = slice_of(usual);
	struct probe_inventory inv;
	struct server_object o;
	struct json j = {0};
	struct err err = {0};
	struct arena a;
	char *copy;
	int rc;

	if (cut)
		object = (struct slice){cut + strlen(BETWEEN), size - len - strlen(BETWEEN)};
	arena_init(&a, 256u << 20);
	if (json_read_copy(&j, text, len, 100000, &copy, &err) == 0) {
		rc = probe_inventory_read(&j, &a, &inv, &err);
		/* what was read rests on the text no more */
		memset(copy, '#', len);
		if (rc == 0) {
			check_inventory(&inv);
			if (read_object(object, &a, &o))
				bring_in(&o, &inv, &a);
		} else {
			REQUIRE(rc == (int)err.code && err.msg[0]);
			REQUIRE(rc == ERR_SYNTAX || rc == ERR_INVALID || rc == ERR_TOOBIG);
		}
	}
	free(copy);
	json_release(&j);
	arena_release(&a);
	return 0;
}
