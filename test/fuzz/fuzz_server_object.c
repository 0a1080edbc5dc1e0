/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: any JSON as a GPUServer object. What is accepted is written, read and written again without
 * a difference, its sums never wrap around, no change breaks that, and its usage goes on by what
 * stands there and by nothing else; what is refused gets a message. Any text as usage. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rfc3339.h"
#include "test/fuzz/require.h"
#include "webhook/core/pool/placement.h"
#include "webhook/core/server/usage_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An object of this status that server_object_read takes. */
static void with_spec(struct slice written, struct buf *out)
{
	buf_slice(out, (struct slice){written.at, written.len - 1});
	buf_str(out, ",\"spec\":{\"address\":\"a:1\",\"probe\":{\"url\":\"http://a\"}}}");
}

/* Write it; what is read from that says the same, member for member. */
static void check_written(const struct server_object *o, struct arena *a)
{
	struct json j = {0};
	struct server_object again;
	struct buf first, second, whole;
	struct err err = {0};
	char *copy;

	buf_init(&first, 64u << 20);
	buf_init(&second, 64u << 20);
	buf_init(&whole, 64u << 20);
	server_object_write(o, &first);
	REQUIRE(!first.failed);
	with_spec(buf_as_slice(&first), &whole);
	REQUIRE(json_read_copy(&j, whole.data, whole.len, 1000000, &copy, &err) == 0);
	REQUIRE(server_object_read(&j, json_root(&j), a, &again, &err) == 0);
	REQUIRE(again.status.n_claims == o->status.n_claims);
	REQUIRE(again.status.n_gpus == o->status.n_gpus);
	REQUIRE(again.status.n_conditions == o->status.n_conditions);
	REQUIRE(slice_eq(again.status.rest, o->status.rest));
	/* the summary rests on the spec, which is no part of what is written */
	again.probe_url = o->probe_url;
	again.drain = o->drain;
	again.deleting = o->deleting;
	again.finalizer = o->finalizer;
	server_object_write(&again, &second);
	REQUIRE(slice_eq(buf_as_slice(&first), buf_as_slice(&second)));
	free(copy);
	json_release(&j);
	buf_release(&first);
	buf_release(&second);
	buf_release(&whole);
}

static void check_sums(const struct server_object *o, struct arena *a)
{
	const struct server_status *s = &o->status;
	struct gpu_server server;
	struct err err = {0};

	REQUIRE(server_object_inventory(o, a, &server, &err) == 0);
	REQUIRE(server.n_gpus == s->n_gpus);
	for (size_t i = 0; i < s->n_gpus; i++) {
		uint64_t all = server_status_claimed(s, i);
		struct claim_part part = {s->gpus[i].gpu.id, s->gpus[i].gpu.id, 1};
		struct claim c = {.key = "\x01", .parts = &part, .n_parts = 1};

		REQUIRE(server_status_gpu(s, slice_of(part.gpu)) == (ptrdiff_t)i);
		REQUIRE(server.gpus[i].why && server.gpus[i].model);
		for (int k = 0; k < 2; k++, part.bytes = UINT64_MAX) {
			int rc = server_claim_fits(o, &c, (struct slice){0}, &err);

			REQUIRE(rc == 0 || (rc == ERR_CONFLICT && err.msg[0]));
			/* a yes must be one by the plainest arithmetic */
			if (rc == 0)
				REQUIRE(part.bytes == 1 && all < s->gpus[i].gpu.bytes &&
					inventory_usable(&server, &server.gpus[i]) &&
					s->n_claims < CLAIMS_PER_SERVER_MAX);
		}
	}
}

