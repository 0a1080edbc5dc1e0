/* SPDX-License-Identifier: Apache-2.0 */
/* gate: ServerProfiles, read and filled in. */
#include "gate/server_profile.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "gate/server_profile_impl.h"

#define API_VERSION "poolgate.io/v1alpha1"
#define VALUE_MAX 65536
#define MIB (1u << 20)
#define DEVICES "CUDA_VISIBLE_DEVICES"

static int no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory for the server profile");
}

/* ---- templates ---- */

static const char *const places[] = {
	"gpu_uuids", "memory_mb", "memory_limits", "percent", "port", "address", "claim_dir"};
enum place { GPU_UUIDS, MEMORY_MB, MEMORY_LIMITS, PERCENT, PORT, ADDRESS, CLAIM_DIR };
#define PLACES (sizeof(places) / sizeof(places[0]))

/* The next piece of a template: text, or a place (*ret_place, else PLACES). "{{" and "}}" are the
 * letters. False: no piece can be here. */
static bool next_piece(struct slice *rest, struct slice *ret_text, size_t *ret_place)
{
	const char *at = rest->at, *end = at + rest->len, *close;
	struct slice name;
	size_t n = 0;

	*ret_place = PLACES;
	if (*at != '{' && *at != '}') {
		while (at + n < end && at[n] != '{' && at[n] != '}')
			n++;
		*ret_text = (struct slice){at, n};
		*rest = (struct slice){at + n, rest->len - n};
		return true;
	}
	if (rest->len > 1 && at[1] == at[0]) {
		*ret_text = (struct slice){at, 1};
		*rest = (struct slice){at + 2, rest->len - 2};
		return true;
	}
	close = *at == '{' ? memchr(at, '}', rest->len) : NULL;
	if (!close)
		return false;
	name = (struct slice){at + 1, (size_t)(close - at - 1)};
	for (size_t i = 0; i < PLACES; i++)
		if (slice_is(name, places[i]))
			*ret_place = i;
	*rest = (struct slice){close + 1, (size_t)(end - close - 1)};
	return *ret_place < PLACES;
}

static int template_check(const struct yaml_node *node, struct slice text, struct err *err)
{
	struct slice piece, rest = text;
	size_t place;

	if (memchr(text.at, '\0', text.len))
		return yaml_err(node, err, ERR_INVALID, "found a NUL, expected text without");
	while (rest.len > 0)
		if (!next_piece(&rest, &piece, &place))
			return yaml_unexpected(node, err,
				"text with {gpu_uuids}, {memory_mb}, "
				"{memory_limits}, {percent}, {port}, {address}, {claim_dir}; a "
				"brace is written twice");
	return 0;
}

/* ---- reading ---- */

static int read_template(
	const struct yaml_node *node, struct arena *a, struct slice *ret, struct err *err)
{
	struct slice text;
	int rc = yaml_as_str(node, &text, err);

	if (rc == 0)
		rc = template_check(node, text, err);
	if (rc != 0)
		return rc;
	*ret = arena_slice(a, text);
	return ret->at ? 0 : no_memory(err);
}

static int read_argv(
	const struct yaml_node *spec, struct arena *a, struct server_profile *p, struct err *err)
{
	struct yaml_node *node;
	struct slice *words;
	int rc;

	if ((rc = yaml_need(spec, "argv", &node, err)) != 0 || (rc = yaml_as_seq(node, err)) != 0)
		return rc;
	if (node->count == 0 || node->count > SERVER_PROFILE_WORDS_MAX)
		return yaml_err(node, err, ERR_INVALID, "found %u words, expected 1 to %d",
			node->count, SERVER_PROFILE_WORDS_MAX);
	words = arena_array(a, node->count, sizeof(*words));
	if (!words)
		return no_memory(err);
	YAML_EACH(node, word)
	{
		if ((rc = read_template(word, a, &words[p->n_argv++], err)) != 0)
			return rc;
	}
	p->argv = words;
	/* Nobody's PATH is asked: what is started is what was written. */
	if (words[0].len < 2 || words[0].at[0] != '/')
		return yaml_err(node->first, err, ERR_INVALID,
			"found \"%.*s\", expected the absolute path of a program",
			(int)words[0].len, words[0].at);
	return 0;
}

static bool is_variable(struct slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.at[i] == '=' || s.at[i] <= ' ' || s.at[i] > '~')
			return false;
	return s.len > 0;
}

