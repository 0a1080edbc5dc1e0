/* SPDX-License-Identifier: Apache-2.0 */
/* test: a replica put together: what it asks an API server for under which settings, from when on
 * it can decide, whom the Lease names, and what it gives back. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include <fcntl.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "kube/lease_record.h"
#include "test/unit/api_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/cluster.h"
#include "webhook/edge/settings/settings_file.h"

#define SERVERS "/apis/poolgate.io/v1alpha1/gpuservers"
#define POLICIES "/apis/poolgate.io/v1alpha1/gpupolicies"
#define NAMESPACES "/api/v1/namespaces"
#define LEASES_PATH "/apis/coordination.k8s.io/v1/namespaces/"
#define LEASES LEASES_PATH "tools/leases"
#define SECRETS "/api/v1/namespaces/tools/secrets"
#define HOOKS "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hooks"
#define SOON 5000
#define ADDED                                                                                      \
	"{\"type\":\"ADDED\",\"object\":{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":"        \
	"\"GPUServer\",\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"7\","      \
	"\"generation\":1},\"spec\":{\"address\":\"10.0.0.1:56001\",\"gpus\":[{\"model\":"         \
	"\"V100\","                                                                                \
	"\"memory\":\"16G\"}]}}}\n"

static struct api *api;
static struct cluster *cluster;
static struct cluster_config cfg;
static struct cluster_settings settings;
static struct log log_to;
static FILE *told;
static int config_fd = -1;
static char config_path[32];
/* under the API server's lock */
static char *lease; /* its spec */
static bool namespaces_away;
/* lists that are not empty, and objects: the path before what is asked of it, and the items or the
 * object */
static struct there {
	const char *path, *text;
	bool list;
} there[4];

/* 0: it is not there. */
static bool answer_there(const struct api_request *req, struct api_reply *reply)
{
	size_t len = strcspn(req->path, "?");

	for (size_t i = 0; i < COUNT(there) && there[i].path; i++) {
		const struct there *t = &there[i];

		if (strcmp(req->method, "GET") != 0 || strlen(t->path) != len ||
			memcmp(t->path, req->path, len) != 0)
			continue;
		if (t->list)
			api_text(reply, 200,
				"{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[%s]}",
				t->text);
		else
			api_text(reply, 200, "%s", t->text);
		return true;
	}
	return false;
}

static void answer_lease(const struct api_request *req, struct api_reply *reply)
{
	struct json j = {0};
	struct slice spec;

	if (*req->body) {
		assert_int_equal(json_read(&j, req->body, req->body_len, 1000, NULL), 0);
		spec = json_raw(&j, json_get(&j, json_root(&j), SLICE("spec")));
		free(lease);
		lease = strndup(spec.at, spec.len);
		json_release(&j);
	}
	if (lease)
		api_text(reply, 200,
			"{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/"
			"v1\",\"metadata\":{\"name\":\"leader\",\"namespace\":\"tools\","
			"\"resourceVersion\":\"5\"},\"spec\":%s}",
			lease);
	else
		api_status(reply, 404, "NotFound", "not found");
}

/* Nothing is there, and the Lease is whose who writes it. */
static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx;
	if (strncmp(req->path, LEASES_PATH, strlen(LEASES_PATH)) == 0)
		answer_lease(req, reply);
	else if (strstr(req->path, "watch="))
		reply->stream = true;
	else if (namespaces_away && strncmp(req->path, NAMESPACES "?", sizeof(NAMESPACES)) == 0)
		api_status(reply, 500, "InternalError", "no");
	else if (answer_there(req, reply))
		return 0;
	else if (strstr(req->path, "limit="))
		api_text(reply, 200, "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}");
	else
		api_status(reply, 404, "NotFound", "not found");
	return 0;
}

