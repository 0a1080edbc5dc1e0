/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate certs init`: makes a CA and a serving pair. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "certs/certs_files.h"
#include "certs/certs_names.h"
#include "certs/x509.h"
#include "webhook/cli/certs/certs.h"
#include "webhook/cli/usage/usage.h"

#define SERVICE_DEFAULT "poolgate"
#define NAMESPACE_DEFAULT "poolgate-system"
#define DAYS_DEFAULT 365
#define CA_DAYS_DEFAULT 3650

struct init {
	const char *dir;
	const char *service;
	const char *ns;
	struct certs_names names;
	uint64_t days; /* 0: not given */
	uint64_t ca_days;
	bool no_service;
	bool dev;
	bool force;
};

/* Make both pairs and write them. */
static int init_write(
	const struct init *in, struct x509_pair *ca, struct x509_pair *serving, struct err *err)
{
	int64_t now = (int64_t)time(NULL);
	int code = x509_make_ca(&in->names, now, (int64_t)in->ca_days * CERTS_DAY_S, ca, err);

	if (code == 0)
		code = x509_make_serving(
			ca, &in->names, now, (int64_t)in->days * CERTS_DAY_S, serving, err);
	if (code == 0) {
		struct certs_file files[] = {
			{"ca.key", buf_as_slice(&ca->key), true},
			{"ca.crt", buf_as_slice(&ca->cert), false},
			{"tls.key", buf_as_slice(&serving->key), true},
			{"tls.crt", buf_as_slice(&serving->cert), false},
		};

		code = certs_files_write(
			in->dir, files, sizeof(files) / sizeof(files[0]), in->force, err);
	}
	return code;
}

static int init_run(const struct init *in)
{
	struct x509_pair ca;
	struct x509_pair serving;
	struct err err = {0};
	struct buf out;
	char until[CERTS_DATE_SIZE];
	char ca_until[CERTS_DATE_SIZE];
	int64_t now = (int64_t)time(NULL);
	int code = 0;

	x509_pair_init(&ca);
	x509_pair_init(&serving);
	code = init_write(in, &ca, &serving, &err);
	x509_pair_release(&ca);
	x509_pair_release(&serving);
	if (code != 0) {
		int rc = certs_complain("init", &err);

		if (code == ERR_CONFLICT && !in->force)
			(void)fprintf(stderr,
				"`renew` makes a new serving pair from the CA that is there; "
				"--force replaces all four files\n");
		return rc;
	}
	buf_init(&out, 65536);
	buf_fmt(&out, "wrote ca.crt ca.key tls.crt tls.key to %s\n", in->dir);
	buf_fmt(&out, "the CA is valid until %s, tls.crt until %s, for",
		certs_date(now + (int64_t)in->ca_days * CERTS_DAY_S, ca_until),
		certs_date(now + (int64_t)in->days * CERTS_DAY_S, until));
	for (size_t i = 0; i < in->names.count; i++)
		buf_fmt(&out, "%s %s", i ? "," : "", in->names.name[i].text);
	buf_fmt(&out,
		"\nclients need ca.crt (caBundle: base64 -w0 %s/ca.crt); keep ca.key away from "
		"the server\n",
		in->dir);
	return certs_print("init", &out);
}

/* The names that were not given one by one, and the days that were not given. */
static int init_complete(struct init *in)
{
	struct certs_names *names = &in->names;
	struct err err = {0};
	int code = 0;

	if (!in->dir)
		return usage_wrong("certs init", "--dir is missing");
	if (in->no_service && (in->service || in->ns))
		return usage_wrong("certs init", "--no-service excludes --service and --namespace");
	if (in->ca_days == 0)
		in->ca_days = CA_DAYS_DEFAULT;
	if (in->days > in->ca_days)
		return usage_wrong("certs init",
			"--days %llu is longer than the CA's %llu days (--ca-days)",
			(unsigned long long)in->days, (unsigned long long)in->ca_days);
	if (in->days == 0)
		in->days = in->ca_days < DAYS_DEFAULT ? in->ca_days : DAYS_DEFAULT;
	if (!in->no_service)
		code = certs_names_service(names,
			slice_of(in->service ? in->service : SERVICE_DEFAULT),
			slice_of(in->ns ? in->ns : NAMESPACE_DEFAULT), &err);
	if (code == 0 && in->dev)
		code = certs_names_dns(names, SLICE("localhost"), &err);
	if (code == 0 && in->dev)
		code = certs_names_ip(names, SLICE("127.0.0.1"), &err);
	if (code == 0 && in->dev)
		code = certs_names_ip(names, SLICE("::1"), &err);
	if (code != 0)
		return usage_wrong("certs init", "%s", err.msg);
	if (names->count == 0)
		return usage_wrong("certs init",
			"no names: give --dns, --ip or --dev, or leave out --no-service");
	return CERTS_DONE;
}

static int take_name(const struct opt *row, const char *value, void *of, struct err *err)
{
	struct certs_names *names = &((struct init *)of)->names;

	return strcmp(row->name, "--dns") == 0 ? certs_names_dns(names, slice_of(value), err)
					       : certs_names_ip(names, slice_of(value), err);
}

static const struct opt options[] = {
	OPT_TEXT(init, dir, "--dir", "DIR", NULL),
	OPT_OWN(take_name, "--dns", "NAME", "one more name of the server; may be repeated"),
	OPT_OWN(take_name, "--ip", "ADDR", "one more address of it; may be repeated"),
	OPT_TEXT(init, service, "--service", "NAME", "the Service's name (poolgate)",
		.form = "a Service's name, 1 to 63 of a-z, 0-9 and '-'"),
	OPT_TEXT(init, ns, "--namespace", "NS", "its namespace (poolgate-system)",
		.form = "a namespace's name, 1 to 63 of a-z, 0-9 and '-'"),
	OPT_FLAG(init, no_service, "--no-service", "only the names given: leave NAME.NS.svc out"),
	OPT_FLAG(init, dev, "--dev", "add localhost, 127.0.0.1 and ::1"),
	CERTS_DAYS(init, days, "--days", "the serving pair is valid for N days (365)"),
	CERTS_DAYS(init, ca_days, "--ca-days", "the CA is valid for N days (3650)"),
	OPT_FLAG(init, force, "--force", "replace what is there; clients then need the new ca.crt"),
};
const struct subcommand certs_init_command = {"certs init",
	"init writes ca.crt, ca.key, tls.crt and tls.key (keys 0600) and overwrites nothing. The "
	"CA can\n"
	"sign only the names that it was made for.\n",
	"\n", USAGE_OPTIONS(options), .help = certs_help};

int certs_init_main(int argc, char **argv)
{
	struct init in = {0};
	int code = usage_read(&certs_init_command, &in, argc, argv);

	if (code >= 0)
		return code;
	if (optind < argc)
		return usage_wrong("certs init", "unexpected \"%s\"", argv[optind]);
	code = init_complete(&in);
	return code == CERTS_DONE ? init_run(&in) : code;
}