static int read_env(
	const struct yaml_node *spec, struct arena *a, struct server_profile *p, struct err *err)
{
	struct server_profile_env *env;
	struct yaml_node *node;
	int rc = yaml_get_map(spec, "env", &node, err);

	if (rc != 0 || !node)
		return rc;
	if (node->count > SERVER_PROFILE_WORDS_MAX)
		return yaml_err(node, err, ERR_INVALID, "found %u variables, expected at most %d",
			node->count, SERVER_PROFILE_WORDS_MAX);
	env = arena_array(a, node->count, sizeof(*env));
	if (!env)
		return no_memory(err);
	YAML_MEMBERS(node, key)
	{
		if (!is_variable(key->text) || slice_is(key->text, DEVICES))
			return yaml_unexpected(key, err,
				"a variable's name, other than " DEVICES ", which is the claim's");
		env[p->n_env].name = arena_strdup(a, key->text);
		if (!env[p->n_env].name)
			return no_memory(err);
		if ((rc = read_template(key->next, a, &env[p->n_env++].value, err)) != 0)
			return rc;
	}
	p->env = env;
	return 0;
}

static int read_spec(
	const struct yaml_node *spec, struct arena *a, struct server_profile *p, struct err *err)
{
	static const char *const sockets[] = {"own", "inherited"};
	struct yaml_node *port;
	int64_t number = 0;
	size_t socket = 0;
	int rc;

	if ((rc = yaml_known(spec, err, "mode", "session", "argv", "env", "port", "socket", "user",
		     "readiness", "linger", "grace", "usage", "mps", NULL)) != 0 ||
		(rc = server_profile_read_use(spec, p, err)) != 0 ||
		(rc = read_argv(spec, a, p, err)) != 0 || (rc = read_env(spec, a, p, err)) != 0 ||
		(rc = yaml_need(spec, "port", &port, err)) != 0 ||
		(rc = yaml_as_int(port, 1, 65535, &number, err)) != 0 ||
		(rc = yaml_get_choice(spec, "socket", sockets, 2, &socket, err)) != 0 ||
		(rc = yaml_get_cstr(spec, "user", &p->user, err)) != 0 ||
		(rc = yaml_get_duration(spec, "readiness", 100, 600000, &p->readiness_ms, err)) !=
			0 ||
		(rc = yaml_get_duration(
			 spec, "linger", 0, INT64_C(86400000) * 365, &p->linger_ms, err)) != 0)
		return rc;
	p->port = (uint16_t)number;
	p->inherits = socket == 1;
	return yaml_get_duration(spec, "grace", 0, SERVER_PROFILE_GRACE_MAX_MS, &p->grace_ms, err);
}

static int read_root(
	const struct yaml_node *root, struct arena *a, struct server_profile *p, struct err *err)
{
	struct yaml_node *metadata, *name, *spec;
	int rc;

	if ((rc = yaml_as_map(root, err)) != 0 ||
		(rc = yaml_need_word(root, "apiVersion", API_VERSION, err)) != 0 ||
		(rc = yaml_need_word(root, "kind", SERVER_PROFILE_KIND, err)) != 0 ||
		(rc = yaml_known(root, err, "apiVersion", "kind", "metadata", "spec", NULL)) != 0 ||
		(rc = yaml_need(root, "metadata", &metadata, err)) != 0 ||
		(rc = yaml_known(metadata, err, "name", "labels", "annotations", NULL)) != 0 ||
		(rc = yaml_need(metadata, "name", &name, err)) != 0 ||
		(rc = yaml_as_cstr(name, &p->name, err)) != 0 ||
		(rc = yaml_need(root, "spec", &spec, err)) != 0)
		return rc;
	if (!text_dns_label(slice_of(p->name)))
		return yaml_unexpected(name, err, "a name of a to z, 0 to 9 and '-'");
	return read_spec(spec, a, p, err);
}

int server_profile_read(const char *file, struct slice text, struct arena *a,
	struct server_profile *ret, struct err *err)
{
	struct server_profile p = {.readiness_ms = SERVER_PROFILE_READINESS_MS,
		.linger_ms = -1,
		.grace_ms = SERVER_PROFILE_GRACE_MS,
		.usage = {.context_bytes = SERVER_PROFILE_CONTEXT_BYTES},
		.hash = text_hash64(text)};
	struct yaml_stream all;
	int rc = yaml_parse(a, file, text, YAML_NO_ALIASES, &all, err);

	if (rc == 0 && all.count != 1)
		rc = err_set(err, ERR_INVALID,
			"%s: found %zu documents, expected one " SERVER_PROFILE_KIND, file,
			all.count);
	if (rc == 0)
		rc = read_root(all.first->root, a, &p, err);
	if (rc == 0)
		*ret = p;
	return rc;
}

/* ---- one claim's ---- */

static void add_uuids(const struct picture_claim *c, struct buf *out)
{
	for (size_t i = 0; i < c->n_gpus; i++)
		buf_fmt(out, "%s%s", i ? "," : "", c->gpu[i].id);
}

/* Never none: limiters take 0 for "any". */
static uint64_t mb_of(const struct picture_gpu *gpu)
{
	return gpu->bytes < MIB ? 1 : gpu->bytes / MIB;
}

