/* SPDX-License-Identifier: Apache-2.0 */
/* test: base/json, base/yaml, base/text, base/quantity and net/http_head: what they make of texts,
 * good ones and such as are a byte from good ones, is what it was before (kept.h). */
#include "base/json/json_read.h"
#include "base/quantity.h"
#include "base/text.h"
#include "base/yaml/yaml.h"
#include "base/yaml/yaml_from_json.h"
#include "base/yaml/yaml_json.h"
#include "base/yaml/yaml_patch.h"
#include "base/yaml/yaml_scalar.h"
#include "base/yaml/yaml_splice.h"
#include "net/http_head.h"
#include "test/unit/corpus.h"
#include "test/unit/kept.h"
#include "test/unit/test.h"

/* ---- JSON ---- */

static void say_json(struct slice text)
{
	struct json j = {0};
	struct err err = {0};
	char *copy;
	int rc = json_read_copy(&j, text.at, text.len, 1000, &copy, &err);

	kept_err(rc, &err);
	for (uint32_t i = 0; i < j.count; i++) {
		const struct json_node *v = &j.node[i];
		int64_t n = 0;
		bool whole = json_int(&j, v, &n);

		kept_say("%u %u %u %u %u %u %d %lld", v->at, v->len, v->next, (unsigned)v->type,
			(unsigned)v->escaped, (unsigned)v->count, whole, (long long)n);
		if (json_is(v, JSON_OBJECT) && v->count > 0) {
			/* Each member by its key as it is spelled. */
			JSON_MEMBERS(&j, v, k)
			{
				const struct json_node *found = json_get(&j, v, json_inside(&j, k));

				kept_say("%td", found ? found - j.node : -1);
			}
		}
	}
	free(copy);
	json_release(&j);
}

TEST(test_json)
{
	corpus_kept("json_read", 80, say_json);
}

/* ---- YAML ---- */

static void say_node(const struct yaml_node *n)
{
	kept_say("%d %d %d %u, %u:%u %u-%u, %u aliases", (int)n->kind, (int)n->style,
		n->plain_meaning, n->count, n->line, n->column, n->from, n->to, n->aliased);
	kept_slice("text", n->text);
	kept_slice("tag", n->tag);
	kept_slice("anchor", n->anchor);
	if (n->kind == YAML_SCALAR) {
		struct yaml_value v = {0};
		struct err err = {0};
		int rc = yaml_meaning(n, &v, &err);

		kept_say("%d %s %s", rc, yaml_type_name(v.type), err.msg);
		kept_say("%d", yaml_plain_safe(n->text));
	}
	for (const struct yaml_node *c = n->first; c; c = c->next)
		say_node(c);
}

/* As text and as JSON. */
static void say_written(const struct yaml_stream *docs, struct slice text)
{
	struct err err = {0};
	struct buf out;

	buf_init(&out, 1 << 20);
	kept_err(yaml_splice(docs, text, &out, &err), &err);
	kept_text(out.len ? out.data : "");
	for (const struct yaml_doc *d = docs->first; d; d = d->next) {
		buf_clear(&out);
		err_clear(&err);
		kept_err(yaml_to_json(d->root, YAML_JSON_PRETTY, &out, &err), &err);
		kept_text(out.len ? out.data : "");
	}
	if (docs->first && docs->first->json) {
		buf_clear(&out);
		kept_err(yaml_from_json_text(docs, &out, &err), &err);
		kept_text(out.len ? out.data : "");
	}
	buf_release(&out);
}

/* Changes such as `poolgate inject` makes, one after the other. */
static void change(struct yaml_stream *docs, struct slice text)
{
	static const char *const ops[] = {"[{\"op\":\"add\",\"path\":\"/"
					  "a\",\"value\":{\"x\":[1,\"yes\",{}],\"a b\":\"l\\n\"}}]",
		"[{\"op\":\"add\",\"path\":\"/a/x/0\",\"value\":[]},{\"op\":\"replace\",\"path\":"
		"\"/a/x/1\",\"value\":null}]",
		"[{\"op\":\"add\",\"path\":\"/b/-\",\"value\":[{\"c\":\"d\"}]},{\"op\":\"remove\","
		"\"path\":\"/b/0\"}]",
		"[{\"op\":\"add\",\"path\":\"/spec/containers/0/"
		"env\",\"value\":[{\"name\":\"A\"}]},"
		"{\"op\":\"replace\",\"path\":\"/spec/containers/0/name\",\"value\":\"z\"}]",
		"[{\"op\":\"remove\",\"path\":\"/c\"}]",
		"[{\"op\":\"remove\",\"path\":\"/spec\"}]"};

	for (size_t i = 0; i < COUNT(ops); i++) {
		for (struct yaml_doc *d = docs->first; d; d = d->next) {
			struct err err = {0};

			kept_err(yaml_patch(d->root, slice_of(ops[i]), &err), &err);
		}
		say_written(docs, text);
	}
}

