/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate certs show`: what certificates hold and whether key, certificate and CA belong
 * together. */
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "certs/certs_files.h"
#include "certs/x509_read.h"
#include "webhook/cli/certs/certs.h"
#include "webhook/cli/usage/usage.h"

/* Bytes of output: 64 certificates of a hostile file, written out, stay below it. */
#define OUT_MAX ((size_t)64 << 20)

enum answer { ASK_NOT, ASK_YES, ASK_NO, ASK_UNKNOWN };

/* What is asked of a directory's certificate beside what it says itself. */
struct check {
	enum answer answer;
	struct err why;
};

struct show {
	struct buf out;
	const char *dir;
	unsigned json;
	size_t shown;
	int64_t now;
};

static struct check check_of(int code, enum err_code no, const struct err *err)
{
	enum answer answer = code == 0 ? ASK_YES : code == (int)no ? ASK_NO : ASK_UNKNOWN;

	return (struct check){answer, *err};
}

/* ---- output ---- */

/* A path of the user's: whatever is not printable ASCII as \xHH, so that it can go to a terminal
 * and into JSON. */
static void add_path(struct buf *out, const char *path, bool json)
{
	for (const char *p = path; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (c < 0x20 || c >= 0x7f)
			buf_fmt(out, json ? "\\\\x%02X" : "\\x%02X", (unsigned)c);
		else if (json)
			buf_json_esc(out, (struct slice){p, 1});
		else
			buf_char(out, *p);
	}
}

/* Whole days, rounded down: -1 from the first second after the end. */
static int64_t days_left(const struct x509_info *info, int64_t now)
{
	int64_t left = info->until - now;

	return left >= 0 ? left / CERTS_DAY_S : -((-left + CERTS_DAY_S - 1) / CERTS_DAY_S);
}

static void table_list(struct buf *out, const char *label, const struct x509_texts *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		buf_fmt(out, "  %-12s %s\n", i == 0 ? label : "", texts->at[i]);
}

static void table_check(struct buf *out, const char *label, const struct check *c)
{
	switch (c->answer) {
	case ASK_NOT:
		return;
	case ASK_YES:
		buf_fmt(out, "  %-12s yes\n", label);
		return;
	case ASK_NO:
		buf_fmt(out, "  %-12s NO: %s\n", label, c->why.msg);
		return;
	case ASK_UNKNOWN:
		buf_fmt(out, "  %-12s unknown: %s\n", label, c->why.msg);
		return;
	}
}

static void show_table(struct show *s, const char *path, const struct x509_info *info,
	const struct check *key, const struct check *ca)
{
	struct buf *out = &s->out;
	int64_t left = days_left(info, s->now);
	char date[CERTS_DATE_SIZE];

	if (s->shown > 0)
		buf_char(out, '\n');
	add_path(out, path, false);
	buf_fmt(out, "\n  %-12s %s%s\n", "subject", info->subject, info->is_ca ? "   (a CA)" : "");
	if (!info->self_issued)
		buf_fmt(out, "  %-12s %s\n", "issuer", info->issuer);
	table_list(out, "names", &info->sans);
	if (info->is_ca && info->may_sign.count == 0)
		buf_fmt(out, "  %-12s any name\n", "may sign");
	table_list(out, "may sign", &info->may_sign);
	buf_fmt(out, "  %-12s %s\n", "valid from", certs_date(info->from, date));
	buf_fmt(out, "  %-12s %s   ", "valid until", certs_date(info->until, date));
	if (info->from > s->now)
		buf_str(out, "(not valid yet)\n");
	else if (info->until <= s->now)
		buf_fmt(out, "(EXPIRED %lld days ago)\n", (long long)(-left - 1));
	else
		buf_fmt(out, "(%lld days left)\n", (long long)left);
	buf_fmt(out, "  %-12s %s\n", "key", info->key_type);
	buf_fmt(out, "  %-12s %s\n", "serial", info->serial);
	buf_fmt(out, "  %-12s %s\n", "SHA-256", info->fingerprint);
	table_check(out, "key matches", key);
	table_check(out, "by ca.crt", ca);
}

static void json_text(struct buf *out, const char *key, const char *text)
{
	buf_fmt(out, ", \"%s\": ", key);
	buf_json_str(out, slice_of(text));
}

static void json_list(struct buf *out, const char *key, const struct x509_texts *texts)
{
	buf_fmt(out, ", \"%s\": [", key);
	for (size_t i = 0; i < texts->count; i++) {
		buf_str(out, i ? ", " : "");
		buf_json_str(out, slice_of(texts->at[i]));
	}
	buf_char(out, ']');
}

/* true, false, or null for what was not asked or cannot be known. */
static void json_check(struct buf *out, const char *key, const struct check *c)
{
	const char *word = c->answer == ASK_YES ? "true" : c->answer == ASK_NO ? "false" : "null";

	buf_fmt(out, ", \"%s\": %s", key, word);
}

static void show_json(struct show *s, const char *path, const struct x509_info *info,
	const struct check *key, const struct check *ca)
{
	struct buf *out = &s->out;
	char date[CERTS_DATE_SIZE];

	buf_str(out, s->shown > 0 ? ",\n  {\"file\": \"" : "\n  {\"file\": \"");
	add_path(out, path, true);
	buf_char(out, '"');
	json_text(out, "subject", info->subject);
	json_text(out, "issuer", info->issuer);
	json_text(out, "serial", info->serial);
	buf_fmt(out, ", \"ca\": %s", info->is_ca ? "true" : "false");
	json_list(out, "names", &info->sans);
	json_list(out, "maySign", &info->may_sign);
	json_text(out, "notBefore", certs_date(info->from, date));
	json_text(out, "notAfter", certs_date(info->until, date));
	buf_fmt(out, ", \"daysLeft\": %lld, \"expired\": %s", (long long)days_left(info, s->now),
		info->until <= s->now ? "true" : "false");
	json_text(out, "key", info->key_type);
	json_text(out, "sha256", info->fingerprint);
	json_check(out, "keyMatches", key);
	json_check(out, "signedByCA", ca);
	buf_char(out, '}');
}

/* ---- files ---- */

/* Show all certificates of a PEM text; the checks belong to the first. */
static int show_pem(struct show *s, const char *path, const struct buf *pem,
	const struct check *key, const struct check *ca, struct err *err)
{
	static const struct check none = {.answer = ASK_NOT};
	struct x509_list list = {0};
	struct err why = {0};
	int code = x509_list_read(buf_as_slice(pem), &list, &why);

	if (code != 0)
		return err_set(err, code, "%s: %s", path, why.msg);
	for (size_t i = 0; i < list.count; i++) {
		(s->json ? show_json : show_table)(
			s, path, &list.info[i], i == 0 ? key : &none, i == 0 ? ca : &none);
		s->shown++;
	}
	x509_list_release(&list);
	return 0;
}

static int show_file(struct show *s, const char *path, struct err *err)
{
	static const struct check none = {.answer = ASK_NOT};
	struct buf pem;
	int code = 0;

	buf_init(&pem, CERTS_FILE_MAX);
	code = certs_files_read(path, &pem, err);
	if (code == 0)
		code = show_pem(s, path, &pem, &none, &none, err);
	certs_files_wipe(&pem); /* somebody may keep the key in the same file */
	return code;
}

/* Does dir/name hold the key of the certificate? Without that file nothing is asked. */
static struct check check_key(const char *dir, const char *name, const struct buf *cert)
{
	struct check c = {.answer = ASK_NOT};
	struct err err = {0};
	char path[PATH_MAX];
	struct buf key;
	int code = certs_files_path(dir, name, path, sizeof(path), &err);

	buf_init(&key, CERTS_FILE_MAX);
	if (code == 0)
		code = certs_files_read(path, &key, &err);
	if (code == 0)
		c = check_of(x509_check_pair(buf_as_slice(cert), buf_as_slice(&key), &err),
			ERR_CONFLICT, &err);
	else if (code != ERR_NOTFOUND)
		c = check_of(code, ERR_CONFLICT, &err);
	certs_files_wipe(&key);
	return c;
}

/* Read dir/name. A file that is not there leaves ret empty. */
static int read_optional(
	const char *dir, const char *name, char *ret_path, struct buf *ret, struct err *err)
{
	int code = certs_files_path(dir, name, ret_path, PATH_MAX, err);

	if (code == 0)
		code = certs_files_read(ret_path, ret, err);
	return code == ERR_NOTFOUND ? 0 : code;
}

static int show_dir(struct show *s, const char *dir, struct err *err)
{
	static const struct check none = {.answer = ASK_NOT};
	struct err why = {0};
	struct check key;
	struct check by_ca = none;
	struct buf ca;
	struct buf cert;
	char ca_path[PATH_MAX];
	char cert_path[PATH_MAX];
	int code = 0;

	buf_init(&ca, CERTS_FILE_MAX);
	buf_init(&cert, CERTS_FILE_MAX);
	code = read_optional(dir, "ca.crt", ca_path, &ca, err);
	if (code == 0)
		code = read_optional(dir, "tls.crt", cert_path, &cert, err);
	if (code == 0 && !ca.data && !cert.data)
		code = err_set(err, ERR_NOTFOUND, "%s: holds neither ca.crt nor tls.crt", dir);
	if (code == 0 && ca.data) {
		key = check_key(dir, "ca.key", &ca);
		code = show_pem(s, ca_path, &ca, &key, &none, err);
	}
	if (code == 0 && cert.data) {
		key = check_key(dir, "tls.key", &cert);
		if (ca.data)
			by_ca = check_of(x509_check_chain(buf_as_slice(&ca), buf_as_slice(&cert),
						 s->now, &why),
				ERR_REFUSED, &why);
		code = show_pem(s, cert_path, &cert, &key, &by_ca, err);
	}
	buf_release(&ca);
	buf_release(&cert);
	return code;
}

/* Show everything that can be shown, complain about the rest. */
static int show_run(struct show *s, const char *dir, char **files, int n)
{
	struct err err = {0};
	int rc = CERTS_DONE;
	int printed = CERTS_DONE;

	s->now = (int64_t)time(NULL);
	buf_init(&s->out, OUT_MAX);
	if (s->json)
		buf_str(&s->out, "{\"certificates\": [");
	if (dir && show_dir(s, dir, &err) != 0)
		rc = certs_complain("show", &err);
	for (int i = 0; i < n; i++)
		if (show_file(s, files[i], &err) != 0)
			rc = certs_complain("show", &err);
	if (s->json)
		buf_str(&s->out, s->shown > 0 ? "\n]}\n" : "]}\n");
	printed = certs_print("show", &s->out);
	return rc != CERTS_DONE ? CERTS_UNREADABLE : printed;
}

static const char *const formats[] = {"table", "json", NULL};
static const struct opt options[] = {
	OPT_TEXT(show, dir, "--dir", "DIR", NULL),
	USAGE_FORMAT(show, json, "table|json", formats),
};
const struct subcommand certs_show_command = {
	"certs show", "show prints a table:\n", "\n", USAGE_OPTIONS(options), .help = certs_help};

int certs_show_main(int argc, char **argv)
{
	struct show s = {0};
	int code = usage_read(&certs_show_command, &s, argc, argv);

	if (code >= 0)
		return code;
	if (s.dir && optind < argc)
		return usage_wrong("certs show", "--dir and FILE exclude each other");
	if (!s.dir && optind == argc)
		return usage_wrong("certs show", "what to show is missing: --dir DIR or FILE");
	return show_run(&s, s.dir, argv + optind, argc - optind);
}
