/* SPDX-License-Identifier: Apache-2.0 */
/* net: an HTTP/1.1 answer, byte by byte where lines are concerned, piece by piece in its body. */
#include "net/http_answer.h"

#include <string.h>

#include "base/text.h"

enum state { FIRST_LINE, HEADER, SIZED, TO_END, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER, DONE };

void http_answer_init(struct http_answer *a, bool (*body)(void *ctx, struct slice piece), void *ctx)
{
	a->status = 0;
	a->headed = a->done = a->keep = false;
	a->body = body;
	a->ctx = ctx;
	a->state = FIRST_LINE;
	a->chunked = a->sized = false;
	a->left = 0;
	a->lines = 0;
	a->len = 0;
}

static int bad(struct err *err, const char *why)
{
	return err_set(err, ERR_SYNTAX, "the answer is no HTTP/1.1: %s", why);
}

static void finish(struct http_answer *a)
{
	a->state = DONE;
	a->done = true;
}

/* ---- the head ---- */

/* "HTTP/1.1 200 OK" */
static int first_line(struct http_answer *a, struct slice line, struct err *err)
{
	uint64_t status;

	if (line.len < 12 || memcmp(line.at, "HTTP/1.", 7) != 0 ||
		(line.at[7] != '0' && line.at[7] != '1') || line.at[8] != ' ' ||
		(line.len > 12 && line.at[12] != ' ') ||
		!text_u64((struct slice){line.at + 9, 3}, 999, &status) || status < 100)
		return bad(err, "its first line");
	a->status = (long)status;
	a->keep = line.at[7] == '1';
	a->state = HEADER;
	return 0;
}

