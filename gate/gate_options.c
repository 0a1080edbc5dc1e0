/* SPDX-License-Identifier: Apache-2.0 */
/* gate: the command lines, each a table of its options. */
#include "gate/gate_options.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define AWAY_MS 600000
#define AWAY_MAX_MS 86400000
#define TRIES 30
#define LOOK_MS 5000
#define CONNECTIONS 1000

const char gate_help[] =
	"usage: gpugate serve --server NAME --cert FILE --key FILE --profile FILE [OPTION ...]\n"
	"       gpugate connect [--servers HOST:PORT[,HOST:PORT ...]] [OPTION ...]\n"
	"       gpugate check [--servers LIST] [--port N]\n"
	"       gpugate gpus [--every DURATION] [--nvml FILE]\n"
	"       gpugate --help | --version\n"
	"\n"
	"serve, on a GPU server, lets in whose pod holds a claim on it, to a server process of its "
	"own:\n"
	"  --server NAME          the GPUServer that this machine is\n"
	"  --listen ADDR:PORT     where pods' ends connect to (0.0.0.0:9446)\n"
	"  --cert, --key FILE     the certificate and its key; read again when they change\n"
	"  --profile FILE         the ServerProfile: how a server process is started\n"
	"  --state DIR            what a gate that comes back finds its servers by "
	"(/var/lib/gpugate)\n"
	"  --kubeconfig FILE      how the API server is reached (as a pod's service account)\n"
	"  --away DURATION        so long a pod that was reviewed comes again while the API "
	"server\n"
	"                         cannot be asked; 0: it does not (10m)\n"
	"  --tries N              failed tries that a peer has in a minute; 0: any number (30)\n"
	"  --connections N        at the same time (1000)\n"
	"  --status ADDR:PORT     /livez, /readyz, /metrics and /usage; none: not served "
	"(127.0.0.1:9448)\n"
	"  --look DURATION        between two looks at what is used of the GPUs; 0: nobody looks "
	"(5s)\n"
	"  --nvml FILE            another library than the driver's (libnvidia-ml.so.1)\n"
	"  --tell ADDR:PORT       the same as --status over TLS, for poolgate's leader "
	"(spec.gate.url); needs\n"
	"  --tell-token FILE      the bearer token that it must show; read for each question\n"
	"\n"
	"connect, in the pod, carries bytes from 127.0.0.1 to the gates, one port a server:\n"
	"  --servers LIST         the gates, in the order of their ports (POOLGATE_SERVERS)\n"
	"  --port N               the first server's port here (14840)\n"
	"  --ca FILE              the CAs that signed the gates' certificates "
	"(/etc/gpugate/ca.crt)\n"
	"  --name NAME            what the certificates are for (the host that is dialled)\n"
	"  --token FILE           the projected token (/var/run/secrets/gpugate/token)\n"
	"  --connections N        at the same time (1000)\n"
	"\n"
	"check, in the pod, ends with status 0 when connect listens at all of its ports.\n"
	"\n"
	"gpus, on a GPU server, prints what the library tells of who uses the GPUs, as a line of "
	"JSON:\n"
	"  --every DURATION       again and again, with so long between; 0: once (0)\n"
	"  --nvml FILE            another library than the driver's (libnvidia-ml.so.1)\n"
	"\n"
	"each:\n"
	"  --log-format text|json (text)   --log-level error|warn|info|debug (info)\n";

enum kind { KIND_TEXT, KIND_NUMBER, KIND_PORT, KIND_DURATION };

struct option {
	const char *name;
	enum kind kind;
	void *to;
	uint64_t min, max; /* of a number */
};

static int take_value(const struct option *o, const char *value, struct err *err)
{
	uint64_t n;
	int64_t ms;

	switch (o->kind) {
	case KIND_TEXT:
		if (!*value)
			return err_set(err, ERR_INVALID, "%s takes a text, found \"\"", o->name);
		*(const char **)o->to = value;
		return 0;
	case KIND_NUMBER:
	case KIND_PORT:
		if (!text_u64(slice_of(value), o->max, &n) || n < o->min)
			return err_set(err, ERR_INVALID,
				"%s takes a number from %llu to %llu, found \"%s\"", o->name,
				(unsigned long long)o->min, (unsigned long long)o->max, value);
		if (o->kind == KIND_PORT)
			*(uint16_t *)o->to = (uint16_t)n;
		else
			*(unsigned *)o->to = (unsigned)n;
		return 0;
	case KIND_DURATION:
		if (!text_duration_ms(slice_of(value), &ms) || ms > AWAY_MAX_MS)
			return err_set(err, ERR_INVALID,
				"%s takes a duration up to 24h, found \"%s\"", o->name, value);
		*(int64_t *)o->to = ms;
		return 0;
	}
	return 0;
}

