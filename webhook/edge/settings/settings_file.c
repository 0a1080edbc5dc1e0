/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the config file, key by key. */
#include "webhook/edge/settings/settings_file.h"

#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "base/yaml/yaml.h"
#include "base/yaml/yaml_config.h"
#include "net/listener.h"
#include "webhook/core/launcher/config.h"
#include "webhook/core/launcher/launcher_load.h"

static int out_of_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory for the settings");
}

static int copy(struct settings *s, struct slice text, const char **ret, struct err *err)
{
	const char *c = arena_strdup(&s->arena, text);

	if (!c)
		return out_of_memory(err);
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

int settings_listen(const struct yaml_node *map, const char *key, bool can_be_off,
	struct settings *s, const char **ret, struct err *err)
{
	const struct yaml_node *node = yaml_get(map, key);
	struct err why = {0};
	struct slice text = {0};
	bool on = true;
	int rc;

	if (yaml_absent(node))
		return 0;
	if (can_be_off &&
		(yaml_is_str(node, "off") || (yaml_as_bool(node, &on, &why) == 0 && !on))) {
		*ret = NULL;
		return 0;
	}
	if ((rc = yaml_as_str(node, &text, err)) != 0)
		return rc;
	if (settings_check_listen(text, &why) != 0)
		return yaml_err(node, err, ERR_INVALID, "%s%s", why.msg,
			can_be_off ? "; off for none" : "");
	return copy(s, text, ret, err);
}

static int path_at(const struct yaml_node *node, struct settings *s, const char *config,
	const char **ret, struct err *err)
{
	const char *slash = strrchr(config, '/'), *path;
	struct slice text;
	int rc = yaml_as_str(node, &text, err);

	if (rc != 0)
		return rc;
	if (text.len == 0 || memchr(text.at, '\0', text.len))
		return yaml_err(node, err, ERR_INVALID, "found no text, expected a path");
	if (text.at[0] == '/' || !slash)
		path = arena_strdup(&s->arena, text);
	else
		path = arena_fmt(&s->arena, "%.*s/%.*s", (int)(slash - config), config,
			(int)text.len, text.at);
	if (!path)
		return out_of_memory(err);
	settings_source_node(s, path, node);
	*ret = path;
	return 0;
}

int settings_path(const struct yaml_node *map, const char *key, struct settings *s,
	const char *config, const char **ret, struct err *err)
{
	const struct yaml_node *node = yaml_get(map, key);

	return yaml_absent(node) ? 0 : path_at(node, s, config, ret, err);
}

bool settings_check_client_name(struct slice text)
{
	return text.len > 0 && text.len <= CLIENT_NAME_MAX && !memchr(text.at, 0, text.len);
}

bool settings_check_shell(struct slice text)
{
	struct slice rest = text, word;

	return text_word(&rest, &word) && word.len == text.len && !memchr(text.at, 0, text.len);
}

static int read_shell(const struct yaml_node *root, struct settings *s, struct err *err)
{
	struct slice text = {0};
	char found[80];
	int rc = yaml_get_str(root, "clientShell", &text, err);

	if (rc != 0 || !text.at)
		return rc;
	if (!settings_check_shell(text))
		return yaml_err(yaml_get(root, "clientShell"), err, ERR_INVALID,
			"found %s, expected one word, such as /bin/bash",
			yaml_found(yaml_get(root, "clientShell"), found));
	return copy(s, text, &s->client_shell, err);
}

/* A list of at most so many of what it says. */
static int as_seq(const struct yaml_node *seq, int most, const char *what, struct err *err)
{
	int rc = yaml_as_seq(seq, err);

	if (rc == 0 && seq->count > (unsigned)most)
		rc = yaml_err(seq, err, ERR_INVALID, "found %u %s, expected at most %d", seq->count,
			what, most);
	return rc;
}

static int read_client_names(const struct yaml_node *tls, struct settings *s, struct err *err)
{
	const struct yaml_node *seq = yaml_get(tls, "clientNames");
	struct slice text = {0};
	int rc;

	if (yaml_absent(seq))
		return 0;
	if ((rc = as_seq(seq, TLS_TRUST_NAMES_MAX, "names", err)) != 0)
		return rc;
	YAML_EACH(seq, node)
	{
		if ((rc = yaml_as_str(node, &text, err)) != 0)
			return rc;
		if (!settings_check_client_name(text))
			return yaml_err(node, err, ERR_INVALID,
				"found no text of 1 to %d bytes, expected a common name",
				CLIENT_NAME_MAX);
		rc = copy(s, text, &s->client_names[s->n_client_names++], err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int read_tls(
	const struct yaml_node *root, struct settings *s, const char *config, struct err *err)
{
	const struct yaml_node *tls = yaml_get(root, "tls");
	int rc;

	if ((rc = yaml_known(tls, err, "cert", "key", "clientCA", "clientNames", NULL)) != 0 ||
		(rc = settings_path(tls, "cert", s, config, &s->tls_cert, err)) != 0 ||
		(rc = settings_path(tls, "clientCA", s, config, &s->client_ca, err)) != 0 ||
		(rc = read_client_names(tls, s, err)) != 0)
		return rc;
	return settings_path(tls, "key", s, config, &s->tls_key, err);
}

static int read_launchers(
	const struct yaml_node *root, struct settings *s, const char *config, struct err *err)
{
	const struct yaml_node *seq = yaml_get(root, "launchers");
	int rc;

	if (yaml_absent(seq))
		return 0;
	if ((rc = as_seq(seq, SETTINGS_LAUNCHERS_MAX, "paths", err)) != 0)
		return rc;
	s->n_launchers = 0;
	YAML_EACH(seq, node)
	{
		rc = path_at(node, s, config, &s->launchers[s->n_launchers], err);
		if (rc != 0)
			return rc;
		s->n_launchers++;
	}
	return 0;
}

static int read_total(
	const struct yaml_node *root, struct settings *s, const char *config, struct err *err)
{
	const struct yaml_node *node = yaml_get(root, "totalGpuMemory");
	struct err why = {0};
	struct slice text = {0};
	int rc;

	if (yaml_absent(node))
		return 0;
	if ((rc = yaml_as_text(node, &text, err)) != 0)
		return rc;
	if (config_total_memory(text, &s->total_gpu_mb, &why) != 0)
		return yaml_err(node, err, ERR_INVALID, "%s", why.msg);
	return copy(s, slice_of(config), &s->total_gpu_from, err);
}

static int read_log(const struct yaml_node *root, struct settings *s, struct err *err)
{
	static const char *const formats[] = {"text", "json"};
	static const char *const levels[] = {"error", "warn", "info", "debug"};
	const struct yaml_node *map = yaml_get(root, "log");
	size_t choice = 0;
	int rc;

	if ((rc = yaml_known(map, err, "format", "level", NULL)) != 0 ||
		(rc = yaml_get_choice(map, "format", formats, 2, &choice, err)) != 0)
		return rc;
	if (!yaml_absent(yaml_get(map, "format")))
		s->log_format = formats[choice];
	if ((rc = yaml_get_choice(map, "level", levels, 4, &choice, err)) != 0)
		return rc;
	if (!yaml_absent(yaml_get(map, "level")))
		s->log_level = levels[choice];
	return 0;
}

static int read_numbers(const struct yaml_node *root, struct settings *s, struct err *err)
{
	int64_t workers = s->workers == WORKERS_UNSET ? -1 : (int64_t)s->workers,
		connections = s->max_connections;
	int64_t reload = s->reload_interval_ms;
	int rc;

	if ((rc = yaml_get_duration(
		     root, "claimTtl", 0, CLAIM_TTL_MAX_MS, &s->claim_ttl_ms, err)) != 0 ||
		(rc = yaml_get_duration(root, "drainDelay", 0, DRAIN_DELAY_MAX_MS,
			 &s->drain_delay_ms, err)) != 0 ||
		(rc = yaml_get_duration(root, "reloadInterval", 0, RELOAD_MAX_MS, &reload, err)) !=
			0 ||
		(rc = yaml_get_int(root, "workers", 0, WORKERS_MAX, &workers, err)) != 0 ||
		(rc = yaml_get_int(
			 root, "maxConnections", 1, CONNECTIONS_MAX, &connections, err)) != 0 ||
		(rc = yaml_get_bool(root, "nodeResource", &s->node_resource, err)) != 0 ||
		(rc = yaml_get_bool(root, "secretWithoutClaim", &s->secret_without_claim, err)) !=
			0)
		return rc;
	if (reload > 0 && reload < RELOAD_MIN_MS)
		return yaml_err(yaml_get(root, "reloadInterval"), err, ERR_INVALID,
			"found %lld ms, expected 0 (SIGHUP alone) or 100ms to 1h",
			(long long)reload);
	s->reload_interval_ms = reload;
	if (workers >= 0)
		s->workers = (unsigned)workers;
	s->max_connections = (unsigned)connections;
	return 0;
}

static int check_head(const struct yaml_node *root, struct err *err)
{
	static const char *const keys[] = {"apiVersion", "kind", "listen", "listenPlain",
		"listenAdmin", "tls", "clientCatalogue", "sidecarConfig", "clientShell",
		"launchers", "defaultLauncher", "pool", "policies", "claimTtl", "totalGpuMemory",
		"nodeResource", "secretWithoutClaim", "drainDelay", "log", "workers",
		"maxConnections", "reloadInterval", "registries", "cluster"};
	struct yaml_node *node;
	char found[80];
	int rc;

	if ((rc = yaml_as_map(root, err)) != 0 ||
		(rc = yaml_need_as(root, "apiVersion", POOLGATE_API_VERSION, &node, err)) != 0)
		return rc;
	if (!yaml_is_str(node, POOLGATE_API_VERSION))
		return yaml_err(node, err, ERR_INVALID, "found %s, expected %s",
			yaml_found(node, found), POOLGATE_API_VERSION);
	if ((rc = yaml_need_as(root, "kind", CONFIG_KIND, &node, err)) != 0)
		return rc;
	if (!yaml_is_str(node, CONFIG_KIND))
		return yaml_err(node, err, ERR_INVALID, "found %s, expected %s",
			yaml_found(node, found), CONFIG_KIND);
	return yaml_known_list(root, keys, sizeof(keys) / sizeof(keys[0]), err);
}

static int apply(
	struct settings *s, const struct yaml_node *root, const char *config, struct err *err)
{
	struct slice launcher = {0};
	int rc;

	if ((rc = check_head(root, err)) != 0 ||
		(rc = settings_listen(root, "listen", false, s, &s->listen, err)) != 0 ||
		(rc = settings_listen(root, "listenPlain", true, s, &s->listen_plain, err)) != 0 ||
		(rc = settings_listen(root, "listenAdmin", true, s, &s->listen_admin, err)) != 0 ||
		(rc = read_tls(root, s, config, err)) != 0 ||
		(rc = settings_path(
			 root, "clientCatalogue", s, config, &s->client_catalogue, err)) != 0 ||
		(rc = settings_path(root, "sidecarConfig", s, config, &s->sidecar_config, err)) !=
			0 ||
		(rc = read_shell(root, s, err)) != 0 ||
		(rc = settings_path(root, "pool", s, config, &s->pool, err)) != 0 ||
		(rc = settings_path(root, "policies", s, config, &s->policies, err)) != 0 ||
		(rc = read_launchers(root, s, config, err)) != 0 ||
		(rc = settings_registries(root, s, config, err)) != 0 ||
		(rc = settings_cluster(root, s, config, err)) != 0 ||
		(rc = read_total(root, s, config, err)) != 0 ||
		(rc = read_log(root, s, err)) != 0 || (rc = read_numbers(root, s, err)) != 0 ||
		(rc = yaml_get_str(root, "defaultLauncher", &launcher, err)) != 0)
		return rc;
	return launcher.at ? copy(s, launcher, &s->default_launcher, err) : 0;
}

int settings_text(struct settings *s, const char *path, struct slice text, struct err *err)
{
	struct yaml_stream stream = {0};
	struct arena tree;
	int rc;

	arena_init(&tree, YAML_ARENA_MAX);
	rc = yaml_parse(&tree, path, text, YAML_NO_ALIASES, &stream, err);
	if (rc == 0 && stream.count != 1)
		rc = err_set(err, ERR_INVALID, "%s: found %zu documents, expected one", path,
			stream.count);
	if (rc == 0)
		rc = apply(s, stream.first->root, path, err);
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
