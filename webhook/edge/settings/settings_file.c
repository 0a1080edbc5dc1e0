/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the config file, read by the table of settings; its key `registries`, which is a list of
 * them, by a table of its own. */
#include "webhook/edge/settings/settings_file.h"

#include <string.h>

#include "base/files.h"
#include "base/yaml/yaml_config.h"
#include "net/address.h"
#include "net/http_head.h"
#include "net/listener.h"
#include "webhook/core/image/image.h"
#include "webhook/core/launcher/launcher_load.h"
#include "webhook/edge/settings/settings_table.h"

/* Read a map by its rows into the struct that they are of; keys that no row has are refused.
 * ERR_INVALID with file, line, path, found and expected; ERR_NOMEM. */
static int settings_read_map(struct settings_reader *r, const struct yaml_node *map,
	const struct setting *rows, size_t n, void *of);

/* ---- registries ---- */

#define HOSTS                                                                                      \
	"a host as it stands in https URLs, in small letters, with its port unless that is 443: "  \
	"ghcr.io, registry.example:5000"
/* Lists of words that are all good. */
#define WORDS(member, good_, expected_)                                                            \
	{                                                                                          \
		.key = #member, .kind = SETTING_SLICES, .at = offsetof(struct registry, member),   \
		.n_at = offsetof(struct registry, n_##member), .max = SETTINGS_REGISTRY_NAMES_MAX, \
		.good = (good_), .expected = (expected_)                                           \
	}

static const struct setting registry_rows[] = {
	{.key = "host",
		.kind = SETTING_SLICE,
		.at = offsetof(struct registry, host),
		.good = https_host_good,
		.expected = HOSTS},
	WORDS(tokens, https_host_good, HOSTS),
	WORDS(manifests, https_host_good, HOSTS),
	WORDS(storage, https_host_good, HOSTS),
	WORDS(addresses, address_range_good, "addresses: 10.2.0.0/16, 10.2.0.7, fd00:1::/32"),
	{.key = "ca", .kind = SETTING_PATH, .at = offsetof(struct registry, ca)},
};

/* The key `registries` of the file into s. Same errors. */
static int settings_registries(struct settings_reader *r, const struct yaml_node *seq)
{
	struct settings *s = r->s;
	struct yaml_node *host;
	int rc = yaml_as_seq(seq, r->err);

	if (rc != 0)
		return rc;
	if (seq->count > SETTINGS_REGISTRIES_MAX)
		return yaml_err(seq, r->err, ERR_INVALID,
			"found %u, expected at most %d registries", seq->count,
			SETTINGS_REGISTRIES_MAX);
	s->registries = arena_array(&s->arena, seq->count, sizeof(*s->registries));
	s->n_registries = 0;
	if (!s->registries)
		return err_set(r->err, ERR_NOMEM, "out of memory for the settings");
	YAML_EACH(seq, node)
	{
		struct registry *one = &s->registries[s->n_registries];

		if ((rc = settings_read_map(r, node, registry_rows,
			     sizeof(registry_rows) / sizeof(registry_rows[0]), one)) != 0 ||
			(rc = yaml_need(node, "host", &host, r->err)) != 0)
			return rc;
		for (size_t i = 0; i < s->n_registries; i++)
			if (slice_eq(s->registries[i].host, one->host))
				return yaml_err(host, r->err, ERR_INVALID,
					"the same registry stands here twice");
		s->n_registries++;
	}
	return 0;
}

/* ---- the file ---- */

static int out_of_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory for the settings");
}

static int copy(struct settings_reader *r, struct slice text, const char **ret)
{
	const char *c = arena_strdup(&r->s->arena, text);

	if (!c)
		return out_of_memory(r->err);
	*ret = c;
	return 0;
}

int settings_check_listen(struct slice text, struct err *err)
{
	if (memchr(text.at, '\0', text.len) || listener_check(text, NULL) != 0)
		return err_set(err, ERR_INVALID,
			"found \"%.*s\", expected ADDR:PORT, [ADDR6]:PORT or :PORT for all "
			"addresses, with a numeric address or localhost",
			text.len > 80 ? 80 : (int)text.len, text.at);
	return 0;
}

/* `off` is also the boolean that YAML takes it for. */
static int read_listen(struct settings_reader *r, const struct yaml_node *node,
	const struct setting *row, const char **ret)
{
	bool can_be_off = row->flags & SETTING_OFF, on = true;
	struct err why = {0};
	struct slice text;
	int rc;

	if (can_be_off &&
		(yaml_is_str(node, "off") || (yaml_as_bool(node, &on, &why) == 0 && !on))) {
		*ret = NULL;
		return 0;
	}
	if ((rc = yaml_as_str(node, &text, r->err)) != 0)
		return rc;
	if (settings_check_listen(text, &why) != 0)
		return yaml_err(node, r->err, ERR_INVALID, "%s%s", why.msg,
			can_be_off ? "; off for none" : "");
	return copy(r, text, ret);
}

