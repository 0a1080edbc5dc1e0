/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate certs`. */
#ifndef WEBHOOK_CLI_CERTS_CERTS_H
#define WEBHOOK_CLI_CERTS_CERTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "webhook/cli/usage/usage.h"

/* Exit codes of `poolgate certs`. */
enum { CERTS_DONE = 0, CERTS_REFUSED = 1, CERTS_USAGE = 2, CERTS_UNREADABLE = 3 };

#define CERTS_DAY_S 86400
/* A hundred years, as x509_make_ca accepts. */
#define CERTS_DAYS_MAX 36500
#define CERTS_DATE_SIZE 32

/* `poolgate certs init|show|renew …`; argv[0] is "certs". Writes to stdout and stderr; returns the
 * exit code. Uses getopt's state: main thread only. */
int certs_main(int argc, char **argv);

/* The verbs; argv[0] is the verb. As above. */
int certs_init_main(int argc, char **argv);
int certs_show_main(int argc, char **argv);
int certs_renew_main(int argc, char **argv);

/* ---- what the verbs share ---- */

extern const struct subcommand certs_init_command, certs_show_command, certs_renew_command;

/* Print the help text of all verbs to stdout. */
void certs_help(void);

/* A row of the table of options: 1 to CERTS_DAYS_MAX days. */
#define CERTS_DAYS(tag, member, name, help)                                                        \
	OPT_COUNT(tag, member, name, "N", help, .min = 1, .max = CERTS_DAYS_MAX,                   \
		.form = "a number of days from 1 to 36500")

/* "2027-08-01T10:00:00Z" in ret, which is returned; "?" for a date that cannot be written. */
const char *certs_date(int64_t at, char ret[CERTS_DATE_SIZE]);

/* Print "poolgate certs VERB: <err>" to stderr and return the exit code that belongs to err's code.
 */
int certs_complain(const char *verb, const struct err *err);

/* Write what was built to stdout and release it. CERTS_DONE, or CERTS_UNREADABLE when it could not
 * all be written. */
int certs_print(const char *verb, struct buf *out);

#endif
