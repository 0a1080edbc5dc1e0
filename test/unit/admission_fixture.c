/* SPDX-License-Identifier: Apache-2.0 */
/* The routes /mutate and /validate without sockets. */
#include "test/unit/admission_fixture.h"
#include "test/unit/test.h"

#include "base/buf.h"

struct image_look *admission_fixture_images;
struct policies_known admission_fixture_policies;
const struct http_route *admission_fixture_route;

static const struct config *acquire(void *ctx)
{
	return ctx;
}

static void release(void *ctx, const struct config *config)
{
	assert_ptr_equal(ctx, config);
}

void admission_fixture_init(struct admission_fixture *f, struct ledger *ledger)
{
	struct admission_deps deps;
	struct err err;

	memset(f, 0, sizeof(*f));
	fixture_init(&f->core);
	f->metrics = metrics_new(metric_table, M_COUNT);
	f->decisions = decisions_new();
	assert_non_null(f->metrics);
	log_init(&f->log, 2);
	assert_int_equal(log_set_level(&f->log, "error", NULL), 0);
	deps = (struct admission_deps){.source = {&f->core.config, acquire, release},
		.ledger = ledger ? ledger : f->core.ledger,
		.metrics = f->metrics,
		.decisions = f->decisions,
		.policies = admission_fixture_policies,
		.images = admission_fixture_images,
		.log = &f->log};
	f->admission = admission_new(&deps, &err);
	assert_non_null(f->admission);
}

static void forget(struct admission_fixture *f)
{
	free(f->request.body);
	free(f->reply.body);
	f->request = (struct http_request){0};
	f->reply = (struct http_reply){0};
}

void admission_fixture_release(struct admission_fixture *f)
{
	forget(f);
	admission_free(f->admission);
	metrics_free(f->metrics);
	decisions_free(f->decisions);
	fixture_release(&f->core);
}

enum http_outcome admission_call(
	struct admission_fixture *f, http_handler *handler, const char *text)
{
	size_t len = strlen(text);

	forget(f);
	f->request.body = len ? calloc(1, len + HTTP_BODY_PAD) : NULL;
	if (len) {
		assert_non_null(f->request.body);
		memcpy(f->request.body, text, len);
	}
	f->request.body_len = len;
	f->request.route = admission_fixture_route;
	f->request.received_ms = http_now_ms();
	f->request.deadline_ms = f->request.received_ms + 9000;
	f->request.whole_us = http_now_us();
	return handler(f->admission, &f->request, &f->reply);
}

char *admission_review(const char *operation, const char *object, const char *old, const char *more)
{
	struct buf b;
	char *out, *quoted;

	buf_init(&b, 16 << 20);
	buf_fmt(&b,
		"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/v1','request':{'uid':'r',"
		"'kind':{'group':'','version':'v1','kind':'Pod'},'resource':{'group':'','version':"
		"'v1','resource':'pods'},'namespace':'ml','name':'p','operation':'%s','object':",
		operation);
	buf_str(&b, object);
	buf_str(&b, ",'oldObject':");
	buf_str(&b, old);
	buf_str(&b, more);
	buf_str(&b, "}}");
	out = buf_take(&b, NULL);
	assert_non_null(out);
	quoted = fixture_quotes(out);
	free(out);
	return quoted;
}

size_t admission_claims(struct admission_fixture *f)
{
	struct pool_view view;
	struct arena a;
	struct err err;

	arena_init(&a, 1 << 20);
	assert_int_equal(f->core.ledger->ops->view(f->core.ledger, true, &a, &view, &err), 0);
	arena_release(&a);
	return view.n_claims;
}
