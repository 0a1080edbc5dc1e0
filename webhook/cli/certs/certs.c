/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate certs`: the table of its verbs and what they share. */
#include "webhook/cli/certs/certs.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "webhook/cli/usage/usage.h"

static const char help[] =
	"usage: poolgate certs init --dir DIR [options]     make a CA and a serving pair\n"
	"       poolgate certs show --dir DIR | FILE…       say what certificates hold\n"
	"       poolgate certs renew --dir DIR [options]    a new serving pair when it is due\n"
	"\n"
	"init writes ca.crt, ca.key, tls.crt and tls.key (keys 0600) and overwrites nothing. The "
	"CA can\n"
	"sign only the names that it was made for.\n"
	"  --dns NAME, --ip ADDR  one more name or address of the server; may be repeated\n"
	"  --service NAME         the Service's name (poolgate)\n"
	"  --namespace NS         its namespace (poolgate-system)\n"
	"  --no-service           only the names given: leave NAME.NS.svc out\n"
	"  --dev                  add localhost, 127.0.0.1 and ::1\n"
	"  --days N               the serving pair is valid for N days (365)\n"
	"  --ca-days N            the CA is valid for N days (3650)\n"
	"  --force                replace what is there; clients then need the new ca.crt\n"
	"\n"
	"show prints a table:\n"
	"  -o, --output table|json\n"
	"\n"
	"renew makes a new key and certificate with the names of tls.crt, signed by ca.key, when "
	"two\n"
	"thirds of tls.crt's life are over; a running server picks the new pair up by itself.\n"
	"  --days N               valid for N days (as long as the one before)\n"
	"  --within-days N        due when N days or less are left\n"
	"  --force                in any case\n"
	"\n"
	"Exit codes: 0 done (renew: also when nothing is due), 1 refused, 2 usage, 3 unreadable.\n"
	"\n"
	"Examples:\n"
	"  poolgate certs init --dir tls --dev\n"
	"  poolgate certs show tls/tls.crt\n";

int certs_complain(const char *verb, const struct err *err)
{
	(void)fprintf(stderr, "poolgate certs %s: %s\n", verb, err->msg);
	switch (err->code) {
	case ERR_NONE:
		return CERTS_DONE;
	case ERR_CONFLICT:
	case ERR_REFUSED:
		return CERTS_REFUSED;
	case ERR_NOMEM:
	case ERR_SYNTAX:
	case ERR_INVALID:
	case ERR_NOTFOUND:
	case ERR_TOOBIG:
	case ERR_IO:
	case ERR_TIMEOUT:
	case ERR_INTERNAL:
		break;
	}
	return CERTS_UNREADABLE;
}

int certs_print(const char *verb, struct buf *out)
{
	bool ok =
		!out->failed && fwrite(out->data ? out->data : "", 1, out->len, stdout) == out->len;

	ok = fflush(stdout) == 0 && ok;
	buf_release(out);
	if (ok)
		return CERTS_DONE;
	(void)fprintf(stderr, "poolgate certs %s: the output could not be written\n", verb);
	return CERTS_UNREADABLE;
}

int certs_help(void)
{
	(void)fputs(help, stdout);
	return CERTS_DONE;
}

const char *certs_date(int64_t at, char ret[CERTS_DATE_SIZE])
{
	time_t t = (time_t)at;
	struct tm tm = {0};

	if (!gmtime_r(&t, &tm) || strftime(ret, CERTS_DATE_SIZE, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		memcpy(ret, "?", 2);
	return ret;
}

bool certs_days(const char *text, uint64_t *ret, struct err *err)
{
	if (text_u64(slice_of(text), CERTS_DAYS_MAX, ret) && *ret > 0)
		return true;
	(void)err_set(err, ERR_INVALID, "\"%s\" is no number of days; 1 to %d are accepted", text,
		CERTS_DAYS_MAX);
	return false;
}

int certs_main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} verbs[] = {
		{"init", certs_init_main}, {"show", certs_show_main}, {"renew", certs_renew_main}};

	if (argc < 2)
		return usage_wrong("certs", "a verb is missing: init, show or renew");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
		strcmp(argv[1], "help") == 0)
		return certs_help();
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(argv[1], verbs[i].name) != 0)
			continue;
		optind = 0; /* getopt starts anew: the program's own options were read before */
		return verbs[i].run(argc - 1, argv + 1);
	}
	return usage_wrong("certs", "unknown verb \"%s\": init, show or renew", argv[1]);
}
