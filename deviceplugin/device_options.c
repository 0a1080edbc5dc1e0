/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: the command line. */
#include "deviceplugin/device_options.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "base/text.h"

#define AWAY_MS 60000
#define AWAY_MAX_MS (24LL * 3600 * 1000)

static int take_status(const struct opt *row, const char *value, void *of, struct err *err)
{
	struct device_options *o = of;
	unsigned char address[sizeof(struct in6_addr)];
	char host[64];
	uint16_t port;
	int rc = 0;

	o->status = strcmp(value, "none") == 0 ? NULL : value;
	if (o->status)
		rc = text_host_port(slice_of(value), host, &port, err);
	if (rc == 0 && o->status && host[0] && inet_pton(AF_INET, host, address) != 1 &&
		inet_pton(AF_INET6, host, address) != 1)
		rc = opts_wrong(row, "ADDR:PORT with an address, or none", value, err);
	return rc;
}

static int take_env(const struct opt *row, const char *value, void *of, struct err *err)
{
	struct device_options *o = of;

	(void)row;
	(void)err;
	o->envs[o->gives.n_envs++] = value;
	return 0;
}

static int take_mount(const struct opt *row, const char *value, void *of, struct err *err)
{
	struct device_options *o = of;

	(void)row;
	(void)err;
	o->mounts[o->gives.n_mounts++] = value;
	return 0;
}

static const struct opt options[] = {
	OPT_TEXT(device_options, socket, "--socket", "PATH",
		"where the kubelet finds it, in the folder plugins_registry of its\n"
		"root [" DEVICE_SOCKET "]",
		.form = "a path"),
	OPT_UNSIGNED(device_options, units, "--units", "N",
		"offer so many [10 for each unit of the pool, 1000 at least]", .min = 1,
		.max = PLUGIN_UNITS_MAX),
	OPT_OWN(take_env, "--env", "NAME=VALUE",
		"set this in each container that gets units; repeatable"),
	OPT_OWN(take_mount, "--mount", "HOST:PATH[:ro]",
		"mount this into each container that gets units; repeatable"),
	OPT_TEXT(device_options, kubeconfig, "--kubeconfig", "FILE",
		"how to reach the API server [the pod's service account]", .form = "a path"),
	OPT_MS(device_options, away_ms, "--away", "DURATION",
		"offer nothing when the API server is away for so long [60s]", .max = AWAY_MAX_MS,
		.form = "a duration up to 24h, as 60s"),
	OPT_OWN(take_status, "--status", "ADDR:PORT",
		"serve /livez, /readyz and /metrics there, or `none`\n[" DEVICE_STATUS "]"),
	OPT_LOG(device_options, log),
	OPT_ANSWER(device_options, answer, DEVICE_VERSION, "--version", ""),
	OPT_ANSWER(device_options, answer, DEVICE_HELP, "--help", ""),
};

#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

int device_options_read(
	int argc, char **argv, struct device_options *ret, struct log *log, struct err *err)
{
	int rc;

	*ret = (struct device_options){
		.socket = DEVICE_SOCKET, .status = DEVICE_STATUS, .away_ms = AWAY_MS, .log = log};
	ret->envs = calloc((size_t)argc + 1, sizeof(*ret->envs));
	ret->mounts = calloc((size_t)argc + 1, sizeof(*ret->mounts));
	if (!ret->envs || !ret->mounts)
		return err_set(err, ERR_NOMEM, "out of memory");
	rc = opts_read(options, N_OPTIONS, ret, &ret->answer, argc, argv, err);
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
	(void)fputs("usage: poolgate-device-plugin [options]\n"
		    "\n"
		    "Offers " PLUGIN_RESOURCE " on this node: tells the kubelet of units, each one "
		    "percent of a\n"
		    "GPU of the pool, for as long as the pool has GPUs that take claims. What is "
		    "promised to\n"
		    "whom is decided by poolgate's webhooks, not by the node.\n"
		    "\n",
		out);
	opts_help(options, N_OPTIONS, 25, out);
	(void)fputs("\n"
		    "Exit status: 0 ended by SIGTERM or SIGINT, 1 it could not serve, 2 wrong "
		    "usage.\n",
		out);
}
