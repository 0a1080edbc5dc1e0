/* SPDX-License-Identifier: Apache-2.0 */
/* core: splits the annotation bitfusion-client/filter. */
#include "webhook/core/pool/filter.h"

#include "base/text.h"

/* A word whose value begins with a quote, at eq + 1, goes on to the next one; without the two, in
 * the arena. */
static int unquote(struct slice word, const char *eq, struct slice *rest, struct arena *a,
	struct slice *ret, struct err *err)
{
	const char *value = eq + 2, *end = rest->at + rest->len;
	const char *quote = memchr(value, '"', (size_t)(end - value));
	size_t key = (size_t)(eq + 1 - word.at), len = quote ? (size_t)(quote - value) : 0;
	char *out = arena_array(a, key + len, 1);

	if (!out)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (!quote || (quote + 1 < end && !memchr(" \t\n\r\f\v", quote[1], 6)))
		return err_set(err, ERR_INVALID,
			"found a value in double quotes without their end, expected words such as "
			"gpu.model=\"Tesla V100\"");
	memcpy(out, word.at, key);
	memcpy(out + key, value, len);
	*ret = (struct slice){out, key + len};
	*rest = (struct slice){quote + 1, (size_t)(end - quote - 1)};
	return 0;
}

int filter_words(
	struct slice text, struct arena *a, struct slice **ret, size_t *ret_n, struct err *err)
{
	struct slice rest = text, word, *words;
	size_t n = 0;

	*ret_n = 0;
	while (text.at && text_word(&rest, &word))
		n++;
	if (text.len > FILTER_BYTES_MAX || n > FILTERS_MAX)
		return err_set(err, ERR_INVALID,
			"found %zu tokens in %zu bytes, expected at most %d in %d", n, text.len,
			FILTERS_MAX, FILTER_BYTES_MAX);
	words = arena_array(a, n, sizeof(*words));
	if (!words)
		return err_set(err, ERR_NOMEM, "out of memory");
	rest = text;
	for (n = 0; text.at && text_word(&rest, &word); n++) {
		const char *eq = memchr(word.at, '=', word.len);

		words[n] = word;
		if (eq && eq + 1 < word.at + word.len && eq[1] == '"' &&
			unquote(word, eq, &rest, a, &words[n], err) != 0)
			return err->code;
	}
	*ret = words;
	*ret_n = n;
	return 0;
}
