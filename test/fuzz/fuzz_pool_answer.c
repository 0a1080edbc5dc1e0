/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: any bytes as the API server's answer to the device plugin. Read at once or byte by byte it
 * is the same; and whatever its body is as a table of GPUServers, the sum is that of its servers.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "deviceplugin/gpu_count.h"
#include "net/http_answer.h"
#include "test/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool on_body(void *ctx, struct slice piece)
{
	REQUIRE(piece.len > 0);
	buf_slice(ctx, piece);
	return true;
}

struct outcome {
	int rc, end;
	long status;
	bool done, keep;
	size_t left;
	struct buf body;
};

static void read_it(const uint8_t *data, size_t size, size_t step, struct outcome *ret)
{
	static struct http_answer a;
	size_t at = 0;

	buf_init(&ret->body, 1u << 20);
	http_answer_init(&a, on_body, &ret->body);
	ret->rc = 0;
	while (at < size && ret->rc == 0 && !a.done) {
		struct slice piece = {(const char *)data + at, size - at < step ? size - at : step};
		size_t before = piece.len;

		ret->rc = http_answer_read(&a, &piece, NULL);
		REQUIRE(piece.len <= before);
		REQUIRE(ret->rc != 0 || a.done || piece.len == 0);
		at += before - piece.len;
	}
	ret->left = ret->rc == 0 ? size - at : 0;
	ret->end = ret->rc == 0 ? http_answer_end(&a, NULL) : 0;
	ret->status = a.status;
	ret->done = a.done;
	ret->keep = a.keep;
	REQUIRE(!a.done || (a.headed && a.status >= 200));
}

static void check_table(const struct buf *body)
{
	struct gpu_count c = {0};
	struct json j = {0};
	char *copy = NULL;
	uint64_t sum = 0;

	if (body->len > 0 && json_read_copy(&j, body->data, body->len, 100000, &copy, NULL) == 0) {
		(void)gpu_count_table(&c, &j, json_root(&j), false, NULL);
		for (size_t i = 0; i < c.n; i++) {
			REQUIRE(c.server[i].name[0]);
			REQUIRE(i == 0 || strcmp(c.server[i - 1].name, c.server[i].name) < 0);
			sum += c.server[i].fit;
		}
		REQUIRE(sum == c.fit);
		if (gpu_count_table(&c, &j, json_root(&j), true, NULL) == 0)
			REQUIRE(c.fit == 0 && c.n == 0);
	}
	gpu_count_release(&c);
	json_release(&j);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome once, slow;

	read_it(data, size, size ? size : 1, &once);
	read_it(data, size, 1, &slow);
	REQUIRE(once.rc == slow.rc && once.done == slow.done && once.status == slow.status);
	REQUIRE(once.end == slow.end && once.left == slow.left);
	REQUIRE(slice_eq(buf_as_slice(&once.body), buf_as_slice(&slow.body)));
	check_table(&once.body);
	buf_release(&once.body);
	buf_release(&slow.body);
	return 0;
}
