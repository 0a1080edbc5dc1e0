/* SPDX-License-Identifier: Apache-2.0 */
/* core/pod/foreign: what a container asks by keys of NVIDIA's device plugin and of HAMi. */
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pod/foreign.h"

static struct fixture fix;

FIXTURES(fixture_init, fixture_release)

#define L(members) "{'resources':{'limits':{" members "}}}"
#define R(members) "{'resources':{'requests':{" members "}}}"
#define LR(limits, requests) "{'resources':{'limits':{" limits "},'requests':{" requests "}}}"
#define GPU(n) "'nvidia.com/gpu':" n
#define MEM(n) "'nvidia.com/gpumem':" n
#define PCT(n) "'nvidia.com/gpumem-percentage':" n
#define CORES(n) "'nvidia.com/gpucores':" n
#define UNITS "'bitfusion.io/gpu':100"

/* container, the policy's percent; amount, percent, MB, units; warnings */
static const struct {
	const char *container;
	uint32_t usual;
	uint64_t amount, percent, mb, units;
	size_t warnings;
} good[] = {
	{L(GPU("1")), 0, 1, 100, 0, 100, 0},
	{L(GPU("'8'")), 0, 8, 100, 0, 800, 0},
	{R(GPU("2")), 0, 2, 100, 0, 200, 0},
	{LR(GPU("2"), GPU("'2'")), 50, 2, 50, 0, 100, 0},
	{L(GPU("'1k'")), 0, 1000, 100, 0, 100000, 0},
	{L("'nvidia.com\\/gpu':1"), 0, 1, 100, 0, 100, 0},
	{L(GPU("1") "," UNITS), 0, 1, 100, 0, 100, 0},
	/* HAMi */
	{L(GPU("1") "," MEM("8000")), 50, 1, 0, 8388, 53, 0},
	{L(GPU("2") "," MEM("'1'")), 0, 2, 0, 1, 1, 0},
	{L(GPU("1") "," MEM("15258")), 0, 1, 0, 15999, 100, 0},
	{L(GPU("1") "," MEM("0")), 25, 1, 25, 0, 25, 0},
	{L(GPU("2") "," PCT("30")), 50, 2, 30, 0, 60, 0},
	{L(GPU("1") "," MEM("3000") "," PCT("30")), 0, 1, 0, 3145, 20, 1},
	{L(MEM("3000")), 0, 1, 0, 3145, 20, 0},
	{L(PCT("50")), 0, 1, 50, 0, 50, 0},
	{L(CORES("30")), 50, 1, 50, 0, 50, 1},
	{L(GPU("1") "," CORES("0")), 50, 1, 50, 0, 50, 0},
	{L(GPU("1") "," MEM("3000") "," CORES("30")), 0, 1, 0, 3145, 20, 1},
	{L(GPU("2") "," CORES("100")), 50, 2, 100, 0, 200, 0},
	{L(GPU("2") "," MEM("3000") "," CORES("100")), 50, 2, 100, 0, 200, 1},
	{L(GPU("2") "," PCT("30") "," CORES("100")), 50, 2, 100, 0, 200, 1},
	{LR(GPU("1"), MEM("3000")), 0, 1, 0, 3145, 20, 0},
};

static int read_one(struct fixture *f, const char *container, const struct foreign_terms *terms,
	struct warnings *w, struct gpu_request *r)
{
	const struct json_node *node = fixture_pod(f, container);

	*w = (struct warnings){0};
	return foreign_read(&f->json, node, terms, &f->scratch, w, r, &f->err);
}

TEST(test_good)
{
	for (size_t i = 0; i < COUNT(good); i++) {
		struct foreign_terms terms = {16000, FOREIGN_ALL, good[i].usual};
		struct gpu_request r;
		struct warnings w;

		if (read_one(&fix, good[i].container, &terms, &w, &r) < 0)
			fail_msg("row %zu: %s: %s", i, fix.err.path, fix.err.msg);
		assert_true(r.asks && r.foreign);
		assert_true(foreign_asks(&fix.json, json_root(&fix.json), FOREIGN_ALL));
		if (r.amount != good[i].amount || r.percent != good[i].percent ||
			r.memory_mb != good[i].mb || r.units != good[i].units)
			fail_msg("row %zu: %u %u %llu %llu", i, r.amount, r.percent,
				(unsigned long long)r.memory_mb, (unsigned long long)r.units);
		assert_int_equal(w.n, good[i].warnings);
		/* where nothing is accepted it is as if the keys were not there */
		terms.accepts = 0;
		assert_false(foreign_asks(&fix.json, json_root(&fix.json), 0));
		assert_int_equal(foreign_read(&fix.json, json_root(&fix.json), &terms, &fix.scratch,
					 &w, &r, &fix.err),
			0);
		assert_false(r.asks || r.foreign);
	}
}

