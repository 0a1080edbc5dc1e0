/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: the command line. */
#include "deviceplugin/device_options.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define AWAY_MS 60000
#define AWAY_MAX_MS (24LL * 3600 * 1000)

static const char help[] =
	"usage: poolgate-device-plugin [options]\n"
	"\n"
	"Offers " PLUGIN_RESOURCE " on this node: tells the kubelet of units, each one percent of "
	"a\n"
	"GPU of the pool, for as long as the pool has GPUs that take claims. What is promised "
	"to\n"
	"whom is decided by poolgate's webhooks, not by the node.\n"
	"\n"
	"  --socket PATH          where the kubelet finds it, in the folder plugins_registry of "
	"its\n"
	"                         root [" DEVICE_SOCKET "]\n"
	"  --units N              offer so many [10 for each unit of the pool, 1000 at least]\n"
	"  --env NAME=VALUE       set this in each container that gets units; repeatable\n"
	"  --mount HOST:PATH[:ro] mount this into each container that gets units; repeatable\n"
	"  --kubeconfig FILE      how to reach the API server [the pod's service account]\n"
	"  --away DURATION        offer nothing when the API server is away for so long [60s]\n"
	"  --status ADDR:PORT     serve /livez, /readyz and /metrics there, or `none`\n"
	"                         [" DEVICE_STATUS "]\n"
	"  --log-format text|json [text]\n"
	"  --log-level error|warn|info|debug [info]\n"
	"  --version, --help\n"
	"\n"
	"Exit status: 0 ended by SIGTERM or SIGINT, 1 it could not serve, 2 wrong usage.\n";

static int bad(struct err *err, const char *name, const char *form, const char *found)
{
	return err_set(err, ERR_INVALID, "%s takes %s, found \"%s\"", name, form, found);
}

static int take_units(struct device_options *o, const char *value, struct err *err)
{
	uint64_t n;

	if (!text_u64(slice_of(value), PLUGIN_UNITS_MAX, &n) || n == 0)
		return bad(err, "--units", "a number from 1 to 150000", value);
	o->units = (uint32_t)n;
	return 0;
}

static int take_away(struct device_options *o, const char *value, struct err *err)
{
	if (!text_duration_ms(slice_of(value), &o->away_ms) || o->away_ms > AWAY_MAX_MS)
		return bad(err, "--away", "a duration up to 24h, as 60s", value);
	return 0;
}

static int take_status(struct device_options *o, const char *value, struct err *err)
{
	unsigned char address[sizeof(struct in6_addr)];
	char host[64];
	uint16_t port;
	int rc = 0;

	o->status = strcmp(value, "none") == 0 ? NULL : value;
	if (o->status)
		rc = text_host_port(slice_of(value), host, &port, err);
	if (rc == 0 && o->status && host[0] && inet_pton(AF_INET, host, address) != 1 &&
		inet_pton(AF_INET6, host, address) != 1)
		rc = bad(err, "--status", "ADDR:PORT with an address, or none", value);
	return rc;
}

static int take_text(const char **to, const char *name, const char *value, struct err *err)
{
	if (!value[0])
		return bad(err, name, "a path", value);
	*to = value;
	return 0;
}

/* One option with its value. */
static int take(struct device_options *o, struct log *log, struct slice name, const char *value,
	struct err *err)
{
	if (slice_is(name, "--socket"))
		return take_text(&o->socket, "--socket", value, err);
	if (slice_is(name, "--kubeconfig"))
		return take_text(&o->kubeconfig, "--kubeconfig", value, err);
	if (slice_is(name, "--units"))
		return take_units(o, value, err);
	if (slice_is(name, "--away"))
		return take_away(o, value, err);
	if (slice_is(name, "--status"))
		return take_status(o, value, err);
	if (slice_is(name, "--log-format"))
		return log_set_format(log, value, err);
	if (slice_is(name, "--log-level"))
		return log_set_level(log, value, err);
	if (slice_is(name, "--env"))
		o->envs[o->gives.n_envs++] = value;
	else
		o->mounts[o->gives.n_mounts++] = value;
	return 0;
}

static bool known(struct slice name)
{
	static const char *const names[] = {"--socket", "--kubeconfig", "--units", "--away",
		"--status", "--log-format", "--log-level", "--env", "--mount"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (slice_is(name, names[i]))
			return true;
	return false;
}

/* "--name value" or "--name=value"; *i moves on. */
static int read_one(
	struct device_options *o, struct log *log, int argc, char **argv, int *i, struct err *err)
{
	const char *word = argv[*i], *eq = strchr(word, '=');
	struct slice name = {word, eq ? (size_t)(eq - word) : strlen(word)};

	if (slice_is(name, "--help") && !eq) {
		o->answer = DEVICE_HELP;
		return 0;
	}
	if (slice_is(name, "--version") && !eq) {
		o->answer = DEVICE_VERSION;
		return 0;
	}
	if (!known(name))
		return err_set(err, ERR_INVALID, "unknown word \"%s\"", word);
	if (!eq && *i + 1 >= argc)
		return err_set(err, ERR_INVALID, "a value is missing after %s", word);
	return take(o, log, name, eq ? eq + 1 : argv[++*i], err);
}

int device_options_read(
	int argc, char **argv, struct device_options *ret, struct log *log, struct err *err)
{
	int rc = 0;

	*ret = (struct device_options){
		.socket = DEVICE_SOCKET, .status = DEVICE_STATUS, .away_ms = AWAY_MS};
	ret->envs = calloc((size_t)argc + 1, sizeof(*ret->envs));
	ret->mounts = calloc((size_t)argc + 1, sizeof(*ret->mounts));
	if (!ret->envs || !ret->mounts)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (int i = 1; i < argc && rc == 0 && ret->answer == DEVICE_RUN; i++)
		rc = read_one(ret, log, argc, argv, &i, err);
	ret->gives.envs = ret->envs;
	ret->gives.mounts = ret->mounts;
	return rc;
}

void device_options_release(struct device_options *o)
{
	free(o->envs);
	free(o->mounts);
	o->envs = o->mounts = NULL;
}

void device_options_help(FILE *out)
{
	(void)fputs(help, out);
}
