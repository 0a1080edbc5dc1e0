/* SPDX-License-Identifier: Apache-2.0 */
/* test: reads a scenario of the fake CUDA runtime. What it does not know is an error, so that no
 * test passes by a misspelling. */
#define _GNU_SOURCE
#include "test/probe/fake_cudart.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_read.h"
#include "base/text.h"

#define MIB 1048576.0
#define SIZE_MIB_MAX 1e8

/* ---- members ---- */

static bool is_member(const struct json *j, const struct json_node *key, const char *name)
{
	return json_is_str(j, key, slice_of(name));
}

static _Noreturn void unknown(const struct json *j, const struct json_node *at, const char *what)
{
	struct slice raw = json_raw(j, at);

	fake_die("scenario: %s: %.*s", what, (int)(raw.len < 200 ? raw.len : 200), raw.at);
}

static double number(const struct json *j, const struct json_node *key)
{
	struct slice raw = json_raw(j, json_value(key));
	char text[64];
	double value;

	if (!json_is(json_value(key), JSON_NUMBER) || raw.len >= sizeof(text))
		unknown(j, key, "expected a number in");
	memcpy(text, raw.at, raw.len);
	text[raw.len] = '\0';
	value = strtod(text, NULL);
	if (!(value >= 0 && value <= 1e15))
		unknown(j, key, "expected a number from 0 to 1e15 in");
	return value;
}

static int64_t whole(const struct json *j, const struct json_node *key)
{
	int64_t ret;

	if (!json_int(j, json_value(key), &ret))
		unknown(j, key, "expected a whole number in");
	return ret;
}

static int64_t from_to(const struct json *j, const struct json_node *key, int64_t from, int64_t to)
{
	int64_t ret = whole(j, key);
	char what[96];

	(void)snprintf(what, sizeof(what),
		"expected a whole number from %" PRId64 " to %" PRId64 " in", from, to);
	if (ret < from || ret > to)
		unknown(j, key, what);
	return ret;
}

static int small(const struct json *j, const struct json_node *key)
{
	return (int)from_to(j, key, 0, INT_MAX);
}

static bool truth(const struct json *j, const struct json_node *key)
{
	if (!json_is(json_value(key), JSON_TRUE) && !json_is(json_value(key), JSON_FALSE))
		unknown(j, key, "expected true or false in");
	return json_is(json_value(key), JSON_TRUE);
}

static void text(const struct json *j, const struct json_node *key, char *to, size_t size)
{
	struct slice inside = json_inside(j, json_value(key));

	if (!json_is(json_value(key), JSON_STRING) || inside.len >= size ||
		memchr(inside.at, '\\', inside.len))
		unknown(j, key, "expected a text that is not too long, without escapes, in");
	memcpy(to, inside.at, inside.len);
	to[inside.len] = '\0';
}

/* The value of a member that is a list. */
static const struct json_node *list(const struct json *j, const struct json_node *key)
{
	if (!json_is(json_value(key), JSON_ARRAY))
		unknown(j, key, "expected an array in");
	return json_value(key);
}

static void need_object(const struct json *j, const struct json_node *v)
{
	if (!json_is(v, JSON_OBJECT))
		unknown(j, v, "expected an object, found");
}

/* ---- devices ---- */

static void read_speed(const struct json *j, const struct json_node *v, struct fake_device *d)
{
	static const char *const names[SPEED_COUNT] = {
		"read", "copy", "fill", "check", "fma32", "fma64", "mma16", "h2d", "d2h", "p2p"};

	need_object(j, v);
	JSON_MEMBERS(j, v, key)
	{
		size_t i = 0;

		while (i < SPEED_COUNT && !is_member(j, key, names[i]))
			i++;
		if (i == SPEED_COUNT)
			unknown(j, key, "no such speed");
		d->factor[i] = number(j, key);
	}
}