static int read_path(struct settings_reader *r, const struct yaml_node *node, const char **ret)
{
	const char *slash = strrchr(r->config, '/'), *path;
	struct slice text;
	int rc = yaml_as_str(node, &text, r->err);

	if (rc != 0)
		return rc;
	if (text.len == 0 || memchr(text.at, '\0', text.len))
		return yaml_err(node, r->err, ERR_INVALID, "found no text, expected a path");
	if (text.at[0] == '/' || !slash)
		path = arena_strdup(&r->s->arena, text);
	else
		path = arena_fmt(&r->s->arena, "%.*s/%.*s", (int)(slash - r->config), r->config,
			(int)text.len, text.at);
	if (!path)
		return out_of_memory(r->err);
	settings_source_node(r->s, path, node);
	*ret = path;
	return 0;
}

/* A string that is good by its row. */
static int read_good(struct settings_reader *r, const struct yaml_node *node,
	const struct setting *row, struct slice *ret)
{
	int rc = yaml_as_str(node, ret, r->err);

	if (rc == 0 && row->good && !row->good(*ret))
		rc = yaml_unexpected(node, r->err, "%s", row->expected);
	return rc;
}

static int read_slice(struct settings_reader *r, const struct yaml_node *node,
	const struct setting *row, struct slice *ret)
{
	struct slice text;
	int rc = read_good(r, node, row, &text);

	if (rc != 0)
		return rc;
	*ret = arena_slice(&r->s->arena, text);
	return ret->at ? 0 : out_of_memory(r->err);
}

static int read_text(struct settings_reader *r, const struct yaml_node *node,
	const struct setting *row, const char **ret)
{
	struct slice text;
	int rc = read_good(r, node, row, &text);

	return rc == 0 ? copy(r, text, ret) : rc;
}

/* A list that is not too long: texts and paths have their place, slices get one. */
static int read_list(struct settings_reader *r, const struct yaml_node *seq,
	const struct setting *row, void *to, size_t *n)
{
	const char *what = row->kind == SETTING_PATHS   ? "paths"
			   : row->kind == SETTING_TEXTS ? "names"
							: "strings";
	const char **texts = to;
	struct slice *slices = NULL;
	int rc;

	if (!yaml_is(seq, YAML_SEQ))
		return yaml_unexpected(seq, r->err, "a sequence of %s", what);
	if (row->max && seq->count > (unsigned)row->max)
		return yaml_err(seq, r->err, ERR_INVALID, "found %u %s, expected at most %d",
			seq->count, what, (int)row->max);
	if (row->kind == SETTING_SLICES) {
		slices = arena_array(&r->s->arena, seq->count, sizeof(*slices));
		*(struct slice **)to = slices;
		if (!slices)
			return out_of_memory(r->err);
	}
	*n = 0;
	YAML_EACH(seq, node)
	{
		if (row->kind == SETTING_PATHS)
			rc = read_path(r, node, &texts[*n]);
		else if (row->kind == SETTING_TEXTS)
			rc = read_text(r, node, row, &texts[*n]);
		else
			rc = read_slice(r, node, row, &slices[*n]);
		if (rc != 0)
			return rc;
		++*n;
	}
	return 0;
}

static int read_choice(struct settings_reader *r, const struct yaml_node *node,
	const struct setting *row, void *to)
{
	size_t n = 0, choice;
	int rc;

	while (row->words[n])
		n++;
	if ((rc = yaml_as_choice(node, row->words, n, &choice, r->err)) != 0)
		return rc;
	if (row->kind == SETTING_WORD)
		*(const char **)to = row->words[choice];
	else
		*(unsigned *)to = (unsigned)choice;
	return 0;
}

static int read_number(struct settings_reader *r, const struct yaml_node *node,
	const struct setting *row, void *to)
{
	int64_t n;
	int rc = yaml_as_int(node, row->min, row->max, &n, r->err);

	if (rc == 0 && row->kind == SETTING_COUNT)
		*(unsigned *)to = (unsigned)n;
	else if (rc == 0)
		*(int64_t *)to = n;
	return rc;
}

static int read_duration(struct settings_reader *r, const struct yaml_node *node,
	const struct setting *row, int64_t *ret)
{
	bool or_zero = row->flags & SETTING_OR_ZERO;
	int64_t ms;
	int rc = yaml_as_duration(node, or_zero ? 0 : row->min, row->max, &ms, r->err);

	if (rc != 0)
		return rc;
	if (ms > 0 && ms < row->min)
		return yaml_err(node, r->err, ERR_INVALID, "found %lld ms, expected %s",
			(long long)ms, row->expected);
	*ret = ms;
	return 0;
}

