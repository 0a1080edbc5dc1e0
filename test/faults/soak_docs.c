/* SPDX-License-Identifier: Apache-2.0 */
/* soak: the documents that are sent, and the answers that are right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "test/faults/soak.h"

#define DOCUMENTS_MAX 4096
#define FILE_MAX (64u << 20)

static void number(char *at, uint64_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (int i = MARK_LEN - 1; i >= 0; i--, n >>= 4)
		at[i] = digits[n & 15];
}

void marked_fill(struct marked *m, char *text, uint64_t review, uint64_t pod)
{
	for (size_t i = 0; i < m->n_review; i++)
		number(text + m->review[i], review);
	for (size_t i = 0; i < m->n_pod; i++)
		number(text + m->pod[i], pod);
}

static bool find(const struct marked *m, const char *mark, size_t *at, size_t *n)
{
	for (const char *p = m->text; (p = strstr(p, mark)) != NULL; p += MARK_LEN) {
		if (*n == MARKS_MAX)
			return false;
		at[(*n)++] = (size_t)(p - m->text);
	}
	return true;
}

static bool take(struct marked *m, const char *head, const char *text, size_t len)
{
	size_t h = strlen(head);

	m->len = h + len;
	m->text = malloc(m->len + 1);
	if (!m->text)
		return false;
	memcpy(m->text, head, h);
	memcpy(m->text + h, text, len);
	m->text[m->len] = '\0';
	return find(m, MARK_REVIEW, m->review, &m->n_review) &&
	       find(m, MARK_POD, m->pod, &m->n_pod);
}

/* The fields of a head line: KIND PATH WORKER STATUS BODY REPLY REPLY, the last three in bytes. */
struct head {
	struct slice kind, path;
	uint64_t n[5];
};

static bool read_head(struct slice line, struct head *h)
{
	for (int i = 0; i < 7; i++) {
		const char *blank = memchr(line.at, ' ', line.len);
		size_t n = blank ? (size_t)(blank - line.at) : line.len;
		struct slice word = {line.at, n};

		if (i == 0)
			h->kind = word;
		else if (i == 1)
			h->path = word;
		else if (!text_u64(word, FILE_MAX, &h->n[i - 2]))
			return false;
		if ((blank != NULL) != (i < 6))
			return false;
		line.at += n + 1;
		line.len -= i < 6 ? n + 1 : n;
	}
	return true;
}

static bool read_document(const struct head *h, const char *at, struct document *d)
{
	char head[256];
	const char *hole;

	d->kind = slice_is(h->kind, "create")   ? DOC_CREATE
		  : slice_is(h->kind, "delete") ? DOC_DELETE
						: DOC_EXACT;
	d->worker = (unsigned)h->n[0];
	d->status = (unsigned)h->n[1];
	d->validate = slice_is(h->path, "/validate");
	(void)snprintf(head, sizeof(head),
		"POST %s?timeout=20s HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
		"application/json\r\nContent-Length: %u\r\n\r\n",
		d->validate ? "/validate" : "/mutate", (unsigned)h->n[2]);
	d->body_at = strlen(head);
	if (!take(&d->request, head, at, h->n[2]))
		return false;
	at += h->n[2];
	for (unsigned i = 0; i < 2 && h->n[3 + i] > 0; i++, d->n_replies++) {
		if (!take(&d->reply[i], "", at, h->n[3 + i]))
			return false;
		at += h->n[3 + i];
		hole = strstr(d->reply[i].text, "/gpu-");
		if (hole && d->kind == DOC_CREATE)
			d->reply[i].hole = (size_t)(hole - d->reply[i].text) + 5;
	}
	return d->n_replies > 0;
}

static bool read_file(const char *path, struct buf *out)
{
	FILE *f = fopen(path, "rbe");
	char part[4096];
	size_t n;

	buf_init(out, FILE_MAX);
	if (!f)
		return false;
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		buf_add(out, part, n);
	(void)fclose(f);
	return !out->failed;
}

struct document *documents_read(const char *path, size_t *ret_n)
{
	struct document *all = calloc(DOCUMENTS_MAX, sizeof(*all));
	struct buf file;
	size_t n = 0, at = 0;
	bool good = read_file(path, &file) && all;

	while (good && at < file.len && n < DOCUMENTS_MAX) {
		const char *end = memchr(file.data + at, '\n', file.len - at);
		struct head h;

		good = end &&
		       read_head(
			       (struct slice){file.data + at, (size_t)(end - file.data) - at}, &h);
		if (!good)
			break;
		at = (size_t)(end - file.data) + 1;
		good = h.n[2] + h.n[3] + h.n[4] <= file.len - at &&
		       read_document(&h, file.data + at, &all[n]);
		if (good)
			at += h.n[2] + h.n[3] + h.n[4];
		n++;
	}
	buf_release(&file);
	*ret_n = n;
	if (good && n > 0)
		return all;
	(void)fprintf(stderr, "soak: %s: document %zu cannot be read\n", path, n);
	free(all);
	return NULL;
}
