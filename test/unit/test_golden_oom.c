/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, in the whole decision of every golden case, alone
 * and with all that follow; then in the validation and in the update of what it made. The reply is
 * the right one, the same one with fewer words of explanation, or a 500 that keeps no claim; and no
 * byte is lost. Linked with --wrap for malloc, calloc and realloc. Runs where the tree is. */
#include <dirent.h>
#include <malloc.h>

#include "base/base64.h"
#include "base/files.h"
#include "base/json/json_read.h"
#include "base/log.h"
#include "test/unit/core_fixture.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"
#include "webhook/core/launcher/config.h"
#include "webhook/edge/admission/admission.h"
#include "webhook/edge/admission/plan_keys.h"
#include "webhook/edge/metrics/metrics.h"
#include "webhook/edge/pool/gpu_servers.h"
#include "webhook/edge/pool/ledger_memory.h"
#include "webhook/edge/settings/config_store.h"

#define GOLDEN "test/golden/"
#define CASES "build/golden/cases"
#define TEXT_MAX (16u << 20)

/* A configuration of the golden cases, as their server is started with it. */
struct setup {
	const char *name, *folder, *total_gpu_memory, *shell;
	bool launchers;
	struct config_built *built;
	struct arena arena;
	struct inventory pool;
};

static struct setup setups[] = {
	{.name = "", .folder = GOLDEN "default-config", .total_gpu_memory = "16000"},
	{.name = "bash",
		.folder = GOLDEN "configs/bash",
		.total_gpu_memory = "16000",
		.shell = "/bin/bash"},
	{.name = "gated",
		.folder = GOLDEN "configs/gated",
		.total_gpu_memory = "16000",
		.launchers = true},
	{.name = "launchers",
		.folder = GOLDEN "configs/launchers",
		.total_gpu_memory = "16000",
		.launchers = true},
	{.name = "no-total", .folder = GOLDEN "configs/no-total"},
	{.name = "total-16G", .folder = GOLDEN "configs/total-16G", .total_gpu_memory = "16G"},
	{.name = "variables",
		.folder = GOLDEN "configs/variables",
		.total_gpu_memory = "16000",
		.launchers = true},
};
#define SETUPS (COUNT(setups))

static struct {
	unsigned long cases, decisions, failures;
} count;

/* The clients' images, which the shipped profiles leave to their operator. */
static void set_images(struct config_built *built)
{
	struct config *c = &built->config;

	for (size_t i = 0; i < c->n_profiles; i++)
		for (size_t k = 0; k < c->profiles[i].n_clients; k++)
			for (size_t n = 0; n < c->profiles[i].clients[k].n_inits; n++)
				c->profiles[i].clients[k].inits[n].image = SLICE("example/client");
}

static void set_up(struct setup *s)
{
	char path[4][128], *argv[16];
	struct settings settings;
	struct err err = {0};
	int argc = 0;

	snprintf(path[0], sizeof(path[0]), "--client-catalogue=%s/catalogue.yaml", s->folder);
	snprintf(path[1], sizeof(path[1]), "--sidecar-config=%s/sidecar.yaml", s->folder);
	snprintf(path[2], sizeof(path[2]), "--launchers=%s/launchers", s->folder);
	snprintf(path[3], sizeof(path[3]), "--client-shell=%s", s->shell ? s->shell : "");
	argv[argc++] = path[0];
	argv[argc++] = path[1];
	if (s->launchers)
		argv[argc++] = path[2];
	if (s->shell)
		argv[argc++] = path[3];
	if (settings_load(argc, argv, s->total_gpu_memory, &settings, &err) != 0 ||
		config_build(&settings, &s->built, &err) != 0)
		fail_msg("%s: %s", s->folder, err.msg);
	settings_release(&settings);
	set_images(s->built);
	snprintf(path[0], sizeof(path[0]), "%s/pool.yaml", s->folder);
	arena_init(&s->arena, 64 << 20);
	if (gpu_servers_load(path[0], &s->arena, &s->pool, NULL, &err) != 0)
		fail_msg("%s", err.msg);
}

