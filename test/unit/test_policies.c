/* SPDX-License-Identifier: Apache-2.0 */
/* edge/settings/policy_file: which policies and namespaces files hold, what is wrong with them, and
 * whose policy is whose. */
#include <sys/stat.h>

#include "base/buf.h"
#include "test/unit/scratch.h"
#include "test/unit/test.h"
#include "webhook/edge/settings/policy_file.h"

#define POLICY(name)                                                                               \
	"apiVersion: poolgate.io/v1alpha1\nkind: GPUPolicy\nmetadata: {name: " name "}\n"          \
	"spec: {inject: true}\n"
#define NAMESPACE(name, labels)                                                                    \
	"apiVersion: v1\nkind: Namespace\nmetadata: {name: " name ", labels: {" labels "}}\n"
#define PICKS(name) "poolgate.io/policy: " name

#define ARENA_MAX (8u << 20)

struct loaded {
	struct arena arena;
	struct policies p;
	struct err err;
	int rc;
};

static void load(struct loaded *l, const char *path, size_t max)
{
	*l = (struct loaded){0};
	arena_init(&l->arena, max);
	l->rc = policies_load(path, &l->arena, &l->p, &l->err);
}

static void load_text(struct loaded *l, const char *text)
{
	load(l, scratch_file("policies.yaml", text), ARENA_MAX);
}

/* Text; the policies, and the namespaces with what they pick. */
static const struct {
	const char *text, *policies, *picks;
} rows[] = {
	{"", "", ""},
	{"---\n---\n", "", ""},
	{POLICY("a"), "a", ""},
	{POLICY("a") "---\n" POLICY("b") "---\n" POLICY("c"), "a b c", ""},
	{NAMESPACE("lab", PICKS("a")), "", "lab=a"},
	{NAMESPACE("lab", PICKS("a")) "---\n---\n" POLICY("a") "---\n" NAMESPACE("ml", PICKS("a")),
		"a", "lab=a ml=a"},
	/* another label, none, an empty one */
	{NAMESPACE("lab", "team: x") "---\n" NAMESPACE("ml", "") "---\n" NAMESPACE(
		 "dev", PICKS("''")),
		"", "lab=- ml=- dev=-"},
	/* lists, and what stands beside them */
	{"apiVersion: v1\nkind: List\nitems: []\n", "", ""},
	{"apiVersion: v1\nkind: List\nitems:\n"
	 "  - {apiVersion: poolgate.io/v1alpha1, kind: GPUPolicy, metadata: {name: a}, spec: {}}\n"
	 "  - {apiVersion: v1, kind: Namespace, metadata: {name: lab, "
	 "labels: {poolgate.io/policy: b}}}\n"
	 "---\n" POLICY("b"),
		"a b", "lab=b"},
};

TEST(test_what_files_hold)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct loaded l;
		struct buf policies, picks;

		load_text(&l, rows[i].text);
		if (l.rc != 0)
			fail_msg("row %zu: %s", i, l.err.msg);
		buf_init(&policies, 1024);
		buf_init(&picks, 1024);
		for (size_t k = 0; k < l.p.n; k++)
			buf_fmt(&policies, "%s%s", k ? " " : "", l.p.all[k].name);
		for (size_t k = 0; k < l.p.n_picks; k++)
			buf_fmt(&picks, "%s%s=%s", k ? " " : "", l.p.picks[k].namespace,
				l.p.picks[k].policy ? l.p.picks[k].policy : "-");
		buf_char(&policies, '\0');
		buf_char(&picks, '\0');
		assert_string_equal(policies.data, rows[i].policies);
		assert_string_equal(picks.data, rows[i].picks);
		buf_release(&policies);
		buf_release(&picks);
		arena_release(&l.arena);
	}
}