static void read_flip(const struct json *j, const struct json_node *v, struct fake_device *d)
{
	static const char *const kinds[] = {"once", "transient", "stuck0", "stuck1"};
	struct fake_flip *f = &d->flips[d->n_flips];
	char kind[16] = "once";

	if (d->n_flips++ == FAKE_FLIPS_MAX)
		unknown(j, v, "too many flips");
	*f = (struct fake_flip){.left = 1};
	need_object(j, v);
	JSON_MEMBERS(j, v, key)
	{
		if (is_member(j, key, "offset"))
			f->cell = (uint64_t)from_to(j, key, 0, INT64_MAX) /
				  sizeof(struct kernel_cell);
		else if (is_member(j, key, "bit"))
			f->bit = (unsigned)from_to(j, key, 0, 127);
		else if (is_member(j, key, "kind"))
			text(j, key, kind, sizeof(kind));
		else if (is_member(j, key, "times"))
			f->left = from_to(j, key, 0, INT_MAX);
		else
			unknown(j, key, "no such member of a flip");
	}
	for (int i = 0; i < 4; i++) {
		if (strcmp(kinds[i], kind) == 0) {
			f->kind = (enum fake_flip_kind)i;
			return;
		}
	}
	unknown(j, v, "no such kind of flip");
}

static void read_wrong(const struct json *j, const struct json_node *v, struct fake_wrong *w)
{
	*w = (struct fake_wrong){.sm = 0, .lane = 5, .mask = 1ull << 17, .left = -1};
	need_object(j, v);
	JSON_MEMBERS(j, v, key)
	{
		if (is_member(j, key, "sm"))
			w->sm = small(j, key);
		else if (is_member(j, key, "kernel"))
			text(j, key, w->kernel, sizeof(w->kernel));
		else if (is_member(j, key, "lane"))
			w->lane = from_to(j, key, -1, INT_MAX);
		else if (is_member(j, key, "times"))
			w->left = from_to(j, key, -1, INT_MAX);
		else
			unknown(j, key, "no such member of a wrong multiprocessor");
	}
}

static void read_idle(const struct json *j, const struct json_node *v, struct fake_idle *w)
{
	*w = (struct fake_idle){.sm = -1, .left = -1};
	need_object(j, v);
	JSON_MEMBERS(j, v, key)
	{
		if (is_member(j, key, "kernel"))
			text(j, key, w->kernel, sizeof(w->kernel));
		else if (is_member(j, key, "sm"))
			w->sm = small(j, key);
		else if (is_member(j, key, "times"))
			w->left = from_to(j, key, -1, INT_MAX);
		else if (is_member(j, key, "bytes"))
			w->bytes = (uint64_t)whole(j, key);
		else
			unknown(j, key, "no such member of what is idle");
	}
}

static void read_peer_wrong(
	const struct json *j, const struct json_node *v, struct fake_peer_wrong *w)
{
	*w = (struct fake_peer_wrong){.peer = -1, .bit = 3, .left = -1};
	if (!json_is(v, JSON_OBJECT))
		unknown(j, v, "expected an object, what changes on the way, in");
	JSON_MEMBERS(j, v, key)
	{
		if (is_member(j, key, "peer"))
			w->peer = small(j, key);
		else if (is_member(j, key, "offset"))
			w->offset = (uint64_t)whole(j, key);
		else if (is_member(j, key, "bit"))
			w->bit = (unsigned)small(j, key) % 128;
		else if (is_member(j, key, "times"))
			w->left = whole(j, key);
		else
			unknown(j, key, "no such member of what changes on the way");
	}
}

static void set_device_defaults(struct fake_device *d)
{
	*d = (struct fake_device){.name = "NVIDIA Fake",
		.major = 9,
		.sms = 4,
		.clock_khz = 1980000,
		.memory_clock_khz = 3201000,
		.bus_bits = 6144,
		.l2_bytes = 4 << 20,
		.ecc = 1,
		.total = 4096ull << 20,
		.link = 5e10,
		.missing_sm = -1,
		.wrong = {.sm = -1}};
	for (int i = 0; i < SPEED_COUNT; i++)
		d->factor[i] = 1;
}

/* Numbers alone; false: none of them. */
static bool read_device_number(
	const struct json *j, const struct json_node *key, struct fake_device *d)
{
	const struct {
		const char *name;
		int *to;
		int times;
	} numbers[] = {{"sms", &d->sms, 1}, {"clock_mhz", &d->clock_khz, 1000},
		{"memory_clock_mhz", &d->memory_clock_khz, 1000}, {"bus_bits", &d->bus_bits, 1},
		{"l2_mib", &d->l2_bytes, 1 << 20}, {"ecc", &d->ecc, 1},
		{"compute_mode", &d->compute_mode, 1}, {"missing_sm", &d->missing_sm, 1}};
	const struct {
		const char *name;
		uint64_t *to;
	} sizes[] = {{"memory_mib", &d->total}, {"free_mib", &d->free},
		{"allocatable_mib", &d->allocatable}};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (is_member(j, key, numbers[i].name)) {
			*numbers[i].to = (int)from_to(j, key, 0, INT_MAX / numbers[i].times) *
					 numbers[i].times;
			return true;
		}
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (is_member(j, key, sizes[i].name)) {
			if (number(j, key) > SIZE_MIB_MAX)
				unknown(j, key, "more memory than a GPU has in");
			*sizes[i].to = (uint64_t)(number(j, key) * MIB);
			return true;
		}
	}
	return false;
}

