/* SPDX-License-Identifier: Apache-2.0 */
/* test: the certificate keeper against an API server with Secrets and webhook configurations. At
 * every write it is checked that a client who trusts a bundle of the last second accepts each
 * serving pair of the last second. */
#include "base/base64.h"
#include "base/clock.h"
#include "certs/x509.h"
#include "certs/x509_read.h"
#include "test/unit/api_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/duty/duty.h"
#include "webhook/cluster/secrets/cert_keeper.h"
#include "webhook/edge/metrics/metrics.h"

#define NS "poolgate-system"
#define SECRETS "/api/v1/namespaces/" NS "/secrets"
#define REGISTRATION "/apis/admissionregistration.k8s.io/v1/"
#define LAG_MS 1000
#define WAIT_S 2
#define HISTORY 64

enum { CA, TLS };
enum { MUTATING, VALIDATING };

static const char *const secret_names[] = {"poolgate-ca", "poolgate-tls"};
static const size_t hooks_of[] = {1, 2};

struct secret {
	char *labels, *annotations, *data; /* JSON; data NULL: there is none */
	unsigned version;
};

/* What clients or replicas may still have. */
struct past {
	char *pem;
	int64_t until_ms; /* when another one followed; 0: in force */
};

struct world {
	struct api *api;
	struct kube_config config;
	struct kube *kube;
	struct metrics *metrics;
	struct log log;
	struct cert_keeper_config cfg;
	struct leader_duty duty;
	void *running[2];
	/* the API server's, under its lock */
	struct secret secret[2];
	char *bundle[2][2]; /* of hook i of a configuration, base64; NULL: none */
	unsigned version;
	unsigned configuration_version[2];
	struct past bundles[HISTORY], pairs[HISTORY];
	size_t n_bundles, n_pairs;
	bool strict; /* check what clients would say */
	unsigned broken, writes;
};

static void put(char **to, struct slice value)
{
	free(*to);
	*to = value.at ? strndup(value.at, value.len) : strdup("{}");
	assert_non_null(*to);
}

static char *pem_of(const char *base64, size_t len)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	if (base64_decode((struct slice){base64, len}, &b, NULL) != 0)
		buf_clear(&b);
	return buf_take(&b, NULL);
}

/* A member of a Secret's data, decoded. */
static char *value_of(const struct secret *s, const char *key)
{
	struct json j = {0};
	char *copy = NULL, *ret = NULL;
	struct slice v;

	if (!s->data)
		return NULL;
	assert_int_equal(json_read_copy(&j, s->data, strlen(s->data), 1000, &copy, NULL), 0);
	v = json_inside(&j, json_get(&j, json_root(&j), slice_of(key)));
	if (v.at)
		ret = pem_of(v.at, v.len);
	json_release(&j);
	free(copy);
	return ret;
}

/* ---- what clients would say ---- */

static void follow(struct past *list, size_t *n, char *pem)
{
	int64_t now = api_now_ms();

	if (*n > 0 && strcmp(list[*n - 1].pem, pem) == 0) {
		free(pem);
		return;
	}
	if (*n > 0)
		list[*n - 1].until_ms = now;
	assert_true(*n < HISTORY);
	list[(*n)++] = (struct past){pem, 0};
}

static bool recent(const struct past *p)
{
	return p->until_ms == 0 || api_now_ms() - p->until_ms < LAG_MS;
}

static void judge(struct world *w)
{
	if (!w->strict)
		return;
	for (size_t b = 0; b < w->n_bundles; b++) {
		for (size_t p = 0; p < w->n_pairs; p++) {
			struct err err = {0};

			if (!recent(&w->bundles[b]) || !recent(&w->pairs[p]) ||
				x509_check_chain(slice_of(w->bundles[b].pem),
					slice_of(w->pairs[p].pem), clock_wall_ms() / 1000,
					&err) == 0)
				continue;
			print_error("bundle %zu of %zu refuses pair %zu of %zu: %s\n", b,
				w->n_bundles, p, w->n_pairs, err.msg);
			w->broken++;
		}
	}
}

/* ---- the API server ---- */

