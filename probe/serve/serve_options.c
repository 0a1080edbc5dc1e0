/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the command line of `gpuprobe serve`. What it does not know is verify's. */
#include "probe/serve/serve_options.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const char help[] =
	"usage: gpuprobe serve --tls-cert FILE --tls-key FILE [options]\n"
	"\n"
	"Answers GET /v1/inventory, /v1/report, /metrics, /healthz and /readyz over HTTPS. Looks "
	"at\n"
	"NVML all the time, at the list of GPUs now and then, and verifies idle GPUs at the "
	"start,\n"
	"every so often and on SIGHUP. Certificates and the token are read again when they "
	"change.\n"
	"\n"
	"  --listen ADDR:PORT        [:9443]\n"
	"  --tls-cert FILE           certificate chain, PEM\n"
	"  --tls-key FILE            its key, PEM; without both: plain HTTP, on loopback only\n"
	"  --token-file FILE         who asks must show this bearer token (not for /healthz,\n"
	"                            /readyz)\n"
	"  --client-ca FILE          who asks must show a certificate of these CAs, PEM (not for\n"
	"                            /healthz, /readyz)\n"
	"  --client-name NAME        and with this common name; may stand several times [any]\n"
	"  --server NAME             this server's name in the inventory [the host's]\n"
	"  --look-every DURATION     NVML [5s]\n"
	"  --list-every DURATION     the list of GPUs [60s]\n"
	"  --verify-every DURATION   [6h]\n"
	"  --stale-after DURATION    older news are not to be trusted [30s]\n"
	"\n"
	"Of `gpuprobe verify`: --expect-gpus, --expect-name, --min-memory, --memory, --timeout,\n"
	"--thresholds, --strict, --require-nvml, --no-nvml, --cudart, --nvml, --seed.\n"
	"\n"
	"Exit status: 0 ended by SIGTERM or SIGINT, 2 wrong usage, 4 it could not serve.\n";

struct own {
	const char *name;
	const char **text; /* or */
	double *seconds;   /* or */
	size_t *n_texts;   /* text is a list of them */
};

static int bad(struct err *err, const char *name, const char *form, const char *found)
{
	return err_set(err, ERR_INVALID, "%s takes %s, found \"%s\"", name, form, found);
}

static int take(const struct own *own, const char *value, struct err *err)
{
	int64_t ms;

	if (own->text) {
		if (!value[0])
			return bad(err, own->name, "a text", value);
		if (own->n_texts && *own->n_texts == TLS_TRUST_NAMES_MAX)
			return err_set(err, ERR_INVALID, "%s stands more than %d times", own->name,
				TLS_TRUST_NAMES_MAX);
		own->text[own->n_texts ? (*own->n_texts)++ : 0] = value;
		return 0;
	}
	if (!text_duration_ms(slice_of(value), &ms) || ms < 100 || ms > 400LL * 24 * 3600 * 1000)
		return bad(err, own->name, "a duration from 100ms to 9600h, as 30s or 6h", value);
	*own->seconds = (double)ms / 1000;
	return 0;
}

/* "--name value" or "--name=value"; *i moves on. 1: it is none of ours. */
static int take_own(const struct own *own, size_t n, char **argv, int argc, int *i, struct err *err)
{
	for (size_t k = 0; k < n; k++) {
		size_t len = strlen(own[k].name);

		if (strncmp(argv[*i], own[k].name, len) != 0)
			continue;
		if (argv[*i][len] == '=')
			return take(&own[k], argv[*i] + len + 1, err);
		if (argv[*i][len] != '\0')
			continue;
		if (*i + 1 >= argc)
			return err_set(
				err, ERR_INVALID, "a value is missing after %s", own[k].name);
		return take(&own[k], argv[++*i], err);
	}
	return 1;
}

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
	const struct own own[] = {{"--listen", &ret->listen, NULL, NULL},
		{"--tls-cert", &ret->tls_cert, NULL, NULL},
		{"--tls-key", &ret->tls_key, NULL, NULL},
		{"--token-file", &ret->token_file, NULL, NULL},
		{"--client-ca", &ret->client_ca, NULL, NULL},
		{"--client-name", ret->client_names, NULL, &ret->n_client_names},
		{"--server", &ret->server, NULL, NULL},
		{"--look-every", NULL, &ret->look_every_s, NULL},
		{"--list-every", NULL, &ret->list_every_s, NULL},
		{"--verify-every", NULL, &ret->verify_every_s, NULL},
		{"--stale-after", NULL, &ret->stale_after_s, NULL}};
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
		rc = take_own(own, sizeof(own) / sizeof(own[0]), argv, argc, &i, err);
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
	(void)fputs(help, out);
}