static void read_device_member(
	const struct json *j, const struct json_node *key, struct fake_device *d, int *count)
{
	char cc[8];

	if (is_member(j, key, "count")) {
		*count = (int)from_to(j, key, 1, FAKE_DEVICES_MAX);
	} else if (is_member(j, key, "name")) {
		text(j, key, d->name, sizeof(d->name));
	} else if (is_member(j, key, "uuid")) {
		text(j, key, d->uuid, sizeof(d->uuid));
	} else if (is_member(j, key, "says_uuid")) {
		text(j, key, d->says, sizeof(d->says));
	} else if (is_member(j, key, "pci")) {
		text(j, key, d->pci, sizeof(d->pci));
	} else if (is_member(j, key, "cc")) {
		text(j, key, cc, sizeof(cc));
		if (sscanf(cc, "%d.%d", &d->major, &d->minor) != 2)
			unknown(j, key, "expected \"9.0\" in");
	} else if (is_member(j, key, "peers")) {
		d->peers = truth(j, key);
	} else if (is_member(j, key, "link")) {
		d->link = number(j, key);
	} else if (is_member(j, key, "clears_gib")) {
		d->clears = number(j, key) * MIB * 1024;
	} else if (is_member(j, key, "speed")) {
		read_speed(j, json_value(key), d);
	} else if (is_member(j, key, "flips")) {
		JSON_EACH(j, list(j, key), flip)
		read_flip(j, flip, d);
	} else if (is_member(j, key, "wrong")) {
		read_wrong(j, json_value(key), &d->wrong);
	} else if (is_member(j, key, "idle")) {
		read_idle(j, json_value(key), &d->idle);
	} else if (is_member(j, key, "peer_wrong")) {
		read_peer_wrong(j, json_value(key), &d->peer_wrong);
	} else if (is_member(j, key, "nan_time")) {
		text(j, key, d->nan_time, sizeof(d->nan_time));
	} else if (!read_device_number(j, key, d)) {
		unknown(j, key, "no such member of a device");
	}
}

static void read_device(const struct json *j, const struct json_node *v, struct fake_scenario *s)
{
	struct fake_device d;
	int count = 1;

	set_device_defaults(&d);
	need_object(j, v);
	JSON_MEMBERS(j, v, key)
	read_device_member(j, key, &d, &count);
	if (d.free == 0)
		d.free = d.total > (64u << 20) ? d.total - (64u << 20) : d.total;
	if (d.allocatable == 0)
		d.allocatable = d.total;
	if (d.sms < 1)
		unknown(j, v, "a device without multiprocessors");
	for (int i = 0; i < count; i++) {
		int n = s->n_devices++;

		if (n >= FAKE_DEVICES_MAX)
			unknown(j, v, "too many devices");
		s->devices[n] = d;
		if (!d.uuid[0])
			(void)snprintf(s->devices[n].uuid, sizeof(d.uuid),
				"GPU-00000000-0000-0000-0000-%012x", (unsigned)n + 1);
		if (!d.pci[0])
			(void)snprintf(s->devices[n].pci, sizeof(d.pci), "0000:%02x:00.0",
				(unsigned)n + 16);
	}
}

/* ---- calls ---- */

