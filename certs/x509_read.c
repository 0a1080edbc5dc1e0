/* SPDX-License-Identifier: Apache-2.0 */
/* certs: reads certificates into plain, printable facts. */
#include "certs/x509_read.h"

#include <stdio.h>
#include <string.h>

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "certs/ossl.h"

/* The facts of X509_LIST_MAX certificates; a hostile certificate of 1 MiB needs at most four times
 * its size. */
#define ARENA_MAX ((size_t)16 << 20)

/* ---- texts ---- */

/* Printable ASCII as it is, all else as \XX. */
static void add_escaped(struct buf *out, const unsigned char *at, int len)
{
	for (int i = 0; i < len; i++) {
		if (at[i] >= 0x20 && at[i] < 0x7f && at[i] != '\\')
			buf_char(out, (char)at[i]);
		else
			buf_fmt(out, "\\%02X", (unsigned)at[i]);
	}
}

static void add_octets(struct buf *out, const unsigned char *ip, int len)
{
	struct certs_names one = {0};

	if (len >= 0 && certs_names_octets(&one, ip, (size_t)len, NULL) == 0)
		buf_str(out, one.name[0].text);
	else
		for (int i = 0; i < len; i++)
			buf_fmt(out, "%02x", (unsigned)ip[i]);
}

/* An address with its mask, as in name constraints: "10.0.0.0/8", or the mask written out when it
 * has holes. */
static void add_subnet(struct buf *out, const unsigned char *at, int len)
{
	int half = len / 2;
	int bits = 0;
	bool holes = false;

	add_octets(out, at, half);
	for (int i = 0; i < half * 8; i++) {
		bool set = (at[half + i / 8] >> (7 - i % 8)) & 1;

		holes = holes || (set && bits != i);
		bits += set;
	}
	buf_char(out, '/');
	if (holes)
		add_octets(out, at + half, half);
	else
		buf_i64(out, bits);
}

static void add_general_name(struct buf *out, const GENERAL_NAME *g, bool subnet)
{
	int type = 0;
	const ASN1_STRING *s = GENERAL_NAME_get0_value(g, &type);
	const char *prefix = type == GEN_DNS ? "DNS:" : type == GEN_URI ? "URI:" : "email:";

	if (type == GEN_IPADD) {
		buf_str(out, "IP:");
		if (subnet)
			add_subnet(out, ASN1_STRING_get0_data(s), ASN1_STRING_length(s));
		else
			add_octets(out, ASN1_STRING_get0_data(s), ASN1_STRING_length(s));
	} else if (type == GEN_DNS || type == GEN_URI || type == GEN_EMAIL) {
		buf_str(out, prefix);
		add_escaped(out, ASN1_STRING_get0_data(s), ASN1_STRING_length(s));
	} else {
		buf_str(out, "other");
	}
}

/* Move what was written into the arena and empty the buffer. */
static const char *keep(struct arena *a, struct buf *text)
{
	char *s = text->failed ? NULL : arena_strdup(a, buf_as_slice(text));

	if (!s)
		a->failed = true;
	buf_clear(text);
	return s ? s : "";
}

static const char *read_name(struct arena *a, struct buf *text, const X509_NAME *name)
{
	BIO *out = BIO_new(BIO_s_mem());
	char *data = NULL;
	long len = 0;

	/* the flags turn control characters and everything beyond ASCII into \XX */
	if (!out || X509_NAME_print_ex(out, name, 0, XN_FLAG_RFC2253) < 0)
		a->failed = true;
	else
		len = BIO_get_mem_data(out, &data);
	if (len > 0)
		buf_add(text, data, (size_t)len);
	BIO_free(out);
	return keep(a, text);
}

/* An extension that is there and cannot be read must not look as if there were none. `there` is
 * what X509_get_ext_d2i says: -1 for absent, -2 for more than one. */
static void note_unreadable(struct arena *a, int there, struct x509_texts *ret)
{
	if (there == -1)
		return;
	ret->at = arena_array(a, 1, sizeof(*ret->at));
	if (ret->at)
		ret->at[ret->count++] = "unreadable";
}

