/* SPDX-License-Identifier: Apache-2.0 */
/* gate: the first frames of HTTP/2 (RFC 9113): its preface, SETTINGS, then what asks for nothing,
 * until the first HEADERS; or the head of a request of HTTP/1 (RFC 9112). */
#include "gate/session.h"

#include <nghttp2/nghttp2.h>
#include <string.h>

#include "base/text.h"

#define FRAME_HEAD_BYTES 9
/* As long as nobody has agreed on more. */
#define FRAME_BYTES_MAX 16384
#define PRIORITY_BYTES 5
/* Behind HEADERS. */
#define CONTINUATIONS_MAX 8

struct reading {
	nghttp2_hd_inflater *inflater;
	struct slice header, uid;
	uint32_t stream; /* whose headers have begun */
	unsigned more;   /* pieces of them */
	bool found;
};

static struct slice skip(struct slice s, size_t n)
{
	return (struct slice){s.at + n, s.len - n};
}

/* Of a piece of a block each header. */
static enum session_word read_headers(struct reading *r, struct slice in, bool last)
{
	for (;;) {
		nghttp2_nv nv;
		int flags = 0;
		ssize_t n = nghttp2_hd_inflate_hd2(r->inflater, &nv, &flags,
			(const uint8_t *)(const void *)in.at, in.len, last);

		if (n < 0)
			return SESSION_BROKEN;
		in = skip(in, (size_t)n);
		if ((flags & NGHTTP2_HD_INFLATE_EMIT) &&
			slice_eq((struct slice){(const char *)nv.name, nv.namelen}, r->header)) {
			if (!slice_eq((struct slice){(const char *)nv.value, nv.valuelen}, r->uid))
				return SESSION_FORGED;
			r->found = true;
		}
		if (flags & NGHTTP2_HD_INFLATE_FINAL)
			return r->found ? SESSION_OURS : SESSION_MISSING;
		if (!(flags & NGHTTP2_HD_INFLATE_EMIT) && in.len == 0)
			return SESSION_MORE;
	}
}

/* Without what stands around a block: padding, and a priority. False: they are longer than it. */
static bool strip(unsigned flags, struct slice *block)
{
	size_t before = 0, behind = 0;

	if (flags & NGHTTP2_FLAG_PADDED) {
		if (block->len == 0)
			return false;
		behind = (unsigned char)block->at[0];
		before = 1;
	}
	if (flags & NGHTTP2_FLAG_PRIORITY)
		before += PRIORITY_BYTES;
	if (before + behind > block->len)
		return false;
	*block = (struct slice){block->at + before, block->len - before - behind};
	return true;
}

static enum session_word read_frame(
	struct reading *r, unsigned type, unsigned flags, uint32_t stream, struct slice payload)
{
	bool last = (flags & NGHTTP2_FLAG_END_HEADERS) != 0;

	/* Nothing comes between the pieces of a block. */
	if (r->stream)
		return type == NGHTTP2_CONTINUATION && stream == r->stream &&
				       ++r->more <= CONTINUATIONS_MAX
			       ? read_headers(r, payload, last)
			       : SESSION_BROKEN;
	if (type == NGHTTP2_DATA || type == NGHTTP2_PUSH_PROMISE || type == NGHTTP2_CONTINUATION)
		return SESSION_BROKEN;
	if (type != NGHTTP2_HEADERS)
		return SESSION_MORE;
	if (stream % 2 == 0 || !strip(flags, &payload))
		return SESSION_BROKEN;
	r->stream = stream;
	return read_headers(r, payload, last);
}

static enum session_word read_frames(struct reading *r, struct slice rest)
{
	enum session_word word = SESSION_MORE;