static int take(const struct option *options, size_t n, struct slice name, const char *value,
	struct log *log, struct err *err)
{
	if (slice_is(name, "--log-format"))
		return log_set_format(log, value, err);
	if (slice_is(name, "--log-level"))
		return log_set_level(log, value, err);
	for (size_t i = 0; i < n; i++)
		if (slice_is(name, options[i].name))
			return take_value(&options[i], value, err);
	return err_set(err, ERR_INVALID, "unknown word \"%.*s\"", (int)name.len, name.at);
}

/* "--name value" or "--name=value". */
static int read_all(int argc, char **argv, const struct option *options, size_t n,
	enum gate_answer *ret, struct log *log, struct err *err)
{
	int rc = 0;

	for (int i = 1; i < argc && rc == 0; i++) {
		const char *word = argv[i], *eq = strchr(word, '=');
		struct slice name = {word, eq ? (size_t)(eq - word) : strlen(word)};

		if (slice_is(name, "--help") && !eq) {
			*ret = GATE_HELP;
			return 0;
		}
		if (name.len < 3 || word[0] != '-' || word[1] != '-')
			return err_set(err, ERR_INVALID, "unknown word \"%s\"", word);
		if (!eq && i + 1 >= argc)
			return err_set(err, ERR_INVALID, "a value is missing after %s", word);
		rc = take(options, n, name, eq ? eq + 1 : argv[++i], log, err);
	}
	return rc;
}

static int need(const char *value, const char *name, struct err *err)
{
	return value ? 0 : err_set(err, ERR_INVALID, "%s is missing", name);
}

#define COUNT(options) (sizeof(options) / sizeof((options)[0]))

int gate_serve_options_read(
	int argc, char **argv, struct gate_serve_options *ret, struct log *log, struct err *err)
{
	const struct option options[] = {
		{"--server", KIND_TEXT, &ret->server, 0, 0},
		{"--listen", KIND_TEXT, &ret->listen, 0, 0},
		{"--status", KIND_TEXT, &ret->status, 0, 0},
		{"--cert", KIND_TEXT, &ret->cert, 0, 0},
		{"--key", KIND_TEXT, &ret->key, 0, 0},
		{"--profile", KIND_TEXT, &ret->profile, 0, 0},
		{"--state", KIND_TEXT, &ret->state, 0, 0},
		{"--kubeconfig", KIND_TEXT, &ret->kubeconfig, 0, 0},
		{"--away", KIND_DURATION, &ret->away_ms, 0, 0},
		{"--tries", KIND_NUMBER, &ret->tries, 0, 6000},
		{"--connections", KIND_NUMBER, &ret->connections, 1, GATE_CONNECTIONS_MAX},
		{"--look", KIND_DURATION, &ret->look_ms, 0, 0},
		{"--nvml", KIND_TEXT, &ret->nvml, 0, 0},
		{"--tell", KIND_TEXT, &ret->tell, 0, 0},
		{"--tell-token", KIND_TEXT, &ret->tell_token, 0, 0},
	};
	int rc;

	*ret = (struct gate_serve_options){.listen = GATE_LISTEN,
		.status = GATE_STATUS,
		.state = GATE_STATE,
		.away_ms = AWAY_MS,
		.tries = TRIES,
		.connections = CONNECTIONS,
		.look_ms = LOOK_MS};
	rc = read_all(argc, argv, options, COUNT(options), &ret->answer, log, err);
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
	const struct option options[] = {
		{"--servers", KIND_TEXT, &ret->servers, 0, 0},
		{"--ca", KIND_TEXT, &ret->ca, 0, 0},
		{"--token", KIND_TEXT, &ret->token, 0, 0},
		{"--name", KIND_TEXT, &ret->name, 0, 0},
		{"--port", KIND_PORT, &ret->port, 1, 65535 - GATE_SERVERS_MAX},
		{"--connections", KIND_NUMBER, &ret->connections, 1, GATE_CONNECTIONS_MAX},
	};
	int rc;

	*ret = (struct gate_connect_options){
		.ca = GATE_CA, .token = GATE_TOKEN, .port = GATE_PORT, .connections = CONNECTIONS};
	rc = read_all(argc, argv, options, COUNT(options), &ret->answer, log, err);
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
	const struct option options[] = {
		{"--every", KIND_DURATION, &ret->every_ms, 0, 0},
		{"--nvml", KIND_TEXT, &ret->nvml, 0, 0},
	};

	*ret = (struct gate_gpus_options){0};
	return read_all(argc, argv, options, COUNT(options), &ret->answer, log, err);
}
