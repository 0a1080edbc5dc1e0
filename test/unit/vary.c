/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON document in all its small changes, one at a time. */
#include <cjson/cJSON.h>

#include "test/unit/test.h"
#include "test/unit/vary.h"

struct varying {
	size_t n, first, step;
	void (*each)(void *ctx);
	void *ctx;
};

static void change(struct varying *v)
{
	size_t i = v->n++;

	if (i >= v->first && (i - v->first) % v->step == 0)
		v->each(v->ctx);
}

/* What another kind of value looks like. */
static const cJSON kinds[] = {{.type = cJSON_NULL}, {.type = cJSON_True}, {.type = cJSON_Array},
	{.type = cJSON_Object}, {.type = cJSON_Number, .valueint = 7, .valuedouble = 7},
	{.type = cJSON_String, .valuestring = (char[]){"x"}},
	{.type = cJSON_String, .valuestring = (char[]){""}}};

/* n as `as` is, where it stands. */
static void as(struct varying *v, cJSON *n, const cJSON *as)
{
	const cJSON was = *n;

	n->type = as->type | (was.type & cJSON_StringIsConst);
	n->child = as->child;
	n->valuestring = as->valuestring;
	n->valueint = as->valueint;
	n->valuedouble = as->valuedouble;
	change(v);
	*n = was;
}

static void text(struct varying *v, cJSON *n)
{
	size_t len = strlen(n->valuestring);
	char *other = malloc(len + 2);
	cJSON longer = {.type = cJSON_String, .valuestring = other};
	char *byte = n->valuestring + 1, was;

	assert_non_null(other);
	memcpy(other, n->valuestring, len);
	memcpy(other + len, "0", 2);
	as(v, n, &longer);
	if (len > 1) {
		was = *byte;
		*byte = '\0';
		change(v);
		*byte = was;
	}
	free(other);
}

static void number(struct varying *v, cJSON *n)
{
	const double others[] = {n->valuedouble + 1, -n->valuedouble - 1, 0};

	for (size_t i = 0; i < COUNT(others); i++)
		as(v, n,
			&(cJSON){.type = cJSON_Number,
				.valuedouble = others[i],
				.valueint = (int)others[i]});
}

/* Without n: what leads to it leads behind it. */
static void gone(struct varying *v, cJSON **lead)
{
	cJSON *n = *lead;

	*lead = n->next;
	change(v);
	*lead = n;
}

static void twice(struct varying *v, cJSON *n)
{
	cJSON same = *n;

	n->next = &same;
	change(v);
	n->next = same.next;
}

static void exchanged(struct varying *v, cJSON **lead)
{
	cJSON *a = *lead, *b = a->next;

	*lead = b;
	a->next = b->next;
	b->next = a;
	change(v);
	*lead = a;
	b->next = a->next;
	a->next = b;
}

static void below(struct varying *v, cJSON *parent)
{
	for (cJSON **lead = &parent->child; *lead; lead = &(*lead)->next) {
		cJSON *n = *lead;

		gone(v, lead);
		if (cJSON_IsArray(parent)) {
			twice(v, n);
			if (n->next)
				exchanged(v, lead);
		}
		for (size_t i = 0; i < COUNT(kinds); i++)
			as(v, n, &kinds[i]);
		if (cJSON_IsString(n))
			text(v, n);
		if (cJSON_IsNumber(n))
			number(v, n);
		below(v, n);
	}
}

void vary(cJSON *document, size_t first, size_t step, void (*each)(void *ctx), void *ctx)
{
	struct varying v = {0, first, step, each, ctx};

	below(&v, document);
}

/* The bytes from `at` on, of which `less` go, behind one that comes where c is none of -1. */
static void spliced(
	struct slice text, size_t at, size_t less, int c, void (*each)(struct slice text))
{
	size_t len = text.len - less + (c >= 0);
	char *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	memcpy(copy, text.at, at);
	if (c >= 0)
		copy[at] = (char)c;
	memcpy(copy + at + (c >= 0), text.at + at + less, text.len - at - less);
	each((struct slice){copy, len});
	free(copy);
}

void vary_text(struct slice text, size_t first, size_t step, void (*each)(struct slice text))
{
	/* What means something in JSON, YAML, names and numbers, and what is no text. */
	static const unsigned char bytes[] =
		" \n\t:,[]{}\"'\\#-&*!|>%@/?.=+0189aeEnz~_\0\x7f\xc3\xff";

	for (size_t at = first; at < text.len; at += step) {
		spliced(text, at, 1, -1, each);
		spliced(text, at, 0, (unsigned char)text.at[at], each);
		for (size_t i = 0; i < 4; i++)
			spliced(text, at, 1, bytes[(at * 7 + i * 11) % (sizeof(bytes) - 1)], each);
		spliced(text, at, 0, bytes[(at * 5 + 3) % (sizeof(bytes) - 1)], each);
	}
}
