/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate certs renew`: a new serving pair from the CA at hand, when it is due. */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "certs/certs_files.h"
#include "certs/certs_names.h"
#include "certs/rotation.h"
#include "certs/x509.h"
#include "certs/x509_read.h"
#include "webhook/cli/certs/certs.h"
#include "webhook/cli/usage/usage.h"

struct renew {
	const char *dir;
	uint64_t days;        /* 0: as long as the pair before */
	uint64_t within_days; /* 0: not given */
	bool force;
	int64_t now;
};

/* What the directory holds, and when it ends. */
struct stored {
	struct x509_pair ca;
	struct buf cert;
	struct buf key; /* empty when there is none */
	struct certs_names names;
	struct rotation_span ca_span;
	struct rotation_span span;
};

static void found_init(struct stored *f)
{
	*f = (struct stored){0};
	x509_pair_init(&f->ca);
	buf_init(&f->cert, CERTS_FILE_MAX);
	buf_init(&f->key, CERTS_FILE_MAX);
}

static void found_release(struct stored *f)
{
	x509_pair_release(&f->ca);
	buf_release(&f->cert);
	certs_files_wipe(&f->key);
}

static int read_file(const char *dir, const char *name, struct buf *ret, struct err *err)
{
	char path[PATH_MAX];
	int code = certs_files_path(dir, name, path, sizeof(path), err);

	return code != 0 ? code : certs_files_read(path, ret, err);
}

/* The first certificate's validity. */
static int read_span(
	const char *name, const struct buf *pem, struct rotation_span *ret, struct err *err)
{
	struct x509_list list = {0};
	struct err why = {0};
	int code = x509_list_read(buf_as_slice(pem), &list, &why);

	if (code != 0)
		return err_set(err, code, "%s: %s", name, why.msg);
	*ret = (struct rotation_span){list.info[0].from, list.info[0].until};
	x509_list_release(&list);
	return 0;
}

static int find(const struct renew *r, struct stored *f, struct err *err)
{
	struct err why = {0};
	int code = read_file(r->dir, "ca.crt", &f->ca.cert, err);

	if (code == 0)
		code = read_file(r->dir, "ca.key", &f->ca.key, err);
	if (code == 0)
		code = read_file(r->dir, "tls.crt", &f->cert, err);
	if (code == 0)
		code = read_span("ca.crt", &f->ca.cert, &f->ca_span, err);
	if (code == 0)
		code = read_span("tls.crt", &f->cert, &f->span, err);
	if (code != 0)
		return code;
	code = x509_names_read(buf_as_slice(&f->cert), &f->names, &why);
	if (code != 0)
		return err_set(err, code, "tls.crt: %s", why.msg);
	/* a key that is missing or unreadable is one more reason for a new pair, not an error */
	(void)read_file(r->dir, "tls.key", &f->key, NULL);
	return 0;
}

/* May this CA renew this pair? A pair of another CA is somebody else's, until --force. */
static int check_issuer(const struct renew *r, const struct stored *f, struct err *err)
{
	struct err why = {0};
	char date[CERTS_DATE_SIZE];

	if (f->ca_span.until <= r->now)
		return err_set(err, ERR_REFUSED,
			"the CA expired at %s; make a new one with `poolgate certs init --force` "
			"and "
			"give clients the new ca.crt",
			certs_date(f->ca_span.until, date));
	if (!r->force && x509_check_chain(buf_as_slice(&f->ca.cert), buf_as_slice(&f->cert),
				 X509_ANY_TIME, &why) != 0)
		return err_set(err, ERR_REFUSED,
			"tls.crt was not signed by ca.crt (%s); --force replaces it", why.msg);
	return 0;
}

/* Why it is due, or NULL. *ret_step is what the rotation says of the CA and the pair. */
static const char *due(
	const struct renew *r, const struct stored *f, struct rotation_step *ret_step)
{
	struct rotation_state state = {.ca = f->ca_span, .serving = f->span, .ca_published = true};
	struct rotation_policy policy = rotation_policy_default();

	*ret_step = rotation_decide(&state, &policy, r->now);
	if (r->force)
		return "--force";
	if (x509_check_pair(buf_as_slice(&f->cert), buf_as_slice(&f->key), NULL) != 0)
		return "tls.key does not belong to tls.crt";
	if (r->within_days > 0)
		return f->span.until - r->now <= (int64_t)r->within_days * CERTS_DAY_S
			       ? "it ends soon enough"
			       : NULL;
	return ret_step->action == ROTATION_RENEW_SERVING ? "two thirds of its life are over"
							  : NULL;
}

static int write_pair(
	const struct renew *r, const struct stored *f, int64_t *ret_until, struct err *err)
{
	struct x509_pair pair;
	int64_t valid_s = (int64_t)r->days * CERTS_DAY_S;
	int code = 0;

	if (valid_s == 0)
		valid_s = f->span.until - f->span.from - X509_BACKDATE_S;
	if (valid_s < CERTS_DAY_S)
		valid_s = CERTS_DAY_S;
	x509_pair_init(&pair);
	code = x509_make_serving(&f->ca, &f->names, r->now, valid_s, &pair, err);
	if (code == 0) {
		struct certs_file files[] = {
			{"tls.key", buf_as_slice(&pair.key), true},
			{"tls.crt", buf_as_slice(&pair.cert), false},
		};

		code = certs_files_write(r->dir, files, 2, true, err);
	}
	if (code == 0)
		*ret_until =
			f->ca_span.until < r->now + valid_s ? f->ca_span.until : r->now + valid_s;
	x509_pair_release(&pair);
	return code;
}

static int renew(const struct renew *r, struct stored *f, struct buf *out, struct err *err)
{
	struct rotation_step step = {0};
	const char *why = NULL;
	char date[CERTS_DATE_SIZE];
	int64_t until = 0;
	int code = find(r, f, err);

	if (code == 0)
		code = check_issuer(r, f, err);
	if (code != 0)
		return code;
	why = due(r, f, &step);
	if (why) {
		code = write_pair(r, f, &until, err);
		if (code != 0)
			return code;
		buf_fmt(out, "renewed tls.crt and tls.key in %s (%s); valid until %s\n", r->dir,
			why, certs_date(until, date));
	} else if (r->within_days > 0) {
		buf_fmt(out, "not due: tls.crt is valid until %s\n",
			certs_date(f->span.until, date));
	} else {
		buf_fmt(out, "not due: tls.crt is renewed from %s on",
			certs_date(rotation_due_at(f->span), date));
		buf_fmt(out, " (valid until %s)\n", certs_date(f->span.until, date));
	}
	if (rotation_due_at(f->ca_span) <= r->now)
		buf_fmt(out,
			"the CA itself ends at %s: make the next one in another directory, let "
			"clients "
			"trust both (one file with both ca.crt), then switch the pair\n",
			certs_date(f->ca_span.until, date));
	return 0;
}

static int renew_run(struct renew *r)
{
	struct stored found;
	struct buf out;
	struct err err = {0};
	int code = 0;

	r->now = (int64_t)time(NULL);
	found_init(&found);
	buf_init(&out, 65536);
	code = renew(r, &found, &out, &err);
	found_release(&found);
	if (code == 0)
		return certs_print("renew", &out);
	buf_release(&out);
	return certs_complain("renew", &err);
}

static const struct opt options[] = {
	OPT_TEXT(renew, dir, "--dir", "DIR", NULL),
	CERTS_DAYS(renew, days, "--days", "valid for N days (as long as the one before)"),
	CERTS_DAYS(renew, within_days, "--within-days", "due when N days or less are left"),
	OPT_FLAG(renew, force, "--force", "in any case"),
};
const struct subcommand certs_renew_command = {"certs renew",
	"renew makes a new key and certificate with the names of tls.crt, signed by ca.key, when "
	"two\n"
	"thirds of tls.crt's life are over; a running server picks the new pair up by itself.\n",
	"", USAGE_OPTIONS(options), .help = certs_help};

int certs_renew_main(int argc, char **argv)
{
	struct renew r = {0};
	int code = usage_read(&certs_renew_command, &r, argc, argv);

	if (code >= 0)
		return code;
	if (optind < argc)
		return usage_wrong("certs renew", "unexpected \"%s\"", argv[optind]);
	if (!r.dir)
		return usage_wrong("certs renew", "--dir is missing");
	if (r.force && r.within_days > 0)
		return usage_wrong("certs renew", "--within-days and --force exclude each other");
	return renew_run(&r);
}
