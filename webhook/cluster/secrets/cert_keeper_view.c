/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: how the certificate keeper sees the cluster: bundles, serving pair, CAs. */
#define _GNU_SOURCE 1 /* memmem */
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/rfc3339.h"
#include "certs/certs_files.h"
#include "certs/x509_read.h"
#include "webhook/cluster/secrets/cert_keeper_impl.h"
#include "webhook/cluster/secrets/secret_data.h"

#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END "-----END CERTIFICATE-----"

/* Nothing that a Secret or a bundle holds, only what happens to us. */
static bool ours_to_report(int rc)
{
	return rc == ERR_NOMEM || rc == ERR_INTERNAL;
}

/* ---- one certificate ---- */

/* From when it was made on, not from its backdated first second; a maker whose clock is ahead of
 * ours counts as now. */
static struct rotation_span span_of(const struct x509_info *info, int64_t now)
{
	int64_t made = info->from + X509_BACKDATE_S;

	if (made > now && info->from <= now)
		made = now;
	return (struct rotation_span){made < info->until ? made : info->from, info->until};
}

static int read_first(const struct buf *pem, int64_t now, struct rotation_span *ret,
	char print[static KEEPER_PRINT_SIZE], struct err *err)
{
	struct x509_list list = {0};
	int rc = x509_list_read(buf_as_slice(pem), &list, err);

	if (rc != 0)
		return rc;
	*ret = span_of(&list.info[0], now);
	snprintf(print, KEEPER_PRINT_SIZE, "%s", list.info[0].fingerprint);
	x509_list_release(&list);
	return 0;
}

static void forget(struct keeper_ca *ca)
{
	x509_pair_release(&ca->pair);
	*ca = (struct keeper_ca){0};
	x509_pair_init(&ca->pair);
}

/* key_name NULL: it has none. */
static int read_ca(const struct cert_view *v, const char *cert_name, const char *key_name,
	int64_t now, struct keeper_ca *ret, struct err *err)
{
	const struct json *j = &v->ca.json;
	struct err why = {0};
	int rc = secret_value(j, json_root(j), cert_name, &ret->pair.cert, &why);

	if (rc == 0)
		rc = read_first(&ret->pair.cert, now, &ret->span, ret->print, &why);
	if (rc != 0) {
		forget(ret);
		return ours_to_report(rc) ? err_set(err, rc, "%s", why.msg) : 0;
	}
	if (!key_name)
		return 0;
	rc = secret_value(j, json_root(j), key_name, &ret->pair.key, &why);
	if (rc == 0)
		rc = x509_check_pair(
			buf_as_slice(&ret->pair.cert), buf_as_slice(&ret->pair.key), &why);
	if (rc != 0)
		certs_files_wipe(&ret->pair.key);
	return ours_to_report(rc) ? err_set(err, rc, "%s", why.msg) : 0;
}

/* ---- the bundles ---- */

/* One hook's bundle, decoded; empty when there is none that can be read. */
static void read_bundle(const struct json *j, const struct json_node *hook, struct buf *out)
{
	const struct json_node *v = json_path(j, hook, "clientConfig", "caBundle", NULL);

	buf_clear(out);
	if (!json_is(v, JSON_STRING) || base64_decode(json_inside(j, v), out, NULL) != 0)
		buf_clear(out);
}

static void note_presence(struct keeper_ca *ca, const struct x509_list *bundle)
{
	bool there = false;

	for (size_t i = 0; i < bundle->count && !there; i++)
		there = strcmp(bundle->info[i].fingerprint, ca->print) == 0;
	ca->everywhere = ca->everywhere && there;
	ca->somewhere = ca->somewhere || there;
}

/* The certificate of a bundle that the serving pair was signed by. */
static bool find_signer(const struct cert_view *v, struct slice pem, int64_t now, struct buf *ret)
{
	while (pem.len > 0) {
		const char *begin = memmem(pem.at, pem.len, BEGIN, sizeof(BEGIN) - 1);
		const char *stop = begin ? memmem(begin, (size_t)(pem.at + pem.len - begin), END,
						   sizeof(END) - 1)
					 : NULL;
		struct slice one;

		if (!stop)
			return false;
		stop += sizeof(END) - 1;
		one = (struct slice){begin, (size_t)(stop - begin)};
		if (x509_check_chain(one, buf_as_slice(&v->serving.cert), now, NULL) == 0) {
			buf_slice(ret, one);
			buf_char(ret, '\n');
			return !ret->failed;
		}
		pem = (struct slice){stop, (size_t)(pem.at + pem.len - stop)};
	}
	return false;
}

typedef void hook_fn(struct cert_view *v, const struct buf *bundle, int64_t now);

static void each_hook(struct cert_view *v, int64_t now, hook_fn *fn)
{
	struct buf bundle;

	buf_init(&bundle, CERTS_FILE_MAX);
	for (size_t i = 0; i < KEEPER_CONFIGURATIONS; i++) {
		const struct json *j = &v->hooks[i].json;

		JSON_EACH(j, json_get(j, json_root(j), SLICE("webhooks")), hook)
		{
			read_bundle(j, hook, &bundle);
			fn(v, &bundle, now);
		}
	}
	buf_release(&bundle);
}

static void recover(struct cert_view *v, const struct buf *bundle, int64_t now)
{
	if (keeper_has(&v->signing))
		return;
	if (!find_signer(v, buf_as_slice(bundle), now, &v->signing.pair.cert) ||
		read_first(&v->signing.pair.cert, now, &v->signing.span, v->signing.print, NULL) !=
			0)
		forget(&v->signing);
}

