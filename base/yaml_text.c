/* SPDX-License-Identifier: Apache-2.0 */
/* base: scalars in plain, quoted, literal and folded spelling, after YAML 1.1 chapters 5, 8 and 9 as libyaml reads them. */
#include "base/yaml_text.h"

#include <string.h>

/* One UTF-8 sequence (the text was checked when it was read). */
static size_t next_char(struct slice s, size_t i, uint32_t *ret)
{
	unsigned char c = (unsigned char)s.at[i];
	size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	uint32_t code = len == 1 ? c : c & (0xffu >> (len + 1));

	if (i + len > s.len)
		len = 1;
	for (size_t k = 1; k < len; k++)
		code = code << 6 | ((unsigned char)s.at[i + k] & 0x3fu);
	*ret = code;
	return len;
}

/* Line breaks to YAML 1.1 that are no newline; and what its reader does not let through at all. */
static bool must_be_escaped(uint32_t c)
{
	if (c == '\t' || c == '\n')
		return false;
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff ||
	       (c >= 0xd800 && c < 0xe000) || c == 0xfffe || c == 0xffff;
}

static bool all_printable(struct slice s)
{
	uint32_t c;

	for (size_t i = 0; i < s.len; i += next_char(s, i, &c)) {
		next_char(s, i, &c);
		if (must_be_escaped(c))
			return false;
	}
	return true;
}

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Would folding lose a blank: one beside a newline? A newline at an end is lost, too, in a plain scalar. */
static bool folds_exactly(struct slice s, bool plain)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] != '\n')
			continue;
		if ((i > 0 && blank(s.at[i - 1])) || (i + 1 < s.len && blank(s.at[i + 1])))
			return false;
		if (plain && (i == 0 || i + 1 == s.len))
			return false;
	}
	return true;
}

/* At the left edge it would end the document. */
static bool like_marker(struct slice s)
{
	bool marker = slice_starts(s, SLICE("---")) || slice_starts(s, SLICE("..."));

	return marker && (s.len == 3 || blank(s.at[3]) || s.at[3] == '\n');
}

enum yaml_style yaml_text_style(
	enum yaml_style wanted, struct slice text, enum yaml_context context)
{
	bool lines = text.len > 0 && memchr(text.at, '\n', text.len) != NULL;

	if (!all_printable(text) || (wanted == YAML_PLAIN && like_marker(text)))
		return YAML_DOUBLE;
	switch (wanted) {
	case YAML_PLAIN:
	case YAML_SINGLE:
		if (lines && (context == YAML_IN_KEY || !folds_exactly(text, wanted == YAML_PLAIN)))
			return YAML_DOUBLE;
		return wanted;
	case YAML_LITERAL:
	case YAML_FOLDED:
		return context == YAML_IN_BLOCK ? wanted : YAML_DOUBLE;
	case YAML_DOUBLE:
	case YAML_BLOCK:
	case YAML_FLOW:
		break;
	}
	return YAML_DOUBLE;
}

static void spaces(struct buf *out, unsigned n)
{
	while (n-- > 0)
		buf_char(out, ' ');
}

/* Plain and single-quoted: a newline of the value is an empty line, since one line break alone is a blank. */
static void write_flowing(struct buf *out, struct slice text, unsigned indent, bool quoted)
{
	if (quoted)
		buf_char(out, '\'');
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];

		if (c != '\n') {
			if (c == '\'' && quoted)
				buf_char(out, c);
			buf_char(out, c);
			continue;
		}
		if (i == 0 || text.at[i - 1] != '\n')
			buf_char(out, '\n');
		buf_char(out, '\n');
		if (i + 1 == text.len || text.at[i + 1] != '\n')
			spaces(out, indent);
	}
	if (quoted)
		buf_char(out, '\'');
}

static void write_escape(struct buf *out, uint32_t c)
{
	switch (c) {
	case '"':
		buf_str(out, "\\\"");
		break;
	case '\\':
		buf_str(out, "\\\\");
		break;
	case '\n':
		buf_str(out, "\\n");
		break;
	case '\t':
		buf_str(out, "\\t");
		break;
	case '\r':
		buf_str(out, "\\r");
		break;
	default:
		buf_fmt(out, c < 0x100 ? "\\x%02X" : "\\u%04X", (unsigned)c);
		break;
	}
}

static void write_double(struct buf *out, struct slice text)
{
	size_t len;

	buf_char(out, '"');
	for (size_t i = 0; i < text.len; i += len) {
		uint32_t c;

		len = next_char(text, i, &c);
		if (c == '"' || c == '\\' || c == '\n' || c == '\t' || must_be_escaped(c))
			write_escape(out, c);
		else
			buf_add(out, text.at + i, len);
	}
	buf_char(out, '"');
}

/* "|", the indentation when the text itself begins with blanks, and how the newlines at the end are meant. Returns
 * how many bytes of text come before those newlines' last. */
static void write_header(struct buf *out, char kind, struct slice text)
{
	size_t i = 0;
	size_t n = text.len;

	buf_char(out, kind);
	while (i < n && text.at[i] == '\n')
		i++;
	/* a reader would take the blanks of the first line with anything on it for indentation */
	if (i < n && blank(text.at[i]))
		buf_char(out, '2');
	if (n == 0 || text.at[n - 1] != '\n')
		buf_char(out, '-');
	else if (n == 1 || text.at[n - 2] == '\n')
		buf_char(out, '+');
	buf_char(out, '\n');
}

/* The next line of *rest, without its newline. */
static struct slice take_line(struct slice *rest)
{
	const char *end = memchr(rest->at, '\n', rest->len);
	struct slice line = {rest->at, end ? (size_t)(end - rest->at) : rest->len};
	size_t used = line.len + (end ? 1 : 0);

	rest->at += used;
	rest->len -= used;
	return line;
}

static void write_literal(struct buf *out, struct slice text, unsigned indent)
{
	write_header(out, '|', text);
	while (text.len > 0) {
		struct slice line = take_line(&text);

		if (line.len > 0)
			spaces(out, indent);
		buf_slice(out, line);
		buf_char(out, '\n');
	}
}

/* A newline between two lines that begin with no blank needs an empty line more: else it would be read as a blank. */
static void write_folded(struct buf *out, struct slice text, unsigned indent)
{
	bool text_above = false; /* the last line that was not empty may be folded into the next */

	write_header(out, '>', text);
	while (text.len > 0) {
		struct slice line = take_line(&text);

		if (line.len > 0) {
			bool foldable = !blank(line.at[0]);

			if (text_above && foldable)
				buf_char(out, '\n');
			text_above = foldable;
			spaces(out, indent);
		}
		buf_slice(out, line);
		buf_char(out, '\n');
	}
}

void yaml_text_write(struct buf *out, enum yaml_style style, struct slice text, unsigned indent)
{
	switch (style) {
	case YAML_PLAIN:
	case YAML_SINGLE:
		write_flowing(out, text, indent, style == YAML_SINGLE);
		break;
	case YAML_LITERAL:
		write_literal(out, text, indent);
		break;
	case YAML_FOLDED:
		write_folded(out, text, indent);
		break;
	case YAML_DOUBLE:
	case YAML_BLOCK:
	case YAML_FLOW:
		write_double(out, text);
		break;
	}
}