/* What is said of us: the current context, with its namespace. */
static void set_config(const char *cluster_more, const char *context_more)
{
	char text[512];
	int n = snprintf(text, sizeof(text),
		"apiVersion: v1\nkind: Config\ncurrent-context: c\n"
		"clusters: [{name: c, cluster: {server: '%s'%s}}]\n"
		"users: [{name: u, user: {token: t}}]\n"
		"contexts: [{name: c, context: {cluster: c, user: u%s}}]\n",
		api_url(api), cluster_more, context_more);

	assert_int_equal(ftruncate(config_fd, 0), 0);
	assert_int_equal(pwrite(config_fd, text, (size_t)n, 0), n);
}

FIXTURE(set_up)
{
	struct err err = {0};

	api = api_start(handle, NULL);
	config_fd = memfd_create("kubeconfig", 0);
	(void)snprintf(config_path, sizeof(config_path), "/proc/self/fd/%d", config_fd);
	set_config("", ", namespace: tools");
	told = tmpfile();
	assert_non_null(told);
	/* read while it is written */
	assert_int_equal(fcntl(fileno(told), F_SETFL, O_APPEND), 0);
	log_init(&log_to, fileno(told));
	log_to.format = LOG_FORMAT_JSON;
	settings_cluster_defaults(&settings);
	settings.on = true;
	settings.kubeconfig = config_path;
	settings.lease = "leader";
	settings.webhooks = NULL;
	settings.tls_secret = "pair";
	settings.tls_manage = false;
	cfg = (struct cluster_config){.settings = &settings,
		.pod_name = "poolgate-7",
		.identity = tls_identity_new(),
		.keys = plan_keys_new(&err),
		.metrics = metrics_new(metric_table, M_COUNT),
		.log = &log_to};
	assert_non_null(cfg.identity);
	assert_non_null(cfg.keys);
	assert_non_null(cfg.metrics);
	return 0;
}

FIXTURE(tear_down)
{
	cluster_free(cluster);
	cluster = NULL;
	api_stop(api);
	metrics_free(cfg.metrics);
	plan_keys_free(cfg.keys);
	tls_identity_free(cfg.identity);
	(void)fclose(told);
	(void)close(config_fd);
	free(lease);
	lease = NULL;
	namespaces_away = false;
	memset(there, 0, sizeof(there));
	return 0;
}

static void make(void)
{
	struct err err = {0};

	if (cluster_new(&cfg, &cluster, &err) != 0)
		fail_msg("%s", err.msg);
}

static void begin(void)
{
	struct err err = {0};

	make();
	if (cluster_start(cluster, &err) != 0)
		fail_msg("%s", err.msg);
	assert_true(api_wait_streams(api, SERVERS "*", 1));
	assert_true(api_wait(api, "POST", LEASES "*", 1));
}

static void must_fail(int code, const char *words)
{
	struct err err = {0};

	assert_int_equal(cluster_new(&cfg, &cluster, &err), code);
	assert_null(cluster);
	if (!strstr(err.msg, words))
		fail_msg("%s, expected %s", err.msg, words);
}

/* Does whom the Lease names come to begin so? */
static bool holder_begins(const char *with)
{
	char want[64];
	bool yes = false;

	(void)snprintf(want, sizeof(want), "\"holderIdentity\":\"%s", with);
	for (int i = 0; i < SOON / 10 && !yes; i++, api_nap(yes ? 0 : 10)) {
		api_lock(api);
		yes = lease && strstr(lease, want);
		api_unlock(api);
	}
	return yes;
}

static bool is_asked(const char *path)
{
	return api_seen_of(api, "GET", path) > 0;
}

/* What it says of itself when it starts holds the text. */
static bool says(const char *text)
{
	char line[1024];
	bool yes = false;

	rewind(told);
	while (!yes && fgets(line, sizeof(line), told))
		yes = strstr(line, "\"msg\":\"cluster\"") && strstr(line, text);
	return yes;
}

