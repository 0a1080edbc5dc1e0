/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the command line of `gpuprobe serve`. What it does not know is verify's. */
#include "probe/serve/serve_options.h"

#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "base/text.h"

#define TEXT(member, ...) OPT_TEXT(serve_options, member, __VA_ARGS__)
#define SECONDS(member, ...)                                                                       \
	OPT_SECONDS(serve_options, member, __VA_ARGS__, .min = 100,                                \
		.max = 400ull * 24 * 3600 * 1000,                                                  \
		.form = "a duration from 100ms to 9600h, as 30s or 6h")
static const struct opt options[] = {
	TEXT(listen, "--listen", "ADDR:PORT", "[:9443]"),
	TEXT(tls_cert, "--tls-cert", "FILE", "certificate chain, PEM"),
	TEXT(tls_key, "--tls-key", "FILE",
		"its key, PEM; without both: plain HTTP, on loopback only"),
	TEXT(token_file, "--token-file", "FILE",
		"who asks must show this bearer token (not for /healthz,\n/readyz)"),
	TEXT(client_ca, "--client-ca", "FILE",
		"who asks must show a certificate of these CAs, PEM (not for\n/healthz, /readyz)"),
	OPT_TEXTS(serve_options, client_names, "--client-name", "NAME",
		"and with this common name; may stand several times [any]"),
	TEXT(server, "--server", "NAME", "this server's name in the inventory [the host's]"),
	SECONDS(look_every_s, "--look-every", "DURATION", "NVML [5s]"),
	SECONDS(list_every_s, "--list-every", "DURATION", "the list of GPUs [60s]"),
	SECONDS(verify_every_s, "--verify-every", "DURATION", "[6h]"),
	SECONDS(stale_after_s, "--stale-after", "DURATION",
		"older news are not to be trusted [30s]"),
};
#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

static bool is_loopback(const char *listen)
{
	return strncmp(listen, "127.", 4) == 0 || strncmp(listen, "[::1]:", 6) == 0 ||
	       strncmp(listen, "localhost:", 10) == 0;
}

static int check_together(const struct serve_options *o, struct err *err)
{
	const struct probe_options *v = &o->verify;
	char host[64];
	uint16_t port;

	if (v->command != COMMAND_VERIFY || v->json || v->nagios || v->n_gpus > 0 ||
		v->in_process || v->plant || v->progress != SHOW_AUTO)
		return err_set(err, ERR_INVALID,
			"serve takes no other command, and none of --json, --nagios, --gpu, "
			"--in-process and --progress");
	if (!o->tls_cert != !o->tls_key)
		return err_set(err, ERR_INVALID, "--tls-cert and --tls-key go together");
	if (!o->tls_cert && !is_loopback(o->listen))
		return err_set(err, ERR_INVALID,
			"without --tls-cert and --tls-key only a loopback address is served, as "
			"127.0.0.1:9443; found %s",
			o->listen);
	if (o->client_ca && !o->tls_cert)
		return err_set(err, ERR_INVALID,
			"--client-ca needs --tls-cert and --tls-key: certificates are shown in TLS "
			"alone");
	if (o->n_client_names > 0 && !o->client_ca)
		return err_set(err, ERR_INVALID,
			"--client-name needs --client-ca: a name is worth what its CA is");
	if (o->stale_after_s < o->look_every_s)
		return err_set(err, ERR_INVALID,
			"--stale-after (%g s) is less than --look-every (%g s)", o->stale_after_s,
			o->look_every_s);
	return text_host_port(slice_of(o->listen), host, &port, err);
}

int serve_options_read(int argc, char **argv, struct serve_options *ret, struct err *err)
{
	int n = 0, rc = 0;

	*ret = (struct serve_options){.listen = ":9443",
		.look_every_s = 5,
		.list_every_s = 60,
		.verify_every_s = 6 * 3600.0,
		.stale_after_s = 30};
	ret->rest = calloc((size_t)argc + 1, sizeof(*ret->rest));
	if (!ret->rest)
		return err_set(err, ERR_NOMEM, "out of memory");
	ret->rest[n++] = argv[0];
	for (int i = 1; i < argc && rc == 0; i++) {
		rc = opts_take(options, N_OPTIONS, ret, argc, argv, &i, err);
		if (rc == 1) {
			ret->rest[n++] = argv[i];
			rc = 0;
		}
	}
	if (rc == 0)
		rc = options_read(n, ret->rest, &ret->verify, err);
	if (rc == 0 && ret->verify.answer == OPTIONS_RUN)
		rc = check_together(ret, err);
	if (rc != 0)
		serve_options_release(ret);
	return rc;
}

void serve_options_release(struct serve_options *o)
{
	free(o->rest);
	o->rest = NULL;
}

void serve_options_help(FILE *out)
{
	(void)fputs(
		"usage: gpuprobe serve --tls-cert FILE --tls-key FILE [options]\n"
		"\n"
		"Answers GET /v1/inventory, /v1/report, /metrics, /healthz and /readyz over HTTPS. "
		"Looks at\n"
		"NVML all the time, at the list of GPUs now and then, and verifies idle GPUs at "
		"the start,\n"
		"every so often and on SIGHUP. Certificates and the token are read again when "
		"they change.\n"
		"\n",
		out);
	opts_help(options, N_OPTIONS, 28, out);
	(void)fputs("\n"
		    "Of `gpuprobe verify`: --expect-gpus, --expect-name, --min-memory, --memory, "
		    "--timeout,\n"
		    "--thresholds, --strict, --require-nvml, --no-nvml, --cudart, --nvml, --seed.\n"
		    "\n"
		    "Exit status: 0 ended by SIGTERM or SIGINT, 2 wrong usage, 4 it could not "
		    "serve.\n",
		out);
}