static int no_such(struct api_reply *reply)
{
	api_status(reply, 404, "NotFound", "not found");
	return 0;
}

static void show_secret(const struct world *w, int i, struct api_reply *reply)
{
	const struct secret *s = &w->secret[i];

	if (s->data)
		api_text(reply, 200,
			"{\"kind\":\"Secret\",\"metadata\":{\"name\":\"%s\",\"uid\":\"u-1\","
			"\"resourceVersion\":\"%u\",\"labels\":%s,\"annotations\":%s},\"data\":%s}",
			secret_names[i], s->version, s->labels, s->annotations, s->data);
	else
		no_such(reply);
}

static void store_secret(struct world *w, int i, const struct json *j)
{
	const struct json_node *meta = json_get(j, json_root(j), SLICE("metadata"));
	struct secret *s = &w->secret[i];

	put(&s->labels, json_raw(j, json_get(j, meta, SLICE("labels"))));
	put(&s->annotations, json_raw(j, json_get(j, meta, SLICE("annotations"))));
	put(&s->data, json_raw(j, json_get(j, json_root(j), SLICE("data"))));
	s->version = ++w->version;
	w->writes++;
	if (i == TLS) {
		follow(w->pairs, &w->n_pairs, value_of(s, "tls.crt"));
		judge(w);
	}
}

static void write_secret(
	struct world *w, const struct json *j, bool create, struct api_reply *reply)
{
	const struct json_node *meta = json_get(j, json_root(j), SLICE("metadata"));
	int i = json_is_str(j, json_get(j, meta, SLICE("name")), slice_of(secret_names[TLS])) ? TLS
											      : CA;
	struct secret *s = &w->secret[i];
	char version[32];

	snprintf(version, sizeof(version), "%u", s->version);
	if (create && s->data)
		api_status(reply, 409, "AlreadyExists", "it exists");
	else if (!create && !s->data)
		no_such(reply);
	else if (!create &&
		 !json_is_str(j, json_get(j, meta, SLICE("resourceVersion")), slice_of(version)))
		api_status(reply, 409, "Conflict", "it was changed");
	else {
		store_secret(w, i, j);
		show_secret(w, i, reply);
	}
}

static void show_configuration(const struct world *w, int c, struct api_reply *reply)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	buf_fmt(&b,
		"{\"metadata\":{\"name\":\"poolgate\",\"resourceVersion\":\"%u\"},\"webhooks\":[",
		w->configuration_version[c]);
	for (size_t i = 0; i < hooks_of[c]; i++) {
		buf_fmt(&b, "%s{\"name\":\"h%zu\",\"clientConfig\":{\"service\":{}", i ? "," : "",
			i);
		if (w->bundle[c][i])
			buf_fmt(&b, ",\"caBundle\":\"%s\"", w->bundle[c][i]);
		buf_str(&b, "}}");
	}
	buf_str(&b, "]}");
	api_text(reply, 200, "%s", b.data);
	buf_release(&b);
}

static void patch_configuration(
	struct world *w, int c, const struct json *j, struct api_reply *reply)
{
	char version[32];

	snprintf(version, sizeof(version), "%u", w->configuration_version[c]);
	JSON_EACH(j, json_root(j), op)
	{
		const struct json_node *value = json_get(j, op, SLICE("value"));
		struct slice path = json_inside(j, json_get(j, op, SLICE("path")));

		if (slice_is(path, "/metadata/resourceVersion")) {
			if (!json_is_str(j, value, slice_of(version))) {
				api_status(reply, 422, "Invalid", "the test failed");
				return;
			}
			continue;
		}
		assert_true(slice_starts(path, SLICE("/webhooks/")));
		assert_true((size_t)(path.at[10] - '0') < hooks_of[c]);
		put(&w->bundle[c][path.at[10] - '0'], json_inside(j, value));
	}
	w->configuration_version[c] = ++w->version;
	w->writes++;
	/* one history for all: what one hook trusts, the others will a moment later */
	follow(w->bundles, &w->n_bundles, pem_of(w->bundle[c][0], strlen(w->bundle[c][0])));
	judge(w);
	show_configuration(w, c, reply);
}

