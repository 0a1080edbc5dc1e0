/* SPDX-License-Identifier: Apache-2.0 */
/* test: the client's Secrets, copied into namespaces that hold claims, on an API server with
 * Secrets, rights and the record. */
#include "test/unit/pool_api.h"
#include "test/unit/test.h"
#include "webhook/cluster/secrets/secret_data.h"
#include "webhook/cluster/secrets/secret_gate.h"
#include "webhook/cluster/secrets/secret_sync.h"

#define SOON 5000
/* Many ticks: what has not happened by then does not. */
#define LONG 1200
#define OURS "['poolgate.io/claims']"
#define SPEC "{'address':'10.0.0.1:56001','gpus':[{'model':'V100','memory':'16G','count':1}]}"
#define STATUS(claims)                                                                             \
	"{'version':1,'gpus':[{'id':'gpu-0','model':'V100','memory':16000000000,'fit':true}],"     \
	"'claims':[" claims "]}"
#define CLAIM(uid, ns, state)                                                                      \
	"{'uid':'" uid "','namespace':'" ns "','name':'p-" uid "','state':'" state                 \
	"','plan':'0000000000000000','since':'2026-11-21T09:30:00Z','take':'00000000000000aa',"    \
	"'servers':['a'],'gpus':[{'id':'gpu-0','bytes':1000}]}"

#define CA "bitfusion-client-secret-ca.crt"
#define CLIENT "bitfusion-client-secret-client.yml"
#define CONF "bitfusion-client-secret-servers.conf"
#define MANAGED "{\"app.kubernetes.io/managed-by\":\"poolgate\"}"
#define SOURCE_DATA                                                                                \
	"{\"ca.crt\":\"Q0E=\",\"client.yaml\":\"WQ==\",\"servers.conf\":\"Uw==\",\"other\":"       \
	"\"bm8=\"}"
#define SECRETS_MAX 32

struct secret {
	char *namespace, *name, *type, *labels, *data; /* name NULL: there is none */
	unsigned version, uid;
};

static struct world {
	struct pool_api *pool;
	struct api *api;
	struct kube_config config;
	struct kube *kube;
	struct secret_sync_config cfg;
	void *second; /* another leader's duty */
	/* the API server's, under its lock */
	struct secret secret[SECRETS_MAX];
	char *record; /* data.namespaces; NULL: no ConfigMap */
	unsigned version, record_version, uids;
	unsigned writes, deletes, records, record_reads;
	char open[256];     /* " a b ": where our account may do all */
	bool between;       /* something in between answers 404 to every GET of a Secret */
	bool one_source;    /* of the source's Secrets no other can be read */
	bool meddle;        /* before the next write somebody else writes */
	bool vanish;        /* what is to be deleted is gone a moment before */
	bool frozen;        /* the record may be read, not written */
	unsigned premature; /* copies that were written before the record said so */
	unsigned misnamed;  /* copies that name another source than theirs */
} w;

/* ---- the API server, with its lock held ---- */

static struct secret *find(const char *ns, const char *name)
{
	for (size_t i = 0; i < SECRETS_MAX; i++)
		if (w.secret[i].name && strcmp(w.secret[i].name, name) == 0 &&
			strcmp(w.secret[i].namespace, ns) == 0)
			return &w.secret[i];
	return NULL;
}

static void forget(struct secret *s)
{
	free(s->namespace);
	free(s->name);
	free(s->type);
	free(s->labels);
	free(s->data);
	*s = (struct secret){0};
}

static struct secret *store(
	const char *ns, const char *name, const char *type, const char *labels, const char *data)
{
	struct secret *s = find(ns, name);
	unsigned uid = s ? s->uid : ++w.uids;

	for (size_t i = 0; !s && i < SECRETS_MAX; i++)
		if (!w.secret[i].name)
			s = &w.secret[i];
	assert_non_null(s);
	forget(s);
	*s = (struct secret){strdup(ns), strdup(name), strdup(type), strdup(labels), strdup(data),
		++w.version, uid};
	return s;
}

static bool has_word(const char *words, const char *word)
{
	char padded[512], want[128];

	snprintf(padded, sizeof(padded), " %s ", words);
	snprintf(want, sizeof(want), " %s ", word);
	return strstr(padded, want) != NULL;
}

static void show(const struct secret *s, struct api_reply *reply)
{
	api_text(reply, 200,
		"{\"kind\":\"Secret\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"%s\",\"uid\":"
		"\"u-%u\",\"resourceVersion\":\"%u\",\"labels\":%s},\"type\":\"%s\",\"data\":%s}",
		s->name, s->namespace, s->uid, s->version, s->labels, s->type, s->data);
}