static void say_yaml(struct slice text)
{
	static const enum yaml_flags flags[] = {YAML_NO_ALIASES, YAML_ANY};

	for (size_t i = 0; i < COUNT(flags); i++) {
		struct yaml_stream docs = {0};
		struct err err = {0};
		struct arena a;
		int rc;

		arena_init(&a, YAML_ARENA_MAX);
		rc = yaml_parse(&a, "f.yaml", text, flags[i], &docs, &err);
		kept_err(rc, &err);
		if (rc == 0 && flags[i] == YAML_ANY) {
			for (const struct yaml_doc *d = docs.first; d; d = d->next) {
				kept_say("%d %d %d", d->json, d->start_marked, d->directives);
				say_node(d->root);
			}
			say_written(&docs, text);
			change(&docs, text);
		}
		arena_release(&a);
	}
}

TEST(test_yaml)
{
	corpus_kept("yaml", 60, say_yaml);
}

/* ---- words ---- */

static void say_words(struct slice text)
{
	struct slice rest = text, word;
	struct err err = {0};
	struct quantity q = {0};
	uint64_t n = 0;
	int64_t ms = 0;
	char host[64] = "";
	uint16_t port = 0;
	unsigned char ip[16] = {0};
	bool good;
	int rc = quantity_parse(text, &q, &err);

	kept_err(rc, &err);
	if (rc == 0)
		kept_say("%lld.%09lld %lld %d", (long long)(q.nano / 1000000000),
			(long long)(q.nano % 1000000000), (long long)quantity_ceil(q),
			quantity_integral(q));
	while (text_word(&rest, &word))
		kept_slice("word", word);
	good = text_u64(text, UINT64_MAX, &n);
	kept_say("%d %llu", good, (unsigned long long)n);
	good = text_duration_ms(text, &ms);
	kept_say("%d %lld", good, (long long)ms);
	kept_say("%d %d %d", text_utf8(text), text_dns_label(text), text_dns_subdomain(text));
	for (size_t max = 0; max < text.len && max < 12; max++)
		kept_say("%zu", text_utf8_cut(text, max));
	kept_slice("last", text_basename(text));
	good = text_ip(text, ip);
	kept_say("%d %02x%02x%02x%02x", good, ip[0], ip[1], ip[14], ip[15]);
	err_clear(&err);
	kept_err(text_host_port(text, host, &port, &err), &err);
	kept_say("%s %u", host, port);
}

TEST(test_words)
{
	corpus_kept("quantity", 60, say_words);
}

/* ---- heads ---- */

static void say_url(struct slice text, struct arena *a)
{
	struct https_url url = {0};
	struct http_challenge c = {0};
	bool good = https_url_read(text, &url);

	kept_say("%d %d", good, https_host_good(text));
	kept_slice("host", url.host);
	kept_slice("rest", url.rest);
	good = http_challenge_read(text, a, &c);
	kept_say("%d %d", good, c.bearer);
	kept_slice("realm", c.realm);
	kept_slice("service", c.service);
	kept_slice("type", http_media_type(text));
}

static void say_head(struct slice text)
{
	static const char *const names[] = {"Location", "WWW-Authenticate", "Content-Type"};
	struct arena a;

	arena_init(&a, 1 << 20);
	say_url(text, &a);
	for (size_t i = 0; i < 3 * COUNT(names); i++) {
		struct slice value = http_head_value(text, names[i % 3], i / 3);

		kept_slice(names[i % 3], value);
		if (value.at)
			say_url(value, &a);
	}
	arena_release(&a);
}

TEST(test_heads)
{
	corpus_kept("http_head", 400, say_head);
}

TESTS(test_json, test_yaml, test_words, test_heads)
