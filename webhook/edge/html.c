// SPDX-License-Identifier: Apache-2.0
// edge: HTML's escapes, and figures for people.
#include "webhook/edge/html.h"

#include <inttypes.h>
#include <stdbool.h>
#include <time.h>

#include "base/utf8.h"

#define MB 1000000u

/* The character of a well-formed sequence of n bytes. */
static uint32_t character(const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;
	uint32_t c = n == 1 ? p[0] : p[0] & (0xffu >> (n + 1));

	for (size_t i = 1; i < n; i++)
		c = c << 6 | (p[i] & 0x3fu);
	return c;
}

/* Would it move, hide or reorder text? As `poolgate pool` judges. */
static bool unsafe(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0xad || c == 0x61c || c == 0x180e ||
	       (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
	       c >= 0xe0000;
}

static const char *reference(char c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	case '`':
		return "&#96;";
	default:
		return NULL;
	}
}

/* One character at s[0..len); how many bytes it took. */
static size_t add_one(struct buf *out, const char *s, size_t len)
{
	size_t n = utf8_len(s, len);
	const char *ref = reference(*s);
	uint32_t c;

	if (n == 0) {
		buf_str(out, "\xef\xbf\xbd");
		return 1;
	}
	c = character(s, n);
	if (unsafe(c))
		buf_fmt(out, "\\u%04" PRIx32, c);
	else if (ref)
		buf_str(out, ref);
	else
		buf_add(out, s, n);
	return n;
}

void html_cut(struct buf *out, struct slice s, size_t max)
{
	size_t i = 0;

	for (size_t n = 0; i < s.len && n < max; n++)
		i += add_one(out, s.at + i, s.len - i);
	if (i < s.len)
		buf_str(out, "\xe2\x80\xa6");
}

void html_text(struct buf *out, struct slice s)
{
	html_cut(out, s, SIZE_MAX);
}

void html_str(struct buf *out, const char *s)
{
	html_text(out, slice_of(s));
}

/* Units from large to small, the last for what is left. */
static const struct {
	uint64_t size;
	const char *name;
} units[] = {{UINT64_C(1000000000000), " TB"}, {UINT64_C(1000000000), " GB"}, {MB, " MB"}, {1, ""}};

#define UNITS (sizeof(units) / sizeof(units[0]))

static size_t unit_of(uint64_t bytes)
{
	size_t i = 0;

	while (i + 1 < UNITS && bytes < units[i].size)
		i++;
	return i;
}

/* In that unit; three digits tell enough, and megabytes are whole. */
static void add_number(struct buf *out, uint64_t bytes, size_t unit)
{
	/* Tenths, rounded to the nearest without overflow. */
	uint64_t tenth = units[unit].size / 10, n;

	if (tenth == 0) {
		buf_str(out, bytes ? "&lt;1 MB" : "0");
		return;
	}
	if (units[unit].size == MB) {
		buf_u64(out, bytes / MB);
		return;
	}
	n = bytes / tenth + (bytes % tenth >= tenth / 2);
	buf_u64(out, n / 10);
	if (n < 1000 && n % 10)
		buf_fmt(out, ".%" PRIu64, n % 10);
}

void html_bytes(struct buf *out, uint64_t bytes)
{
	size_t unit = unit_of(bytes);

	add_number(out, bytes, unit);
	buf_str(out, units[unit].name);
}

void html_bytes_of(struct buf *out, uint64_t part, uint64_t whole)
{
	size_t unit = unit_of(part);

	add_number(out, part, unit);
	if (unit != unit_of(whole))
		buf_str(out, units[unit].name);
	buf_str(out, " of ");
	html_bytes(out, whole);
}

void html_percent(struct buf *out, uint64_t part, uint64_t whole)
{
	uint64_t n = 0;

	if (whole > 0)
		n = part >= whole ? 10000 : (uint64_t)((double)part / (double)whole * 10000.0);
	buf_fmt(out, "%" PRIu64 ".%02" PRIu64 "%%", n / 100, n % 100);
}

void html_age(struct buf *out, int64_t ms)
{
	int64_t s = ms < 0 ? 0 : ms / 1000;

	if (s < 60)
		buf_fmt(out, "%" PRId64 " s", s);
	else if (s < 3600)
		buf_fmt(out, "%" PRId64 " min", s / 60);
	else if (s < 86400)
		buf_fmt(out, "%" PRId64 " h %" PRId64 " min", s / 3600, s / 60 % 60);
	else
		buf_fmt(out, "%" PRId64 " d %" PRId64 " h", s / 86400, s / 3600 % 24);
}

void html_time(struct buf *out, int64_t ms)
{
	time_t t = (time_t)(ms / 1000);
	struct tm tm;
	char text[32];

	if (gmtime_r(&t, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
		buf_str(out, text);
}