TEST(test_folder)
{
	struct loaded l;

	assert_int_equal(mkdir(scratch("some"), 0700), 0);
	scratch_file("some/a.yaml", POLICY("a"));
	scratch_file("some/b.yml", NAMESPACE("lab", PICKS("a")));
	scratch_file("some/notes.txt", "not read");
	load(&l, scratch("some"), ARENA_MAX);
	assert_int_equal(l.rc, 0);
	assert_int_equal(l.p.n, 1);
	assert_int_equal(l.p.n_picks, 1);
	arena_release(&l.arena);
	/* the second file ends it */
	scratch_file("some/b.yml", POLICY("a"));
	load(&l, scratch("some"), ARENA_MAX);
	assert_int_equal(l.rc, ERR_INVALID);
	assert_non_null(strstr(l.err.msg, "some/b.yml:1: "));
	arena_release(&l.arena);
	load(&l, scratch("nothing"), ARENA_MAX);
	assert_int_equal(l.rc, ERR_NOTFOUND);
	arena_release(&l.arena);
}

/* Text; the error, and pieces of its sentence. */
static const struct {
	const char *text;
	int rc;
	const char *where, *says;
} wrong[] = {
	{"kind: Pod\n", ERR_INVALID, "policies.yaml:1: ", "found another kind of document"},
	{POLICY("a") "---\nmetadata: {}\n", ERR_INVALID, "policies.yaml:6: ", "another kind"},
	{"- a\n", ERR_INVALID, "policies.yaml:1: ", "another kind"},
	{"kind: List\nitems: [{kind: Pod}]\n", ERR_INVALID, "policies.yaml:2: ", "another kind"},
	{"kind: List\nitems: {a: b}\n", ERR_INVALID, "policies.yaml:1: ", "another kind"},
	{POLICY("a") "---\n" POLICY("b") "---\n" POLICY("a"), ERR_INVALID,
		"policies.yaml:11: ", "found a second GPUPolicy \"a\""},
	{POLICY("A_b"), ERR_INVALID, "policies.yaml:1: ", "metadata/name"},
	{POLICY("a") "---\napiVersion: poolgate.io/v1alpha1\nkind: GPUPolicy\n"
		     "metadata: {name: b}\nspec: {share: -1}\n",
		ERR_INVALID, "policies.yaml:6: ", "spec/share"},
	{"apiVersion: poolgate.io/v1alpha1\nkind: GPUPolicy\nmetadata: {name: b}\n"
	 "spec: {injects: true}\n",
		ERR_INVALID, "policies.yaml:1: ", "injects"},
	{NAMESPACE("''", ""), ERR_INVALID, "policies.yaml:1: ", "found no metadata.name"},
	{NAMESPACE("A_b", ""), ERR_INVALID, "policies.yaml:1: ", "found no metadata.name"},
	{"kind: Namespace\n", ERR_INVALID, "policies.yaml:1: ", "found no metadata.name"},
	{NAMESPACE("lab", "") "---\n" NAMESPACE("ml", "") "---\n" NAMESPACE("lab", PICKS("a")),
		ERR_INVALID, "policies.yaml:9: ", "found a second Namespace \"lab\""},
	{"kind: [\n", ERR_SYNTAX, "policies.yaml:", ""},
	{"a: &b {}\nc: *b\n", ERR_REFUSED, "policies.yaml:", ""},
};

TEST(test_wrong)
{
	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct loaded l;

		load_text(&l, wrong[i].text);
		if (l.rc != wrong[i].rc || !strstr(l.err.msg, wrong[i].where) ||
			!strstr(l.err.msg, wrong[i].says))
			fail_msg("row %zu gives %d: %s", i, l.rc, l.err.msg);
		assert_int_equal(l.p.n + l.p.n_picks, 0);
		arena_release(&l.arena);
	}
}

static void load_many(struct loaded *l, const char *document, size_t n)
{
	struct buf b;

	buf_init(&b, 4u << 20);
	for (size_t i = 0; i < n; i++) {
		buf_fmt(&b, document, i);
		buf_str(&b, "---\n");
	}
	buf_char(&b, '\0');
	assert_false(b.failed);
	load_text(l, b.data);
	buf_release(&b);
}