static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	struct world *w = ctx;
	struct json j = {0};
	bool reads = strcmp(req->method, "GET") == 0;

	if (!reads)
		assert_int_equal(json_read(&j, req->body, req->body_len, 10000, NULL), 0);
	if (strcmp(req->path, SECRETS "/poolgate-ca") == 0 && reads)
		show_secret(w, CA, reply);
	else if (strcmp(req->path, SECRETS "/poolgate-tls") == 0 && reads)
		show_secret(w, TLS, reply);
	else if (strncmp(req->path, SECRETS, strlen(SECRETS)) == 0)
		write_secret(w, &j, strcmp(req->method, "POST") == 0, reply);
	else if (strncmp(req->path, REGISTRATION, strlen(REGISTRATION)) == 0) {
		int c = strncmp(req->path + strlen(REGISTRATION), "mutating", 8) == 0 ? MUTATING
										      : VALIDATING;

		if (reads)
			show_configuration(w, c, reply);
		else
			patch_configuration(w, c, &j, reply);
	} else
		no_such(reply);
	json_release(&j);
	return 0;
}

/* ---- the world ---- */

FIXTURE(set_up)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->configuration_version[0] = w->configuration_version[1] = w->version = 1;
	w->api = api_start(handle, w);
	api_config(w->api, &w->config);
	assert_int_equal(kube_new(&w->config, &w->kube, NULL), 0);
	w->metrics = metrics_new(metric_table, M_COUNT);
	assert_non_null(w->metrics);
	w->log = (struct log){.fd = 2, .level = LOG_LEVEL_ERROR};
	w->cfg = (struct cert_keeper_config){.kube = w->kube,
		.log = &w->log,
		.metrics = w->metrics,
		.namespace = NS,
		.service = "poolgate",
		.configuration = "poolgate",
		.policy = {WAIT_S, WAIT_S},
		.every_ms = 50};
	w->duty = cert_keeper_duty(&w->cfg);
	*state = w;
	return 0;
}

static void keep(struct world *w, int n)
{
	for (int i = 0; i < n; i++)
		assert_int_equal(w->duty.start(w->duty.ctx, &w->running[i], NULL), 0);
}

FIXTURE(tear_down)
{
	struct world *w = *state;

	for (int i = 0; i < 2; i++)
		if (w->running[i])
			w->duty.stop(w->running[i]);
	kube_free(w->kube);
	api_stop(w->api);
	metrics_free(w->metrics);
	for (int i = 0; i < 2; i++) {
		free(w->secret[i].labels);
		free(w->secret[i].annotations);
		free(w->secret[i].data);
		free(w->bundle[i][0]);
		free(w->bundle[i][1]);
	}
	for (size_t i = 0; i < w->n_bundles; i++)
		free(w->bundles[i].pem);
	for (size_t i = 0; i < w->n_pairs; i++)
		free(w->pairs[i].pem);
	free(w);
	return 0;
}

typedef bool condition_fn(const struct world *w);

/* Under the API server's lock. False after so long. */
static bool eventually(struct world *w, condition_fn *fn, int ms)
{
	int64_t until = api_now_ms() + ms;

	for (;;) {
		bool yes;

		api_lock(w->api);
		yes = fn(w);
		api_unlock(w->api);
		if (yes || api_now_ms() > until)
			return yes;
		api_nap(20);
	}
}

static bool trusted_everywhere(const struct world *w)
{
	char *cert = value_of(&w->secret[TLS], "tls.crt");
	bool ok = cert != NULL;

	for (size_t c = 0; c < 2; c++) {
		for (size_t i = 0; i < hooks_of[c] && ok; i++) {
			const char *b = w->bundle[c][i];
			char *pem = b ? pem_of(b, strlen(b)) : NULL;

			ok = pem && x509_check_chain(slice_of(pem), slice_of(cert),
					    clock_wall_ms() / 1000, NULL) == 0;
			free(pem);
		}
	}
	free(cert);
	return ok;
}

