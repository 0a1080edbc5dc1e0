/* SPDX-License-Identifier: Apache-2.0 */
/* The golden cases, decided without a server's sockets. */
#include <dirent.h>

#include "base/base64.h"
#include "base/files.h"
#include "base/log.h"
#include "test/unit/core_fixture.h"
#include "test/unit/golden_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/launcher/config.h"
#include "webhook/edge/admission/plan_keys.h"
#include "webhook/edge/metrics/metrics.h"
#include "webhook/edge/pool/gpu_servers.h"
#include "webhook/edge/pool/ledger_memory.h"
#include "webhook/edge/settings/config_store.h"

#define GOLDEN "test/golden/"
#define CASES "build/golden/cases"
#define TEXT_MAX (16u << 20)

struct golden_setup {
	const char *name, *folder, *total_gpu_memory, *shell;
	bool launchers;
	struct config_built *built;
	struct arena arena;
	struct inventory pool;
};

static struct golden_setup setups[] = {
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

/* The clients' images, which the shipped profiles leave to their operator. */
static void set_images(struct config_built *built)
{
	struct config *c = &built->config;

	for (size_t i = 0; i < c->n_profiles; i++)
		for (size_t k = 0; k < c->profiles[i].n_clients; k++)
			for (size_t n = 0; n < c->profiles[i].clients[k].n_inits; n++)
				c->profiles[i].clients[k].inits[n].image = SLICE("example/client");
}

static void set_up(struct golden_setup *s)
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

void golden_begin(void)
{
	for (size_t i = 0; i < COUNT(setups); i++)
		set_up(&setups[i]);
}

void golden_end(void)
{
	for (size_t i = 0; i < COUNT(setups); i++) {
		config_built_free(setups[i].built);
		arena_release(&setups[i].arena);
	}
}

static const struct golden_setup *setup_of(struct slice name)
{
	for (size_t i = 0; i < COUNT(setups); i++)
		if (slice_eq(name, slice_of(setups[i].name)))
			return &setups[i];
	fail_msg("no configuration %.*s: add it to the table", (int)name.len, name.at);
	return NULL;
}

/* ---- the cases ---- */

static void document_read(struct golden_document *d, const char *name, const char *file)
{
	char path[256];
	struct buf b;
	struct err err = {0};

	*d = (struct golden_document){0};
	buf_init(&b, TEXT_MAX);
	snprintf(path, sizeof(path), CASES "/%s/%s", name, file);
	if (files_read(path, &b, &err) != 0 ||
		json_read_copy(&d->json, b.data, b.len, 1000000, &d->text, &err) != 0)
		fail_msg("%s: %s", path, err.msg);
	buf_release(&b);
}

static void document_release(struct golden_document *d)
{
	json_release(&d->json);
	free(d->text);
}

static void one_case(
	const char *name, void (*one)(const struct golden_case *c, void *ctx), void *ctx)
{
	struct golden_document meta;
	const struct json *j = &meta.json;
	struct golden_case c = {.name = name};

	document_read(&meta, name, "case.json");
	document_read(&c.expect, name, "expect.json");
	document_read(&c.review, name, "review.json");
	c.setup = setup_of(json_inside(j, json_get(j, json_root(j), SLICE("config"))));
	c.validate = json_is_str(j, json_get(j, json_root(j), SLICE("path")), SLICE("/validate"));
	one(&c, ctx);
	document_release(&meta);
	document_release(&c.expect);
	document_release(&c.review);
}

void golden_each(void (*one)(const struct golden_case *c, void *ctx), void *ctx)
{
	struct dirent **names = NULL;
	int n = scandir(CASES, &names, NULL, alphasort);

	if (n < 0)
		fail_msg("%s: test/golden/generate.py makes it; run me where the tree is", CASES);
	for (int i = 0; i < n; i++) {
		if (names[i]->d_name[0] != '.')
			one_case(names[i]->d_name, one, ctx);
		free(names[i]);
	}
	free(names);
}

/* ---- one decision ---- */

static const struct config *acquire(void *ctx)
{
	return ctx;
}

static void release(void *ctx, const struct config *config)
{
	(void)ctx;
	(void)config;
}

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

static struct http_reply answer(struct admission *admission, bool validate, struct slice review,
	const struct golden_frame *frame)
{
	struct http_request request = {.body_len = review.len};
	struct http_reply reply = {0};

	request.body = calloc(1, review.len + HTTP_BODY_PAD);
	assert_non_null(request.body);
	memcpy(request.body, review.at, review.len);
	request.received_ms = http_now_ms();
	request.deadline_ms = request.received_ms + 9000;
	request.whole_us = http_now_us();
	if (frame && frame->begin)
		frame->begin(frame->ctx);
	assert_int_equal(
		(validate ? admission_validate : admission_mutate)(admission, &request, &reply),
		HTTP_DONE);
	request.status = reply.status;
	admission_queued(admission, &request, true);
	admission_done(admission, &request);
	if (frame && frame->end)
		frame->end(frame->ctx);
	free(request.body);
	return reply;
}

struct golden_answer golden_decide(const struct golden_setup *s, bool validate, struct slice review,
	const struct golden_frame *frame)
{
	struct ledger *ledger = ledger_memory_new(0);
	struct metrics *metrics = metrics_new(metric_table, M_COUNT);
	struct config config = s->built->config;
	struct err err;
	struct golden_answer d;
	struct http_reply reply;
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
	if (frame) {
		config.node_resource_off = config.node_resource_off || frame->node_resource_off;
		config.late_place = config.late_place || frame->late_place;
	}
	admission = admission_new(
		&(struct admission_deps){.source = {&config, acquire, release},
			.ledger = ledger,
			.policies = frame && frame->policies ? *frame->policies
							     : (struct policies_known){0},
			.signer = plan_keys_signer(keys),
			.metrics = metrics,
			.log = &log},
		&err);
	assert_non_null(admission);
	reply = answer(admission, validate, review, frame);
	d = (struct golden_answer){reply.status, reply.body, claims_of(ledger)};
	admission_free(admission);
	plan_keys_free(keys);
	metrics_free(metrics);
	ledger_memory_free(ledger);
	return d;
}

bool golden_verdict(const char *reply, char **ret_patch)
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

char *golden_review(const char *operation, const char *object, const char *old)
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

char *golden_stored(const char *pod, const char *patch)
{
	char *made = fixture_apply(pod, patch);
	char *stored = fixture_change(made, "[{'op':'add','path':'/metadata/uid','value':'u'}]");

	free(made);
	return stored;
}
