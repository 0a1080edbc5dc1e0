/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, while a replica that does not lead looks at who
 * waits: people are told all, or nothing. Linked with --wrap for malloc, calloc and realloc. */
#include "test/unit/api_fixture.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"
#include "webhook/cluster/ledger/waiting_look.h"

#define PLAN                                                                                       \
	"{\\\"v\\\":1,\\\"profile\\\":\\\"p\\\",\\\"hash\\\":\\\"0123456789abcdef\\\","            \
	"\\\"mode\\\":\\\"full\\\",\\\"waits\\\":true,\\\"containers\\\":[{\\\"name\\\":"          \
	"\\\"a\\\",\\\"kind\\\":\\\"app\\\",\\\"amount\\\":2,\\\"percent\\\":50,\\\"units\\\":"    \
	"100,\\\"command\\\":\\\"wrapped\\\",\\\"argv\\\":7}]}"
#define POD(minute, name)                                                                          \
	"{\"metadata\":{\"name\":\"" name                                                          \
	"\",\"namespace\":\"n\",\"uid\":\"u\",\"creationTimestamp\":\"2026-01-01T00:" minute       \
	":00Z\",\"annotations\":{\"poolgate.io/plan\":\"" PLAN                                     \
	"\",\"poolgate.io/gang\":\"g\"}},\"spec\":{\"schedulingGates\":[{\"name\":"                \
	"\"poolgate.io/capacity\"}]},\"status\":{\"conditions\":[{\"type\":"                       \
	"\"poolgate.io/Admitted\",\"status\":\"False\",\"message\":\"no room \"}]}}"

static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx, (void)req;
	api_text(reply, 200,
		"{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[%s,%s]}",
		POD("09", "young"), POD("05", "old"));
	return 0;
}

/* What is told where the n-th allocation of this thread fails; *failed: it has one. */
static char *told(struct kube *kube, long n, bool *failed)
{
	struct waiting_look look;
	struct arena arena;
	struct slice s;
	char *text;

	waiting_look_init(&look);
	look.kube = kube;
	arena_init(&arena, 1 << 20);
	oom_begin_here(n, OOM_ONE);
	s = waiting_look_tell(&look, &arena);
	*failed = oom_end();
	text = s.at ? strndup(s.at, s.len) : NULL;
	arena_release(&arena);
	waiting_look_release(&look);
	return text;
}

TEST(all_or_nothing)
{
	struct api *api = api_start(handle, NULL);
	struct kube_config config;
	struct kube *kube;
	bool failed = true;
	char *all;

	api_config(api, &config);
	assert_int_equal(kube_new(&config, &kube, NULL), 0);
	all = told(kube, -1, &failed);
	assert_non_null(strstr(all, "young"));
	failed = true;
	for (long n = 0; failed; n++) {
		char *text = told(kube, n, &failed);

		if (text && strcmp(text, all) != 0 && (!failed || strcmp(text, "null") != 0))
			fail_msg("%ld: %s", n, text);
		free(text);
	}
	free(all);
	kube_free(kube);
	api_stop(api);
}

TESTS(all_or_nothing)
