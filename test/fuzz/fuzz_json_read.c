/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: base/json/json_read. What is accepted must hang together: nodes inside their parents and in
 * order, strings that decode to UTF-8, and every value readable again by itself. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json/json_read.h"
#include "base/text.h"
#include "test/fuzz/require.h"

#define NODES 100000
/* Reading each value again costs the square of the text: only so many bytes are spent on it. */
#define REREAD_MAX 200000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_string(const struct json *j, const struct json_node *v)
{
	struct slice inside = json_inside(j, v), value;
	struct arena a;
	struct buf b;

	arena_init(&a, 16 << 20);
	buf_init(&b, inside.len);
	json_decode(j, v, &b);
	value = json_str(j, v, &a);
	REQUIRE(!b.failed && value.at);
	REQUIRE(slice_eq(value, buf_as_slice(&b)));
	REQUIRE(text_utf8(value));
	REQUIRE(value.len == 0 || !memchr(value.at, '\0', value.len));
	REQUIRE(json_is_str(j, v, value));
	REQUIRE(v->escaped || slice_eq(value, inside));
	REQUIRE(v->escaped == (inside.len > 0 && memchr(inside.at, '\\', inside.len) != NULL));
	buf_release(&b);
	arena_release(&a);
}

static void check_value(const struct json *j, const struct json_node *v);

static void check_members(const struct json *j, const struct json_node *v)
{
	const struct json_node *last = v;
	uint32_t n = 0;

	JSON_MEMBERS(j, v, k)
	{
		const struct json_node *value = json_value(k);

		REQUIRE(json_is(k, JSON_STRING));
		REQUIRE(k->at >= (n ? last->at + last->len : v->at + 1));
		REQUIRE(value->at > k->at + k->len);
		REQUIRE(value->at + value->len < v->at + v->len);
		check_string(j, k);
		check_value(j, value);
		last = value;
		n++;
	}
	REQUIRE(n == v->count);
}

static void check_elements(const struct json *j, const struct json_node *v)
{
	const struct json_node *last = v;
	uint32_t n = 0;

	JSON_EACH(j, v, e)
	{
		REQUIRE(e->at >= (n ? last->at + last->len + 1 : v->at + 1));
		REQUIRE(e->at + e->len < v->at + v->len);
		check_value(j, e);
		last = e;
		n++;
	}
	REQUIRE(n == v->count);
}

/* Recursion is bounded by JSON_DEPTH_MAX. */
static void check_value(const struct json *j, const struct json_node *v)
{
	uint32_t at = (uint32_t)(v - j->node);
	int64_t n;

	REQUIRE(v->next > at && v->next <= j->count);
	REQUIRE((size_t)v->at + v->len <= j->len);
	if (json_is(v, JSON_STRING))
		check_string(j, v);
	if (json_is(v, JSON_NUMBER) && json_int(j, v, &n))
		REQUIRE(n >= -(INT64_C(1) << 53) && n <= INT64_C(1) << 53);
	if (json_is(v, JSON_OBJECT))
		check_members(j, v);
	else if (json_is(v, JSON_ARRAY))
		check_elements(j, v);
	else
		REQUIRE(v->next == at + 1 && v->count == 0);
}

static void reread(const struct json *j, const struct json_node *v)
{
	struct slice raw = json_raw(j, v);
	struct json again = {0};
	char *copy;

	REQUIRE(json_read_copy(&again, raw.at, raw.len, NODES, &copy, NULL) == 0);
	REQUIRE(again.count == v->next - (uint32_t)(v - j->node));
	REQUIRE(again.node[0].len == raw.len);
	REQUIRE(again.node[0].type == v->type && again.node[0].count == v->count);
	free(copy);
	json_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json j = {0};
	struct err err = {0};
	char *copy;
	size_t spent = 0;
	int rc = json_read_copy(&j, (const char *)data, size, NODES, &copy, &err);

	if (rc < 0) {
		REQUIRE(rc == ERR_SYNTAX || rc == ERR_TOOBIG);
		REQUIRE(err.code == rc && strncmp(err.msg, "at byte ", 8) == 0);
		REQUIRE(strtoul(err.msg + 8, NULL, 10) <= size);
		REQUIRE(text_utf8(slice_of(err.msg)));
		REQUIRE(!copy && !json_root(&j));
	} else {
		REQUIRE(json_root(&j) && json_root(&j)->next == j.count);
		check_value(&j, json_root(&j));
		for (uint32_t i = 0; i < j.count && spent < REREAD_MAX; i++) {
			spent += j.node[i].len;
			reread(&j, &j.node[i]);
		}
		free(copy);
	}
	json_release(&j);
	return 0;
}