static bool becomes_ready(void)
{
	for (int i = 0; i < SOON / 10 && cluster_unready(cluster); i++)
		api_nap(10);
	return !cluster_unready(cluster);
}

/* ---- what it needs ---- */

TEST(test_an_api_server_and_a_namespace)
{
	set_config("", "");
	must_fail(ERR_INVALID, "found no namespace for our Lease and Secrets");
	set_config(", insecure-skip-tls-verify: true", ", namespace: tools");
	must_fail(ERR_INVALID, "insecure-skip-tls-verify");
	settings.kubeconfig = "/proc/self/fd/none";
	must_fail(ERR_NOTFOUND, "");
	/* as a pod */
	settings.kubeconfig = NULL;
	must_fail(ERR_INVALID, "KUBERNETES_SERVICE_HOST");
	cluster_free(NULL);
	cluster_stop(NULL);
}

/* ---- as little as can be ---- */

TEST(test_with_a_pool_alone)
{
	make();
	assert_non_null(cluster_ledger(cluster));
	assert_string_equal(
		cluster_unready(cluster), "starting: the GPUServers have not been read yet");
	assert_null(cluster_secrets(cluster).check);
	assert_null(cluster_policies(cluster).any);
	assert_null(cluster_usage(cluster));
	assert_non_null(cluster_quotas(cluster).check);
	assert_non_null(cluster_waiters(cluster).count);
	assert_non_null(cluster_logins(cluster).find);
	assert_int_equal(cluster_heard(cluster).version(cluster), 0);
	assert_true(cluster_heard(cluster).covers(cluster, SLICE("any")));
	/* nothing is asked before it starts */
	assert_int_equal(api_seen_count(api), 0);
	cluster_free(cluster);
	begin();
	assert_true(becomes_ready());
	assert_true(says("\"namespace\":\"tools\""));
	assert_true(says("\"duties\":7}"));
	assert_true(holder_begins("poolgate-7_"));
	assert_true(api_wait(api, "GET", SECRETS "/poolgate-plan-keys", 1));
	assert_true(api_wait(api, "GET", SECRETS "/pair", 1));
	/* the leader's, who hears of a server that comes at once */
	assert_true(api_wait_streams(api, "/api/v1/pods*", 1));
	assert_int_equal(api_push(api, SERVERS "*", ADDED), 1);
	assert_true(api_wait(api, "PUT", SERVERS "/a/status", 1));
	assert_false(is_asked(POLICIES "*"));
	assert_false(is_asked(NAMESPACES "?*"));
	assert_false(is_asked(HOOKS));
	assert_false(is_asked("/api/v1/namespaces/kube-system/*"));
}

/* Whoever is started again is another. */
TEST(test_whom_the_lease_names)
{
	char host[256] = "", first[128];

	begin();
	assert_true(holder_begins("poolgate-7_"));
	api_lock(api);
	(void)snprintf(first, sizeof(first), "%s", strstr(lease, "poolgate-7_"));
	api_unlock(api);
	*strchr(first, '"') = '\0';
	assert_int_equal(strlen(first), strlen("poolgate-7_01234567"));
	/* given back, when reviews can still be answered */
	cluster_stop(cluster);
	assert_true(holder_begins("\""));
	assert_null(cluster_unready(cluster));
	cluster_stop(cluster);
	cluster_free(cluster);
	make();
	assert_int_equal(cluster_start(cluster, NULL), 0);
	assert_true(holder_begins("poolgate-7_"));
	api_lock(api);
	assert_null(strstr(lease, first));
	api_unlock(api);
	cluster_free(cluster);
	/* without a pod it is the host, and a namespace of the settings is before the account's */
	assert_int_equal(gethostname(host, sizeof(host) - 2), 0);
	strcat(host, "_");
	cfg.pod_name = "";
	settings.namespace = "other";
	make();
	assert_int_equal(cluster_start(cluster, NULL), 0);
	assert_true(holder_begins(host));
	assert_true(is_asked(LEASES_PATH "other/leases/leader"));
	assert_true(api_wait(api, "GET", "/api/v1/namespaces/other/secrets/pair", 1));
}