static const struct config *acquire(void *ctx)
{
	return ctx;
}

static void release(void *ctx, const struct config *config)
{
	(void)ctx;
	(void)config;
}

/* ---- one decision ---- */

struct answered {
	unsigned status;
	char *body;
	size_t claims;
};

static size_t claims_of(struct ledger *ledger)
{
	struct pool_view view;
	struct arena a;
	struct err err;

	arena_init(&a, 16 << 20);
	assert_int_equal(ledger->ops->view(ledger, true, &a, &view, &err), 0);
	arena_release(&a);
	return view.n_claims;
}

/* All that a server does with a review, with the n-th allocation from the first byte of the body on
 * failing, alone or with all after it; n < 0: with none failing. */
static struct answered decide(const struct setup *s, http_handler *handler, struct slice review,
	long n, enum oom_extent extent)
{
	struct ledger *ledger = ledger_memory_new(0);
	struct metrics *metrics = metrics_new(metric_table, M_COUNT);
	struct http_request request = {.body_len = review.len};
	struct http_reply reply = {0};
	struct err err;
	struct answered d;
	struct admission *admission;
	struct plan_keys *keys = plan_keys_new(&err);
	struct plan_key key = {.number = 1};
	struct log log;

	assert_non_null(keys);
	plan_keys_share(keys, &key, 1, 0);
	log_init(&log, 2);
	assert_int_equal(log_set_level(&log, "error", NULL), 0);
	assert_non_null(ledger);
	assert_non_null(metrics);
	assert_int_equal(ledger_memory_set_inventory(ledger, &s->pool, &err), 0);
	admission = admission_new(
		&(struct admission_deps){.source = {&s->built->config, acquire, release},
			.ledger = ledger,
			.signer = plan_keys_signer(keys),
			.metrics = metrics,
			.log = &log},
		&err);
	assert_non_null(admission);
	request.body = calloc(1, review.len + HTTP_BODY_PAD);
	assert_non_null(request.body);
	memcpy(request.body, review.at, review.len);
	request.received_ms = http_now_ms();
	request.deadline_ms = request.received_ms + 9000;
	request.whole_us = http_now_us();
	oom_begin(n, extent);
	assert_int_equal(handler(admission, &request, &reply), HTTP_DONE);
	request.status = reply.status;
	admission_queued(admission, &request, true);
	admission_done(admission, &request);
	(void)oom_end();
	d = (struct answered){reply.status, reply.body, claims_of(ledger)};
	free(request.body);
	admission_free(admission);
	plan_keys_free(keys);
	metrics_free(metrics);
	ledger_memory_free(ledger);
	return d;
}

/* Bytes that are allocated; the same before and after where nothing was lost. A sanitizer has its
 * own heap, and looks itself. */
static size_t in_use(void)
{
#ifdef __SANITIZE_ADDRESS__
	return 0;
#else
	return mallinfo2().uordblks;
#endif
}

/* Verdict, code and reason. False where a patch is: no byte of that may be another one. */
static bool gist(const char *reply, char ret[static 80])
{
	struct json j = {0};
	const struct json_node *response, *status;
	struct slice reason;
	int64_t code = 0;
	char *copy;
	bool bare;

	if (json_read_copy(&j, reply, strlen(reply), 1000000, &copy, NULL) != 0)
		return false;
	response = json_get(&j, json_root(&j), SLICE("response"));
	status = json_get(&j, response, SLICE("status"));
	reason = json_inside(&j, json_get(&j, status, SLICE("reason")));
	bare = !json_get(&j, response, SLICE("patch"));
	(void)json_int(&j, json_get(&j, status, SLICE("code")), &code);
	snprintf(ret, 80, "%d %d %.*s",
		json_is(json_get(&j, response, SLICE("allowed")), JSON_TRUE), (int)code,
		(int)reason.len, reason.at ? reason.at : "");
	free(copy);
	json_release(&j);
	return bare;
}

