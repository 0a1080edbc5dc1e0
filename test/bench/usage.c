/* SPDX-License-Identifier: Apache-2.0 */
/* bench: what usage (law P7) adds to a commit, alone: no network, no API server. A GPUServer of 8
 * GPUs with 24 claims, and so many rows of usage, is read, counted on and written, one after the
 * other in turn. One line for each number of rows: it, microseconds (medians) of reading the
 * object, of counting on, of writing it, and the bytes of the request. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "webhook/core/server/usage_record.h"

#define GPUS 8
#define CLAIMS 24
#define ROUNDS 801
/* 2026-11-25T00:00:00Z */
#define MIDNIGHT INT64_C(1795564800)

static const unsigned row_counts[] = {0, 10, 100, 500};
#define CASES (sizeof(row_counts) / sizeof(row_counts[0]))

struct bench {
	struct buf text; /* the object as the API server shows it */
	int64_t took[3][ROUNDS];
	size_t written;
};

/* The first of the namespaces have the claims, as after a busy day. */
static void make_usage(unsigned rows, struct buf *out)
{
	struct usage_record u = {.has_open = true,
		.open = {.from_s = MIDNIGHT,
			.at_s = MIDNIGHT + 40000,
			.capacity = (usage_sum)GPUS * 85899345920u * 40000,
			.free = (usage_sum)GPUS * 85899345920u * 10000}};
	struct arena a;

	arena_init(&a, 1u << 20);
	for (unsigned i = 0; i < rows; i++) {
		struct usage_row *r = usage_row(&u.open, arena_fmt(&a, "team-%03u-research", i),
			"NVIDIA A100-SXM4-80GB", &a);

		if (!r)
			exit(1);
		r->byte_s = (usage_sum)8589934592u * (1000 + i);
		r->gpu_s = 1000 + i;
	}
	usage_record_write(&u, out);
	arena_release(&a);
}

static void make_object(unsigned rows, struct buf *out)
{
	struct buf usage;

	buf_init(&usage, 1u << 20);
	buf_str(out, "{\"apiVersion\":\"" SERVER_API "\",\"kind\":\"" SERVER_KIND
		     "\",\"metadata\":{\"name\":\"gpu-01\",\"uid\":\"u\",\"resourceVersion\":\"1\","
		     "\"finalizers\":[\"" SERVER_FINALIZER "\"]},\"spec\":{\"address\":\"a:1\","
		     "\"probe\":{\"url\":\"https://a:1\"}},\"status\":{\"version\":1,\"gpus\":[");
	for (unsigned i = 0; i < GPUS; i++)
		buf_fmt(out,
			"%s{\"id\":\"GPU-00000000-0000-0000-0000-00000000000%u\",\"model\":"
			"\"NVIDIA A100-SXM4-80GB\",\"memory\":85899345920,\"fit\":true}",
			i ? "," : "", i);
	buf_str(out, "],\"claims\":[");
	for (unsigned i = 0; i < CLAIMS; i++)
		buf_fmt(out,
			"%s{\"uid\":\"00000000-0000-0000-0000-%012u\",\"namespace\":"
			"\"team-%03u-research\",\"name\":\"train-%u\",\"state\":\"bound\",\"plan\":"
			"\"00000000000000ab\",\"since\":\"2026-11-25T09:00:00Z\",\"take\":"
			"\"fedcba9876543210\",\"servers\":[\"gpu-01\"],\"gpus\":[{\"id\":"
			"\"GPU-00000000-0000-0000-0000-00000000000%u\",\"bytes\":8589934592}]}",
			i ? "," : "", i, i % 12, i, i % GPUS);
	buf_str(out, "],\"conditions\":[{\"type\":\"Fresh\",\"status\":\"True\"}]");
	if (rows > 0) {
		make_usage(rows, &usage);
		buf_str(out, ",\"usage\":");
		buf_json_str(out, buf_as_slice(&usage));
	}
	buf_str(out, "}}");
	buf_release(&usage);
}

static void once(struct bench *b, unsigned round)
{
	struct server_object o;
	struct json j = {0};
	struct err err = {0};
	struct arena a;
	struct buf out;
	char *copy;
	int64_t at[4];

	arena_init(&a, 8u << 20);
	buf_init(&out, 4u << 20);
	if (json_read_copy(&j, b->text.data, b->text.len, 100000, &copy, &err) != 0)
		exit(1);
	at[0] = clock_us();
	if (server_object_read(&j, json_root(&j), &a, &o, &err) != 0) {
		(void)fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	at[1] = clock_us();
	if (!server_usage_advance(&o, (MIDNIGHT + 40001 + round) * 1000, &a))
		exit(1);
	at[2] = clock_us();
	server_object_write(&o, &out);
	at[3] = clock_us();
	for (unsigned i = 0; i < 3; i++)
		b->took[i][round] = at[i + 1] - at[i];
	b->written = out.len;
	free(copy);
	json_release(&j);
	buf_release(&out);
	arena_release(&a);
}

static int by_size(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int64_t median(int64_t *took)
{
	qsort(took, ROUNDS, sizeof(*took), by_size);
	return took[ROUNDS / 2];
}

int main(void)
{
	static struct bench benches[CASES];

	for (size_t i = 0; i < CASES; i++) {
		buf_init(&benches[i].text, 4u << 20);
		make_object(row_counts[i], &benches[i].text);
	}
	for (unsigned round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < CASES; i++)
			once(&benches[i], round);
	for (size_t i = 0; i < CASES; i++) {
		struct bench *b = &benches[i];

		(void)printf("%u %lld %lld %lld %zu\n", row_counts[i],
			(long long)median(b->took[0]), (long long)median(b->took[1]),
			(long long)median(b->took[2]), b->written);
		buf_release(&b->text);
	}
	return 0;
}