static struct slice trim(struct slice s)
{
	while (s.len > 0 && (s.at[0] == ' ' || s.at[0] == '\t')) {
		s.at++;
		s.len--;
	}
	while (s.len > 0 && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* "Name: value" */
static int header(struct http_answer *a, struct slice line, struct err *err)
{
	const char *colon = memchr(line.at, ':', line.len);
	struct slice name, value;
	uint64_t length;

	/* A line that goes on in the next one is a thing of the past, and of attacks. */
	if (!colon || colon == line.at || line.at[0] == ' ' || line.at[0] == '\t' ||
		colon[-1] == ' ' || colon[-1] == '\t')
		return bad(err, "a header");
	name = (struct slice){line.at, (size_t)(colon - line.at)};
	value = trim((struct slice){colon + 1, line.len - name.len - 1});
	if (text_ieq(name, SLICE("content-length"))) {
		if (!text_u64(value, INT64_MAX, &length) || (a->sized && length != a->left))
			return bad(err, "its length");
		a->sized = true;
		a->left = length;
	} else if (text_ieq(name, SLICE("transfer-encoding"))) {
		if (!text_ieq(value, SLICE("chunked")) || a->chunked)
			return bad(err, "its transfer coding");
		a->chunked = true;
	} else if (text_ieq(name, SLICE("connection"))) {
		a->keep = a->keep && !text_ieq(value, SLICE("close"));
	}
	return 0;
}

static int head_ends(struct http_answer *a, struct err *err)
{
	if (a->status < 200) {
		/* Nothing follows but the answer itself. */
		if (a->status == 101 || a->chunked || a->sized)
			return bad(err, "an interim answer");
		a->state = FIRST_LINE;
		a->status = 0;
		return 0;
	}
	if (a->chunked && a->sized)
		return bad(err, "two lengths");
	a->headed = true;
	if (a->status == 204 || a->status == 304 || (a->sized && a->left == 0))
		finish(a);
	else if (a->chunked)
		a->state = CHUNK_SIZE;
	else if (a->sized)
		a->state = SIZED;
	else
		a->state = TO_END;
	if (a->state == TO_END)
		a->keep = false;
	return 0;
}

/* ---- chunks ---- */

/* "1a3" or "1a3;extension" */
static int chunk_size(struct http_answer *a, struct slice line, struct err *err)
{
	uint64_t n = 0;
	size_t i = 0;

	for (; i < line.len && line.at[i] != ';' && line.at[i] != ' ' && line.at[i] != '\t'; i++) {
		const char *digits = "0123456789abcdef", *d;
		char c = line.at[i];

		d = memchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c, 16);
		if (!d || n >> 56)
			return bad(err, "the size of a chunk");
		n = n << 4 | (uint64_t)(d - digits);
	}
	if (i == 0)
		return bad(err, "the size of a chunk");
	a->left = n;
	a->lines = 0;
	a->state = n ? CHUNK : TRAILER;
	return 0;
}

static int on_line(struct http_answer *a, struct slice line, struct err *err)
{
	if (++a->lines > HTTP_ANSWER_LINES_MAX)
		return err_set(err, ERR_TOOBIG, "the answer has more than %d header lines",
			HTTP_ANSWER_LINES_MAX);
	switch ((enum state)a->state) {
	case FIRST_LINE:
		return first_line(a, line, err);
	case HEADER:
		return line.len ? header(a, line, err) : head_ends(a, err);
	case CHUNK_SIZE:
		return chunk_size(a, line, err);
	case CHUNK_END:
		a->state = CHUNK_SIZE;
		return line.len ? bad(err, "the end of a chunk") : 0;
	case TRAILER:
		if (line.len == 0)
			finish(a);
		return 0;
	case SIZED:
	case TO_END:
	case CHUNK:
	case DONE:
		break;
	}
	return err_set(err, ERR_INTERNAL, "a line where there are none");
}

/* Bytes up to a line's end. */
static int take_line(struct http_answer *a, struct slice *bytes, struct err *err)
{
	const char *end = memchr(bytes->at, '\n', bytes->len);
	size_t n = end ? (size_t)(end - bytes->at) : bytes->len;
	struct slice line;

	if (n > sizeof(a->line) - a->len)
		return err_set(err, ERR_TOOBIG, "a line of the answer is over %d bytes",
			HTTP_ANSWER_LINE_MAX);
	memcpy(a->line + a->len, bytes->at, n);
	a->len += n;
	bytes->at += n + (end != NULL);
	bytes->len -= n + (end != NULL);
	if (!end)
		return 0;
	line = (struct slice){a->line, a->len};
	if (line.len > 0 && line.at[line.len - 1] == '\r')
		line.len--;
	a->len = 0;
	if (memchr(line.at, '\0', line.len) || memchr(line.at, '\r', line.len))
		return bad(err, "a control character in its head");
	return on_line(a, line, err);
}

/* ---- the body ---- */

static int take_body(struct http_answer *a, struct slice *bytes, struct err *err)
{
	struct slice piece = *bytes;

	if (a->state != TO_END && piece.len > a->left)
		piece.len = (size_t)a->left;
	bytes->at += piece.len;
	bytes->len -= piece.len;
	if (a->state != TO_END) {
		a->left -= piece.len;
		if (a->left == 0 && a->state == SIZED)
			finish(a);
		else if (a->left == 0)
			a->state = CHUNK_END;
	}
	if (a->body && !a->body(a->ctx, piece))
		return err_set(err, ERR_REFUSED, "the answer is not wanted any more");
	return 0;
}

int http_answer_read(struct http_answer *a, struct slice *bytes, struct err *err)
{
	int rc = 0;

	while (rc == 0 && bytes->len > 0 && !a->done) {
		if (a->state == SIZED || a->state == TO_END || a->state == CHUNK)
			rc = take_body(a, bytes, err);
		else
			rc = take_line(a, bytes, err);
	}
	return rc;
}

int http_answer_end(struct http_answer *a, struct err *err)
{
	if (a->state == TO_END)
		finish(a);
	return a->done ? 0 : err_set(err, ERR_IO, "the connection ended within an answer");
}
