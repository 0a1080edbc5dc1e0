/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of webhook/edge/settings/config_store and files: what is built out of which files,
 * what is refused, and the swap under readers. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "base/files.h"
#include "test/unit/scratch.h"
#include "test/unit/test.h"
#include "webhook/core/image/image.h"
#include "webhook/edge/settings/config_store.h"

#define PROFILE(name)                                                                              \
	"apiVersion: poolgate.io/v1alpha1\nkind: LauncherProfile\nmetadata: {name: " name "}\n"    \
	"spec: {kind: env, env: [{name: A, value: b}]}\n"
#define POLICY(name, inject)                                                                       \
	"apiVersion: poolgate.io/v1alpha1\nkind: GPUPolicy\nmetadata: {name: " name "}\n"          \
	"spec: {inject: " inject "}\n"

static struct settings with_launchers(const char *path)
{
	return (struct settings){.launchers = {path}, .n_launchers = 1, .total_gpu_mb = 16000};
}

static struct config_built *must_build(const struct settings *s)
{
	struct config_built *b = NULL;
	struct err err = {0};

	if (config_build(s, &b, &err) != 0)
		fail_msg("%s", err.msg);
	return b;
}

static void must_fail(const struct settings *s, int code, const char *complaint)
{
	struct config_built *b = NULL;
	struct err err = {0};
	int rc = config_build(s, &b, &err);

	assert_null(b);
	if (rc != code || !strstr(err.msg, complaint))
		fail_msg("%d \"%s\", expected %d \"%s\"", rc, err.msg, code, complaint);
}

TEST(test_examples)
{
	struct settings s = {.client_catalogue = "manifests/examples/catalogue.yaml",
		.sidecar_config = "manifests/examples/sidecar.yaml",
		.launchers = {"manifests/examples/launchers"},
		.n_launchers = 1,
		.total_gpu_mb = 16160,
		.secret_without_claim = true};
	struct config_built *b = must_build(&s), *other;

	assert_int_equal(b->config.n_profiles, 4);
	assert_int_equal(b->config.total_gpu_mb, 16160);
	assert_true(b->config.secret_without_claim);
	assert_true(slice_is(b->config.default_profile->name, "bitfusion"));
	s.default_launcher = "lupine";
	other = must_build(&s);
	assert_true(slice_is(other->config.default_profile->name, "lupine"));
	assert_true(other->hash != b->hash);
	config_built_free(other);
	config_built_free(b);
	config_built_free(NULL);
	s.default_launcher = "nonesuch";
	must_fail(&s, ERR_INVALID, "found \"nonesuch\" as default launcher");
}

TEST(test_files_and_folders)
{
	struct settings s = with_launchers(scratch("p"));
	struct config_built *b;

	assert_int_equal(mkdir(scratch("p"), 0700), 0);
	must_fail(&s, ERR_INVALID, "found no *.yaml");
	scratch_file("p/b.yaml", PROFILE("b") "---\n" PROFILE("c") "---\n");
	scratch_file("p/a.yml", PROFILE("a"));
	scratch_file("p/.hidden.yaml", "not read");
	scratch_file("p/readme.txt", "not read");
	must_fail(&s, ERR_INVALID, "found 3 launcher profiles, expected the name of the one");
	s.default_launcher = "c";
	b = must_build(&s);
	assert_int_equal(b->config.n_profiles, 3);
	assert_true(slice_is(b->config.profiles[0].name, "a"));
	config_built_free(b);
	/* A mounted ConfigMap: names are links. */
	assert_int_equal(symlink("b.yaml", scratch("p/d.yaml")), 0);
	must_fail(&s, ERR_INVALID, "d.yaml:1: found a second profile \"b\"");
	assert_int_equal(unlink(scratch("p/d.yaml")), 0);

	s = with_launchers(scratch("p/a.yml"));
	b = must_build(&s);
	assert_true(slice_is(b->config.default_profile->name, "a"));
	config_built_free(b);
}