/* A container asks for none of these. */
TEST(test_nothing_is_asked)
{
	static const char *const none[] = {L(GPU("0")), L(GPU("'0'") "," MEM("3000")),
		L(GPU("null")), L(MEM("0")), L("'cpu':1"), "{}", L("'bitfusion.io/gpu-amount':1"),
		L("'nvidia.com/mig-1g.5gb':1")};

	for (size_t i = 0; i < COUNT(none); i++) {
		const struct json_node *node = fixture_pod(&fix, none[i]);

		if (foreign_asks(&fix.json, node, FOREIGN_ALL))
			fail_msg("row %zu", i);
	}
}

#define AT(side, name) "/resources/" side "/nvidia.com~1" name
#define OURS "'bitfusion.io/gpu-"

/* container, TOTAL_GPU_MEMORY; path and a piece of the message */
static const struct {
	const char *container;
	uint64_t total;
	const char *path, *says;
} bad[] = {
	{L(GPU("-1")), 16000, AT("limits", "gpu"), "found -1, expected a whole number of GPUs"},
	{L(GPU("'0.5'")), 16000, AT("limits", "gpu"), "found 0.5"},
	{L(GPU("10001")), 16000, AT("limits", "gpu"), "from 1 to 10000"},
	{L(GPU("'one'")), 16000, AT("limits", "gpu"), "\"one\" is not a quantity"},
	{L(GPU("true")), 16000, AT("limits", "gpu"), "found true"},
	{R(GPU("20000")), 16000, AT("requests", "gpu"), "found 20000"},
	{LR(GPU("1"), GPU("2")), 16000, AT("limits", "gpu"), "limits say 1 and requests 2"},
	{L(GPU("1") "," MEM("20000")), 16000, AT("limits", "gpumem"), "has 16000 MB"},
	{L(GPU("1") "," MEM("'1Ei'")), 16000, AT("limits", "gpumem"), "found 1Ei"},
	{L(GPU("1") "," MEM("'1500m'")), 16000, AT("limits", "gpumem"), "found 1500m"},
	{L(GPU("1") "," MEM("3000")), 0, AT("limits", "gpumem"), "has not set TOTAL_GPU_MEMORY"},
	{L(GPU("1") "," PCT("0")), 16000, AT("limits", "gpumem-percentage"), "from 1 to 100"},
	{L(GPU("1") "," PCT("101")), 16000, AT("limits", "gpumem-percentage"), "found 101"},
	{L(GPU("1") "," CORES("101")), 16000, AT("limits", "gpucores"), "from 0 to 100"},
	/* P4: asking twice */
	{L(GPU("1") "," OURS "amount':1"), 16000, AT("limits", "gpu"),
		"asks by nvidia.com/gpu and"},
	{L(GPU("1") "," OURS "percent':1"), 16000, AT("limits", "gpu"), "the same twice"},
	{LR(GPU("1"), OURS "memory':1"), 16000, AT("limits", "gpu"), "write one of the two"},
	{LR(OURS "num':1", MEM("3000")), 16000, AT("requests", "gpumem"),
		"asks by nvidia.com/gpumem"},
};

TEST(test_bad)
{
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct foreign_terms terms = {bad[i].total, FOREIGN_ALL, 0};
		struct gpu_request r;
		struct warnings w;

		fix.err = (struct err){0};
		if (read_one(&fix, bad[i].container, &terms, &w, &r) != ERR_INVALID)
			fail_msg("row %zu is read", i);
		if (strcmp(fix.err.path, bad[i].path) != 0 || !strstr(fix.err.msg, bad[i].says))
			fail_msg("row %zu: %s: %s", i, fix.err.path, fix.err.msg);
		assert_true(foreign_asks(&fix.json, json_root(&fix.json), FOREIGN_ALL));
	}
}

/* By the plan alone, whatever the policy says now: the same keys come to the same again. */
TEST(test_read_again)
{
	for (size_t i = 0; i < COUNT(good); i++) {
		struct foreign_terms terms = {16000, FOREIGN_ALL, good[i].usual};
		struct plan_container pc = {0};
		struct gpu_request r, again;
		struct warnings w;

		assert_int_equal(read_one(&fix, good[i].container, &terms, &w, &r), 0);
		pc.percent = r.percent;
		pc.memory_mb = r.memory_mb;
		pc.foreign = r.foreign;
		terms = foreign_terms_again(&pc, 16000);
		assert_int_equal(read_one(&fix, good[i].container, &terms, &w, &again), 0);
		if (again.amount != r.amount || again.percent != r.percent ||
			again.memory_mb != r.memory_mb)
			fail_msg("row %zu: %u %llu", i, again.percent,
				(unsigned long long)again.memory_mb);
	}
	assert_int_equal(
		foreign_terms_again(&(struct plan_container){.percent = 50}, 1).accepts, 0);
}

TESTS_BETWEEN(set_up, tear_down, test_good, test_nothing_is_asked, test_bad, test_read_again)
