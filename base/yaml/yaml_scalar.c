/* SPDX-License-Identifier: Apache-2.0 */
/* base: the meaning of scalars, after resolve() of goyaml.v2. */
#include "base/yaml/yaml_scalar.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/yaml/yaml_number.h"

#define TAG "tag:yaml.org,2002:"

/* word in lower case, with a capital, or in upper case; nothing between ("yEs" is a string) */
static bool is_word(struct slice s, const char *word)
{
	size_t n = strlen(word);
	bool lower = true, upper = true, capital = true;

	if (s.len != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		char low = word[i];
		char up = text_is_letter(low) ? (char)(low - 'a' + 'A') : low;

		lower = lower && s.at[i] == low;
		upper = upper && s.at[i] == up;
		capital = capital && s.at[i] == (i == 0 ? up : low);
	}
	return lower || upper || capital;
}

static bool set_word(struct slice s, struct yaml_value *ret)
{
	static const char *const yes[] = {"y", "yes", "true", "on"};
	static const char *const no[] = {"n", "no", "false", "off"};

	if (s.len == 0 || slice_is(s, "~") || is_word(s, "null")) {
		ret->type = YAML_NULL;
		ret->text = SLICE("null");
		return true;
	}
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (is_word(s, yes[i]) || is_word(s, no[i])) {
			ret->type = YAML_BOOL;
			ret->text = is_word(s, yes[i]) ? SLICE("true") : SLICE("false");
			return true;
		}
	}
	return false;
}

/* .inf and .nan in their accepted spellings */
static bool set_special(struct slice s, struct yaml_value *ret)
{
	struct slice rest = s;
	bool sign = s.len > 1 && (s.at[0] == '-' || s.at[0] == '+');

	if (sign) {
		rest.at++;
		rest.len--;
	}
	if (rest.len != 4 || rest.at[0] != '.')
		return false;
	rest.at++;
	rest.len--;
	/* ".NaN" is an accepted spelling, ".Nan" is not */
	bool nan = slice_is(rest, "nan") || slice_is(rest, "NaN") || slice_is(rest, "NAN");

	if (!is_word(rest, "inf") && (sign || !nan))
		return false;
	ret->type = YAML_FLOAT;
	ret->text = s;
	ret->finite = false;
	return true;
}

void yaml_resolve(struct slice spelling, struct yaml_value *ret)
{
	char c = spelling.len ? spelling.at[0] : '\0';

	ret->finite = true;
	if (set_word(spelling, ret))
		return;
	if (text_is_digit(c) || c == '+' || c == '-' || c == '.') {
		if (set_special(spelling, ret) || yaml_number(spelling, ret))
			return;
	}
	ret->type = YAML_STRING;
	ret->text = spelling;
}

static int refuse_tag(const struct yaml_node *node, const char *tag, struct err *err)
{
	char found[80];

	return yaml_err(node, err, ERR_INVALID,
		"found %s under the tag !!%s; remove the tag or correct the value",
		yaml_found(node, found), tag);
}

/* An explicit tag of YAML's own. */
static int with_tag(const struct yaml_node *node, struct yaml_value *ret, struct err *err)
{
	static const struct {
		const char *name;
		enum yaml_type type;
	} known[] = {{"null", YAML_NULL}, {"bool", YAML_BOOL}, {"int", YAML_INT},
		{"float", YAML_FLOAT}, {"timestamp", YAML_STRING}};
	struct slice name = node->tag;

	if (!slice_starts(name, SLICE(TAG)))
		return 0;
	name.at += sizeof(TAG) - 1;
	name.len -= sizeof(TAG) - 1;
	if (slice_is(name, "binary"))
		return yaml_err(node, err, ERR_INVALID,
			"found the tag !!binary, expected text; write the value as a string");
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (!slice_is(name, known[i].name))
			continue;
		yaml_resolve(node->text, ret);
		if (ret->type == YAML_INT && known[i].type == YAML_FLOAT) {
			ret->type = YAML_FLOAT;
			ret->text.len = yaml_float_text(strtod(ret->num, NULL), ret->num);
		}
		if (ret->type != known[i].type)
			return refuse_tag(node, known[i].name, err);
	}
	return 0;
}