TEST(test_wrong)
{
	static const struct {
		const char *text;
		int code;
		const char *complaint;
	} cases[] = {
		{"", ERR_INVALID, "x.yaml: found no document, expected a LauncherProfile"},
		{"---\n---\n", ERR_INVALID, "found no document"},
		{"a: [", ERR_SYNTAX, "x.yaml:"},
		{"kind: GPUServer\n", ERR_INVALID, "x.yaml:1"},
		{PROFILE("a") "---\n" PROFILE("a"), ERR_INVALID,
			"x.yaml:6: found a second profile"},
		{"a: &b c\nd: *b\n", ERR_REFUSED, "x.yaml:"},
	};
	struct settings s;

	for (size_t i = 0; i < COUNT(cases); i++) {
		scratch_file("x.yaml", cases[i].text);
		s = with_launchers(scratch("x.yaml"));
		must_fail(&s, cases[i].code, cases[i].complaint);
	}
	s = with_launchers("/nonexistent");
	must_fail(&s, ERR_NOTFOUND, "/nonexistent");
	s = (struct settings){0};
	must_fail(&s, ERR_INVALID, "found no launcher profile");
	s.client_catalogue = scratch("none.yaml");
	s.sidecar_config = s.client_catalogue;
	must_fail(&s, ERR_NOTFOUND, "none.yaml");
	scratch_file("two.yaml", "a: b\n---\na: b\n");
	s.client_catalogue = scratch("two.yaml");
	must_fail(&s, ERR_INVALID, "two.yaml: found 2 documents, expected one");
}

struct told {
	char text[512];
	int n;
};

static void tell(void *ctx, const struct err *err)
{
	struct told *t = ctx;
	size_t len = strlen(t->text);

	t->n++;
	(void)snprintf(t->text + len, sizeof(t->text) - len, "%s\n", err->msg);
}

/* Every mistake of a configuration at once; the code is the first one's. */
TEST(test_all_that_is_wrong)
{
	struct settings s = with_launchers("/nonexistent/a");
	struct told t = {0};
	struct config_built *b = NULL;
	struct err err = {0};

	scratch_file("one.yaml", "kind: GPUServer\n");
	scratch_file("twice.yaml", PROFILE("a") "---\n" PROFILE("a"));
	s.launchers[1] = scratch("one.yaml");
	s.launchers[2] = scratch("twice.yaml");
	s.n_launchers = 3;
	assert_int_equal(config_build_all(&s, tell, &t, &b, &err), ERR_NOTFOUND);
	assert_null(b);
	assert_non_null(strstr(err.msg, "/nonexistent/a"));
	assert_int_equal(t.n, 3);
	assert_non_null(strstr(t.text, "/nonexistent/a"));
	assert_non_null(strstr(t.text, "one.yaml:1"));
	assert_non_null(strstr(t.text, "twice.yaml:6: found a second profile"));
	memset(&t, 0, sizeof(t));
	s = with_launchers(scratch("good.yaml"));
	scratch_file("good.yaml", PROFILE("a"));
	assert_int_equal(config_build_all(&s, tell, &t, &b, NULL), 0);
	config_built_free(b);
	assert_int_equal(t.n, 0);
}

TEST(test_too_large)
{
	struct settings s = with_launchers(scratch("large.yaml"));
	FILE *f = fopen(scratch("large.yaml"), "w");

	assert_non_null(f);
	for (int i = 0; i < 20000; i++)
		fputs("# a comment of more than fifty bytes, to reach the limit\n", f);
	fclose(f);
	must_fail(&s, ERR_TOOBIG, "large.yaml is over 1048576 bytes");
}

TEST(test_publish)
{
	struct settings s = with_launchers(scratch("one.yaml"));
	const struct config *old, *now;
	struct config_store store;

	config_store_init(&store);
	scratch_file("one.yaml", PROFILE("a"));
	assert_true(config_store_publish(&store, must_build(&s)));
	assert_false(config_store_publish(&store, must_build(&s))); /* the same */
	old = config_store_acquire(&store);
	scratch_file("one.yaml", PROFILE("b"));
	assert_true(config_store_publish(&store, must_build(&s)));
	now = config_store_acquire(&store);
	assert_true(slice_is(old->profiles[0].name, "a")); /* as long as it is held */
	assert_true(slice_is(now->profiles[0].name, "b"));
	config_store_give_back(&store, old);
	config_store_give_back(&store, now);
	config_store_release(&store);
}