	for (bool first = true; word == SESSION_MORE && rest.len >= FRAME_HEAD_BYTES;
		first = false) {
		const unsigned char *at = (const unsigned char *)rest.at;
		size_t len = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
		uint32_t stream = (at[5] & 0x7fu) << 24 | (uint32_t)at[6] << 16 |
				  (uint32_t)at[7] << 8 | at[8];

		if (len > FRAME_BYTES_MAX || (first && (at[3] != NGHTTP2_SETTINGS || stream)))
			return SESSION_BROKEN;
		rest = skip(rest, FRAME_HEAD_BYTES);
		if (rest.len < len)
			break;
		word = read_frame(r, at[3], at[4], stream, (struct slice){rest.at, len});
		rest = skip(rest, len);
	}
	return word;
}

/* METHOD TARGET HTTP/1.x */
static bool is_request(struct slice line)
{
	static const struct slice end = {" HTTP/1.", 8};
	const char *blank = memchr(line.at, ' ', line.len), *last;

	if (line.len <= end.len + 1 || !blank)
		return false;
	last = line.at + line.len - end.len - 1;
	return blank < last - 1 && memcmp(last, end.at, end.len) == 0 &&
	       (last[end.len] == '0' || last[end.len] == '1') &&
	       !memchr(blank + 1, ' ', (size_t)(last - blank - 1));
}

static bool is_name(struct slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.at[i] <= ' ' || s.at[i] > '~')
			return false;
	return s.len > 0;
}

static struct slice trim(struct slice s)
{
	while (s.len > 0 && (s.at[0] == ' ' || s.at[0] == '\t'))
		s = skip(s, 1);
	while (s.len > 0 && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* The line that comes next, without its CRLF. What a server could take for an end of a line, or of
 * the text, is one nowhere else: SESSION_BROKEN. SESSION_OURS: here it is. */
static enum session_word read_line(struct slice *rest, struct slice *ret)
{
	const char *end = rest->len > 0 ? memchr(rest->at, '\n', rest->len) : NULL;

	if (!end)
		return SESSION_MORE;
	*ret = (struct slice){rest->at, (size_t)(end - rest->at)};
	*rest = skip(*rest, ret->len + 1);
	if (ret->len == 0 || ret->at[--ret->len] != '\r' || memchr(ret->at, '\r', ret->len) ||
		memchr(ret->at, '\0', ret->len))
		return SESSION_BROKEN;
	return SESSION_OURS;
}

static enum session_word read_head(struct slice rest, struct slice header, struct slice uid)
{
	struct slice line, name;
	enum session_word word = read_line(&rest, &line);
	bool found = false;

	if (word == SESSION_OURS && !is_request(line))
		return SESSION_BROKEN;
	while (word == SESSION_OURS && (word = read_line(&rest, &line)) == SESSION_OURS) {
		const char *colon = memchr(line.at, ':', line.len);

		if (line.len == 0)
			return found ? SESSION_OURS : SESSION_MISSING;
		name = (struct slice){line.at, colon ? (size_t)(colon - line.at) : 0};
		if (!is_name(name))
			return SESSION_BROKEN;
		if (!text_ieq(name, header))
			continue;
		if (!slice_eq(trim(skip(line, name.len + 1)), uid))
			return SESSION_FORGED;
		found = true;
	}
	return word;
}

enum session_word session_judge(struct slice bytes, struct slice header, struct slice uid)
{
	static const struct slice preface = {NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN};
	struct reading r = {.header = header, .uid = uid};
	size_t n = bytes.len < preface.len ? bytes.len : preface.len;
	enum session_word word = SESSION_MORE;

	if (n > 0 && memcmp(bytes.at, preface.at, n) != 0) {
		/* No method begins otherwise, and who speaks of something else need not be waited
		 * for. */
		if (bytes.at[0] < 'A' || bytes.at[0] > 'Z')
			return SESSION_BROKEN;
		word = read_head(bytes, header, uid);
	} else if (n == preface.len) {
		if (nghttp2_hd_inflate_new(&r.inflater) != 0)
			return SESSION_BROKEN;
		word = read_frames(&r, skip(bytes, n));
		nghttp2_hd_inflate_del(r.inflater);
	}
	return word == SESSION_MORE && bytes.len >= SESSION_BYTES_MAX ? SESSION_BROKEN : word;
}
