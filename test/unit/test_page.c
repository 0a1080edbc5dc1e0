/* SPDX-License-Identifier: Apache-2.0 */
/* test: the page: every state shown, hostile names shown as they are, large pools bounded, the policy's hashes right. With PAGE_OUT
 * set the page with every state is written there, to be looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <gnutls/crypto.h>

#include "webhook/edge/page.h"
#include "webhook/edge/pool_states.h"

#define COUNT(x) (sizeof(x) / sizeof((x)[0]))
#define GB UINT64_C(1000000000)
#define NOW INT64_C(1796000000000)

/* One world: a view over arrays of its own. */
struct world {
	struct gpu_server *servers;
	struct gpu *gpus;
	uint64_t *claimed, *pending;
	uint32_t *n_claims;
	struct claim *claims;
	struct claim_part *parts;
	struct pool_view view;
	struct page page;
	struct arena arena;
	struct buf out;
};

static void world_init(struct world *w, size_t servers, size_t each, size_t claims)
{
	*w = (struct world){0};
	w->servers = calloc(servers + 1, sizeof(*w->servers));
	w->gpus = calloc(servers * each + 1, sizeof(*w->gpus));
	w->claimed = calloc(servers * each + 1, sizeof(*w->claimed));
	w->pending = calloc(servers * each + 1, sizeof(*w->pending));
	w->n_claims = calloc(servers + 1, sizeof(*w->n_claims));
	w->claims = calloc(claims + 1, sizeof(*w->claims));
	w->parts = calloc(claims + 1, sizeof(*w->parts));
	assert_non_null(w->parts);
	arena_init(&w->arena, 64 << 20);
	buf_init(&w->out, 8 << 20);
	for (size_t i = 0; i < servers; i++) {
		struct gpu_server *s = &w->servers[i];

		s->name = arena_fmt(&w->arena, "gpu-%05zu", i);
		s->address = "10.0.0.1:56001";
		s->gpus = w->gpus + i * each;
		s->n_gpus = each;
		s->first_gpu = i * each;
		for (size_t g = 0; g < each; g++)
			s->gpus[g] = (struct gpu){.id = arena_fmt(&w->arena, "gpu-%zu", g),
				.model = "Tesla V100",
				.bytes = 16 * GB,
				.fit = true,
				.fresh = true,
				.why = ""};
	}
	w->view.inventory = (struct inventory){w->servers, servers, servers * each};
	w->view.usage = (struct usage){
		.claimed = w->claimed, .pending = w->pending, .n_claims = w->n_claims};
	w->view.claims = w->claims;
	w->page = (struct page){.view = &w->view, .now_ms = NOW, .version = "1.2.3"};
}

static void world_release(struct world *w)
{
	free(w->servers);
	free(w->gpus);
	free(w->claimed);
	free(w->pending);
	free(w->n_claims);
	free(w->claims);
	free(w->parts);
	arena_release(&w->arena);
	buf_release(&w->out);
}

/* A claim of one part. */
static void claim(struct world *w, size_t server, size_t gpu, const char *namespace,
	const char *name, uint64_t bytes, enum claim_state state)
{
	size_t n = w->view.n_claims++, at = w->servers[server].first_gpu + gpu;

	w->parts[n] = (struct claim_part){
		w->servers[server].name, w->servers[server].gpus[gpu].id, bytes};
	w->claims[n] = (struct claim){.key = name,
		.namespace = namespace,
		.name = name,
		.state = state,
		.since_ms = NOW - 61000 * (int64_t)(n + 1),
		.parts = &w->parts[n],
		.n_parts = 1};
	w->claimed[at] += bytes;
	w->pending[at] += state == CLAIM_PENDING ? bytes : 0;
	w->n_claims[server]++;
}

static const char *render(struct world *w)
{
	struct err err = {0};

	buf_clear(&w->out);
	if (page_render(&w->page, &w->arena, &w->out, &err) != 0)
		fail_msg("%s", err.msg);
	return w->out.data;
}

static void has(const char *text, const char *what)
{
	if (!strstr(text, what))
		fail_msg("nowhere: %s", what);
}