static char *text_at(const struct json *j, const struct json_node *v, bool raw)
{
	struct slice s = raw ? json_raw(j, v) : json_inside(j, v);

	return s.at ? strndup(s.at, s.len) : strdup("");
}

static bool same_number(const struct json *j, const struct json_node *v, unsigned number)
{
	char text[32];

	snprintf(text, sizeof(text), "%u", number);
	return json_is_str(j, v, slice_of(text));
}

/* Three Secrets, where all are there, are sources of their own names. */
static bool names_source(const char *copy, const struct json *j)
{
	bool three = !w.one_source && find("kube-system", CA) && find("kube-system", CLIENT) &&
		     find("kube-system", CONF);
	char own[128];

	snprintf(own, sizeof(own), "kube-system/%s", three ? copy : "bitfusion-secret");
	return json_is_str(j,
		json_path(j, json_root(j), "metadata", "annotations", "poolgate.io/copied-from",
			NULL),
		slice_of(own));
}

static void write_secret(
	const char *ns, const char *name, const struct json *j, struct api_reply *reply)
{
	const struct json_node *root = json_root(j), *meta = json_get(j, root, SLICE("metadata"));
	char *wanted = text_at(j, json_get(j, meta, SLICE("name")), false);
	char *labels = text_at(j, json_get(j, meta, SLICE("labels")), true);
	char *data = text_at(j, json_get(j, root, SLICE("data")), true);
	char *type = text_at(j, json_get(j, root, SLICE("type")), false);
	struct secret *s = find(ns, wanted);

	if (!has_word(w.record ? w.record : "", ns))
		w.premature++;
	w.misnamed += !names_source(wanted, j);
	if (!*name && s) {
		api_status(reply, 409, "AlreadyExists", "it exists");
	} else if (*name && (!s || !same_number(j, json_get(j, meta, SLICE("resourceVersion")),
					   s->version))) {
		api_status(reply, s ? 409 : 404, s ? "Conflict" : "NotFound", "another one");
	} else {
		w.writes++;
		show(store(ns, wanted, type, labels, data), reply);
	}
	free(wanted);
	free(labels);
	free(data);
	free(type);
}

static void delete_secret(struct secret *s, const struct json *j, struct api_reply *reply)
{
	const struct json_node *pre = json_get(j, json_root(j), SLICE("preconditions"));

	if (!same_number(j, json_get(j, pre, SLICE("resourceVersion")), s->version)) {
		api_status(reply, 409, "Conflict", "another one");
		return;
	}
	w.deletes++;
	forget(s);
	api_text(reply, 200, "{\"kind\":\"Status\",\"status\":\"Success\"}");
}

static void secrets(const char *ns, const char *name, const struct api_request *req,
	const struct json *j, struct api_reply *reply)
{
	struct secret *s = find(ns, name);
	bool get = strcmp(req->method, "GET") == 0;

	if (get && w.between) {
		api_text(reply, 404, "default backend - 404");
		return;
	}
	if (get && w.one_source && strcmp(ns, "kube-system") == 0 &&
		strcmp(name, "bitfusion-secret") != 0) {
		api_status(reply, 403, "Forbidden", "no right");
		return;
	}
	if (!has_word(w.open, ns) && !(get && strcmp(ns, "kube-system") == 0)) {
		api_status(reply, 403, "Forbidden", "no right");
		return;
	}
	if (!get && w.meddle) {
		w.meddle = false;
		store(ns, CA, "Opaque", MANAGED, "{\"ca.crt\":\"YmFk\"}");
		s = find(ns, name);
	}
	if (w.vanish && s && strcmp(req->method, "DELETE") == 0) {
		forget(s);
		s = NULL;
	}
	if (strcmp(req->method, "POST") == 0 || strcmp(req->method, "PUT") == 0)
		write_secret(ns, name, j, reply);
	else if (!s)
		api_status(reply, 404, "NotFound", "not found");
	else if (get)
		show(s, reply);
	else
		delete_secret(s, j, reply);
}