/* An explanation (of a refusal, in a warning) that found no memory has fewer words. */
static bool same_but_for_words(const char *have, const char *right)
{
	char said[2][80];

	return gist(have, said[0]) && gist(right, said[1]) && strcmp(said[0], said[1]) == 0;
}

static bool same(const struct answered *d, const struct answered *right)
{
	const char *have = d->body ? d->body : "", *want = right->body ? right->body : "";

	if (d->status != right->status || d->claims != right->claims)
		return false;
	return strcmp(have, want) == 0 || (d->status == 200 && same_but_for_words(have, want));
}

static void each_allocation(const char *name, const struct setup *s, http_handler *handler,
	struct slice review, const struct answered *right, enum oom_extent extent)
{
	for (long n = 0;; n++) {
		size_t before = in_use();
		struct answered d = decide(s, handler, review, n, extent);

		count.failures++;
		if (!same(&d, right) && (d.status != 500 || d.claims != 0))
			fail_msg("%s: allocation %ld: status %u, %zu claims, %s", name, n, d.status,
				d.claims, d.body ? d.body : "no body");
		free(d.body);
		if (in_use() != before)
			fail_msg("%s: allocation %ld: %zd bytes are lost", name, n,
				(ssize_t)(in_use() - before));
		if (!oom_failed())
			break;
	}
}

/* The right decision: the caller frees its body. */
static struct answered all_allocations(
	const char *name, const struct setup *s, http_handler *handler, struct slice review)
{
	struct answered right = decide(s, handler, review, -1, OOM_ONE);

	count.decisions++;
	each_allocation(name, s, handler, review, &right, OOM_ONE);
	each_allocation(name, s, handler, review, &right, OOM_ALL_AFTER);
	return right;
}

/* ---- the cases ---- */

/* A case's files, read. */
struct document {
	struct json json;
	char *text;
};

static void document_read(struct document *d, const char *name, const char *file)
{
	char path[256];
	struct buf b;
	struct err err = {0};

	*d = (struct document){0};
	buf_init(&b, TEXT_MAX);
	snprintf(path, sizeof(path), CASES "/%s/%s", name, file);
	if (files_read(path, &b, &err) != 0 ||
		json_read_copy(&d->json, b.data, b.len, 1000000, &d->text, &err) != 0)
		fail_msg("%s: %s", path, err.msg);
	buf_release(&b);
}

static void document_release(struct document *d)
{
	json_release(&d->json);
	free(d->text);
}

static char *text_of(struct slice s)
{
	char *text = strndup(s.at, s.len);

	assert_non_null(text);
	return text;
}

/* Was it allowed, and with which patch (the caller's; NULL: none)? */
static bool verdict(const char *reply, char **ret_patch)
{
	struct json j = {0};
	const struct json_node *response, *patch;
	struct buf b;
	char *copy;
	bool allowed;

	*ret_patch = NULL;
	assert_int_equal(json_read_copy(&j, reply, strlen(reply), 1000000, &copy, NULL), 0);
	response = json_get(&j, json_root(&j), SLICE("response"));
	allowed = json_is(json_get(&j, response, SLICE("allowed")), JSON_TRUE);
	patch = json_get(&j, response, SLICE("patch"));
	if (patch) {
		buf_init(&b, TEXT_MAX);
		assert_int_equal(base64_decode(json_inside(&j, patch), &b, NULL), 0);
		*ret_patch = buf_take(&b, NULL);
	}
	free(copy);
	json_release(&j);
	return allowed;
}

static char *review_of(const char *operation, const char *object, const char *old)
{
	struct buf b;

	buf_init(&b, TEXT_MAX);
	buf_fmt(&b,
		"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{"
		"\"uid\":\"r\",\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"},"
		"\"resource\":{\"group\":\"\",\"version\":\"v1\",\"resource\":\"pods\"},"
		"\"namespace\":\"ml\",\"name\":\"p\",\"operation\":\"%s\",\"object\":",
		operation);
	buf_str(&b, object);
	buf_str(&b, ",\"oldObject\":");
	buf_str(&b, old);
	buf_str(&b, "}}");
	return buf_take(&b, NULL);
}

