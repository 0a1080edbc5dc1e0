/* SPDX-License-Identifier: Apache-2.0 */
/* core/image/pull_config: whose credentials are whose. */
#include "webhook/core/image/pull_config.h"

#include "test/unit/core_fixture.h"
#include "test/unit/test.h"

ARENA_FIXTURES(1 << 20)

/* u:p */
#define ONE "{'auth':'dTpw'}"

static size_t find(
	const char *auths, const char *host, const char *repository, struct pull_logins *ret)
{
	const struct image_name name = {.host = slice_of(host), .repository = slice_of(repository)};
	char *quoted = fixture_quotes(auths), *copy;
	struct json j = {0};

	*ret = (struct pull_logins){0};
	assert_int_equal(json_read_copy(&j, quoted, strlen(quoted), 1000, &copy, NULL), 0);
	pull_config_find(&j, json_root(&j), &name, &arena, ret);
	memset(copy, '#', strlen(copy));
	json_release(&j);
	free(copy);
	free(quoted);
	return ret->n;
}

TEST(a_key_is_for_one_host_and_what_lies_under_its_path)
{
	static const struct {
		const char *key, *host, *repository;
		bool found;
	} rows[] = {{"r.x", "r.x", "a", true}, {"https://r.x", "r.x", "a", true},
		{"http://r.x/", "r.x", "a", true}, {"https://r.x/v1/", "r.x", "a", true},
		{"r.x/v2/", "r.x", "a", true}, {"r.x/a", "r.x", "a", true},
		{"r.x/a", "r.x", "a/b", true}, {"r.x/a", "r.x", "ab", false},
		{"r.x/a/b", "r.x", "a", false},
		{"https://index.docker.io/v1/", "docker.io", "library/a", true},
		{"docker.io", "docker.io", "library/a", true},
		{"registry-1.docker.io", "docker.io", "library/a", true},
		{"r.x", "r.x:5000", "a", false}, {"r.x:5000", "r.x", "a", false},
		{"r.x", "r.x.y", "a", false}, {"r.x.y", "r.x", "a", false},
		{"R.x", "r.x", "a", false}, {"*.x", "r.x", "a", false}, {"*", "r.x", "a", false},
		{"", "r.x", "a", false}, {"https://", "r.x", "a", false},
		{"u@r.x", "r.x", "a", false}};
	struct pull_logins got;

	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[300];

		(void)snprintf(text, sizeof(text), "{'%s':" ONE "}", rows[i].key);
		if ((find(text, rows[i].host, rows[i].repository, &got) == 1) != rows[i].found)
			fail_msg("row %zu: %s", i, rows[i].key);
	}
}

TEST(a_login_in_one_word_or_two)
{
	struct pull_logins got;

	assert_int_equal(find("{'r.x':{'auth':'dTpwOnE='}}", "r.x", "a", &got), 1);
	assert_true(slice_is(got.list[0].user, "u"));
	assert_true(slice_is(got.list[0].password, "p:q"));
	assert_int_equal(find("{'r.x':{'username':'v','password':'w'}}", "r.x", "a", &got), 1);
	assert_true(slice_is(got.list[0].user, "v") && slice_is(got.list[0].password, "w"));
	assert_int_equal(find("{'r.x':{'auth':'!'}}", "r.x", "a", &got), 0);
	assert_int_equal(find("{'r.x':{'auth':'dXA='}}", "r.x", "a", &got), 0);
	assert_int_equal(find("{'r.x':{'username':'v'}}", "r.x", "a", &got), 0);
	assert_int_equal(find("{'r.x':7}", "r.x", "a", &got), 0);
	assert_int_equal(find("[]", "r.x", "a", &got), 0);
}

/* The longest path first, as kubelets do; no more than so many. */
TEST(the_nearest_come_first)
{
	struct pull_logins got;

	find("{'r.x':{'username':'0','password':'p'},'r.x/a/b':{'username':'2','password':'p'},"
	     "'r.x/a':{'username':'1','password':'p'}}",
		"r.x", "a/b", &got);
	assert_int_equal(got.n, 3);
	assert_true(slice_is(got.list[0].user, "2") && slice_is(got.list[1].user, "1") &&
		    slice_is(got.list[2].user, "0"));
	find("{'r.x':{'username':'0','password':'p'},'https://r.x':{'username':'1','password':'p'},"
	     "'r.x/':{'username':'2','password':'p'},'http://r.x':{'username':'3','password':'p'},"
	     "'r.x/v1':{'username':'4','password':'p'},'r.x/a':{'username':'5','password':'p'}}",
		"r.x", "a", &got);
	assert_int_equal(got.n, PULL_LOGINS_MAX);
	assert_true(slice_is(got.list[0].user, "5") && slice_is(got.list[1].user, "0"));
	assert_true(slice_is(got.list[3].user, "2"));
}

TEST(memory_that_ends_is_told)
{
	struct pull_logins got;

	arena_release(&arena);
	arena_init(&arena, 1);
	(void)find("{'r.x':" ONE "}", "r.x", "a", &got);
	assert_true(arena.failed);
}

TESTS_BETWEEN(set_up, tear_down, a_key_is_for_one_host_and_what_lies_under_its_path,
	a_login_in_one_word_or_two, the_nearest_come_first, memory_that_ends_is_told)