/* ---- what settings add ---- */

static int policy_of_ml(const struct policy **ret, struct err *err)
{
	const struct policies_known known = cluster_policies(cluster);
	struct arena a;
	int rc;

	assert_true(known.any(known.ctx, NULL));
	arena_init(&a, 1 << 16);
	rc = known.of(known.ctx, NULL, SLICE("ml"), false, clock_ms() + SOON, &a, ret, err);
	arena_release(&a);
	return rc;
}

static void secrets_are_asked_for(void)
{
	const struct slice ours = SLICE("bitfusion-client-secret-ca.crt");
	const struct secrets_check secrets = cluster_secrets(cluster);
	struct err err = {0};

	api_expect(api, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 201,
		"{\"status\":{\"allowed\":false}}");
	assert_int_equal(secrets.check(secrets.ctx, SLICE("ml"), &ours, 1, clock_ms() + SOON, &err),
		ERR_REFUSED);
	assert_non_null(strstr(err.msg, "--serviceaccount=tools:poolgate"));
	/* the record of our own namespace */
	assert_true(api_wait(api, "GET", "/api/v1/namespaces/tools/configmaps/*", 1));
}

/* All that a leader may have to do, at once. */
TEST(test_with_everything)
{
	const struct policy *p = NULL;
	struct err err = {0};

	namespaces_away = true;
	settings.policies = settings.policies_required = true;
	settings.webhooks = "hooks";
	settings.tls_manage = true;
	settings.secrets_sync = true;
	settings.usage_listen = "127.0.0.1:0";
	api_expect(api, "GET", HOOKS, 200,
		"{\"kind\":\"ValidatingWebhookConfiguration\",\"metadata\":{\"name\":\"hooks\","
		"\"resourceVersion\":\"1\"},\"webhooks\":[{\"name\":\"validate.poolgate.io\","
		"\"matchConditions\":[{\"name\":\"c\",\"expression\":\"v in ['ours']\"}]}]}");
	begin();
	assert_true(says("\"duties\":11}"));
	assert_true(api_wait_streams(api, POLICIES "*", 1));
	for (int i = 0; i < SOON / 10 && strstr(cluster_unready(cluster), "GPUServers"); i++)
		api_nap(10);
	assert_string_equal(cluster_unready(cluster),
		"starting: the GPUPolicies and namespaces have not been read yet");
	api_lock(api);
	namespaces_away = false;
	api_unlock(api);
	assert_true(becomes_ready());
	/* it is not there, so it picks none; nobody is let in without one */
	assert_int_equal(policy_of_ml(&p, &err), ERR_REFUSED);
	assert_string_equal(err.reason, "NoPolicy");
	assert_int_equal(api_seen_of(api, "GET", NAMESPACES "/ml"), 1);
	assert_true(api_wait_streams(api, "/api/v1/pods*", 1));
	assert_true(api_wait(api, "GET", SECRETS "/poolgate-ca", 1));
	secrets_are_asked_for();
	assert_non_null(cluster_usage(cluster));
	assert_non_null(cluster_usage(cluster)->readers);
	for (int i = 0; i < SOON / 10 && cluster_heard(cluster).version(cluster) == 0; i++)
		api_nap(10);
	assert_true(cluster_heard(cluster).version(cluster) > 0);
	assert_true(cluster_heard(cluster).covers(cluster, SLICE("ours")));
	assert_false(cluster_heard(cluster).covers(cluster, SLICE("another")));
}

