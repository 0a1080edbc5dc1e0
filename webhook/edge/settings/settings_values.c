/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what each flag of the command line says of the settings. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "webhook/core/launcher/config.h"
#include "webhook/edge/settings/settings_file.h"
#include "webhook/edge/settings/settings_flags.h"

void settings_note(struct settings *s, const char *fmt, ...)
{
	char text[256];
	const char *copy;
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	copy = arena_strdup(&s->arena, slice_of(text));
	if (copy && s->n_notes < SETTINGS_NOTES_MAX)
		s->notes[s->n_notes++] = copy;
}

static int bad_value(const struct flag *f, const char *expected, struct err *err)
{
	return err_set(err, ERR_SYNTAX, "flag %s: found \"%.100s\", expected %s", f->name, f->value,
		expected);
}

static int copy_value(struct settings *s, const struct flag *f, const char **ret, struct err *err)
{
	const char *copy;

	if (!*f->value)
		return bad_value(f, "a value that is not empty", err);
	copy = arena_strdup(&s->arena, slice_of(f->value));
	if (!copy)
		return err_set(err, ERR_NOMEM, "out of memory for the settings");
	*ret = copy;
	return 0;
}

int settings_flag_path(struct settings *s, const struct flag *f, const char **ret, struct err *err)
{
	int rc = copy_value(s, f, ret, err);

	if (rc == 0)
		settings_source_flag(s, *ret, f->name);
	return rc;
}

static int flag_listen(struct settings *s, const struct flag *f, bool can_be_off, const char **ret,
	struct err *err)
{
	struct err why = {0};

	if (can_be_off && strcmp(f->value, "off") == 0) {
		*ret = NULL;
		return 0;
	}
	if (settings_check_listen(slice_of(f->value), &why) != 0)
		return err_set(err, ERR_SYNTAX, "flag %s: %s%s", f->name, why.msg,
			can_be_off ? "; off for none" : "");
	return copy_value(s, f, ret, err);
}

static int flag_port(struct settings *s, const struct flag *f, struct err *err)
{
	const char *listen;
	uint64_t port;

	if (!text_u64(slice_of(f->value), UINT16_MAX, &port))
		return bad_value(f, "a port, 0 to 65535", err);
	listen = arena_fmt(&s->arena, ":%u", (unsigned)port);
	if (!listen)
		return err_set(err, ERR_NOMEM, "out of memory for the settings");
	s->listen = listen;
	return 0;
}

static int flag_duration(const struct flag *f, int64_t min_ms, int64_t max_ms, const char *expected,
	int64_t *ret, struct err *err)
{
	uint64_t n;
	int64_t ms;

	if (text_u64(slice_of(f->value), UINT32_MAX, &n) && n > 0)
		return err_set(err, ERR_SYNTAX,
			"flag %s: found \"%s\", did you mean %ss? expected %s", f->name, f->value,
			f->value, expected);
	if (!text_duration_ms(slice_of(f->value), &ms) || ms > max_ms || (ms < min_ms && ms != 0))
		return bad_value(f, expected, err);
	*ret = ms;
	return 0;
}

static int flag_count(
	const struct flag *f, uint64_t min, uint64_t max, unsigned *ret, struct err *err)
{
	uint64_t n;
	char expected[64];

	if (!text_u64(slice_of(f->value), max, &n) || n < min) {
		(void)snprintf(expected, sizeof(expected), "a whole number from %llu to %llu",
			(unsigned long long)min, (unsigned long long)max);
		return bad_value(f, expected, err);
	}
	*ret = (unsigned)n;
	return 0;
}

/* One of the words, which are constants: the setting points to them. */
static int flag_word(const struct flag *f, const char *const *words, const char *expected,
	const char **ret, struct err *err)
{
	for (; *words; words++)
		if (strcmp(f->value, *words) == 0) {
			*ret = *words;
			return 0;
		}
	return bad_value(f, expected, err);
}

static int flag_bool(const struct flag *f, bool *ret, struct err *err)
{
	static const char *const words[] = {"true", "false", NULL};
	const char *word = NULL;
	int rc = flag_word(f, words, "true or false", &word, err);

	if (rc == 0)
		*ret = word == words[0];
	return rc;
}

static int flag_total(struct settings *s, const struct flag *f, struct err *err)
{
	struct err why = {0};

	if (config_total_memory(slice_of(f->value), &s->total_gpu_mb, &why) != 0)
		return err_set(err, ERR_SYNTAX, "flag %s: %s", f->name, why.msg);
	s->total_gpu_from = "the command line";
	return 0;
}

static int flag_launchers(struct settings *s, const struct flag *f, struct err *err)
{
	if (s->n_launchers == SETTINGS_LAUNCHERS_MAX)
		return err_set(err, ERR_SYNTAX, "flag %s: more than %d times", f->name,
			SETTINGS_LAUNCHERS_MAX);
	return settings_flag_path(s, f, &s->launchers[s->n_launchers++], err);
}

static int flag_client_name(struct settings *s, const struct flag *f, struct err *err)
{
	if (!settings_check_client_name(slice_of(f->value)))
		return bad_value(f, "a common name of 1 to 255 bytes", err);
	if (s->n_client_names == TLS_TRUST_NAMES_MAX)
		return err_set(err, ERR_SYNTAX, "flag %s: more than %d times", f->name,
			TLS_TRUST_NAMES_MAX);
	return copy_value(s, f, &s->client_names[s->n_client_names++], err);
}

