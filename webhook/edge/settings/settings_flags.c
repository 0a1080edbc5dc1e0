/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the server's command line. One dash and two mean the same, as with Go's flag package, which
 * the origin used. */
#include "webhook/edge/settings/settings_flags.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum takes {
	TAKES_VALUE,
	TAKES_NONE,
	TAKES_BOOL /* true when alone; a value only behind '=', as Go's boolean flags */
};

struct row {
	const char *name;
	enum flag_id id;
	enum takes takes;
};

static const struct row rows[] = {
	{"config", FLAG_CONFIG, TAKES_VALUE},
	{"listen", FLAG_LISTEN, TAKES_VALUE},
	{"listen-plain", FLAG_LISTEN_PLAIN, TAKES_VALUE},
	{"listen-admin", FLAG_LISTEN_ADMIN, TAKES_VALUE},
	{"tls-cert", FLAG_TLS_CERT, TAKES_VALUE},
	{"tls-key", FLAG_TLS_KEY, TAKES_VALUE},
	{"client-ca", FLAG_CLIENT_CA, TAKES_VALUE},
	{"client-name", FLAG_CLIENT_NAME, TAKES_VALUE},
	{"client-catalogue", FLAG_CLIENT_CATALOGUE, TAKES_VALUE},
	{"sidecar-config", FLAG_SIDECAR_CONFIG, TAKES_VALUE},
	{"client-shell", FLAG_CLIENT_SHELL, TAKES_VALUE},
	{"launchers", FLAG_LAUNCHERS, TAKES_VALUE},
	{"default-launcher", FLAG_DEFAULT_LAUNCHER, TAKES_VALUE},
	{"pool", FLAG_POOL, TAKES_VALUE},
	{"policies", FLAG_POLICIES, TAKES_VALUE},
	{"cluster", FLAG_CLUSTER, TAKES_NONE},
	{"kubeconfig", FLAG_KUBECONFIG, TAKES_VALUE},
	{"namespace", FLAG_NAMESPACE, TAKES_VALUE},
	{"claim-ttl", FLAG_CLAIM_TTL, TAKES_VALUE},
	{"total-gpu-memory", FLAG_TOTAL_GPU_MEMORY, TAKES_VALUE},
	{"node-resource", FLAG_NODE_RESOURCE, TAKES_VALUE},
	{"secret-without-claim", FLAG_SECRET_WITHOUT_CLAIM, TAKES_VALUE},
	{"log-format", FLAG_LOG_FORMAT, TAKES_VALUE},
	{"log-level", FLAG_LOG_LEVEL, TAKES_VALUE},
	{"workers", FLAG_WORKERS, TAKES_VALUE},
	{"max-connections", FLAG_MAX_CONNECTIONS, TAKES_VALUE},
	{"drain-delay", FLAG_DRAIN_DELAY, TAKES_VALUE},
	{"reload-interval", FLAG_RELOAD_INTERVAL, TAKES_VALUE},
	{"check", FLAG_CHECK, TAKES_NONE},
	{"help", FLAG_HELP, TAKES_NONE},
	{"h", FLAG_HELP, TAKES_NONE},
	/* the origin's */
	{"port", FLAG_PORT, TAKES_VALUE},
	{"tlsCertFile", FLAG_TLS_CERT, TAKES_VALUE},
	{"tlsKeyFile", FLAG_TLS_KEY, TAKES_VALUE},
	{"sidecarCfgFile", FLAG_SIDECAR_CONFIG, TAKES_VALUE},
	{"bitfusionClientConfig", FLAG_CLIENT_CATALOGUE, TAKES_VALUE},
	/* glog's, which the origin's manifests set */
	{"v", FLAG_IGNORED, TAKES_VALUE},
	{"alsologtostderr", FLAG_IGNORED, TAKES_BOOL},
	{"logtostderr", FLAG_IGNORED, TAKES_BOOL},
	{"stderrthreshold", FLAG_IGNORED, TAKES_VALUE},
	{"vmodule", FLAG_IGNORED, TAKES_VALUE},
	{"log_dir", FLAG_IGNORED, TAKES_VALUE},
	{"log_backtrace_at", FLAG_IGNORED, TAKES_VALUE},
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))
static int unknown(const char *word, const char *name, size_t len, struct err *err)
{
	const char *names[N_ROWS], *meant;

	for (size_t i = 0; i < N_ROWS; i++)
		names[i] = rows[i].name;
	meant = text_nearest((struct slice){name, len}, names, N_ROWS);
	if (meant)
		return err_set(err, ERR_SYNTAX, "unknown flag %.*s, did you mean --%s?",
			(int)((size_t)(name - word) + len), word, meant);
	return err_set(err, ERR_SYNTAX, "unknown flag %.*s; `poolgate serve --help` lists them",
		(int)((size_t)(name - word) + len), word);
}

static const struct row *find(const char *name, size_t len)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0)
			return &rows[i];
	return NULL;
}

int flag_next(int argc, char *const *argv, int *index, char buf[static 64], struct flag *ret,
	struct err *err)
{
	const char *word, *name, *equals;
	const struct row *row;
	size_t len;

	if (*index >= argc)
		return 0;
	word = argv[(*index)++];
	if (strcmp(word, "2>&1") == 0) {
		*ret = (struct flag){FLAG_IGNORED, word, NULL};
		return 1;
	}
	name = word + strspn(word, "-");
	if (name == word || name - word > 2 || *name == '\0')
		return err_set(
			err, ERR_SYNTAX, "found \"%s\", expected a flag such as --config", word);
	equals = strchr(name, '=');
	len = equals ? (size_t)(equals - name) : strlen(name);
	row = find(name, len);
	if (!row)
		return unknown(word, name, len, err);
	(void)snprintf(buf, 64, "%.*s", (int)((size_t)(name - word) + len), word);
	*ret = (struct flag){row->id, buf, equals ? equals + 1 : NULL};
	if (row->takes == TAKES_NONE && equals)
		return err_set(err, ERR_SYNTAX, "flag %s takes no value", buf);
	if (row->takes == TAKES_VALUE && !equals) {
		if (*index >= argc)
			return err_set(err, ERR_SYNTAX, "flag %s needs a value", buf);
		ret->value = argv[(*index)++];
	}
	return 1;
}