static int read_total(struct settings_reader *r, const struct yaml_node *node)
{
	struct err why = {0};
	struct slice text;
	int rc = yaml_as_text(node, &text, r->err);

	if (rc != 0)
		return rc;
	if (config_total_memory(text, &r->s->total_gpu_mb, &why) != 0)
		return yaml_err(node, r->err, ERR_INVALID, "%s", why.msg);
	return copy(r, slice_of(r->config), &r->s->total_gpu_from);
}

/* A value that is there. of: the struct that the row is of. */
static int read_value(struct settings_reader *r, const struct yaml_node *node,
	const struct setting *row, void *of)
{
	void *to = (char *)of + row->at;

	switch (row->kind) {
	case SETTING_MAP:
		if (row->at)
			*(bool *)to = true;
		return settings_read_map(r, node, row->in, row->n_in, of);
	case SETTING_BOOL:
		return yaml_as_bool(node, to, r->err);
	case SETTING_COUNT:
	case SETTING_NUMBER:
		return read_number(r, node, row, to);
	case SETTING_DURATION:
		return read_duration(r, node, row, to);
	case SETTING_WORD:
	case SETTING_CHOICE:
		return read_choice(r, node, row, to);
	case SETTING_SLICE:
		return read_slice(r, node, row, to);
	case SETTING_TEXT:
		return read_text(r, node, row, to);
	case SETTING_PATH:
		return read_path(r, node, to);
	case SETTING_LISTEN:
		return read_listen(r, node, row, to);
	case SETTING_TEXTS:
	case SETTING_PATHS:
	case SETTING_SLICES:
		return read_list(r, node, row, to, (size_t *)(void *)((char *)of + row->n_at));
	case SETTING_TOTAL:
		return read_total(r, node);
	case SETTING_REGISTRIES:
		return settings_registries(r, node);
	case SETTING_HEAD:
	case SETTING_SWITCH:
	case SETTING_PORT:
	case SETTING_IGNORED:
	case SETTING_IGNORED_BOOL:
		break; /* was looked at before, or is no key */
	}
	return 0;
}

static int settings_read_map(struct settings_reader *r, const struct yaml_node *map,
	const struct setting *rows, size_t n, void *of)
{
	const char *keys[SETTINGS_ROWS_MAX];
	size_t n_keys = 0;
	int rc = yaml_as_map(map, r->err);

	for (size_t i = 0; i < n && n_keys < SETTINGS_ROWS_MAX; i++)
		if (rows[i].key)
			keys[n_keys++] = rows[i].key;
	if (rc == 0)
		rc = yaml_known_list(map, keys, n_keys, r->err);
	for (size_t i = 0; i < n && rc == 0; i++) {
		const struct yaml_node *node = rows[i].key ? yaml_get(map, rows[i].key) : NULL;

		if (node && !yaml_absent(node))
			rc = read_value(r, node, &rows[i], of);
	}
	return rc;
}

/* ---- the file ---- */

int settings_text(struct settings *s, const char *path, struct slice text, struct err *err)
{
	struct settings_reader r = {s, path, err};
	struct yaml_stream stream = {0};
	struct arena tree;
	int rc;

	arena_init(&tree, YAML_ARENA_MAX);
	rc = yaml_parse(&tree, path, text, YAML_NO_ALIASES, &stream, err);
	if (rc == 0 && stream.count != 1)
		rc = err_set(err, ERR_INVALID, "%s: found %zu documents, expected one", path,
			stream.count);
	if (rc == 0 &&
		(rc = yaml_need_word(
			 stream.first->root, "apiVersion", POOLGATE_API_VERSION, err)) == 0 &&
		(rc = yaml_need_word(stream.first->root, "kind", CONFIG_KIND, err)) == 0)
		rc = settings_read_map(&r, stream.first->root, settings_table, settings_table_n, s);
	arena_release(&tree);
	/* A command line has syntax too: keep the two apart. */
	if (rc == ERR_SYNTAX || rc == ERR_REFUSED) {
		err->code = ERR_INVALID;
		rc = ERR_INVALID;
	}
	return rc;
}

int settings_file(struct settings *s, struct err *err)
{
	struct buf text;
	int rc;

	buf_init(&text, SETTINGS_FILE_MAX);
	rc = files_read(s->config, &text, err);
	if (rc != 0)
		rc = settings_blame(s, err);
	else
		rc = settings_text(s, s->config, buf_as_slice(&text), err);
	buf_release(&text);
	return rc;
}