/* The least of its GPUs: of none it gets more than it holds. */
static uint64_t least_mb(const struct picture_claim *c)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < c->n_gpus; i++)
		if (mb_of(&c->gpu[i]) < least)
			least = mb_of(&c->gpu[i]);
	return c->n_gpus ? least : 1;
}

static unsigned least_percent(const struct picture_claim *c)
{
	unsigned least = 100;

	for (size_t i = 0; i < c->n_gpus; i++) {
		/* a claim by per cent has less than a byte less (demand_bytes) */
		__uint128_t all = c->gpu[i].of_bytes, part = (__uint128_t)c->gpu[i].bytes + 1;
		unsigned percent = part > all ? 100 : (unsigned)(part * 100 / all);

		if (percent < least)
			least = percent;
	}
	return least ? least : 1;
}

/* As MPS wants it: devices by their numbers among those that are visible. */
static void add_limits(const struct picture_claim *c, struct buf *out)
{
	for (size_t i = 0; i < c->n_gpus; i++)
		buf_fmt(out, "%s%zu=%lluM", i ? "," : "", i, (unsigned long long)mb_of(&c->gpu[i]));
}

static void add_place(const struct server_profile *p, const struct server_profile_place *at,
	size_t place, struct buf *out)
{
	switch ((enum place)place) {
	case GPU_UUIDS:
		add_uuids(at->claim, out);
		break;
	case MEMORY_MB:
		buf_u64(out, least_mb(at->claim));
		break;
	case MEMORY_LIMITS:
		add_limits(at->claim, out);
		break;
	case PERCENT:
		buf_u64(out, least_percent(at->claim));
		break;
	case PORT:
		buf_u64(out, p->port);
		break;
	case ADDRESS:
		buf_str(out, at->address);
		break;
	case CLAIM_DIR:
		buf_str(out, at->claim_dir);
		break;
	}
}

/* What a template gives, behind prefix. */
static char *fill(const struct server_profile *p, const struct server_profile_place *at,
	const char *prefix, struct slice text, struct arena *a)
{
	struct slice piece;
	struct buf out;
	size_t place;
	char *done;

	buf_init(&out, VALUE_MAX);
	buf_str(&out, prefix);
	while (text.len > 0 && next_piece(&text, &piece, &place)) {
		if (place < PLACES)
			add_place(p, at, place, &out);
		else
			buf_slice(&out, piece);
	}
	done = out.failed ? NULL : arena_strdup(a, buf_as_slice(&out));
	buf_release(&out);
	return done;
}

static bool is_uuid(const char *id)
{
	return (strncmp(id, "GPU-", 4) == 0 || strncmp(id, "MIG-", 4) == 0) && !strchr(id, ',');
}

static bool sets(const struct server_profile *p, const char *name)
{
	for (size_t i = 0; i < p->n_env; i++)
		if (strcmp(p->env[i].name, name) == 0)
			return true;
	return false;
}

static char **environment(
	const struct server_profile *p, const struct server_profile_place *at, struct arena *a)
{
	char **env = arena_array(a, p->n_env + 4, sizeof(*env)), *prefix;
	size_t n = 0;

	if (!env)
		return NULL;
	for (size_t i = 0; i < p->n_env; i++) {
		prefix = arena_fmt(a, "%s=", p->env[i].name);
		env[n++] = prefix ? fill(p, at, prefix, p->env[i].value, a) : NULL;
	}
	env[n++] = fill(p, at, DEVICES "=", SLICE("{gpu_uuids}"), a);
	if (!sets(p, "HOME"))
		env[n++] = fill(p, at, "HOME=", SLICE("{claim_dir}"), a);
	if (!sets(p, "PATH"))
		env[n++] = arena_strdup(a, SLICE("PATH=/usr/local/bin:/usr/bin:/bin"));
	for (size_t i = 0; i < n; i++)
		if (!env[i])
			return NULL;
	return env;
}

int server_profile_words(const struct server_profile *p, const struct server_profile_place *at,
	struct arena *a, char ***ret_argv, char ***ret_env, struct err *err)
{
	char **argv = arena_array(a, p->n_argv + 1, sizeof(*argv)), **env;

	for (size_t i = 0; i < at->claim->n_gpus; i++)
		if (!is_uuid(at->claim->gpu[i].id))
			return err_set(err, ERR_INVALID,
				"GPU %s is listed by hand, expected one that a probe knows by its "
				"UUID",
				at->claim->gpu[i].id);
	for (size_t i = 0; argv && i < p->n_argv; i++) {
		argv[i] = fill(p, at, "", p->argv[i], a);
		if (!argv[i])
			return no_memory(err);
	}
	env = environment(p, at, a);
	if (!argv || !env)
		return no_memory(err);
	*ret_argv = argv;
	*ret_env = env;
	return 0;
}