/* The claims that were there are on GPUs as before: none is moved, none loses its GPU. */
static void change(struct server_object *o, struct arena *a)
{
	struct condition ready = {
		.type = SERVER_READY, .status = "True", .reason = "R", .message = "m"};
	size_t n = o->status.n_claims, gpus = o->status.n_gpus, held = 0, held_now = 0;

	for (size_t i = 0; i < gpus; i++)
		held += server_status_claimed(&o->status, i) > 0;
	if (server_status_from_spec(o, a))
		REQUIRE(!server_status_from_spec(o, a));
	server_status_prune(&o->status);
	for (size_t i = 0; i < o->status.n_gpus; i++)
		held_now += server_status_claimed(&o->status, i) > 0;
	REQUIRE(held_now >= held);
	if (server_status_set_condition(&o->status, &ready, "2026-11-21T09:30:00Z", a))
		REQUIRE(!server_status_set_condition(&o->status, &ready, "later", a));
	if (n > 0) {
		struct claim_record first = o->status.claims[0];

		server_status_remove_claim(&o->status, 0);
		REQUIRE(server_status_add_claim(&o->status, &first, a));
		REQUIRE(o->status.n_claims == n);
	}
	REQUIRE(!a->failed);
}

/* Law P7 of what is added to nothing. */
static void check_balance(const struct usage_period *p)
{
	usage_sum held = 0;

	for (size_t i = 0; i < p->n_rows; i++) {
		held += p->rows[i].byte_s;
		REQUIRE(p->rows[i].known <= p->rows[i].byte_s);
	}
	REQUIRE(held + p->free + p->unfit == p->capacity + p->over);
}

static void check_usage(struct server_object *o, struct arena *a)
{
	const char *before = o->status.usage ? o->status.usage : "";
	struct usage_record u;
	struct err err = {0};
	bool known = usage_record_read(slice_of(before), a, &u, &err) == 0;

	REQUIRE(server_usage_advance(o, INT64_C(1795600000000), a));
	REQUIRE(known || strcmp(o->status.usage, before) == 0);
	/* from nothing, over a midnight */
	o->status.usage = "";
	REQUIRE(server_usage_begin(o, INT64_C(1795564790000), a));
	REQUIRE(server_usage_advance(o, INT64_C(1795564805000), a));
	REQUIRE(usage_record_read(slice_of(o->status.usage), a, &u, &err) == 0);
	REQUIRE(u.has_closed && u.has_open);
	check_balance(&u.closed);
	check_balance(&u.open);
}

/* What is read of any text is written, and read again. */
static void check_usage_text(struct slice text)
{
	struct usage_record u;
	struct err err = {0};
	struct arena a;
	struct buf first, second;

	arena_init(&a, 64u << 20);
	buf_init(&first, 64u << 20);
	buf_init(&second, 64u << 20);
	if (!memchr(text.at, '\0', text.len) && usage_record_read(text, &a, &u, &err) == 0) {
		usage_record_write(&u, &first);
		REQUIRE(usage_record_read(buf_as_slice(&first), &a, &u, &err) == 0);
		usage_record_write(&u, &second);
		REQUIRE(slice_eq(buf_as_slice(&first), buf_as_slice(&second)));
	}
	arena_release(&a);
	buf_release(&first);
	buf_release(&second);
}

static void check_time(struct slice text)
{
	int64_t ms, again;
	char written[32];

	if (!rfc3339_read(text, &ms))
		return;
	rfc3339_write(ms, written);
	REQUIRE(rfc3339_read(slice_of(written), &again));
	REQUIRE(again <= ms && ms - again < 1000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json j = {0};
	struct server_object o;
	struct err err = {0};
	struct arena a;
	char *copy;
	int rc;

	check_time((struct slice){(const char *)data, size});
	check_usage_text((struct slice){(const char *)data, size});
	if (json_read_copy(&j, (const char *)data, size, 100000, &copy, &err) != 0) {
		json_release(&j);
		return 0;
	}
	arena_init(&a, 256u << 20);
	rc = server_object_read(&j, json_root(&j), &a, &o, &err);
	memset(copy, '#', size);
	if (rc == 0) {
		check_written(&o, &a);
		check_sums(&o, &a);
		change(&o, &a);
		check_written(&o, &a);
		check_sums(&o, &a);
		check_usage(&o, &a);
		check_written(&o, &a);
	} else {
		REQUIRE(rc == (int)err.code && err.msg[0]);
		REQUIRE(rc == ERR_SYNTAX || (rc == ERR_INVALID && err.path[0] == '/'));
	}
	free(copy);
	json_release(&j);
	arena_release(&a);
	return 0;
}