static void has_not(const char *text, const char *what)
{
	const char *at = strstr(text, what);

	if (at)
		fail_msg("there: %.200s", at);
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

/* Every element that is opened is closed, in order: what strangers wrote has opened and closed nothing. Void elements and
 * self-closed ones apart. */
static void well_formed(const char *text)
{
	static const char *const voids[] = {"!doctype", "meta"};
	char open[64][16];
	size_t depth = 0;

	for (const char *at = text; (at = strchr(at, '<')); at++) {
		const char *name = at + 1, *end = strchr(at, '>');
		size_t n = strcspn(name, " />\n");
		bool is_void = false;

		assert_non_null(end);
		if (*name == '/') {
			n = strcspn(name + 1, " >");
			assert_true(depth > 0);
			depth--;
			if (strlen(open[depth]) != n || strncmp(open[depth], name + 1, n) != 0)
				fail_msg("</%.*s> closes <%s>: %.80s", (int)n, name + 1,
					open[depth], at);
			continue;
		}
		for (size_t i = 0; i < COUNT(voids); i++)
			is_void = is_void ||
				  (n == strlen(voids[i]) && strncmp(name, voids[i], n) == 0);
		if (is_void || end[-1] == '/')
			continue;
		assert_true(depth < COUNT(open) && n < sizeof(open[0]));
		memcpy(open[depth], name, n);
		open[depth++][n] = '\0';
		/* Text of another language. */
		if (strncmp(name, "style>", 6) == 0 || strncmp(name, "script>", 7) == 0)
			at = strstr(at, "</") - 1;
	}
	assert_int_equal(depth, 0);
}

static void save(const struct buf *b)
{
	const char *path = getenv("PAGE_OUT");
	FILE *f = path ? fopen(path, "wb") : NULL;

	if (!f)
		return;
	assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
	assert_int_equal(fclose(f), 0);
}

static void test_every_state(void **state)
{
	struct label labels[] = {{"zone", "lab"}, {"rack", "r3"}};
	struct decision kept[3] = {
		{.at_ms = NOW - 4000,
			.hook = HOOK_VALIDATE,
			.operation = OP_CREATE,
			.result = RESULT_REFUSED,
			.kind = "Pod",
			.namespace = "ml",
			.name = "too-big",
			.reason = "NoCapacity",
			.message = "asked 9 GPUs with 100 % each; ask for at most 6"},
		{.at_ms = NOW - 65000,
			.hook = HOOK_VALIDATE,
			.operation = OP_CREATE,
			.result = RESULT_CLAIMED,
			.kind = "Pod",
			.namespace = "ml",
			.name = "train-0",
			.message = "gpu-00000/gpu-0=8000000000 gpu-00000/gpu-1=16000000000 and 3 "
				   "more"},
		{.at_ms = NOW - 7300000,
			.hook = HOOK_MUTATE,
			.operation = OP_UPDATE,
			.result = RESULT_UNTOUCHED,
			.kind = "Deployment",
			.namespace = "ml",
			.message = "no pod",
			.dry_run = true}};
	struct world w;
	const char *text;

	(void)state;
	world_init(&w, 5, 3, 8);
	w.servers[0].labels = labels;
	w.servers[0].n_labels = 2;
	claim(&w, 0, 0, "ml", "train-0", 8 * GB, CLAIM_BOUND);
	claim(&w, 0, 0, "ml", "train-1", 2 * GB, CLAIM_PENDING);
	claim(&w, 0, 1, "ml", "bert", 16 * GB, CLAIM_BOUND);
	claim(&w, 1, 0, "ml", "left", 4 * GB, CLAIM_BOUND);
	claim(&w, 2, 0, "prod", "a", 12 * GB, CLAIM_BOUND);
	claim(&w, 2, 0, "prod", "b", 8 * GB, CLAIM_ADOPTED);
	claim(&w, 4, 0, "prod", "made-up", 3 * GB, CLAIM_PENDING);
	w.claims[6].name = "";
	w.gpus[3].missing = true;
	w.gpus[4].fit = false;
	w.gpus[4].why = "2 uncorrectable memory errors";
	w.gpus[5].fresh = false;
	w.gpus[5].why = "its probe has not answered for 31 s";
	w.servers[3].drain = true;
	w.servers[4].n_gpus = 1;
	w.page.decisions = kept;
	w.page.n_decisions = 3;
	w.page.certificate_ms = INT64_C(1817114400000);
	w.page.leads = true;
	text = render(&w);
	save(&w.out);
	well_formed(text);
	has(text, "<title>poolgate: ");
	has(text, "<title>ml/train-0: 8 GB, bound</title><rect class=\"bound\" height=\"100%\" "
		  "x=\"0.00%\" "
		  "width=\"50.00%\"/>");
	has(text, "<title>ml/train-1: 2 GB, pending</title><rect class=\"pending\" height=\"100%\" "
		  "x=\"50.00%\" width=\"12.50%\"/>");
	has(text, "<rect class=\"free\" height=\"100%\" x=\"62.50%\" width=\"37.50%\"/>");
	has(text, "6 of 16 GB free");
	has(text, "<i class=\"bad\">missing</i> 16 GB");
	has(text, "<i class=\"bad\">unfit</i> 16 GB");
	has(text, "2 uncorrectable memory errors");
	has(text, "<i class=\"dim\">stale</i> 16 GB");
	has(text, "its probe has not answered for 31 s");
	has(text, "<i class=\"dim\">drained</i> 16 GB");
	has(text, "<span class=\"chip\">draining</span>");
	has(text, "4 GB too many promised");
	has(text, "promised beyond what is there <b>4 GB</b>");
	has(text, "<span>zone=lab</span> <span>rack=r3</span>");
	has(text, "(no name yet)");
	has(text, "<b>NoCapacity</b> <span class=\"words\">asked 9 GPUs with 100 % each; ask for "
		  "at most 6</span>");
	has(text, "gpu-00000/gpu-0 8 GB gpu-00000/gpu-1 16 GB and 3 more");
	has(text, "mutate <span class=\"dim\">UPDATE, dry run</span>");
	has(text, ">Deployment <span class=\"dim\">ml/");
	has(text, ">1 min</time>");
	has(text, "certificate until 2027-08-01T10:00:00Z");
	has(text, "this replica leads");
	has_not(text, "class=\"map\"");
	has_not(text, "class=\"pager\"");
	has_not(text, "Reviews are not decided");
	world_release(&w);
}

static void test_empty(void **state)
{
	struct world w;
	const char *text;

	(void)state;
	world_init(&w, 0, 0, 0);
	w.page.trouble = "the API server <has> not been read";
	text = render(&w);
	well_formed(text);
	has(text, "No GPU server is known");
	has(text, "Nobody holds anything");
	has(text, "No review has come yet");
	has(text, "Reviews are not decided: the API server &lt;has&gt; not been read");
	has_not(text, "this replica leads");
	has_not(text, "certificate until");
	world_release(&w);
	world_init(&w, 1, 0, 0);
	w.servers[0].probe_url = "https://10.0.0.1:9443";
	has(render(&w), "No GPU is known until its probe answers.");
	world_release(&w);
}

static void fill(char *to, size_t size, const char *from)
{
	size_t n = strlen(from) < size ? strlen(from) : size - 1;

	memcpy(to, from, n);
	to[n] = '\0';
}

static void test_hostile(void **state)
{
	static const char evil[] =
		"<script>alert(1)</script><img src=x onerror=alert(2)>\"'&</td></svg>`"
		"\xe2\x80\xae\xff\x01";
	static const char shown[] =
		"&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(2)&gt;"
		"&quot;&#39;&amp;&lt;/td&gt;&lt;/svg&gt;&#96;\\u202e\xef\xbf\xbd\\u0001";
	struct label label = {evil, evil};
	struct decision kept = {.at_ms = NOW, .result = RESULT_REFUSED};
	struct world w, plain;
	size_t tags;

	(void)state;
	world_init(&plain, 1, 1, 1);
	plain.servers[0].labels = &(struct label){"a", "b"};
	plain.servers[0].n_labels = 1;
	plain.gpus[0].fit = false;
	plain.gpus[0].why = "x";
	claim(&plain, 0, 0, "a", "b", GB, CLAIM_BOUND);
	plain.page.decisions = &(struct decision){.at_ms = NOW,
		.result = RESULT_REFUSED,
		.kind = "x",
		.namespace = "a",
		.name = "b",
		.reason = "c",
		.message = "d"};
	plain.page.n_decisions = 1;
	plain.page.trouble = "t";
	tags = count(render(&plain), "<");

	world_init(&w, 1, 1, 1);
	w.servers[0].name = w.servers[0].address = evil;
	w.servers[0].labels = &label;
	w.servers[0].n_labels = 1;
	w.gpus[0].id = w.gpus[0].model = w.gpus[0].why = evil;
	w.gpus[0].fit = false;
	claim(&w, 0, 0, evil, evil, GB, CLAIM_BOUND);
	fill(kept.kind, sizeof(kept.kind), evil);
	fill(kept.namespace, sizeof(kept.namespace), evil);
	fill(kept.name, sizeof(kept.name), evil);
	fill(kept.reason, sizeof(kept.reason), evil);
	fill(kept.message, sizeof(kept.message), evil);
	w.page.decisions = &kept;
	w.page.n_decisions = 1;
	w.page.trouble = w.page.version = evil;
	has(render(&w), shown);
	well_formed(w.out.data);
	assert_int_equal(count(w.out.data, "<"), tags);
	assert_int_equal(count(w.out.data, "<script"), 1);
	assert_int_equal(count(w.out.data, "<img"), 0);
	world_release(&w);
	world_release(&plain);
}

static void test_large(void **state)
{
	struct world w;
	const char *text;

	(void)state;
	world_init(&w, 1000, 8, 20000);
	for (size_t i = 0; i < 20000; i++)
		claim(&w, i % 1000, i % 8, "ml", "pod", GB / 2, CLAIM_BOUND);
	text = render(&w);
	well_formed(text);
	assert_true(w.out.len < 600 * 1024);
	assert_int_equal(count(text, "<article"), PAGE_SERVERS);
	assert_int_equal(count(text, "<tr>"), PAGE_CLAIMS + 1);
	has(text, "1\xe2\x80\x93"
		  "48 of 1000");
	has(text, "href=\"?servers=2&amp;claims=1#servers\"");
	has(text, "href=\"?servers=1&amp;claims=2#claims\"");
	assert_int_equal(count(text, "\" width=\"9\" height=\"9\""), 1000);
	has(text, "<a href=\"?servers=21&amp;claims=1#s999\"><title>gpu-00999</title>");
	w.page.servers_page = 20;
	w.page.claims_page = 199;
	text = render(&w);
	has(text, "961\xe2\x80\x93"
		  "1000 of 1000");
	assert_int_equal(count(text, "<article"), 40);
	has(text, "id=\"s999\"");
	has(text, "19901\xe2\x80\x93"
		  "20000 of 20000");
	/* Behind the last page is the last one. */
	w.page.servers_page = w.page.claims_page = 999;
	has(render(&w), "961\xe2\x80\x93"
			"1000 of 1000");
	world_release(&w);
	/* One server, all of it shared by crowds. */
	world_init(&w, 1, 400, 5000);
	for (size_t i = 0; i < 5000; i++)
		claim(&w, 0, i % 4, "ml", "pod", 3, CLAIM_BOUND);
	text = render(&w);
	well_formed(text);
	assert_true(w.out.len < 200 * 1024);
	has(text, "<title>1218 more</title>");
	has(text, "and 368 more GPUs");
	world_release(&w);
}

static void test_limits(void **state)
{
	struct err err = {0};
	struct world w;

	(void)state;
	world_init(&w, 3, 2, 1);
	claim(&w, 0, 0, "ml", "a", GB, CLAIM_BOUND);
	w.out.max = 5000;
	assert_int_equal(page_render(&w.page, &w.arena, &w.out, &err), ERR_TOOBIG);
	arena_release(&w.arena);
	arena_init(&w.arena, 8);
	w.out.max = 1 << 20;
	assert_int_equal(page_render(&w.page, &w.arena, &w.out, &err), ERR_NOMEM);
	world_release(&w);
}

static void expect_hash(const char *directive, const char *const *pieces)
{
	struct buf text, want;
	char digest[32];

	buf_init(&text, 1 << 20);
	buf_init(&want, 256);
	while (*pieces)
		buf_str(&text, *pieces++);
	assert_int_equal(gnutls_hash_fast(GNUTLS_DIG_SHA256, text.data, text.len, digest), 0);
	buf_fmt(&want, "%s 'sha256-", directive);
	buf_base64(&want, digest, sizeof(digest));
	buf_str(&want, "'");
	has(page_policy, want.data);
	buf_release(&text);
	buf_release(&want);
}

static void test_policy(void **state)
{
	(void)state;
	expect_hash("style-src", page_style);
	expect_hash("script-src", page_script);
	has(page_policy, "default-src 'none'");
	has_not(page_policy, "unsafe");
	has_not(page_policy, "http");
}

static void test_split(void **state)
{
	struct pool_split split = {0};
	struct world w;

	(void)state;
	world_init(&w, 2, 4, 4);
	claim(&w, 0, 0, "ml", "a", 4 * GB, CLAIM_BOUND);
	claim(&w, 0, 0, "ml", "b", 2 * GB, CLAIM_PENDING);
	claim(&w, 0, 1, "ml", "c", 20 * GB, CLAIM_BOUND);
	claim(&w, 0, 2, "ml", "d", 1 * GB, CLAIM_BOUND);
	w.gpus[2].fit = w.gpus[2].fresh = false;
	w.gpus[3].fit = false;
	w.servers[1].drain = true;
	w.gpus[7].missing = true;
	pool_split_server(&w.view, 0, &split);
	pool_split_server(&w.view, 1, &split);
	assert_int_equal(split.bytes[POOL_BOUND], 21 * GB);
	assert_int_equal(split.bytes[POOL_PENDING], 2 * GB);
	assert_int_equal(split.bytes[POOL_FREE], 10 * GB);
	assert_int_equal(split.bytes[POOL_STALE], 15 * GB);
	assert_int_equal(split.bytes[POOL_UNFIT], 16 * GB);
	assert_int_equal(split.bytes[POOL_DRAINED], 48 * GB);
	assert_int_equal(split.bytes[POOL_MISSING], 16 * GB);
	assert_int_equal(split.over, 4 * GB);
	assert_string_equal(pool_state_name(POOL_STATES), "unknown");
	world_release(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_state),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_policy),
		cmocka_unit_test(test_split),
	};

	return cmocka_run_group_tests_name("page", tests, NULL, NULL) != 0;
}