static void read_sans(struct arena *a, struct buf *text, const X509 *cert, struct x509_texts *ret)
{
	int there = -1;
	GENERAL_NAMES *sans = X509_get_ext_d2i(cert, NID_subject_alt_name, &there, NULL);
	int n = sans ? sk_GENERAL_NAME_num(sans) : 0;

	if (!sans) {
		note_unreadable(a, there, ret);
		return;
	}
	ret->at = n > 0 ? arena_array(a, (size_t)n, sizeof(*ret->at)) : NULL;
	for (int i = 0; i < n && ret->at; i++) {
		add_general_name(text, sk_GENERAL_NAME_value(sans, i), false);
		ret->at[ret->count++] = keep(a, text);
	}
	GENERAL_NAMES_free(sans);
}

static void read_subtrees(struct arena *a, struct buf *text, STACK_OF(GENERAL_SUBTREE) * trees,
	const char *prefix, struct x509_texts *ret)
{
	for (int i = 0; i < sk_GENERAL_SUBTREE_num(trees); i++) {
		buf_str(text, prefix);
		add_general_name(text, sk_GENERAL_SUBTREE_value(trees, i)->base, true);
		ret->at[ret->count++] = keep(a, text);
	}
}

static void read_constraints(
	struct arena *a, struct buf *text, const X509 *cert, struct x509_texts *ret)
{
	int there = -1;
	NAME_CONSTRAINTS *nc = X509_get_ext_d2i(cert, NID_name_constraints, &there, NULL);
	int permitted = nc ? sk_GENERAL_SUBTREE_num(nc->permittedSubtrees) : 0;
	int excluded = nc ? sk_GENERAL_SUBTREE_num(nc->excludedSubtrees) : 0;
	int n = (permitted > 0 ? permitted : 0) + (excluded > 0 ? excluded : 0);

	if (!nc) {
		note_unreadable(a, there, ret);
		return;
	}
	ret->at = n > 0 ? arena_array(a, (size_t)n, sizeof(*ret->at)) : NULL;
	if (ret->at) {
		read_subtrees(a, text, nc->permittedSubtrees, "", ret);
		read_subtrees(a, text, nc->excludedSubtrees, "not ", ret);
	}
	NAME_CONSTRAINTS_free(nc);
}

static const char *read_key_type(struct arena *a, struct buf *text, const X509 *cert)
{
	EVP_PKEY *key = X509_get0_pubkey(cert);
	char group[64] = "";
	const char *type = key ? EVP_PKEY_get0_type_name(key) : NULL;

	if (key && EVP_PKEY_is_a(key, "EC") &&
		EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) == 1)
		buf_fmt(text, "ECDSA %s",
			strcmp(group, "prime256v1") == 0  ? "P-256"
			: strcmp(group, "secp384r1") == 0 ? "P-384"
			: strcmp(group, "secp521r1") == 0 ? "P-521"
							  : group);
	else if (key && EVP_PKEY_is_a(key, "RSA"))
		buf_fmt(text, "RSA %d", EVP_PKEY_get_bits(key));
	else
		buf_str(text, type ? type : "unknown");
	return keep(a, text);
}

static const char *read_fingerprint(struct arena *a, struct buf *text, const X509 *cert)
{
	unsigned char hash[EVP_MAX_MD_SIZE];
	unsigned len = 0;

	if (X509_digest(cert, EVP_sha256(), hash, &len) != 1)
		a->failed = true;
	for (unsigned i = 0; i < len; i++)
		buf_fmt(text, "%s%02X", i ? ":" : "", (unsigned)hash[i]);
	return keep(a, text);
}

static const char *read_serial(struct arena *a, struct buf *text, const X509 *cert)
{
	const ASN1_INTEGER *serial = X509_get0_serialNumber(cert);

	if (serial->type & V_ASN1_NEG)
		buf_char(text, '-');
	for (int i = 0; i < serial->length; i++)
		buf_fmt(text, "%02x", (unsigned)serial->data[i]);
	return keep(a, text);
}

/* ---- lists ---- */