static int apply_text(struct settings *s, const struct flag *f, struct err *err)
{
	static const char *const formats[] = {"text", "json", NULL};
	static const char *const levels[] = {"error", "warn", "info", "debug", NULL};

	switch ((int)f->id) {
	case FLAG_CONFIG:
		return 0; /* was read before */
	case FLAG_TLS_CERT:
		return settings_flag_path(s, f, &s->tls_cert, err);
	case FLAG_TLS_KEY:
		return settings_flag_path(s, f, &s->tls_key, err);
	case FLAG_CLIENT_CA:
		return settings_flag_path(s, f, &s->client_ca, err);
	case FLAG_CLIENT_NAME:
		return flag_client_name(s, f, err);
	case FLAG_CLIENT_CATALOGUE:
		return settings_flag_path(s, f, &s->client_catalogue, err);
	case FLAG_SIDECAR_CONFIG:
		return settings_flag_path(s, f, &s->sidecar_config, err);
	case FLAG_CLIENT_SHELL:
		return settings_check_shell(slice_of(f->value))
			       ? copy_value(s, f, &s->client_shell, err)
			       : bad_value(f, "one word, such as /bin/bash", err);
	case FLAG_LAUNCHERS:
		return flag_launchers(s, f, err);
	case FLAG_DEFAULT_LAUNCHER:
		return copy_value(s, f, &s->default_launcher, err);
	case FLAG_POOL:
		return settings_flag_path(s, f, &s->pool, err);
	case FLAG_POLICIES:
		return settings_flag_path(s, f, &s->policies, err);
	case FLAG_KUBECONFIG:
		s->cluster.on = true;
		return settings_flag_path(s, f, &s->cluster.kubeconfig, err);
	case FLAG_NAMESPACE:
		return copy_value(s, f, &s->cluster.namespace, err);
	case FLAG_LOG_FORMAT:
		return flag_word(f, formats, "text or json", &s->log_format, err);
	default:
		return flag_word(f, levels, "error, warn, info or debug", &s->log_level, err);
	}
}

int settings_flag_apply(struct settings *s, const struct flag *f, struct err *err)
{
	switch (f->id) {
	case FLAG_LISTEN:
		return flag_listen(s, f, false, &s->listen, err);
	case FLAG_PORT:
		return flag_port(s, f, err);
	case FLAG_LISTEN_PLAIN:
		return flag_listen(s, f, true, &s->listen_plain, err);
	case FLAG_LISTEN_ADMIN:
		return flag_listen(s, f, true, &s->listen_admin, err);
	case FLAG_CLAIM_TTL:
		return flag_duration(f, 0, CLAIM_TTL_MAX_MS,
			"a duration such as 24h, or 0 for claims without an end", &s->claim_ttl_ms,
			err);
	case FLAG_DRAIN_DELAY:
		return flag_duration(f, 0, DRAIN_DELAY_MAX_MS, "a duration from 0 to 10m",
			&s->drain_delay_ms, err);
	case FLAG_RELOAD_INTERVAL:
		return flag_duration(f, RELOAD_MIN_MS, RELOAD_MAX_MS,
			"a duration from 100ms to 1h, or 0 for SIGHUP alone",
			&s->reload_interval_ms, err);
	case FLAG_TOTAL_GPU_MEMORY:
		return flag_total(s, f, err);
	case FLAG_NODE_RESOURCE:
		return flag_bool(f, &s->node_resource, err);
	case FLAG_SECRET_WITHOUT_CLAIM:
		return flag_bool(f, &s->secret_without_claim, err);
	case FLAG_WORKERS:
		return flag_count(f, 0, WORKERS_MAX, &s->workers, err);
	case FLAG_MAX_CONNECTIONS:
		return flag_count(f, 1, CONNECTIONS_MAX, &s->max_connections, err);
	case FLAG_CHECK:
		s->check = true;
		return 0;
	case FLAG_CLUSTER:
		s->cluster.on = true;
		return 0;
	case FLAG_HELP:
		return 0;
	case FLAG_IGNORED:
		if (f->name[0] == '2')
			settings_note(s,
				"the argument %s is shell syntax that no shell has seen: ignored",
				f->name);
		else
			settings_note(s,
				"flag %s has no effect here: see --log-level and --log-format",
				f->name);
		return 0;
	case FLAG_CONFIG:
	case FLAG_TLS_CERT:
	case FLAG_TLS_KEY:
	case FLAG_CLIENT_CA:
	case FLAG_CLIENT_NAME:
	case FLAG_CLIENT_CATALOGUE:
	case FLAG_SIDECAR_CONFIG:
	case FLAG_CLIENT_SHELL:
	case FLAG_LAUNCHERS:
	case FLAG_DEFAULT_LAUNCHER:
	case FLAG_POOL:
	case FLAG_POLICIES:
	case FLAG_KUBECONFIG:
	case FLAG_NAMESPACE:
	case FLAG_LOG_FORMAT:
	case FLAG_LOG_LEVEL:
		return apply_text(s, f, err);
	}
	return 0;
}