static void read_rule(const struct json *j, const struct json_node *v, struct fake_scenario *s)
{
	struct fake_rule *r = &s->rules[s->n_rules];

	if (s->n_rules++ == FAKE_RULES_MAX)
		unknown(j, v, "too many rules");
	*r = (struct fake_rule){.device = -1, .exit = -1};
	need_object(j, v);
	JSON_MEMBERS(j, v, key)
	{
		if (is_member(j, key, "call"))
			text(j, key, r->call, sizeof(r->call));
		else if (is_member(j, key, "kernel"))
			text(j, key, r->kernel, sizeof(r->kernel));
		else if (is_member(j, key, "device"))
			r->device = small(j, key);
		else if (is_member(j, key, "use"))
			r->use = from_to(j, key, 1, INT_MAX);
		else if (is_member(j, key, "worker"))
			r->worker = truth(j, key);
		else if (is_member(j, key, "error"))
			r->error = small(j, key);
		else if (is_member(j, key, "sticky"))
			r->sticky = truth(j, key);
		else if (is_member(j, key, "process"))
			r->process = small(j, key);
		else if (is_member(j, key, "sleep_s"))
			r->sleep_s = number(j, key);
		else if (is_member(j, key, "hang"))
			r->hang = truth(j, key);
		else if (is_member(j, key, "signal"))
			r->signal = small(j, key);
		else if (is_member(j, key, "exit"))
			r->exit = small(j, key);
		else
			unknown(j, key, "no such member of a rule");
	}
	if (!r->call[0])
		unknown(j, v, "a rule without a call");
}

/* ---- the whole ---- */

static void read_top(const struct json *j, struct fake_scenario *s)
{
	JSON_MEMBERS(j, json_root(j), key)
	{
		if (is_member(j, key, "driver"))
			s->driver = small(j, key);
		else if (is_member(j, key, "runtime"))
			s->runtime = small(j, key);
		else if (is_member(j, key, "init"))
			s->init = small(j, key);
		else if (is_member(j, key, "launch_us"))
			s->launch_s = number(j, key) / 1e6;
		else if (is_member(j, key, "devices")) {
			JSON_EACH(j, list(j, key), device)
			read_device(j, device, s);
		} else if (is_member(j, key, "calls")) {
			JSON_EACH(j, list(j, key), rule)
			read_rule(j, rule, s);
		} else if (!is_member(j, key, "about")) {
			unknown(j, key, "no such member");
		}
	}
}

/* CUDA shows a process one MIG instance, the first that it may see, and then no other GPU beside
 * it. */
static void show_one_instance(struct fake_scenario *s)
{
	for (int i = 0; i < s->n_visible; i++) {
		if (strncmp(s->devices[s->visible[i]].uuid, "MIG-", 4) != 0)
			continue;
		s->visible[0] = s->visible[i];
		s->n_visible = 1;
	}
}

/* As CUDA reads it: up to the first entry that names nothing. */
static void read_visible(struct fake_scenario *s)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");

	for (int i = 0; i < s->n_devices && !list; i++)
		s->visible[s->n_visible++] = i;
	while (list && *list && s->n_visible < FAKE_DEVICES_MAX) {
		struct slice word = {list, strcspn(list, ",")};
		uint64_t index = 0;
		int found = -1;

		if (text_u64(word, FAKE_DEVICES_MAX, &index)) {
			found = index < (uint64_t)s->n_devices ? (int)index : -1;
		} else {
			for (int i = 0; i < s->n_devices && word.len > 4 && found < 0; i++) {
				if (strncmp(s->devices[i].uuid, word.at, word.len) == 0)
					found = i;
			}
		}
		if (found < 0)
			break;
		s->visible[s->n_visible++] = found;
		list += word.len + (list[word.len] == ',');
	}
	show_one_instance(s);
}

static bool in_worker(void)
{
	char line[4096];
	FILE *file = fopen("/proc/self/cmdline", "rb");
	size_t len = file ? fread(line, 1, sizeof(line), file) : 0;

	if (file)
		(void)fclose(file);
	return memmem(line, len, "\0--worker", sizeof("\0--worker") - 1) != NULL;
}

void fake_read(struct fake_scenario *s, const char *file)
{
	static char bytes[1 << 20];
	FILE *in = fopen(file, "rb");
	static struct json j; /* still there when a fault in the scenario ends the reading */
	struct err err = {0};
	size_t len;

	*s = (struct fake_scenario){.driver = 12090, .runtime = 12090, .launch_s = 5e-6};
	json_release(&j);
	if (!in)
		fake_die("%s: cannot be opened", file);
	len = fread(bytes, 1, sizeof(bytes) - JSON_PAD, in);
	(void)fclose(in);
	memset(bytes + len, 0, JSON_PAD);
	if (json_read(&j, bytes, len, 100000, &err) != 0)
		fake_die("%s: %s", file, err.msg);
	if (!json_is(json_root(&j), JSON_OBJECT))
		fake_die("%s: no object", file);
	read_top(&j, s);
	json_release(&j);
	read_visible(s);
	s->worker = in_worker();
}
