/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges the certificates: would an API server that knows a hook's caBundle accept what the
 * replicas show, and for how long? */
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/rfc3339.h"
#include "certs/certs_files.h"
#include "certs/x509_read.h"
#include "webhook/cli/doctor/doctor_facts.h"
#include "webhook/cluster/secrets/secret_data.h"

/* Renewed when a third of their life is left: a sixth means that nobody does. */
#define DUE_PART 6

struct looking {
	const struct doctor_facts *f;
	struct doctor_report *r;
	struct buf cert, key, bundle;
	size_t hooks, trusting;
	int64_t ca_until; /* of the CA in a bundle that ends first */
	const char *mend;
};

static const char *date(struct doctor_report *r, int64_t seconds)
{
	char text[32];

	rfc3339_write(seconds * 1000, text);
	return doctor_fmt(r, "%s", text);
}

/* The certificate itself: key, name, dates. True when it is worth asking who trusts it. */
static bool judge_pair(struct looking *l)
{
	const char *name =
		doctor_fmt(l->r, "%s.%s.svc", l->f->settings.cluster.service, l->f->namespace);
	const char *again = doctor_fmt(l->r, "kubectl -n %s delete secret %s", l->f->namespace,
		l->f->settings.cluster.tls_secret);
	struct slice cert = buf_as_slice(&l->cert);
	struct certs_names names = {0};
	struct x509_list list = {0};
	struct err err = {0};
	int64_t now = l->f->now_ms / 1000, from, until;
	bool named = false;

	if (x509_list_read(cert, &list, &err) != 0) {
		doctor_wrong(
			l->r, again, "tls.crt of %s cannot be read: %s", l->f->tls.what, err.msg);
		return false;
	}
	from = list.info[0].from;
	until = list.info[0].until;
	x509_list_release(&list);
	if (x509_check_pair(cert, buf_as_slice(&l->key), &err) != 0)
		doctor_wrong(l->r, again, "key and certificate of %s do not belong together: %s",
			l->f->tls.what, err.msg);
	if (x509_names_read(cert, &names, NULL) == 0)
		for (size_t i = 0; i < names.count; i++)
			named = named || strcmp(names.name[i].text, name) == 0;
	if (!named)
		doctor_wrong(l->r, again,
			"the serving certificate is not for %s, which API servers call", name);
	if (until <= now)
		doctor_wrong(l->r, l->mend,
			"the serving certificate ended at %s: API servers refuse it",
			date(l->r, until));
	else if (from > now)
		doctor_wrong(l->r, l->mend,
			"the serving certificate begins at %s only: a clock is wrong",
			date(l->r, from));
	else if ((until - now) * DUE_PART < until - from)
		doctor_wrong(l->r, l->mend,
			"the serving certificate ends at %s and should have been renewed",
			date(l->r, until));
	return true;
}

static void read_value(struct looking *l, const char *key, struct buf *out)
{
	const struct json *j = &l->f->tls.json;
	struct err err = {0};

	if (secret_value(j, json_root(j), key, out, &err) != 0)
		buf_clear(out);
}

/* The first end among the CAs of a bundle that are still good; 0 when none is. */
static int64_t last_of(const struct x509_list *list, int64_t now)
{
	int64_t last = 0;

	for (size_t i = 0; i < list->count; i++)
		if (list->info[i].until > now && list->info[i].until > last)
			last = list->info[i].until;
	return last;
}

static void judge_hook(
	struct looking *l, const char *name, const struct json *j, const struct json_node *hook)
{
	const struct json_node *v = json_path(j, hook, "clientConfig", "caBundle", NULL);
	struct x509_list list = {0};
	struct err err = {0};
	int64_t until;

	l->hooks++;
	buf_clear(&l->bundle);
	if (!json_is(v, JSON_STRING) || json_inside(j, v).len == 0) {
		doctor_wrong(
			l->r, l->mend, "%s has no caBundle: API servers trust nobody there", name);
		return;
	}
	if (base64_decode(json_inside(j, v), &l->bundle, &err) != 0 ||
		x509_list_read(buf_as_slice(&l->bundle), &list, &err) != 0) {
		doctor_wrong(l->r, l->mend, "the caBundle of %s cannot be read: %s", name, err.msg);
		return;
	}
	until = last_of(&list, l->f->now_ms / 1000);
	x509_list_release(&list);
	if (until == 0)
		doctor_wrong(l->r, l->mend, "every CA in the caBundle of %s has ended", name);
	else if (l->cert.len > 0 && x509_check_chain(buf_as_slice(&l->bundle),
					    buf_as_slice(&l->cert), X509_ANY_TIME, &err) != 0)
		doctor_wrong(l->r, l->mend,
			"the caBundle of %s does not vouch for the serving certificate: %s", name,
			err.msg);
	else
		l->trusting++;
	if (until > 0 && (l->ca_until == 0 || until < l->ca_until))
		l->ca_until = until;
}

static void judge_hooks(struct looking *l)
{
	for (size_t i = 0; i < HOOKS_COUNT; i++) {
		const struct json *j = &l->f->hooks[i].json;

		if (!sight_there(&l->f->hooks[i], l->r))
			continue;
		JSON_EACH(j, json_get(j, json_root(j), SLICE("webhooks")), hook)
		{
			const char *name =
				sight_str(j, json_get(j, hook, SLICE("name")), l->r->arena);

			judge_hook(l, name ? name : "a hook", j, hook);
		}
	}
}

static void say_ok(struct looking *l)
{
	struct x509_list list = {0};

	if (doctor_group_troubled(l->r) || l->cert.len == 0 || l->hooks == 0 ||
		x509_list_read(buf_as_slice(&l->cert), &list, NULL) != 0)
		return;
	doctor_ok(l->r,
		"the serving certificate is good until %s, %zu hooks vouch for it, their CA until "
		"%s",
		date(l->r, list.info[0].until), l->trusting, date(l->r, l->ca_until));
	x509_list_release(&list);
}

void doctor_certificates(const struct doctor_facts *f, struct doctor_report *r)
{
	struct looking l = {.f = f, .r = r};

	l.mend = f->settings.cluster.tls_manage
			 ? doctor_fmt(r,
				   "kubectl -n %s rollout restart deployment/" DOCTOR_DEPLOYMENT,
				   f->namespace)
			 : doctor_fmt(
				   r, "kubectl -n %s describe certificate poolgate", f->namespace);
	buf_init(&l.cert, CERTS_FILE_MAX);
	buf_init(&l.key, CERTS_FILE_MAX);
	buf_init(&l.bundle, CERTS_FILE_MAX);
	if (f->tls.state == SIGHT_MISSING)
		doctor_wrong(
			r, l.mend, "there is no %s: the replicas have no certificate", f->tls.what);
	else if (sight_there(&f->tls, r)) {
		read_value(&l, "tls.crt", &l.cert);
		read_value(&l, "tls.key", &l.key);
		if (!judge_pair(&l))
			buf_clear(&l.cert);
	}
	judge_hooks(&l);
	say_ok(&l);
	buf_release(&l.cert);
	certs_files_wipe(&l.key);
	buf_release(&l.bundle);
}