static void record(const struct api_request *req, const struct json *j, struct api_reply *reply)
{
	const struct json_node *root = json_root(j);

	if (!w.record) {
		api_status(reply, 404, "NotFound", "not found");
		return;
	}
	if (strcmp(req->method, "PUT") == 0 && w.frozen) {
		api_status(reply, 403, "Forbidden", "no right");
		return;
	}
	if (strcmp(req->method, "PUT") == 0) {
		if (!same_number(j, json_path(j, root, "metadata", "resourceVersion", NULL),
			    w.record_version)) {
			api_status(reply, 409, "Conflict", "another one");
			return;
		}
		/* what others wrote there stays */
		assert_true(json_is_str(
			j, json_path(j, root, "metadata", "labels", "a", NULL), SLICE("b")));
		free(w.record);
		w.record = text_at(j, json_path(j, root, "data", "namespaces", NULL), false);
		w.record_version = ++w.version;
		w.records++;
	}
	w.record_reads += strcmp(req->method, "GET") == 0;
	api_text(reply, 200,
		"{\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"r\",\"resourceVersion\":\"%u\","
		"\"labels\":{\"a\":\"b\"}}%s%s%s}",
		w.record_version, *w.record ? ",\"data\":{\"namespaces\":\"" : "", w.record,
		*w.record ? "\"}" : "");
}

static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	char ns[64] = "", kind[64] = "", name[128] = "";
	struct json j = {0};

	(void)ctx;
	if (req->body_len > 0)
		assert_int_equal(json_read(&j, req->body, req->body_len, 100000, NULL), 0);
	if (strstr(req->path, "/selfsubjectaccessreviews")) {
		char *asked = text_at(&j,
			json_path(
				&j, json_root(&j), "spec", "resourceAttributes", "namespace", NULL),
			false);

		api_text(reply, 201, "{\"status\":{\"allowed\":%s}}",
			has_word(w.open, asked) ? "true" : "false");
		free(asked);
	} else if (sscanf(req->path, "/api/v1/namespaces/%63[^/]/%63[^/]/%127s", ns, kind, name) <
		   2) {
		return 1;
	} else if (strcmp(kind, "secrets") == 0) {
		secrets(ns, name, req, &j, reply);
	} else if (strcmp(kind, "configmaps") == 0) {
		assert_string_equal(name, SECRET_SYNC_RECORD);
		assert_string_equal(ns, "poolgate-system");
		record(req, &j, reply);
	} else {
		api_text(reply, 201, "{}");
	}
	json_release(&j);
	return 0;
}

/* ---- the world ---- */

FIXTURE(set_up)
{
	w = (struct world){0};
	w.pool = pool_api_new();
	w.api = api_start(handle, NULL);
	api_config(w.api, &w.config);
	assert_int_equal(kube_new(&w.config, &w.kube, NULL), 0);
	w.record = strdup("");
	w.record_version = 1;
	w.version = 10;
	strcpy(w.open, "ml other");
	store("kube-system", "bitfusion-secret", "Opaque", "{}", SOURCE_DATA);
	w.cfg = (struct secret_sync_config){.kube = w.kube,
		.servers = w.pool->servers,
		.log = &w.pool->log,
		.metrics = w.pool->metrics,
		.namespace = "poolgate-system",
		.source = "kube-system/bitfusion-secret",
		.source_every_ms = 100,
		.recheck_ms = 400,
		.remove_after_ms = 300,
		.retry_ms = 50,
		.give_up_ms = 1500,
		.pause_ms = 30};
	pool_api_put(w.pool, "a", OURS, SPEC, STATUS(""));
	return 0;
}

FIXTURE(tear_down)
{
	if (w.second)
		w.pool->duty.stop(w.second);
	pool_api_free(w.pool);
	kube_free(w.kube);
	api_stop(w.api);
	for (size_t i = 0; i < SECRETS_MAX; i++)
		forget(&w.secret[i]);
	free(w.record);
	assert_int_equal(w.premature, 0);
	assert_int_equal(w.misnamed, 0);
	return 0;
}

static void run(void)
{
	pool_api_run(w.pool, secret_sync_duty(&w.cfg));
}

static void claims(const char *status)
{
	pool_api_status(w.pool, "a", status);
}

static void put(const char *ns, const char *name, const char *labels, const char *data)
{
	api_lock(w.api);
	store(ns, name, "Opaque", labels, data);
	api_unlock(w.api);
}

static void take_away(const char *ns, const char *name)
{
	api_lock(w.api);
	forget(find(ns, name));
	api_unlock(w.api);
}

static void open_for_us(const char *namespaces)
{
	api_lock(w.api);
	snprintf(w.open, sizeof(w.open), "%s", namespaces);
	api_unlock(w.api);
}

/* The data that a Secret comes to have; NULL: it comes to be gone. */
static bool comes(const char *ns, const char *name, const char *data)
{
	int64_t until = api_now_ms() + SOON;
	bool yes = false;

	while (!yes && api_now_ms() < until) {
		const struct secret *s;

		api_lock(w.api);
		s = find(ns, name);
		yes = data ? s && strcmp(s->data, data) == 0 : !s;
		api_unlock(w.api);
		if (!yes)
			api_nap(10);
	}
	return yes;
}

