/* SPDX-License-Identifier: Apache-2.0 */
/* test: where cgroups can be made, on folders that look like the kernel's; what the kernel does
 * with them is in test/gate/test_server.py. */
#include <sys/stat.h>

#include "gate/process/cgroup.h"
#include "test/unit/scratch.h"
#include "test/unit/test.h"

static void make(const char *name)
{
	assert_int_equal(mkdir(scratch(name), 0700), 0);
}

static bool is_there(const char *name)
{
	return access(scratch(name), F_OK) == 0;
}

static void drop(const char *name)
{
	assert_int_equal(remove(scratch(name)), 0);
}

static void must_hold(const char *name, const char *text)
{
	char found[64] = "";
	FILE *f = fopen(scratch(name), "r");

	assert_non_null(f);
	assert_non_null(fgets(found, sizeof(found), f));
	(void)fclose(f);
	assert_string_equal(found, text);
}

FIXTURE(set_up)
{
	assert_int_equal(scratch_begin(NULL), 0);
	make("proc");
	make("mnt");
	make("mnt/a");
	return 0;
}

/* Nothing is left where cgroups were made. */
FIXTURE(tear_down)
{
	if (is_there("mnt/a"))
		drop("mnt/a");
	drop("mnt");
	return scratch_end(state);
}

/* In mounts MOUNT stands for the place of ours. */
static int find(const char *cgroup, const char *mounts, struct cgroup_home *ret, struct err *err)
{
	const char *at = strstr(mounts, "MOUNT");
	char text[2048];

	if (at)
		(void)snprintf(text, sizeof(text), "%.*s%s/mnt%s", (int)(at - mounts), mounts,
			scratch(""), at + strlen("MOUNT"));
	scratch_file("proc/cgroup", cgroup);
	scratch_file("proc/mountinfo", at ? text : mounts);
	err_clear(err);
	return cgroup_home_find(scratch("proc"), ret, err);
}

#define V1 "25 30 0:24 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
#define V2 "31 23 0:28 / MOUNT rw,relatime shared:9 - cgroup2 cgroup2 rw\n"

TEST(test_where_there_is_none)
{
	static const struct {
		const char *cgroup, *mounts;
	} rows[] = {
		{"", V2},
		{"5:cpu:/\n", V2},
		{"0::/a", V2}, /* without its end */
		{"0::a\n", V2},
		{"0::/a\n", ""},
		{"0::/a\n", V1},
		/* a part of it, of another namespace */
		{"0::/a\n", "31 23 0:28 /../.. MOUNT rw - cgroup2 cgroup2 rw\n"},
		{"0::/a\n", "31 23 0:28 / MOUNT rw cgroup2\n"},
		{"0::/a\n", "31 23\n-\n\n"},
	};
	struct cgroup_home home;
	struct err err = {0};

	for (size_t i = 0; i < COUNT(rows); i++) {
		if (find(rows[i].cgroup, rows[i].mounts, &home, &err) != ERR_NOTFOUND)
			fail_msg("row %zu: %s", i, err.msg);
		assert_string_equal(home.path, "");
	}
	drop("proc/cgroup");
	assert_int_equal(cgroup_home_find(scratch("proc"), &home, &err), ERR_NOTFOUND);
}

/* An old kernel makes folders without that file, as any file system does. What was tried is gone.
 */
TEST(test_where_they_cannot_be_ended)
{
	struct cgroup_home home;
	struct err err = {0};

	assert_int_equal(find("5:cpu:/b\n0::/a\n", V1 V2, &home, &err), ERR_IO);
	assert_non_null(strstr(err.msg, "no cgroup.kill"));
	assert_string_equal(home.path, "");
	assert_int_equal(find("0::/\n", V2, &home, &err), ERR_IO);
	assert_non_null(strstr(err.msg, "no cgroup.kill"));
	assert_int_equal(find("0::/none\n", V2, &home, &err), ERR_IO);
	assert_non_null(strstr(err.msg, "mnt/none/gpugate-"));
	drop("mnt/a");
	assert_false(is_there("mnt/a"));
	make("mnt/a");
}

static struct cgroup_home fake_home(void)
{
	struct cgroup_home home = {0};

	home.mount = strlen(scratch("mnt"));
	(void)snprintf(home.path, sizeof(home.path), "%s", scratch("mnt/a"));
	return home;
}

TEST(test_one_of_a_claim)
{
	struct cgroup_home home = fake_home();
	char folder[CGROUP_PATH_MAX], name[CGROUP_PATH_MAX];
	struct err err = {0};

	assert_int_equal(cgroup_make(&home, "claim-1", folder, &err), 0);
	assert_true(is_there("mnt/a/claim-1"));
	assert_false(cgroup_enter(folder));
	cgroup_kill(folder);
	scratch_file("mnt/a/claim-1/cgroup.procs", "");
	scratch_file("mnt/a/claim-1/cgroup.kill", "");
	assert_true(cgroup_enter(folder));
	must_hold("mnt/a/claim-1/cgroup.procs", "0");
	cgroup_kill(folder);
	must_hold("mnt/a/claim-1/cgroup.kill", "1");
	/* it is not empty */
	assert_int_equal(cgroup_make(&home, "claim-1", folder, &err), ERR_IO);
	drop("mnt/a/claim-1/cgroup.procs");
	drop("mnt/a/claim-1/cgroup.kill");
	/* what was left empty is made anew */
	assert_int_equal(cgroup_make(&home, "claim-1", folder, &err), 0);
	assert_true(cgroup_remove(folder));
	assert_false(is_there("mnt/a/claim-1"));
	assert_true(cgroup_remove(folder));
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(cgroup_make(&home, name, folder, &err), ERR_IO);
	assert_non_null(strstr(err.msg, "too long"));
}

/* As /proc tells it below the mount, wherever ours are made. */
TEST(test_whose_a_process_is)
{
	struct cgroup_home home = fake_home(), none = {0};
	char folder[CGROUP_PATH_MAX];

	assert_false(cgroup_of(&none, getpid(), folder));
	assert_false(cgroup_of(&home, 0, folder));
	if (!cgroup_of(&home, getpid(), folder))
		return; /* a kernel without cgroup v2 */
	assert_int_equal(strncmp(folder, home.path, home.mount), 0);
	assert_true(folder[home.mount] == '/' || folder[home.mount] == '\0');
}

TESTS_BETWEEN(set_up, tear_down, test_where_there_is_none, test_where_they_cannot_be_ended,
	test_one_of_a_claim, test_whose_a_process_is)
