/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate certs`: the table of its verbs and what they share. */
#include "webhook/cli/certs/certs.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "webhook/cli/usage/usage.h"

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

void certs_help(void)
{
	(void)fputs(
		"usage: poolgate certs init --dir DIR [options]     make a CA and a serving "
		"pair\n"
		"       poolgate certs show --dir DIR | FILE…       say what certificates hold\n"
		"       poolgate certs renew --dir DIR [options]    a new serving pair when it is "
		"due\n"
		"\n",
		stdout);
	usage_help(&certs_init_command);
	usage_help(&certs_show_command);
	usage_help(&certs_renew_command);
	(void)fputs("\n"
		    "Exit codes: 0 done (renew: also when nothing is due), 1 refused, 2 usage, 3 "
		    "unreadable.\n"
		    "\n"
		    "Examples:\n"
		    "  poolgate certs init --dir tls --dev\n"
		    "  poolgate certs show tls/tls.crt\n",
		stdout);
}

const char *certs_date(int64_t at, char ret[CERTS_DATE_SIZE])
{
	if (!*clock_text(at, ret))
		memcpy(ret, "?", 2);
	return ret;
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
		strcmp(argv[1], "help") == 0) {
		certs_help();
		return CERTS_DONE;
	}
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	}
	return usage_wrong("certs", "unknown verb \"%s\": init, show or renew", argv[1]);
}