static bool record_comes(const char *text)
{
	int64_t until = api_now_ms() + SOON;
	bool yes = false;

	while (!yes && api_now_ms() < until) {
		api_lock(w.api);
		yes = w.record && strcmp(w.record, text) == 0;
		api_unlock(w.api);
		if (!yes)
			api_nap(10);
	}
	return yes;
}

static unsigned copies(const char *ns)
{
	unsigned n = 0;

	api_lock(w.api);
	for (size_t i = 0; i < SECRETS_MAX; i++)
		n += w.secret[i].name && strcmp(w.secret[i].namespace, ns) == 0;
	api_unlock(w.api);
	return n;
}

static bool filled(const char *ns)
{
	return comes(ns, CA, "{\"ca.crt\":\"Q0E=\"}") &&
	       comes(ns, CLIENT, "{\"client.yaml\":\"WQ==\"}") &&
	       comes(ns, CONF, "{\"servers.conf\":\"Uw==\"}");
}

static bool gauge_comes(size_t state, int64_t n)
{
	int64_t until = api_now_ms() + SOON;

	while (metric_value(w.pool->metrics, M_SECRET_NAMESPACES, state, 0) != n)
		if (api_now_ms() > until)
			return false;
		else
			api_nap(10);
	return true;
}

/* A pod of the namespace ml runs, and it is filled. */
static void begin_filled(void)
{
	claims(STATUS(CLAIM("1", "ml", "bound")));
	run();
	assert_true(filled("ml"));
}

/* ---- cases ---- */

TEST(test_filled_and_emptied)
{
	run();
	claims(STATUS(CLAIM("1", "ml", "pending")));
	api_nap(LONG / 2);
	assert_int_equal(copies("ml"), 0);
	claims(STATUS(CLAIM("1", "ml", "bound")));
	assert_true(filled("ml"));
	assert_int_equal(copies("ml"), 3);
	assert_true(record_comes("ml"));
	assert_true(gauge_comes(PLACES_FILLED, 1));
	api_lock(w.api);
	assert_string_equal(find("ml", CA)->type, "Opaque");
	assert_string_equal(find("ml", CA)->labels,
		"{\"app.kubernetes.io/managed-by\":\"poolgate\",\"poolgate.io/secret-copy\":"
		"\"true\"}");
	assert_int_equal(w.writes, 3);
	api_unlock(w.api);
	/* a look is no write */
	api_nap(LONG / 2);
	assert_int_equal(w.writes, 3);
	claims(STATUS(CLAIM("2", "ml", "pending")));
	api_nap(LONG / 2);
	assert_int_equal(copies("ml"), 3);
	claims(STATUS(CLAIM("2", "other", "adopted")));
	assert_true(filled("other"));
	assert_true(record_comes("other"));
	assert_int_equal(copies("ml"), 0);
	claims(STATUS(""));
	assert_true(record_comes(""));
	assert_int_equal(copies("other"), 0);
	assert_int_equal(w.deletes, 6);
	/* and again */
	claims(STATUS(CLAIM("3", "ml", "bound")));
	assert_true(filled("ml"));
}

TEST(test_source_changes)
{
	claims(STATUS(CLAIM("1", "ml", "bound") "," CLAIM("2", "other", "bound")));
	run();
	assert_true(filled("ml") && filled("other"));
	put("kube-system", "bitfusion-secret", "{}",
		"{\"ca.crt\":\"bmV3\",\"client.yaml\":\"WQ==\"}");
	assert_true(comes("ml", CA, "{\"ca.crt\":\"bmV3\"}"));
	assert_true(comes("other", CA, "{\"ca.crt\":\"bmV3\"}"));
	/* the key that is gone leaves its copy */
	assert_true(comes("ml", CONF, "{\"servers.conf\":\"Uw==\"}"));
	api_lock(w.api);
	assert_int_equal(w.writes, 8);
	api_unlock(w.api);
	/* drift is mended */
	put("ml", CLIENT, MANAGED, "{\"client.yaml\":\"YmFk\"}");
	assert_true(comes("ml", CLIENT, "{\"client.yaml\":\"WQ==\"}"));
	take_away("ml", CLIENT);
	assert_true(comes("ml", CLIENT, "{\"client.yaml\":\"WQ==\"}"));
}