/* A scalar that was read as JSON: its kind shows in the first byte, and a number keeps its
 * spelling. */
static void of_json(const struct yaml_node *node, struct yaml_value *ret)
{
	char c = node->raw.len ? node->raw.at[0] : '\0';

	ret->finite = true;
	ret->text = node->text;
	if (c == '"') {
		ret->type = YAML_STRING;
	} else if (c == 'n') {
		ret->type = YAML_NULL;
	} else if (c == 't' || c == 'f') {
		ret->type = YAML_BOOL;
	} else {
		ret->type = YAML_INT;
		for (size_t i = 0; i < node->raw.len; i++) {
			if (strchr(".eE", node->raw.at[i]))
				ret->type = YAML_FLOAT;
		}
	}
}

int yaml_meaning(const struct yaml_node *scalar, struct yaml_value *ret, struct err *err)
{

	if (!yaml_is(scalar, YAML_SCALAR))
		return yaml_unexpected(scalar, err, "a single value");
	if (scalar->raw.at) {
		of_json(scalar, ret);
		return 0;
	}
	if (!scalar->tag.at && scalar->plain_meaning) {
		yaml_resolve(scalar->text, ret);
		return 0;
	}
	ret->type = YAML_STRING;
	ret->text = scalar->text;
	ret->finite = true;
	return scalar->tag.at ? with_tag(scalar, ret, err) : 0;
}

int yaml_key(const struct yaml_node *key, struct yaml_value *ret, struct err *err)
{
	char found[80];
	int rc = yaml_is(key, YAML_SCALAR) ? yaml_meaning(key, ret, err) : ERR_INVALID;

	if (yaml_is(key, YAML_SCALAR) && rc != 0)
		return rc;
	bool good = rc == 0 && ret->type != YAML_NULL && ret->finite;

	if (good && ret->type == YAML_INT && ret->text.len >= 19 && ret->text.at[0] != '-')
		good = ret->text.len == 19 && memcmp(ret->text.at, "9223372036854775807", 19) <= 0;
	if (good && ret->type == YAML_FLOAT)
		good = yaml_key_float(ret->text, ret);
	if (good)
		return 0;
	return yaml_err(key, err, ERR_INVALID,
		"found %s as a key, expected a string; put it in quotes", yaml_found(key, found));
}

const char *yaml_type_name(enum yaml_type type)
{
	switch (type) {
	case YAML_NULL:
		return "null";
	case YAML_BOOL:
		return "a boolean";
	case YAML_INT:
		return "a whole number";
	case YAML_FLOAT:
		return "a number";
	case YAML_STRING:
		return "a string";
	}
	return "a value";
}

bool yaml_plain_safe(struct slice s)
{
	struct yaml_value v;
	bool number_like = true;

	if (s.len == 0 || s.len > 128)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];
		if (c == '\0')
			return false;
		char after = i + 1 < s.len ? s.at[i + 1] : '\0';
		bool middle = i > 0 && after != '\0';

		if (!text_is_digit(c) && !strchr(".:_+-eEtTzZ ", c))
			number_like = false;
		if (text_is_alnum(c) || strchr("_/", c))
			continue;
		if (c == '.' || (i > 0 && strchr("@%$()=+", c)))
			continue;
		/* "-n" and "a-b", not "-", "---" or "a -" */
		if (c == '-' && (i > 1 || text_is_alnum(after) || (after == '-' && s.len > 3)))
			continue;
		if (middle && c == ':' && (text_is_alnum(after) || after == '/'))
			continue;
		if (middle && c == ' ' && (text_is_alnum(after) || after == '/'))
			continue;
		return false;
	}
	if (slice_starts(s, SLICE("---")) || slice_starts(s, SLICE("...")))
		return false;
	/* dates, 1:30 and the like: strings here, something else to other readers */
	if (number_like && (text_is_digit(s.at[0]) || strchr("+-.", s.at[0])))
		return false;
	yaml_resolve(s, &v);
	return v.type == YAML_STRING;
}