static void look_into(struct cert_view *v, const struct buf *bundle, int64_t now)
{
	struct x509_list list = {0};

	(void)now;
	(void)x509_list_read(buf_as_slice(bundle), &list, NULL);
	note_presence(&v->signing, &list);
	note_presence(&v->next, &list);
	note_presence(&v->old, &list);
	if (list.count > 0)
		x509_list_release(&list);
}

/* ---- the serving pair ---- */

static int read_serving(const struct cert_keeper *k, struct cert_view *v, struct err *err)
{
	const struct json *j = &v->tls.json;
	struct certs_names names = {0};
	struct err why = {0};
	int rc = secret_value(j, json_root(j), "tls.crt", &v->serving.cert, &why);

	if (rc == 0)
		rc = secret_value(j, json_root(j), "tls.key", &v->serving.key, &why);
	if (rc == 0)
		rc = x509_check_pair(
			buf_as_slice(&v->serving.cert), buf_as_slice(&v->serving.key), &why);
	if (rc == 0)
		rc = x509_names_read(buf_as_slice(&v->serving.cert), &names, &why);
	if (rc == 0 && (names.count == 0 || strcmp(names.name[0].text, k->names.name[0].text) != 0))
		rc = ERR_CONFLICT;
	if (rc != 0)
		x509_pair_release(&v->serving);
	return ours_to_report(rc) ? err_set(err, rc, "%s", why.msg) : 0;
}

static void judge_serving(struct cert_view *v, int64_t now)
{
	char print[KEEPER_PRINT_SIZE];

	if (!keeper_has(&v->signing) ||
		x509_check_chain(buf_as_slice(&v->signing.pair.cert),
			buf_as_slice(&v->serving.cert), now, NULL) != 0 ||
		read_first(&v->serving.cert, now, &v->serving_span, print, NULL) != 0)
		x509_pair_release(&v->serving);
}

/* ---- everything ---- */

static int64_t read_time(const struct json *j, const char *annotation)
{
	const struct json_node *v = json_get(j,
		json_path(j, json_root(j), "metadata", "annotations", NULL), slice_of(annotation));
	int64_t ms = 0;

	return rfc3339_read(json_inside(j, v), &ms) && ms > 0 ? ms / 1000 : 0;
}

struct kube_place cert_configuration(const struct cert_keeper *k, size_t i)
{
	static const char *const plurals[KEEPER_CONFIGURATIONS] = {
		"mutatingwebhookconfigurations", "validatingwebhookconfigurations"};

	return (struct kube_place){"/apis/admissionregistration.k8s.io/v1", NULL, plurals[i],
		k->cfg.configuration, NULL};
}

static int fetch(const struct cert_keeper *k, struct cert_view *v, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < KEEPER_CONFIGURATIONS && rc == 0; i++) {
		rc = kube_get_at(k->cfg.kube, cert_configuration(k, i), 0, &v->hooks[i], err);
		/* then nobody calls us by it, and the Status that came has no hooks */
		if (kube_says_gone(rc, err))
			rc = 0;
	}
	if (rc == 0)
		rc = secret_get(k->cfg.kube, k->cfg.namespace, k->cfg.tls_secret, 0, &v->tls, err);
	if (rc == 0 || rc == ERR_NOTFOUND)
		rc = secret_get(k->cfg.kube, k->cfg.namespace, k->cfg.ca_secret, 0, &v->ca, err);
	return kube_says_gone(rc, err) ? 0 : rc;
}

int cert_view_read(const struct cert_keeper *k, int64_t now, struct cert_view *ret, struct err *err)
{
	struct cert_view *v = ret;
	int rc;

	*v = (struct cert_view){0};
	x509_pair_init(&v->signing.pair);
	x509_pair_init(&v->next.pair);
	x509_pair_init(&v->old.pair);
	x509_pair_init(&v->serving);
	rc = fetch(k, v, err);
	if (rc == 0)
		rc = read_ca(v, "ca.crt", "ca.key", now, &v->signing, err);
	if (rc == 0)
		rc = read_ca(v, "next.crt", "next.key", now, &v->next, err);
	if (rc == 0)
		rc = read_ca(v, "old.crt", NULL, now, &v->old, err);
	if (rc == 0)
		rc = read_serving(k, v, err);
	if (rc != 0)
		return rc;
	if (v->next.pair.key.len == 0)
		forget(&v->next);
	if (!keeper_has(&v->signing) && v->serving.cert.len > 0)
		each_hook(v, now, recover);
	judge_serving(v, now);
	v->published_at = read_time(&v->ca.json, KEEPER_PUBLISHED_AT);
	v->switched_at = read_time(&v->ca.json, KEEPER_SWITCHED_AT);
	v->signing.everywhere = keeper_has(&v->signing);
	v->next.everywhere = keeper_has(&v->next);
	v->old.everywhere = keeper_has(&v->old);
	each_hook(v, now, look_into);
	return 0;
}

void cert_view_release(struct cert_view *v)
{
	for (size_t i = 0; i < KEEPER_CONFIGURATIONS; i++)
		kube_answer_release(&v->hooks[i]);
	secret_release(&v->tls);
	secret_release(&v->ca);
	x509_pair_release(&v->signing.pair);
	x509_pair_release(&v->next.pair);
	x509_pair_release(&v->old.pair);
	x509_pair_release(&v->serving);
}

struct rotation_state cert_view_state(const struct cert_view *v, int64_t now)
{
	return (struct rotation_state){
		.ca = v->signing.span,
		.next_ca = v->next.span,
		.old_ca = v->old.span,
		.serving = v->serving_span,
		.ca_published = v->signing.everywhere,
		.next_published = v->next.everywhere && v->published_at > 0,
		.old_published = v->old.somewhere,
		.published_at = v->published_at,
		.switched_at = v->switched_at > 0 ? v->switched_at : now,
	};
}