/* Whichever of them does, and not when its namespace is looked at again, which is minutes later. */
TEST(test_source_changes_at_once)
{
	w.cfg.recheck_ms = 10 * SOON;
	begin_filled();
	put("kube-system", "bitfusion-secret", "{}",
		"{\"ca.crt\":\"bmV3\",\"client.yaml\":\"WQ==\",\"servers.conf\":\"Uw==\"}");
	assert_true(comes("ml", CA, "{\"ca.crt\":\"bmV3\"}"));
	put("kube-system", "bitfusion-secret", "{}",
		"{\"ca.crt\":\"bmV3\",\"client.yaml\":\"bmV3\",\"servers.conf\":\"Uw==\"}");
	assert_true(comes("ml", CLIENT, "{\"client.yaml\":\"bmV3\"}"));
	put("kube-system", "bitfusion-secret", "{}",
		"{\"ca.crt\":\"bmV3\",\"client.yaml\":\"bmV3\",\"servers.conf\":\"bmV3\"}");
	assert_true(comes("ml", CONF, "{\"servers.conf\":\"bmV3\"}"));
}

/* What a Secret's key holds, in base64. */
TEST(test_values)
{
	static const struct {
		const char *secret;
		int rc;
		const char *says; /* what it holds, or a part of the error */
	} cases[] = {
		{"{\"data\":{\"k\":\"aGk=\"}}", 0, "hi"},
		{"{\"data\":{\"k\":\"aGk\"}}", ERR_SYNTAX, "key k"},
		{"{\"data\":{\"k\":\"!!!!\"}}", ERR_SYNTAX, "key k"},
		{"{\"data\":{\"k\":7}}", ERR_SYNTAX, "key k is no base64 text"},
		{"{\"data\":{\"k\":\"\"}}", ERR_NOTFOUND, "key k is missing"},
		{"{\"data\":{\"x\":\"aGk=\"}}", ERR_NOTFOUND, "key k is missing"},
		{"{}", ERR_NOTFOUND, "key k is missing"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct json j = {0};
		struct buf out;
		struct err err = {0};
		char text[64 + JSON_PAD] = "";

		buf_init(&out, 100);
		strcpy(text, cases[i].secret);
		assert_int_equal(json_read(&j, text, strlen(text), 20, NULL), 0);
		assert_int_equal(secret_value(&j, json_root(&j), "k", &out, &err), cases[i].rc);
		assert_non_null(strstr(cases[i].rc ? err.msg : out.data, cases[i].says));
		buf_release(&out);
		json_release(&j);
	}
}

TEST(test_three_secrets)
{
	put("kube-system", CA, "{}", "{\"ca.crt\":\"MQ==\",\"x\":\"eA==\"}");
	put("kube-system", CLIENT, "{}", "{\"client.yaml\":\"Mg==\"}");
	begin_filled();
	put("kube-system", CONF, "{}", "{\"servers.conf\":\"Mw==\"}");
	assert_true(comes("ml", CA, "{\"ca.crt\":\"MQ==\"}"));
	assert_true(comes("ml", CLIENT, "{\"client.yaml\":\"Mg==\"}"));
	assert_true(comes("ml", CONF, "{\"servers.conf\":\"Mw==\"}"));
}

/* Where no right to read the three was given, the one is the source. */
TEST(test_three_secrets_closed_to_us)
{
	w.one_source = true;
	put("kube-system", CA, "{}", "{\"ca.crt\":\"MQ==\"}");
	begin_filled();
	assert_int_equal(copies("ml"), 3);
}

TEST(test_no_source)
{
	take_away("kube-system", "bitfusion-secret");
	claims(STATUS(CLAIM("1", "ml", "bound")));
	run();
	assert_true(gauge_comes(PLACES_FAILED, 1));
	api_lock(w.api);
	store("kube-system", "bitfusion-secret", "kubernetes.io/service-account-token", "{}",
		SOURCE_DATA);
	api_unlock(w.api);
	api_nap(LONG / 2);
	assert_int_equal(copies("ml"), 0);
	put("kube-system", "bitfusion-secret", "{}", SOURCE_DATA);
	assert_true(filled("ml"));
	/* gone: what was copied stays */
	take_away("kube-system", "bitfusion-secret");
	api_nap(LONG / 2);
	assert_int_equal(copies("ml"), 3);
}

TEST(test_foreign_is_left_alone)
{
	put("ml", CA, "{}", "{\"ca.crt\":\"bWluZQ==\"}");
	claims(STATUS(CLAIM("1", "ml", "bound")));
	run();
	assert_true(comes("ml", CLIENT, "{\"client.yaml\":\"WQ==\"}"));
	assert_true(comes("ml", CONF, "{\"servers.conf\":\"Uw==\"}"));
	assert_true(api_wait(w.api, "POST", "/api/v1/namespaces/ml/events", 1));
	assert_non_null(strstr(api_last(w.api, "POST", "/api/v1/namespaces/ml/events")->body, CA));
	assert_non_null(
		strstr(api_last(w.api, "POST", "/api/v1/namespaces/ml/events")->body, "\"p-1\""));
	assert_true(gauge_comes(PLACES_FOREIGN, 1));
	api_nap(LONG / 2);
	assert_int_equal(api_seen_of(w.api, "POST", "/api/v1/namespaces/ml/events"), 1);
	assert_true(comes("ml", CA, "{\"ca.crt\":\"bWluZQ==\"}"));
	/* nor is it deleted */
	claims(STATUS(""));
	assert_true(record_comes(""));
	assert_int_equal(copies("ml"), 1);
	claims(STATUS(CLAIM("1", "ml", "bound")));
	assert_true(comes("ml", CLIENT, "{\"client.yaml\":\"WQ==\"}"));
	take_away("ml", CA);
	assert_true(filled("ml"));
	assert_true(gauge_comes(PLACES_FILLED, 1));
}

TEST(test_closed_namespace)
{
	size_t asked;

	claims(STATUS(CLAIM("1", "shut", "bound") "," CLAIM("2", "ml", "bound")));
	run();
	assert_true(filled("ml"));
	assert_true(gauge_comes(PLACES_CLOSED, 1));
	/* waits grow: 50, 100, 200, 400, 600 ms and a tick */
	asked = api_seen_of(w.api, "GET", "/api/v1/namespaces/shut/*");
	api_nap(LONG);
	assert_in_range(api_seen_of(w.api, "GET", "/api/v1/namespaces/shut/*") - asked, 1, 6);
	assert_int_equal(copies("shut"), 0);
	assert_true(record_comes("ml"));
	open_for_us("ml shut");
	assert_true(filled("shut"));
	assert_true(record_comes("ml shut"));
}

TEST(test_closed_before_the_last_claim_ended)
{
	unsigned records;

	begin_filled();
	open_for_us("");
	claims(STATUS(""));
	api_nap(800);
	assert_string_equal(w.record, "ml");
	assert_true(record_comes(""));
	assert_int_equal(copies("ml"), 3);
	/* It stays forgotten. */
	records = w.records;
	api_nap(LONG);
	assert_string_equal(w.record, "");
	assert_int_equal(w.records, records);
}

/* Only the API server's own word says that a copy is gone: else it would stay for ever. */
TEST(test_404_of_something_in_between)
{
	begin_filled();
	assert_true(record_comes("ml"));
	api_lock(w.api);
	w.between = true;
	api_unlock(w.api);
	claims(STATUS(""));
	api_nap(800);
	api_lock(w.api);
	assert_string_equal(w.record, "ml");
	w.between = false;
	api_unlock(w.api);
	assert_true(record_comes(""));
	assert_int_equal(copies("ml"), 0);
}

TEST(test_never_in_these)
{
	open_for_us("poolgate-system kube-system kube-public kube-node-lease ml");
	claims(STATUS(CLAIM("1", "poolgate-system", "bound") "," CLAIM(
		"2", "kube-system", "bound") "," CLAIM("3", "kube-public", "bound") "," CLAIM("4",
		"kube-node-lease", "bound") "," CLAIM("5", "ml", "bound")));
	run();
	assert_true(filled("ml"));
	api_nap(500);
	assert_int_equal(w.writes, 3);
	assert_true(record_comes("ml"));
}

TEST(test_next_leader)
{
	free(w.record);
	/* also where somebody has edited it, with line ends between the names */
	w.record = strdup("ml Not_A_Name old\\nother gone\\n");
	put("ml", CA, MANAGED, "{\"ca.crt\":\"b2xk\"}");
	put("other", CA, MANAGED, "{\"ca.crt\":\"b2xk\"}");
	put("other", CONF, "{}", "{\"servers.conf\":\"b2xk\"}");
	open_for_us("ml other gone");
	begin_filled();
	assert_true(comes("other", CA, NULL));
	assert_int_equal(copies("other"), 1);
	/* "old" cannot be asked: gone or closed */
	assert_true(record_comes("ml"));
}

/* Once it is known it is read again when namespaces are looked at again, not as often as what
 * failed. */
TEST(test_record_is_read_seldom)
{
	unsigned reads[2];

	w.cfg.recheck_ms = 10 * SOON;
	begin_filled();
	assert_true(record_comes("ml"));
	for (size_t i = 0; i < COUNT(reads); i++) {
		if (i > 0)
			api_nap(LONG);
		api_lock(w.api);
		reads[i] = w.record_reads;
		api_unlock(w.api);
	}
	assert_int_equal(reads[1], reads[0]);
}

TEST(test_two_leaders)
{
	run();
	assert_int_equal(w.pool->duty.start(&w.cfg, &w.second, NULL), 0);
	claims(STATUS(CLAIM("1", "ml", "bound")));
	assert_true(filled("ml"));
	assert_true(record_comes("ml"));
	claims(STATUS(""));
	assert_true(comes("ml", CA, NULL));
	assert_true(comes("ml", CLIENT, NULL));
	assert_true(comes("ml", CONF, NULL));
	assert_true(record_comes(""));
}

TEST(test_no_record_no_copy)
{
	free(w.record);
	w.record = NULL;
	claims(STATUS(CLAIM("1", "ml", "bound")));
	run();
	api_nap(LONG / 2);
	assert_int_equal(copies("ml"), 0);
	api_lock(w.api);
	w.record = strdup("");
	api_unlock(w.api);
	assert_true(filled("ml"));
	/* made anew: what it forgot is written again */
	api_lock(w.api);
	free(w.record);
	w.record = strdup("");
	api_unlock(w.api);
	assert_true(record_comes("ml"));
}

/* The record can be read, and not be written: no copy is made that the next leader could not find.
 * It is tried again, less and less often, and told once. */
TEST(test_a_record_that_cannot_be_written)
{
	size_t tried;

	w.cfg.recheck_ms = 10 * SOON;
	pool_api_log(w.pool);
	w.frozen = true;
	claims(STATUS(CLAIM("1", "ml", "bound")));
	run();
	assert_true(gauge_comes(PLACES_FAILED, 1));
	api_nap(LONG);
	tried = api_seen_of(w.api, "PUT", "/api/v1/namespaces/poolgate-system/configmaps/*");
	/* behind 50, 100, 200, 400 and 600 ms */
	assert_in_range(tried, 2, 6);
	assert_int_equal(copies("ml"), 0);
	assert_int_equal(pool_api_logged(w.pool, "no record of filled namespaces"), 1);
	assert_int_equal(pool_api_logged(w.pool, "are not copied"), 0);
	api_lock(w.api);
	w.frozen = false;
	api_unlock(w.api);
	assert_true(filled("ml"));
	assert_true(gauge_comes(PLACES_FILLED, 1));
	assert_true(gauge_comes(PLACES_FAILED, 0));
}

/* Somebody deletes each copy a moment before: all are gone, and nothing is tried once more. */
TEST(test_somebody_deletes_in_between)
{
	size_t asked;

	w.cfg.recheck_ms = 10 * SOON;
	pool_api_log(w.pool);
	begin_filled();
	assert_true(record_comes("ml"));
	api_lock(w.api);
	w.vanish = true;
	api_unlock(w.api);
	asked = api_seen_of(w.api, "GET", "/api/v1/namespaces/ml/secrets/*");
	claims(STATUS(""));
	assert_true(record_comes(""));
	assert_int_equal(copies("ml"), 0);
	assert_int_equal(w.deletes, 0);
	assert_int_equal(api_seen_of(w.api, "DELETE", "/api/v1/namespaces/ml/secrets/*"), 3);
	assert_int_equal(api_seen_of(w.api, "GET", "/api/v1/namespaces/ml/secrets/*"), asked + 3);
	assert_int_equal(pool_api_logged(w.pool, "cannot be deleted yet"), 0);
	assert_int_equal(pool_api_logged(w.pool, "copies of the client's Secrets deleted"), 0);
}

/* What is taken away is decided on the pool as it is: one that cannot be read for longer than
 * anybody waits for it is asked for again a second later, and not when all is looked at again,
 * which is minutes later. */
TEST(test_a_pool_that_cannot_be_read)
{
	w.cfg.recheck_ms = w.cfg.source_every_ms = 10 * SOON;
	begin_filled();
	assert_true(record_comes("ml"));
	/* four a second, for five seconds */
	for (int i = 0; i < 24; i++)
		api_expect(w.pool->api, "GET", SERVERS_PATH "?limit=*", 403, "{}");
	claims(STATUS(""));
	for (int i = 0; i < 6 && api_left(w.pool->api) > 0; i++)
		(void)record_comes("");
	assert_true(record_comes(""));
	assert_int_equal(copies("ml"), 0);
	assert_int_equal(api_left(w.pool->api), 0);
}

/* A claim that the watch does not tell of has come since. */
TEST(test_a_picture_that_is_behind)
{
	struct pool_api_server *a = &w.pool->server[0];

	w.cfg.remove_after_ms = 1000;
	begin_filled();
	assert_true(record_comes("ml"));
	claims(STATUS(""));
	api_nap(300);
	api_lock(w.pool->api);
	free(a->status);
	a->status = fixture_quotes(STATUS(CLAIM("2", "ml", "pending")));
	a->version = ++w.pool->version;
	api_unlock(w.pool->api);
	api_nap(2 * LONG);
	assert_int_equal(copies("ml"), 3);
	assert_string_equal(w.record, "ml");
}

TEST(test_somebody_writes_in_between)
{
	w.meddle = true;
	begin_filled();
	api_lock(w.api);
	w.meddle = true;
	api_unlock(w.api);
	claims(STATUS(""));
	assert_true(record_comes(""));
	assert_int_equal(copies("ml"), 0);
}

/* ---- the gate ---- */

#define REVIEWS "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

TEST(test_gate)
{
	struct slice ours[] = {SLICE("x"), SLICE(CLIENT)}, others[] = {SLICE("juice-token")};
	struct secret_gate *g =
		secret_gate_new(w.kube, &w.pool->log, w.cfg.source, "poolgate-system:poolgate");
	int64_t deadline = api_now_ms() + 60000;
	struct err err = {0};

	assert_non_null(g);
	assert_int_equal(secret_gate_check(g, SLICE("shut"), others, 1, deadline, &err), 0);
	assert_int_equal(secret_gate_check(g, SLICE("shut"), NULL, 0, deadline, &err), 0);
	assert_int_equal(secret_gate_check(g, SLICE("kube-system"), ours, 2, deadline, &err), 0);
	assert_int_equal(api_seen_of(w.api, "POST", REVIEWS), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(secret_gate_check(g, SLICE("ml"), ours, 2, deadline, &err), 0);
	assert_int_equal(api_seen_of(w.api, "POST", REVIEWS), 1);
	assert_non_null(strstr(api_last(w.api, "POST", REVIEWS)->body,
		"{\"verb\":\"create\",\"resource\":\"secrets\",\"namespace\":\"ml\"}"));
	for (int i = 0; i < 3; i++) {
		err_clear(&err);
		assert_int_equal(
			secret_gate_check(g, SLICE("shut"), ours, 2, deadline, &err), ERR_REFUSED);
		assert_string_equal(err.reason, "NamespaceNotOpen");
		assert_non_null(
			strstr(err.msg, "kubectl -n shut create rolebinding poolgate-secrets "
					"--clusterrole=poolgate-secrets "
					"--serviceaccount=poolgate-system:poolgate"));
	}
	assert_int_equal(api_seen_of(w.api, "POST", REVIEWS), 2);
	/* opened: within two seconds */
	open_for_us("shut");
	api_nap(SECRET_GATE_CLOSED_MS + 100);
	assert_int_equal(secret_gate_check(g, SLICE("shut"), ours, 2, deadline, &err), 0);
	/* no answer is no refusal, and not asked for again at once */
	api_expect(w.api, "POST", REVIEWS, 500, "{}");
	assert_int_equal(secret_gate_check(g, SLICE("new"), ours, 2, deadline, &err), 0);
	assert_int_equal(secret_gate_check(g, SLICE("new"), ours, 2, deadline, &err), 0);
	assert_int_equal(api_seen_of(w.api, "POST", REVIEWS), 4);
	/* no time left to ask */
	assert_int_equal(secret_gate_check(g, SLICE("late"), ours, 2, 1, &err), 0);
	assert_int_equal(api_seen_of(w.api, "POST", REVIEWS), 4);
	secret_gate_free(g);
	secret_gate_free(NULL);
}

TESTS_BETWEEN(set_up, tear_down, test_filled_and_emptied, test_source_changes,
	test_source_changes_at_once, test_values, test_three_secrets,
	test_three_secrets_closed_to_us, test_no_source, test_foreign_is_left_alone,
	test_closed_namespace, test_closed_before_the_last_claim_ended,
	test_404_of_something_in_between, test_never_in_these, test_next_leader,
	test_a_record_that_cannot_be_written, test_somebody_deletes_in_between,
	test_record_is_read_seldom, test_two_leaders, test_no_record_no_copy,
	test_a_pool_that_cannot_be_read, test_a_picture_that_is_behind,
	test_somebody_writes_in_between, test_gate)