/* The pod that came out is stored, validated, and applied by its user once more. */
static void go_on(const char *name, const struct setup *s, const char *pod, const char *patch)
{
	char *made = fixture_apply(pod, patch);
	char *stored = fixture_change(made, "[{'op':'add','path':'/metadata/uid','value':'u'}]");
	char *review = review_of("CREATE", stored, "null");

	free(all_allocations(name, s, admission_validate, slice_of(review)).body);
	free(review);
	review = review_of("UPDATE", pod, stored);
	free(all_allocations(name, s, admission_mutate, slice_of(review)).body);
	free(review);
	free(stored);
	free(made);
}

static const struct setup *setup_of(struct slice name)
{
	for (size_t i = 0; i < SETUPS; i++)
		if (slice_eq(name, slice_of(setups[i].name)))
			return &setups[i];
	fail_msg("no configuration %.*s: add it to the table", (int)name.len, name.at);
	return NULL;
}

static void one_case(const char *name)
{
	struct document meta, expect, review;
	const struct json_node *request, *object;
	const struct setup *s;
	struct answered right;
	bool validate, allowed;
	char *patch;

	document_read(&meta, name, "case.json");
	document_read(&expect, name, "expect.json");
	document_read(&review, name, "review.json");
	s = setup_of(json_inside(
		&meta.json, json_get(&meta.json, json_root(&meta.json), SLICE("config"))));
	validate = json_is_str(&meta.json,
		json_get(&meta.json, json_root(&meta.json), SLICE("path")), SLICE("/validate"));
	right = all_allocations(name, s, validate ? admission_validate : admission_mutate,
		json_raw(&review.json, json_root(&review.json)));
	assert_int_equal(right.status, 200);
	allowed = verdict(right.body, &patch);
	if (allowed != json_is(json_get(&expect.json, json_root(&expect.json), SLICE("allowed")),
			       JSON_TRUE))
		fail_msg("%s: not the golden verdict: %s", name, right.body);
	request = json_get(&review.json, json_root(&review.json), SLICE("request"));
	object = json_get(&review.json, request, SLICE("object"));
	if (patch && json_is_str(&review.json, json_get(&review.json, request, SLICE("operation")),
			     SLICE("CREATE"))) {
		char *pod = text_of(json_raw(&review.json, object));

		go_on(name, s, pod, patch);
		free(pod);
	}
	free(patch);
	free(right.body);
	document_release(&meta);
	document_release(&expect);
	document_release(&review);
	count.cases++;
}

TEST(test_all_cases)
{
	struct dirent **names = NULL;
	int n = scandir(CASES, &names, NULL, alphasort);

	if (n < 0)
		fail_msg("%s: test/golden/generate.py makes it; run me where the tree is", CASES);
	for (int i = 0; i < n; i++) {
		if (names[i]->d_name[0] != '.')
			one_case(names[i]->d_name);
		free(names[i]);
	}
	free(names);
	print_message("%lu cases, %lu decisions, %lu failing allocations\n", count.cases,
		count.decisions, count.failures);
	assert_true(count.cases > 300 && count.decisions > 2 * count.cases);
}

/* Freed memory that a thread keeps at hand counts as in use: begin anew without. */
static void without_thread_cache(char **argv)
{
	static const char tunable[] = "glibc.malloc.tcache_count=0";

	if (getenv("GLIBC_TUNABLES"))
		return;
	if (setenv("GLIBC_TUNABLES", tunable, 1) == 0)
		execv("/proc/self/exe", argv);
	perror("execv");
	exit(1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_cases)};
	int broken;

	(void)argc;
	without_thread_cache(argv);
	for (size_t i = 0; i < SETUPS; i++)
		set_up(&setups[i]);
	broken = cmocka_run_group_tests_name("golden_oom", tests, NULL, NULL);
	for (size_t i = 0; i < SETUPS; i++) {
		config_built_free(setups[i].built);
		arena_release(&setups[i].arena);
	}
	return broken != 0;
}