/* One CA, with its key, nothing of a rotation left, and the bundle is this CA alone. */
static bool settled(const struct world *w)
{
	char *ca = value_of(&w->secret[CA], "ca.crt"), *key = value_of(&w->secret[CA], "ca.key");
	char *next = value_of(&w->secret[CA], "next.crt"),
	     *old = value_of(&w->secret[CA], "old.crt");
	char *bundle = w->bundle[MUTATING][0]
			       ? pem_of(w->bundle[MUTATING][0], strlen(w->bundle[MUTATING][0]))
			       : NULL;
	bool ok = ca && key && !next && !old && bundle && strcmp(ca, bundle) == 0 &&
		  trusted_everywhere(w);

	free(ca);
	free(key);
	free(next);
	free(old);
	free(bundle);
	return ok;
}

static void add_value(struct buf *b, const char *key, const struct buf *value)
{
	buf_fmt(b, "%s\"%s\":\"", b->len > 1 ? "," : "", key);
	buf_base64(b, value->data, value->len);
	buf_char(b, '"');
}

static void seed(struct world *w, int i, const char *cert, const char *key,
	const struct x509_pair *pair, const char *labels)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	buf_char(&b, '{');
	add_value(&b, cert, &pair->cert);
	add_value(&b, key, &pair->key);
	buf_char(&b, '}');
	put(&w->secret[i].data, buf_as_slice(&b));
	put(&w->secret[i].labels, slice_of(labels));
	put(&w->secret[i].annotations, SLICE("{}"));
	w->secret[i].version = ++w->version;
	if (i == TLS)
		follow(w->pairs, &w->n_pairs, value_of(&w->secret[i], "tls.crt"));
	buf_release(&b);
}

#define OURS "{\"app.kubernetes.io/managed-by\":\"poolgate\"}"

/* Both Secrets as a keeper left them so long ago. */
static void seed_all(struct world *w, int64_t ago_s, int64_t ca_valid_s, int64_t valid_s)
{
	int64_t then = clock_wall_ms() / 1000 - ago_s;
	struct certs_names names = {0};
	struct x509_pair ca, pair;
	struct buf b;

	x509_pair_init(&ca);
	x509_pair_init(&pair);
	assert_int_equal(certs_names_service(&names, SLICE("poolgate"), SLICE(NS), NULL), 0);
	assert_int_equal(x509_make_ca(&names, then, ca_valid_s, &ca, NULL), 0);
	assert_int_equal(x509_make_serving(&ca, &names, then, valid_s, &pair, NULL), 0);
	seed(w, CA, "ca.crt", "ca.key", &ca, OURS);
	seed(w, TLS, "tls.crt", "tls.key", &pair, OURS);
	buf_init(&b, 1 << 20);
	buf_base64(&b, ca.cert.data, ca.cert.len);
	for (size_t c = 0; c < 2; c++)
		for (size_t i = 0; i < hooks_of[c]; i++)
			put(&w->bundle[c][i], buf_as_slice(&b));
	follow(w->bundles, &w->n_bundles, pem_of(b.data, b.len));
	buf_release(&b);
	x509_pair_release(&ca);
	x509_pair_release(&pair);
}

/* ---- the tests ---- */

TEST(makes_both_at_first)
{
	struct world *w = *state;
	char *cert, *key;
	unsigned writes;

	keep(w, 1);
	assert_true(eventually(w, settled, 5000));
	api_lock(w->api);
	assert_string_equal(w->secret[CA].labels, OURS);
	assert_string_equal(w->secret[TLS].labels, OURS);
	cert = value_of(&w->secret[TLS], "tls.crt");
	key = value_of(&w->secret[TLS], "tls.key");
	assert_int_equal(x509_check_pair(slice_of(cert), slice_of(key), NULL), 0);
	free(cert);
	free(key);
	writes = w->writes;
	api_unlock(w->api);
	assert_true(metric_value(w->metrics, M_CA_NOT_AFTER, 0, 0) >
		    clock_wall_ms() / 1000 + INT64_C(3600) * 86400 - 10);
	api_nap(300);
	assert_int_equal(w->writes, writes);
}

