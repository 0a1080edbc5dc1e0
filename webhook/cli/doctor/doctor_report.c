/* SPDX-License-Identifier: Apache-2.0 */
/* cli: the doctor's findings: collected, counted, printed. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/utf8.h"
#include "webhook/cli/doctor/doctor_report.h"

#define TEXT_MAX 900

static const char *const verdicts[] = {"ok", "wrong", "not checked"};
static const char *const json_verdicts[] = {"ok", "wrong", "notChecked"};

/* Images, holders and messages are other people's texts. In place. */
static void clean(char *text)
{
	text[utf8_clean(text, strlen(text))] = '\0';
}

__attribute__((format(printf, 4, 0))) static void add(struct doctor_report *r,
	enum doctor_verdict verdict, const char *mend, const char *fmt, va_list ap)
{
	char text[TEXT_MAX];
	struct doctor_finding *f;

	if (!LIST_ROOM_IN(r->arena, r->at, r->n, r->cap))
		return;
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	clean(text);
	f = &r->at[r->n];
	*f = (struct doctor_finding){
		verdict, r->group, arena_strdup(r->arena, slice_of(text)), mend};
	if (f->text)
		r->n++;
}

void doctor_ok(struct doctor_report *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(r, DOCTOR_OK, NULL, fmt, ap);
	va_end(ap);
}

void doctor_wrong(struct doctor_report *r, const char *mend, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(r, DOCTOR_WRONG, mend, fmt, ap);
	va_end(ap);
}

void doctor_unchecked(struct doctor_report *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(r, DOCTOR_UNCHECKED, NULL, fmt, ap);
	va_end(ap);
}

const char *doctor_fmt(struct doctor_report *r, const char *fmt, ...)
{
	char text[TEXT_MAX];
	const char *kept;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	clean(text);
	kept = arena_strdup(r->arena, slice_of(text));
	return kept ? kept : "";
}

bool doctor_group_troubled(const struct doctor_report *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->at[i].group == r->group && r->at[i].verdict != DOCTOR_OK)
			return true;
	return false;
}

size_t doctor_count(const struct doctor_report *r, enum doctor_verdict verdict)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		n += r->at[i].verdict == verdict;
	return n;
}

static void print_text(const struct doctor_report *r, struct buf *out)
{
	size_t wrong = doctor_count(r, DOCTOR_WRONG), open = doctor_count(r, DOCTOR_UNCHECKED);

	for (size_t i = 0; i < r->n; i++) {
		const struct doctor_finding *f = &r->at[i];

		buf_fmt(out, "%-11s  %s: %s", verdicts[f->verdict], f->group, f->text);
		if (f->mend)
			buf_fmt(out, "; mend it: %s", f->mend);
		buf_char(out, '\n');
	}
	if (wrong)
		buf_fmt(out, "%zu wrong", wrong);
	else
		buf_str(out, open ? "nothing wrong was found" : "all is well");
	if (open)
		buf_fmt(out, ", %zu not checked", open);
	buf_char(out, '\n');
}

static void print_json(const struct doctor_report *r, struct buf *out)
{
	buf_fmt(out, "{\"ok\":%s,\"wrong\":%zu,\"notChecked\":%zu,\"findings\":[",
		doctor_count(r, DOCTOR_WRONG) ? "false" : "true", doctor_count(r, DOCTOR_WRONG),
		doctor_count(r, DOCTOR_UNCHECKED));
	for (size_t i = 0; i < r->n; i++) {
		const struct doctor_finding *f = &r->at[i];

		buf_fmt(out, "%s{\"verdict\":\"%s\",\"group\":\"%s\",\"text\":", i ? "," : "",
			json_verdicts[f->verdict], f->group);
		buf_json_str(out, slice_of(f->text));
		if (f->mend) {
			buf_str(out, ",\"mend\":");
			buf_json_str(out, slice_of(f->mend));
		}
		buf_char(out, '}');
	}
	buf_str(out, "]}\n");
}

void doctor_print(const struct doctor_report *r, bool json, struct buf *out)
{
	if (json)
		print_json(r, out);
	else
		print_text(r, out);
}