/* Whatever differs makes another configuration; else the old one would stay in force. */
TEST(test_what_makes_another)
{
	struct slice x[] = {SLICE("x"), SLICE("y")};
	struct registry registries[] = {{.host = SLICE("a")}, {.host = SLICE("b")},
		{.host = SLICE("a"), .tokens = x, .n_tokens = 1},
		{.host = SLICE("a"), .tokens = x, .n_tokens = 2},
		{.host = SLICE("a"), .tokens = x + 1, .n_tokens = 1},
		{.host = SLICE("a"), .manifests = x, .n_manifests = 1},
		{.host = SLICE("a"), .storage = x, .n_storage = 1},
		{.host = SLICE("a"), .addresses = x, .n_addresses = 1},
		{.host = SLICE("a"), .ca = "x"}};
	enum { PLAIN = 8, ALL = PLAIN + COUNT(registries) + 1 };
	struct settings s[ALL];
	uint64_t hash[ALL];

	scratch_file("two.yaml", PROFILE("one") "---\n" PROFILE("two"));
	for (size_t i = 0; i < ALL; i++) {
		s[i] = with_launchers(scratch("two.yaml"));
		s[i].default_launcher = "one";
		s[i].registries = registries;
		s[i].n_registries = i >= PLAIN;
		if (i > PLAIN)
			s[i].registries = &registries[i - PLAIN - 1];
	}
	s[PLAIN].n_registries = 2;
	s[1].default_launcher = "two";
	s[2].total_gpu_mb++;
	s[3].secret_without_claim = true;
	s[4].node_resource = true;
	s[5].cluster.on = s[5].cluster.waiting = true;
	s[6].cluster.when_full = (enum when_full)1;
	s[7].cluster.when_full = (enum when_full)2;
	for (size_t i = 0; i < ALL; i++) {
		struct config_built *b = must_build(&s[i]);

		hash[i] = b->hash;
		config_built_free(b);
		for (size_t k = 0; k < i; k++)
			if (hash[k] == hash[i])
				fail_msg("%zu is the same as %zu", i, k);
	}
}

/* Policies of a file are part of it, and what is wrong there is wrong here. */
TEST(test_policies)
{
	struct settings s = with_launchers(scratch("one.yaml"));
	struct config_built *b;

	scratch_file("one.yaml", PROFILE("one"));
	b = must_build(&s);
	assert_false(b->has_policies);
	assert_int_equal(b->policies.n, 0);
	config_built_free(b);
	s.policies =
		scratch_file("policies.yaml", POLICY("p", "true") "---\n" POLICY("q", "false"));
	b = must_build(&s);
	assert_true(b->has_policies);
	assert_int_equal(b->policies.n, 2);
	config_built_free(b);
	scratch_file("policies.yaml", POLICY("p", "perhaps"));
	must_fail(&s, ERR_INVALID, "policies.yaml");
	s.policies = scratch("no-policies.yaml");
	must_fail(&s, ERR_NOTFOUND, "no-policies.yaml");
	/* the first that is wrong is told */
	scratch_file("one.yaml", "kind: [\n");
	must_fail(&s, ERR_SYNTAX, "one.yaml");
}

struct race {
	struct config_store store;
	atomic_bool stop;
	atomic_uint wrong;
};

static void *reader(void *arg)
{
	struct race *r = arg;

	while (!atomic_load(&r->stop)) {
		const struct config *c = config_store_acquire(&r->store);
		struct slice name = c->profiles[0].name;

		/* Each configuration is of one piece. */
		if (!(slice_is(name, "a") && c->total_gpu_mb == 1) &&
			!(slice_is(name, "b") && c->total_gpu_mb == 2))
			atomic_fetch_add(&r->wrong, 1);
		config_store_give_back(&r->store, c);
	}
	return NULL;
}

static bool is_not(void *name, const struct profile *p)
{
	return !slice_is(p->name, name);
}

