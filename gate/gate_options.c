/* SPDX-License-Identifier: Apache-2.0 */
/* gate: the command lines, each a table of its options. */
#include "gate/gate_options.h"

#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "base/text.h"

#define AWAY_MS 600000
#define AWAY_MAX_MS 86400000
#define TRIES 30
#define LOOK_MS 5000
#define CONNECTIONS 1000

#define TEXT(tag, member, ...) OPT_TEXT(gate_##tag##_options, member, __VA_ARGS__)
#define MS(tag, member, ...)                                                                       \
	OPT_MS(gate_##tag##_options, member, __VA_ARGS__, .max = AWAY_MAX_MS,                      \
		.form = "a duration up to 24h")
/* What each has, which the help tells once. */
#define EACH(tag)                                                                                  \
	OPT_ROW(OPT_KIND_LOG_FORMAT, gate_##tag##_options, log, struct log *, "--log-format", "",  \
		NULL),                                                                             \
		OPT_ROW(OPT_KIND_LOG_LEVEL, gate_##tag##_options, log, struct log *,               \
			"--log-level", "", NULL),                                                  \
		OPT_ANSWER(gate_##tag##_options, answer, GATE_HELP, "--help", NULL)
#define CONNECTIONS_OF(tag)                                                                        \
	OPT_UNSIGNED(gate_##tag##_options, connections, "--connections", "N",                      \
		"at the same time (1000)", .min = 1, .max = GATE_CONNECTIONS_MAX)
#define NVML "another library than the driver's (libnvidia-ml.so.1)"

static const struct opt serve_rows[] = {
	TEXT(serve, server, "--server", "NAME", "the GPUServer that this machine is"),
	TEXT(serve, listen, "--listen", "ADDR:PORT",
		"where pods' ends connect to (" GATE_LISTEN ")"),
	TEXT(serve, cert, "--cert", "FILE", "the certificate; read again when it changes"),
	TEXT(serve, key, "--key", "FILE", "its key; read again when it changes"),
	TEXT(serve, profile, "--profile", "FILE",
		"the ServerProfile: how a server process is started"),
	TEXT(serve, state, "--state", "DIR",
		"what a gate that comes back finds its servers by (" GATE_STATE ")"),
	TEXT(serve, kubeconfig, "--kubeconfig", "FILE",
		"how the API server is reached (as a pod's service account)"),
	MS(serve, away_ms, "--away", "DURATION",
		"so long a pod that was reviewed comes again while the API server\n"
		"cannot be asked; 0: it does not (10m)"),
	OPT_UNSIGNED(gate_serve_options, tries, "--tries", "N",
		"failed tries that a peer has in a minute; 0: any number (30)", .max = 6000),
	CONNECTIONS_OF(serve),
	TEXT(serve, status, "--status", "ADDR:PORT",
		"/livez, /readyz, /metrics and /usage; none: not served (" GATE_STATUS ")"),
	MS(serve, look_ms, "--look", "DURATION",
		"between two looks at what is used of the GPUs; 0: nobody looks (5s)"),
	TEXT(serve, nvml, "--nvml", "FILE", NVML),
	TEXT(serve, tell, "--tell", "ADDR:PORT",
		"the same as --status over TLS, for poolgate's leader (spec.gate.url); needs"),
	TEXT(serve, tell_token, "--tell-token", "FILE",
		"the bearer token that it must show; read for each question"),
	EACH(serve),
};

static const struct opt connect_rows[] = {
	TEXT(connect, servers, "--servers", "LIST",
		"the gates, in the order of their ports (" GATE_SERVERS_VARIABLE ")"),
	OPT_PORT(gate_connect_options, port, "--port", "N", "the first server's port here (14840)",
		.min = 1, .max = 65535 - GATE_SERVERS_MAX),
	TEXT(connect, ca, "--ca", "FILE",
		"the CAs that signed the gates' certificates (" GATE_CA ")"),
	TEXT(connect, name, "--name", "NAME",
		"what the certificates are for (the host that is dialled)"),
	TEXT(connect, token, "--token", "FILE", "the projected token (" GATE_TOKEN ")"),
	CONNECTIONS_OF(connect),
	EACH(connect),
};

static const struct opt gpus_rows[] = {
	MS(gpus, every_ms, "--every", "DURATION",
		"again and again, with so long between; 0: once (0)"),
	TEXT(gpus, nvml, "--nvml", "FILE", NVML),
	EACH(gpus),
};

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

void gate_help(FILE *out)
{
	(void)fputs("usage: gpugate serve --server NAME --cert FILE --key FILE --profile FILE "
		    "[OPTION ...]\n"
		    "       gpugate connect [--servers HOST:PORT[,HOST:PORT ...]] [OPTION ...]\n"
		    "       gpugate check [--servers LIST] [--port N]\n"
		    "       gpugate gpus [--every DURATION] [--nvml FILE]\n"
		    "       gpugate --help | --version\n"
		    "\n"
		    "serve, on a GPU server, lets in whose pod holds a claim on it, to a server "
		    "process of its own:\n",
		out);
	opts_help(serve_rows, COUNT(serve_rows), 25, out);
	(void)fputs("\n"
		    "connect, in the pod, carries bytes from 127.0.0.1 to the gates, one port a "
		    "server:\n",
		out);
	opts_help(connect_rows, COUNT(connect_rows), 25, out);
	(void)fputs("\n"
		    "check, in the pod, ends with status 0 when connect listens at all of its "
		    "ports.\n"
		    "\n"
		    "gpus, on a GPU server, prints what the library tells of who uses the GPUs, as "
		    "a line of JSON:\n",
		out);
	opts_help(gpus_rows, COUNT(gpus_rows), 25, out);
	(void)fputs("\n"
		    "each:\n"
		    "  --log-format text|json (text)   --log-level error|warn|info|debug (info)\n",
		out);
}

static int need(const char *value, const char *name, struct err *err)
{
	return value ? 0 : err_set(err, ERR_INVALID, "%s is missing", name);
}

int gate_serve_options_read(
	int argc, char **argv, struct gate_serve_options *ret, struct log *log, struct err *err)
{
	int rc;

	*ret = (struct gate_serve_options){.listen = GATE_LISTEN,
		.status = GATE_STATUS,
		.state = GATE_STATE,
		.away_ms = AWAY_MS,
		.tries = TRIES,
		.connections = CONNECTIONS,
		.look_ms = LOOK_MS,
		.log = log};
	rc = opts_read(serve_rows, COUNT(serve_rows), ret, &ret->answer, argc, argv, err);
	if (rc != 0 || ret->answer == GATE_HELP)
		return rc;
	if (strcmp(ret->status, "none") == 0)
		ret->status = NULL;
	if ((rc = need(ret->server, "--server", err)) != 0 ||
		(rc = need(ret->cert, "--cert", err)) != 0 ||
		(rc = need(ret->key, "--key", err)) != 0)
		return rc;
	if (!text_dns_subdomain(slice_of(ret->server)))
		return err_set(err, ERR_INVALID, "--server takes a GPUServer's name, found \"%s\"",
			ret->server);
	if (!ret->tell != !ret->tell_token)
		return err_set(err, ERR_INVALID, "--tell and --tell-token go together");
	return need(ret->profile, "--profile", err);
}

int gate_connect_options_read(
	int argc, char **argv, struct gate_connect_options *ret, struct log *log, struct err *err)
{
	int rc;

	*ret = (struct gate_connect_options){.ca = GATE_CA,
		.token = GATE_TOKEN,
		.port = GATE_PORT,
		.connections = CONNECTIONS,
		.log = log};
	rc = opts_read(connect_rows, COUNT(connect_rows), ret, &ret->answer, argc, argv, err);
	if (rc != 0 || ret->answer == GATE_HELP)
		return rc;
	if (!ret->servers)
		ret->servers = getenv(GATE_SERVERS_VARIABLE);
	return ret->servers && *ret->servers
		       ? 0
		       : err_set(err, ERR_INVALID,
				 "--servers is missing, and the variable " GATE_SERVERS_VARIABLE
				 " holds none");
}

int gate_gpus_options_read(
	int argc, char **argv, struct gate_gpus_options *ret, struct log *log, struct err *err)
{
	*ret = (struct gate_gpus_options){.log = log};
	return opts_read(gpus_rows, COUNT(gpus_rows), ret, &ret->answer, argc, argv, err);
}