#define WAITING                                                                                    \
	"{\"metadata\":{\"name\":\"w\",\"namespace\":\"ml\",\"uid\":\"u1\",\"resourceVersion\":"   \
	"\"5\","                                                                                   \
	"\"creationTimestamp\":\"2026-11-21T09:30:00Z\",\"annotations\":{\"poolgate.io/plan\":"    \
	"\"{\\\"v\\\":1,\\\"profile\\\":\\\"p\\\",\\\"hash\\\":\\\"0123456789abcdef\\\","          \
	"\\\"mode\\\":"                                                                            \
	"\\\"full\\\",\\\"waits\\\":true,\\\"containers\\\":[{\\\"name\\\":\\\"a\\\","             \
	"\\\"kind\\\":\\\"app\\\","                                                                \
	"\\\"amount\\\":1,\\\"percent\\\":50,\\\"units\\\":100,\\\"command\\\":\\\"wrapped\\\","   \
	"\\\"argv\\\":"                                                                            \
	"7}]}\"}},\"spec\":{\"schedulingGates\":[{\"name\":\"poolgate.io/capacity\"}]},"           \
	"\"status\":{\"phase\":\"Pending\"}}"
#define SMALL                                                                                      \
	"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUPolicy\",\"metadata\":{\"name\":"  \
	"\"small\",\"uid\":\"p1\",\"resourceVersion\":\"6\",\"generation\":1},\"spec\":{"          \
	"\"allow\":{"                                                                              \
	"\"gpus\":3}},\"status\":{\"account\":\"1 1 n gone 0 0 n ours 0 0\"}}"

/* The leader asks for the namespace of who waits, of which no picture shows which policy it picks,
 * and bars who needs one; of those that an account has rows for it asks nobody. */
TEST(test_a_leader_asks_which_policy)
{
	const struct api_request *last;

	settings.policies = settings.policies_required = true;
	there[0] = (struct there){"/api/v1/pods", WAITING, true};
	there[1] = (struct there){POLICIES, SMALL, true};
	there[2] = (struct there){POLICIES "/small", SMALL, false};
	there[3] = (struct there){NAMESPACES,
		"{\"metadata\":{\"name\":\"ours\",\"resourceVersion\":\"4\",\"labels\":{\"poolgate."
		"io/policy"
		"\":\"small\"}}}",
		true};
	begin();
	assert_true(api_wait(api, "GET", NAMESPACES "/ml", 1));
	assert_true(api_wait(api, "PATCH", NAMESPACES "/ml/pods/w/status", 1));
	last = api_last(api, "PATCH", NAMESPACES "/ml/pods/w/status");
	assert_non_null(strstr(last->body, "\"reason\":\"PolicyBound\""));
	assert_true(api_wait(api, "PATCH", POLICIES "/small/status*", 1));
	last = api_last(api, "PATCH", POLICIES "/small/status*");
	assert_non_null(strstr(last->body, "\"account\":\"1 1 n ours 0 0\""));
	assert_int_equal(api_seen_of(api, "GET", NAMESPACES "/gone"), 0);
	assert_int_equal(api_seen_of(api, "GET", NAMESPACES "/ours"), 0);
}

/* Beside a pair of files nobody makes one or reads one; policies that need not be picked. */
TEST(test_a_pair_of_files)
{
	const struct policy *p = NULL;
	struct err err = {0};

	cfg.own_certificate = true;
	settings.tls_manage = true;
	settings.policies = true;
	begin();
	assert_true(says("\"duties\":9}"));
	assert_true(becomes_ready());
	assert_true(api_wait(api, "GET", SECRETS "/poolgate-plan-keys", 1));
	assert_true(api_wait_streams(api, "/api/v1/pods*", 1));
	assert_false(is_asked(SECRETS "/pair"));
	assert_false(is_asked(SECRETS "/poolgate-ca"));
	assert_int_equal(policy_of_ml(&p, &err), 0);
	assert_null(p);
}

TESTS_BETWEEN(set_up, tear_down, test_an_api_server_and_a_namespace, test_with_a_pool_alone,
	test_whom_the_lease_names, test_with_everything, test_a_leader_asks_which_policy,
	test_a_pair_of_files)
