/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: the reflector, driven by any sequence of what can happen. The input is records that end
 * with 0xff: their first byte says what happens, the rest with what. Whatever comes, it tells
 * things in an order that makes sense, asks for nothing but its own path, is never in a hot loop,
 * and bodies in pieces say the same as whole ones; the first byte of the input says how long the
 * pieces are. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "kube/reflector.h"
#include "test/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the one who is told knows. */
struct told {
	struct buf text;
	bool listing, connected, broken;
	char version[32]; /* where the watch is */
};

struct drive {
	struct reflector *r;
	struct told told;
	int64_t now;
	size_t piece;
	bool asked, useless; /* it has said that it wants no more of this answer */
};

/* ---- what it tells ---- */

static void on_listing(void *ctx)
{
	struct told *t = ctx;

	t->listing = true;
	t->version[0] = '\0';
	buf_str(&t->text, "list\n");
}

static int on_change(void *ctx, enum kube_change what, const struct json *j,
	const struct json_node *object, struct err *err)
{
	struct kube_meta m = kube_meta(j, object);
	struct told *t = ctx;

	REQUIRE(!t->listing || what == KUBE_PUT);
	if (!t->listing) {
		REQUIRE(t->connected && m.version.len > 0 && m.version.len < sizeof(t->version));
		memcpy(t->version, m.version.at, m.version.len);
		t->version[m.version.len] = '\0';
	}
	buf_fmt(&t->text, "%d ", (int)what);
	buf_slice(&t->text, object ? json_raw(j, object) : SLICE("-"));
	buf_char(&t->text, '\n');
	return slice_is(m.name, "stop") ? err_set(err, ERR_REFUSED, "stopped") : 0;
}

static void on_listed(void *ctx, const char *version)
{
	struct told *t = ctx;
	size_t len = strlen(version);

	REQUIRE(t->listing && len > 0 && len < sizeof(t->version));
	t->listing = false;
	memcpy(t->version, version, len + 1);
	buf_fmt(&t->text, "listed %s\n", version);
}

static void on_connected(void *ctx, bool yes, const struct err *why)
{
	struct told *t = ctx;

	REQUIRE(yes ? !t->connected && !t->listing : t->connected || !t->broken);
	REQUIRE(yes == !why);
	if (why)
		REQUIRE(why->code != ERR_NONE && why->msg[0] && text_utf8(slice_of(why->msg)));
	t->connected = yes;
	t->broken = !yes;
	buf_fmt(&t->text, "%s\n", yes ? "up" : why->msg);
}

/* ---- what happens ---- */

static void check_path(const struct drive *d, const char *path)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%/?&=";
	struct buf version;

	REQUIRE(strspn(path, plain) == strlen(path));
	if (strncmp(path, "/p?q=1&limit=500", 16) == 0) {
		REQUIRE(d->told.listing);
		return;
	}
	REQUIRE(strncmp(path, "/p?q=1&watch=true&", 18) == 0 && d->told.version[0]);
	buf_init(&version, 256);
	buf_str(&version, "&resourceVersion=");
	buf_percent(&version, slice_of(d->told.version));
	REQUIRE(strlen(path) > version.len);
	REQUIRE(strcmp(path + strlen(path) - version.len, version.data) == 0);
	buf_release(&version);
}

static void ask(struct drive *d)
{
	int64_t when = reflector_when(d->r);
	const char *path;

	if (d->asked)
		return;
	REQUIRE(when - d->now <= REFLECTOR_WAIT_LAST_MS);
	d->now = when > d->now ? when : d->now;
	path = reflector_ask(d->r, d->now);
	REQUIRE(path);
	check_path(d, path);
	REQUIRE(!reflector_ask(d->r, d->now));
	d->asked = true;
	d->useless = false;
}

static void say(struct drive *d, bool more)
{
	REQUIRE(!d->useless || !more);
	d->useless = !more;
}

static void body(struct drive *d, struct slice bytes)
{
	while (bytes.len > 0 && !d->useless) {
		size_t n = d->piece < bytes.len ? d->piece : bytes.len;
		/* of its own, so that a reader that looks behind it is caught */
		char *own = malloc(n);

		REQUIRE(own);
		memcpy(own, bytes.at, n);
		say(d, reflector_body(d->r, (struct slice){own, n}, d->now));
		free(own);
		bytes.at += n;
		bytes.len -= n;
	}
}

static void end(struct drive *d, const struct err *why)
{
	reflector_end(d->r, why, d->now);
	d->asked = false;
	REQUIRE(reflector_when(d->r) - d->now <= REFLECTOR_WAIT_LAST_MS);
}

static void pass(struct drive *d, int64_t ms)
{
	int64_t until = d->now + ms;

	while (!d->useless && reflector_when(d->r) <= until) {
		int64_t when = reflector_when(d->r);

		d->now = when > d->now ? when : d->now;
		say(d, reflector_tick(d->r, d->now));
		REQUIRE(d->useless || reflector_when(d->r) > d->now);
	}
	d->now = until;
}

static void happen(struct drive *d, struct slice record)
{
	static const long statuses[] = {200, 400, 401, 410, 429, 500, 302, 204};
	struct slice rest = {record.at + 1, record.len - 1};
	struct err why = {0};

	ask(d);
	switch (record.at[0]) {
	case 'h':
		say(d, reflector_head(d->r, statuses[rest.len ? rest.at[0] & 7 : 0], d->now));
		break;
	case 'b':
		body(d, rest);
		break;
	case 'x':
		(void)err_set(&why, ERR_IO, "cut");
		end(d, &why);
		break;
	case 't':
		pass(d, rest.len ? (int64_t)(uint8_t)rest.at[0] * 500 : 100);
		break;
	default:
		end(d, NULL);
		break;
	}
	if (d->useless && d->asked)
		end(d, NULL);
}

static void drive(struct slice input, size_t piece, bool tables, struct buf *ret)
{
	struct drive d = {.now = 1, .piece = piece};
	struct reflector_config cfg = {.path = "/p?q=1",
		.answer_max = 4096,
		.tables = tables,
		.seed = 7,
		.app = {&d.told, on_listing, on_change, on_listed, on_connected}};

	buf_init(&d.told.text, 64 << 20);
	REQUIRE(reflector_new(&cfg, &d.r, NULL) == 0);
	while (input.len > 0) {
		const char *stop = memchr(input.at, 0xff, input.len);
		size_t n = stop ? (size_t)(stop - input.at) : input.len;

		if (n > 0)
			happen(&d, (struct slice){input.at, n});
		n += stop != NULL;
		input.at += n;
		input.len -= n;
	}
	reflector_free(d.r);
	REQUIRE(!d.told.text.failed);
	*ret = d.told.text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole, parts;
	struct slice input;

	if (size == 0)
		return 0;
	input = (struct slice){(const char *)data + 1, size - 1};
	drive(input, size, data[0] & 64, &whole);
	drive(input, data[0] % 64 + 1u, data[0] & 64, &parts);
	REQUIRE(slice_eq(buf_as_slice(&whole), buf_as_slice(&parts)));
	buf_release(&whole);
	buf_release(&parts);
	return 0;
}