static int read_info(
	struct arena *a, struct buf *text, X509 *cert, struct x509_info *ret, struct err *err)
{
	if (!ossl_time(X509_get0_notBefore(cert), &ret->from) ||
		!ossl_time(X509_get0_notAfter(cert), &ret->until))
		return err_set(err, ERR_SYNTAX, "its dates cannot be read");
	ret->subject = read_name(a, text, X509_get_subject_name(cert));
	ret->issuer = read_name(a, text, X509_get_issuer_name(cert));
	ret->serial = read_serial(a, text, cert);
	ret->key_type = read_key_type(a, text, cert);
	ret->fingerprint = read_fingerprint(a, text, cert);
	read_sans(a, text, cert, &ret->sans);
	read_constraints(a, text, cert, &ret->may_sign);
	ret->is_ca = X509_check_ca(cert) == 1;
	ret->self_issued =
		X509_NAME_cmp(X509_get_subject_name(cert), X509_get_issuer_name(cert)) == 0;
	ERR_clear_error();
	return a->failed ? err_set(err, ERR_NOMEM, "no memory for what it says") : 0;
}

/* The next certificate; *ret NULL at the end of the text. */
static int next_cert(BIO *in, size_t i, X509 **ret, struct err *err)
{
	unsigned long last = 0;

	ERR_clear_error();
	*ret = PEM_read_bio_X509(in, NULL, ossl_no_password, NULL);
	last = ERR_peek_last_error();
	if (*ret) {
		ERR_clear_error();
		return 0;
	}
	if (ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE) {
		ERR_clear_error();
		return 0;
	}
	return ossl_fail(err, ERR_SYNTAX, "certificate number %zu is damaged", i + 1);
}

static int read_all(BIO *in, struct x509_list *list, struct buf *text, struct err *err)
{
	for (;;) {
		X509 *cert = NULL;
		int code = next_cert(in, list->count, &cert, err);

		if (code != 0)
			return code;
		if (!cert)
			break;
		if (list->count == X509_LIST_MAX)
			code = err_set(err, ERR_TOOBIG, "more than %d certificates", X509_LIST_MAX);
		else
			code = read_info(&list->arena, text, cert, &list->info[list->count], err);
		X509_free(cert);
		if (code == ERR_SYNTAX)
			return err_set(err, ERR_SYNTAX,
				"certificate number %zu is damaged: its dates "
				"cannot be read",
				list->count + 1);
		if (code != 0)
			return code;
		list->count++;
	}
	if (list->count == 0)
		return err_set(err, ERR_NOTFOUND,
			"holds no certificate; PEM is expected (-----BEGIN CERTIFICATE-----)");
	return 0;
}

int x509_list_read(struct slice pem, struct x509_list *ret, struct err *err)
{
	struct x509_list list = {0};
	struct buf text;
	BIO *in = NULL;
	int code = ossl_reader(pem, &in, err);

	if (code != 0)
		return code;
	arena_init(&list.arena, ARENA_MAX);
	buf_init(&text, ARENA_MAX);
	list.info = arena_array(&list.arena, X509_LIST_MAX, sizeof(*list.info));
	code = list.info ? read_all(in, &list, &text, err)
			 : err_set(err, ERR_NOMEM, "no memory for certificates");
	BIO_free(in);
	buf_release(&text);
	if (code != 0)
		x509_list_release(&list);
	else
		*ret = list;
	return code;
}

void x509_list_release(struct x509_list *list)
{
	arena_release(&list->arena);
	*list = (struct x509_list){0};
}

int x509_names_read(struct slice cert_pem, struct certs_names *ret, struct err *err)
{
	struct certs_names names = {0};
	X509 *cert = NULL;
	GENERAL_NAMES *sans = NULL;
	int code = ossl_cert(cert_pem, "it", &cert, err);

	if (code != 0)
		return code;
	sans = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	X509_free(cert);
	ERR_clear_error();
	if (!sans || sk_GENERAL_NAME_num(sans) == 0)
		code = err_set(err, ERR_NOTFOUND, "the certificate has no names (SANs)");
	for (int i = 0; code == 0 && i < sk_GENERAL_NAME_num(sans); i++) {
		int type = 0;
		const ASN1_STRING *s =
			GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(sans, i), &type);
		struct slice text = {NULL, 0};

		if (type != GEN_DNS && type != GEN_IPADD) {
			code = err_set(err, ERR_INVALID,
				"the certificate has a name that is neither DNS nor IP");
			break;
		}
		text = (struct slice){
			(const char *)ASN1_STRING_get0_data(s), (size_t)ASN1_STRING_length(s)};
		code = type == GEN_DNS ? certs_names_dns(&names, text, err)
				       : certs_names_octets(
						 &names, ASN1_STRING_get0_data(s), text.len, err);
	}
	GENERAL_NAMES_free(sans);
	if (code == 0)
		*ret = names;
	return code;
}