TEST(test_keep)
{
	char one[] = "one", two[] = "two", three[] = "three";
	struct settings s;
	struct config_built *b, *all;

	scratch_file("keep.yaml", PROFILE("one") "---\n" PROFILE("two"));
	s = with_launchers(scratch("keep.yaml"));
	s.default_launcher = "one";
	all = must_build(&s);
	b = must_build(&s);
	assert_int_equal(config_built_keep(b, is_not, three), 0);
	assert_true(b->hash == all->hash);
	assert_int_equal(config_built_keep(b, is_not, two), 1);
	assert_true(b->hash != all->hash);
	assert_int_equal(b->config.n_profiles, 1);
	assert_true(slice_is(b->config.default_profile->name, "one"));
	assert_int_equal(config_built_keep(b, is_not, one), 1);
	assert_null(b->config.default_profile);
	config_built_free(b);
	/* the default one goes, and no other takes its place */
	assert_int_equal(config_built_keep(all, is_not, one), 1);
	assert_null(all->config.default_profile);
	config_built_free(all);
}

TEST(test_swap_under_readers)
{
	struct settings a, b;
	pthread_t threads[3];
	struct race r = {0};

	scratch_file("a.yaml", PROFILE("a"));
	scratch_file("b.yaml", PROFILE("b"));
	a = with_launchers(scratch("a.yaml"));
	b = with_launchers(scratch("b.yaml"));
	a.total_gpu_mb = 1;
	b.total_gpu_mb = 2;
	config_store_init(&r.store);
	assert_true(config_store_publish(&r.store, must_build(&a)));
	for (size_t i = 0; i < COUNT(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, reader, &r), 0);
	for (int i = 0; i < 200; i++)
		assert_true(config_store_publish(&r.store, must_build(i % 2 ? &a : &b)));
	atomic_store(&r.stop, true);
	for (size_t i = 0; i < COUNT(threads); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(atomic_load(&r.wrong), 0);
	config_store_release(&r.store);
}

TEST(test_marks)
{
	uint64_t before, folder;

	assert_true(files_mark(scratch("gone")) == 0);
	assert_int_equal(mkdir(scratch("m"), 0700), 0);
	folder = files_mark(scratch("m"));
	assert_true(folder != 0 && folder == files_mark(scratch("m")));
	scratch_file("m/x.txt", "not one of ours");
	assert_true(folder == files_mark(scratch("m")));
	scratch_file("m/x.yaml", "1");
	assert_true(folder != files_mark(scratch("m")));
	folder = files_mark(scratch("m"));
	before = files_mark(scratch("m/x.yaml"));
	assert_true(before == files_mark(scratch("m/x.yaml")));
	usleep(20000); /* coarse clocks of file systems */
	scratch_file("m/x.yaml", "2");
	assert_true(before != files_mark(scratch("m/x.yaml")));
	assert_true(folder != files_mark(scratch("m")));
	/* Times of files count in steps: what is as old as the other is told apart by its size, or
	 * by being another file. */
	for (int i = 0; i < 100; i++) {
		scratch_file("m/x.yaml", "1");
		scratch_file("m/z.yaml", "1");
		before = files_mark(scratch("m/x.yaml"));
		assert_true(before != files_mark(scratch("m/z.yaml")));
		scratch_file("m/x.yaml", "12");
		assert_true(before != files_mark(scratch("m/x.yaml")));
	}
	assert_int_equal(unlink(scratch("m/z.yaml")), 0);
	folder = files_mark(scratch("m"));
	assert_int_equal(rename(scratch("m/x.yaml"), scratch("m/y.yaml")), 0);
	assert_true(folder != files_mark(scratch("m")));
}

TEST(test_read)
{
	struct err err = {0};
	struct buf out;

	scratch_file("r", "123456789");
	buf_init(&out, 9);
	assert_int_equal(files_read(scratch("r"), &out, &err), 0);
	assert_string_equal(out.data, "123456789");
	buf_release(&out);
	buf_init(&out, 8);
	assert_int_equal(files_read(scratch("r"), &out, &err), ERR_TOOBIG);
	assert_int_equal(out.len, 0);
	assert_int_equal(files_read(scratch("none"), &out, &err), ERR_NOTFOUND);
	assert_int_equal(mkfifo(scratch("fifo"), 0600), 0);
	assert_int_equal(files_read(scratch("fifo"), &out, &err), ERR_IO);
	assert_non_null(strstr(err.msg, "is not a regular file"));
	buf_release(&out);
}

TESTS_WITHIN(scratch_begin, scratch_end, test_examples, test_files_and_folders, test_wrong,
	test_all_that_is_wrong, test_too_large, test_publish, test_what_makes_another,
	test_policies, test_keep, test_swap_under_readers, test_marks, test_read)