TEST(test_too_many)
{
	static const struct {
		const char *document;
		size_t most;
	} kinds[] = {{POLICY("p%zu"), POLICIES_MAX},
		{"kind: Namespace\nmetadata: {name: n%zu}\n", POLICIES_NAMESPACES_MAX}};

	for (size_t i = 0; i < COUNT(kinds); i++) {
		struct loaded l;

		load_many(&l, kinds[i].document, kinds[i].most);
		if (l.rc != 0)
			fail_msg("kind %zu: %s", i, l.err.msg);
		assert_int_equal(l.p.n + l.p.n_picks, kinds[i].most);
		arena_release(&l.arena);
		load_many(&l, kinds[i].document, kinds[i].most + 1);
		assert_int_equal(l.rc, ERR_TOOBIG);
		assert_non_null(
			strstr(l.err.msg, "more than 999 policies, or more than 9999 namespaces"));
		arena_release(&l.arena);
	}
}

/* All that was read is in the hash, and empty documents and comments are not. */
TEST(test_hash)
{
	static const char *const texts[] = {POLICY("a"), POLICY("b"),
		POLICY("a") "  \n---\n" POLICY("b"), NAMESPACE("lab", PICKS("a")),
		NAMESPACE("lab", PICKS("b")), NAMESPACE("ml", PICKS("a")),
		POLICY("a") "---\n" NAMESPACE("lab", PICKS("a")),
		"apiVersion: poolgate.io/v1alpha1\nkind: GPUPolicy\nmetadata: {name: a}\nspec: "
		"{inject: false}\n"};
	uint64_t seen[COUNT(texts)];
	struct loaded l;

	for (size_t i = 0; i < COUNT(texts); i++) {
		load_text(&l, texts[i]);
		assert_int_equal(l.rc, 0);
		seen[i] = l.p.hash;
		assert_true(seen[i] != 0);
		for (size_t k = 0; k < i; k++)
			assert_true(seen[k] != seen[i]);
		arena_release(&l.arena);
	}
	load_text(&l, "# as above\n---\n---\n" POLICY("a"));
	assert_true(l.p.hash == seen[0]);
	arena_release(&l.arena);
}

/* Whose policy is whose: of all that is there, in any order. */
TEST(test_policies_of)
{
	static const char text[] = NAMESPACE("first", PICKS("b")) "---\n" POLICY(
		"a") "---\n" NAMESPACE("none",
		"team: x") "---\n" POLICY("b") "---\n" NAMESPACE("gone",
		PICKS("nonesuch")) "---\n" POLICY("c") "---\n" NAMESPACE("last", PICKS("c"));
	static const struct {
		const char *namespace, *policy; /* NULL: none; "": one that is not there */
	} asked[] = {{"first", "b"}, {"none", NULL}, {"gone", ""}, {"last", "c"}, {"other", NULL},
		{"fir", NULL}, {"", NULL}};
	struct loaded l;

	load_text(&l, text);
	assert_int_equal(l.rc, 0);
	for (size_t i = 0; i < COUNT(asked); i++) {
		const char *want = asked[i].policy;
		const struct policy *p = l.p.all;
		int rc = policies_of(&l.p, slice_of(asked[i].namespace), &l.arena, &p, &l.err);

		assert_int_equal(rc, want && !*want ? ERR_REFUSED : 0);
		if (want && *want)
			assert_string_equal(p->name, want);
		else
			assert_null(p);
		if (rc != 0)
			assert_non_null(strstr(l.err.msg, "picks the policy \"nonesuch\""));
	}
	arena_release(&l.arena);
}

/* Where memory ends, it is said, whatever the file holds. */
TEST(test_no_memory)
{
	static const char *const texts[] = {"", POLICY("a"), NAMESPACE("lab", PICKS("a")),
		NAMESPACE("lab", PICKS("a")) "---\n" POLICY("a")};

	for (size_t i = 0; i < COUNT(texts); i++) {
		const char *path = scratch_file("policies.yaml", texts[i]);
		struct loaded l = {.rc = ERR_NOMEM};
		int broken = 0;

		for (size_t max = 0; l.rc != 0; max += 1 + max / 64) {
			load(&l, path, max);
			if (l.rc != 0) {
				assert_int_equal(l.rc, ERR_NOMEM);
				assert_int_equal(l.p.n + l.p.n_picks, 0);
				broken++;
			}
			arena_release(&l.arena);
		}
		assert_true(broken > 500);
	}
}

TESTS_WITHIN(scratch_begin, scratch_end, test_what_files_hold, test_folder, test_wrong,
	test_too_many, test_hash, test_policies_of, test_no_memory)