TEST(renews_at_two_thirds)
{
	struct world *w = *state;
	char *ca_before, *ca_after;

	seed_all(w, 1000, 100000, 1400);
	ca_before = value_of(&w->secret[CA], "ca.crt");
	w->strict = true;
	keep(w, 1);
	api_wait(w->api, "PUT", SECRETS "/poolgate-tls", 1);
	assert_true(eventually(w, settled, 2000));
	api_nap(200);
	assert_int_equal(w->n_pairs, 2);
	assert_int_equal(w->broken, 0);
	ca_after = value_of(&w->secret[CA], "ca.crt");
	assert_string_equal(ca_before, ca_after);
	free(ca_before);
	free(ca_after);
}

TEST(leaves_a_young_pair)
{
	struct world *w = *state;

	seed_all(w, 900, 100000, 1400);
	keep(w, 1);
	api_nap(300);
	assert_int_equal(w->writes, 0);
}

static bool another_pair(const struct world *w)
{
	return w->n_pairs >= 2 && w->n_bundles >= 3 && settled(w);
}

static void another_ca_follows(struct world *w, int keepers)
{
	char *before, *after;

	seed_all(w, 1000, 1400, 1400);
	before = value_of(&w->secret[CA], "ca.crt");
	w->strict = true;
	keep(w, keepers);
	assert_true(eventually(w, another_pair, 12000));
	assert_int_equal(w->broken, 0);
	/* the first, both, the second alone */
	assert_int_equal(w->n_bundles, 3);
	after = value_of(&w->secret[CA], "ca.crt");
	assert_string_not_equal(before, after);
	free(before);
	free(after);
}

TEST(rotates)
{
	another_ca_follows(*state, 1);
}

TEST(two_rotate_at_once)
{
	another_ca_follows(*state, 2);
}

TEST(two_start_at_once)
{
	struct world *w = *state;

	keep(w, 2);
	assert_true(eventually(w, settled, 5000));
}

static void delete (struct world *w, int i)
{
	api_lock(w->api);
	free(w->secret[i].data);
	w->secret[i].data = NULL;
	api_unlock(w->api);
}

/* The pair in use stays trusted until another CA has followed in the usual way. */
TEST(the_ca_is_deleted_by_hand)
{
	struct world *w = *state;

	seed_all(w, 10, 100000, 1400);
	delete (w, CA);
	w->strict = true;
	keep(w, 1);
	assert_true(eventually(w, another_pair, 12000));
	assert_int_equal(w->broken, 0);
}

/* What a hook trusts: these certificates, one behind the other. */
static void set_bundle(
	struct world *w, int c, size_t hook, const struct buf *first, const char *pem)
{
	struct buf all, b;

	buf_init(&all, 1 << 20);
	buf_init(&b, 1 << 20);
	buf_slice(&all, buf_as_slice(first));
	buf_str(&all, pem);
	buf_base64(&b, all.data, all.len);
	put(&w->bundle[c][hook], buf_as_slice(&b));
	buf_release(&all);
	buf_release(&b);
}

/* Of the three hooks one trusts nobody, one somebody else, and one the CA behind somebody else's.
 */
TEST(the_ca_is_found_behind_others)
{
	struct world *w = *state;
	struct certs_names names = {0};
	struct x509_pair other;
	char *ca;

	seed_all(w, 10, 100000, 1400);
	ca = value_of(&w->secret[CA], "ca.crt");
	x509_pair_init(&other);
	assert_int_equal(certs_names_service(&names, SLICE("other"), SLICE(NS), NULL), 0);
	assert_int_equal(
		x509_make_ca(&names, clock_wall_ms() / 1000 - 10, 100000, &other, NULL), 0);
	set_bundle(w, VALIDATING, 1, &other.cert, ca);
	/* its last line has no end */
	while (other.cert.data[other.cert.len - 1] == '\n')
		other.cert.data[--other.cert.len] = '\0';
	set_bundle(w, VALIDATING, 0, &other.cert, "");
	free(w->bundle[MUTATING][0]);
	w->bundle[MUTATING][0] = NULL;
	x509_pair_release(&other);
	delete (w, CA);
	w->strict = true;
	keep(w, 1);
	assert_true(eventually(w, another_pair, 12000));
	assert_int_equal(w->broken, 0);
	/* the first, both, the second alone */
	assert_int_equal(w->n_bundles, 3);
	assert_non_null(strstr(w->bundles[1].pem, ca));
	assert_null(strstr(w->bundles[2].pem, ca));
	free(ca);
}

