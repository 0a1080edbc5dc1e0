/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, while a pod that asks by keys of others is
 * converted, applied again, validated and given back: the right patch, or ERR_NOMEM. Linked with
 * --wrap for malloc, calloc and realloc. */
#include "test/unit/core_fixture.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"

#define EXPRESSION(key) "{'key':'" key "','operator':'In','values':['x']}"
#define ASKS                                                                                       \
	"{'metadata':{'name':'p'},'spec':{'nodeSelector':{'nvidia.com\\u002fa':'true','b':'c'},"   \
	"'runtimeClassName':'nvidia','overhead':{'cpu':'1'},'tolerations':[{'key':'nvidia.com/"    \
	"gpu'},"                                                                                   \
	"{'key':'x'}],'affinity':{'nodeAffinity':{"                                                \
	"'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[{"                 \
	"'matchExpressions':[" EXPRESSION("nvidia.com\\u002fa") "," EXPRESSION(                    \
		"zone") "]}]}}},"                                                                  \
			"'containers':[{'name':'a','command':['x'],'env':[{'name':'NVIDIA_"        \
			"VISIBLE_DEVICES','value':"                                                \
			"'all'}],'resources':{'limits':{'nvidia.com/"                              \
			"gpu':1,'nvidia.com\\u002fgpumem':3000}}}]}}"

static const struct policy policy = {.name = "gpu",
	.accepts = (1U << FOREIGN_KEYS) - 1,
	.inject = true,
	.share = 100,
	.os = "ubuntu18",
	.version = "400"};

static int find_policy(void *ctx, struct slice namespace, struct arena *a,
	const struct policy **ret, struct err *err)
{
	(void)ctx;
	(void)namespace;
	(void)a;
	(void)err;
	*ret = &policy;
	return 0;
}

static const struct policy_source source = {.of = find_policy};

enum step { CREATE, UPDATE, UNDO, VALIDATE };

static int take(struct fixture *f, enum step step)
{
	const struct json_node *root = json_root(&f->json);

	switch (step) {
	case CREATE:
		return mutate_create(&f->world, &f->json, root, SLICE("ml"), &f->scratch, &f->patch,
			&f->mutation, &f->err);
	case UPDATE:
		return mutate_update(&f->config, &f->json, json_get(&f->json, root, SLICE("now")),
			json_get(&f->json, root, SLICE("old")), SLICE("ml"), &f->scratch, &f->patch,
			&f->mutation, &f->err);
	case UNDO:
		return mutate_undo(&f->json, root, &f->scratch, &f->patch, &f->mutation, &f->err);
	case VALIDATE:
		break;
	}
	return validate_create(
		&f->world, &f->json, root, SLICE("ml"), &f->scratch, &f->validation, &f->err);
}

static void each_allocation(enum step step, const char *text, int want)
{
	char *right = NULL;
	long n, broken = 0;

	for (n = -1;; n++) {
		struct fixture f;
		int rc;

		fixture_init(&f);
		f.world.policies = &source;
		(void)fixture_raw(&f, text);
		oom_begin(n, OOM_ONE);
		rc = take(&f, step);
		(void)oom_end();
		buf_char(&f.patch, '\0');
		if (n < 0) {
			assert_int_equal(rc, want);
			right = strdup(f.patch.data);
		} else if (rc == want) {
			assert_string_equal(f.patch.data, right);
		} else {
			assert_int_equal(rc, ERR_NOMEM);
			broken++;
		}
		fixture_release(&f);
		if (n >= 0 && !oom_failed())
			break;
	}
	assert_true(broken > 3);
	free(right);
}

TEST(test_each_step)
{
	struct fixture f;
	char *asks = fixture_quotes(ASKS), *live, *both;
	size_t size;

	fixture_init(&f);
	f.world.policies = &source;
	live = fixture_inject(&f, ASKS);
	assert_true(f.mutation.patched);
	size = strlen(asks) + strlen(live) + 32;
	both = malloc(size);
	(void)snprintf(both, size, "{\"now\":%s,\"old\":%s}", asks, live);
	each_allocation(CREATE, asks, 0);
	each_allocation(UPDATE, both, 0);
	each_allocation(UNDO, live, 0);
	each_allocation(VALIDATE, live, 0);
	each_allocation(VALIDATE, asks, ERR_REFUSED);
	free(both);
	free(live);
	free(asks);
	fixture_release(&f);
}

TESTS(test_each_step)