/* Nobody trusts the pair in use: there is nothing to keep, and another CA and pair come at once. */
TEST(the_ca_is_found_nowhere)
{
	struct world *w = *state;
	struct certs_names names = {0};
	struct x509_pair other;

	seed_all(w, 10, 100000, 1400);
	x509_pair_init(&other);
	assert_int_equal(certs_names_service(&names, SLICE("other"), SLICE(NS), NULL), 0);
	assert_int_equal(
		x509_make_ca(&names, clock_wall_ms() / 1000 - 10, 100000, &other, NULL), 0);
	for (int c = 0; c < 2; c++)
		for (size_t i = 0; i < hooks_of[c]; i++)
			set_bundle(w, c, i, &other.cert, "");
	x509_pair_release(&other);
	delete (w, CA);
	keep(w, 1);
	assert_true(eventually(w, settled, 5000));
	assert_int_equal(w->n_pairs, 2);
}

TEST(the_pair_is_deleted_by_hand)
{
	struct world *w = *state;

	seed_all(w, 10, 100000, 1400);
	delete (w, TLS);
	w->strict = true;
	keep(w, 1);
	assert_true(eventually(w, settled, 5000));
	assert_int_equal(w->broken, 0);
	assert_int_equal(w->n_bundles, 1);
}

TEST(a_bundle_is_taken_away)
{
	struct world *w = *state;

	seed_all(w, 10, 100000, 1400);
	free(w->bundle[VALIDATING][1]);
	w->bundle[VALIDATING][1] = NULL;
	keep(w, 1);
	assert_true(eventually(w, settled, 5000));
	assert_int_equal(w->n_pairs, 1);
}

/* A CA's Secret in which none is. */
static void seed_junk(struct world *w, const char *labels)
{
	struct x509_pair junk;

	x509_pair_init(&junk);
	buf_str(&junk.cert, "no certificate");
	buf_str(&junk.key, "no key");
	seed(w, CA, "ca.crt", "ca.key", &junk, labels);
	x509_pair_release(&junk);
}

TEST(leaves_somebody_elses_secret)
{
	struct world *w = *state;

	seed_junk(w, "{}");
	w->log.level = LOG_LEVEL_ERROR;
	keep(w, 1);
	api_wait(w->api, "GET", SECRETS "/poolgate-ca", 4);
	assert_int_equal(w->writes, 0);
	assert_int_equal(api_seen_of(w->api, "PUT", "*"), 0);
}

TEST(makes_its_own_secret_anew)
{
	struct world *w = *state;

	seed_junk(w, OURS);
	keep(w, 1);
	assert_true(eventually(w, settled, 5000));
}

/* Who says nothing of how often gets a keeper that rests. */
TEST(it_rests_by_default)
{
	struct world *w = *state;
	size_t before = 0, now;

	w->cfg.every_ms = 0;
	keep(w, 1);
	assert_true(api_wait(w->api, "GET", SECRETS "/poolgate-tls", 1));
	now = api_seen_of(w->api, "GET", SECRETS "/poolgate-tls");
	for (int i = 0; i < 10 && now != before; i++) {
		before = now;
		api_nap(300);
		now = api_seen_of(w->api, "GET", SECRETS "/poolgate-tls");
	}
	assert_int_equal(now, before);
}

TESTS_BETWEEN(set_up, tear_down, makes_both_at_first, renews_at_two_thirds, leaves_a_young_pair,
	rotates, two_rotate_at_once, two_start_at_once, the_ca_is_deleted_by_hand,
	the_ca_is_found_behind_others, the_ca_is_found_nowhere, the_pair_is_deleted_by_hand,
	a_bundle_is_taken_away, leaves_somebody_elses_secret, makes_its_own_secret_anew,
	it_rests_by_default)
