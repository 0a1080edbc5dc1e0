/* SPDX-License-Identifier: Apache-2.0 */
/* core/pod/gpu_request: what a container asks, in exact integers. */
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pod/gpu_request.h"

static struct fixture fix;

FIXTURES(fixture_init, fixture_release)

#define L(members) "{'resources':{'limits':{" members "}}}"
#define R(members) "{'resources':{'requests':{" members "}}}"
#define LR(limits, requests) "{'resources':{'limits':{" limits "},'requests':{" requests "}}}"
#define N(n) "'bitfusion.io/gpu-amount':" n
#define NUM(n) "'bitfusion.io/gpu-num':" n
#define P(n) "'bitfusion.io/gpu-percent':" n
#define M(n) "'bitfusion.io/gpu-memory':" n

/* container, TOTAL_GPU_MEMORY; amount, percent, MB, units; warnings */
static const struct {
	const char *container;
	uint64_t total, amount, percent, mb, units;
	size_t warnings;
} good[] = {
	{L(N("1")), 16000, 1, 100, 0, 100, 0},
	{L(N("'1'")), 0, 1, 100, 0, 100, 0},
	{R(N("'3'")), 16000, 3, 100, 0, 300, 0},
	{LR(N("2"), N("'2'")), 16000, 2, 100, 0, 200, 0},
	{LR(N("'2000m'"), N("2")), 16000, 2, 100, 0, 200, 0},
	{LR(N("2"), P("50")), 16000, 2, 50, 0, 100, 0},
	{L(N("'1e3'")), 16000, 1000, 100, 0, 100000, 0},
	{L(N("1e3")), 16000, 1000, 100, 0, 100000, 0},
	{L(N("2.0")), 16000, 2, 100, 0, 200, 0},
	{L(N("'1k'")), 16000, 1000, 100, 0, 100000, 0},
	{L(N("10000")), 16000, 10000, 100, 0, 1000000, 0},
	{L(NUM("2")), 16000, 2, 100, 0, 200, 0},
	{LR(N("2"), NUM("'2'")), 16000, 2, 100, 0, 200, 0},
	{L(N("1") "," P("1")), 16000, 1, 1, 0, 1, 0},
	{L(N("1") "," P("100")), 16000, 1, 100, 0, 100, 0},
	{L(N("1") "," P("'12500m'")), 16000, 1, 13, 0, 13, 0},
	{L(N("3") "," P("12.5")), 16000, 3, 13, 0, 39, 0},
	{L(N("1") "," P("'0.5'")), 16000, 1, 1, 0, 1, 0},
	{L(N("1") "," P("'99.000000001'")), 16000, 1, 100, 0, 100, 0},
	/* measured with the origin */
	{L(N("1") "," M("'8000M'")), 16000, 1, 0, 8000, 50, 0},
	{L(N("1") "," M("'8Gi'")), 16000, 1, 0, 8589, 54, 0},
	{L(N("3") "," M("'5000M'")), 16000, 3, 0, 5000, 94, 0},
	{L(N("2") "," M("'4000M'")), 16000, 2, 0, 4000, 50, 0},
	{L(N("1") "," M("'1M'")), 16000, 1, 0, 1, 1, 0},
	/* where it was off by one, or refused */
	{L(N("1") "," M("'1120M'")), 16000, 1, 0, 1120, 7, 0},
	{L(N("1") "," M("'16000M'")), 16000, 1, 0, 16000, 100, 0},
	{L(N("1") "," M("'16000999999'")), 16000, 1, 0, 16000, 100, 0},
	{L(N("1") "," M("1000000")), 16000, 1, 0, 1, 1, 0},
	{L(N("1") "," M("'1999999'")), 16000, 1, 0, 1, 1, 0},
	{L(N("1") "," M("'4G'") "," P("30")), 16000, 1, 0, 4000, 25, 1},
	{LR(N("1") "," M("'4G'"), P("30")), 16000, 1, 0, 4000, 25, 1},
	{L(N("10000") "," M("'1000000G'")), 1000000000, 10000, 0, 1000000000, 1000000, 0},
	/* a key with escapes */
	{L("'bitfusion.io\\/gpu-amount':'2'"), 16000, 2, 100, 0, 200, 0},
};

static int read_one(struct fixture *f, const char *container, uint64_t total, struct warnings *w,
	struct gpu_request *r)
{
	const struct json_node *node = fixture_pod(f, container);

	*w = (struct warnings){0};
	return gpu_request_read(&f->json, node, total, &f->scratch, w, r, &f->err);
}

TEST(test_good)
{
	for (size_t i = 0; i < COUNT(good); i++) {
		struct gpu_request r;
		struct warnings w;

		if (read_one(&fix, good[i].container, good[i].total, &w, &r) < 0)
			fail_msg("row %zu: %s: %s", i, fix.err.path, fix.err.msg);
		assert_true(r.asks);
		assert_true(gpu_request_asks(&fix.json, json_root(&fix.json)));
		assert_true(gpu_request_holds_up(&fix.json, json_root(&fix.json)));
		if (r.amount != good[i].amount || r.percent != good[i].percent ||
			r.memory_mb != good[i].mb || r.units != good[i].units)
			fail_msg("row %zu: %u %u %llu %llu", i, r.amount, r.percent,
				(unsigned long long)r.memory_mb, (unsigned long long)r.units);
		assert_int_equal(w.n, good[i].warnings);
	}
}

#define AT(side, name) "/resources/" side "/bitfusion.io~1gpu-" name

/* container, total; path and a piece of the message */
static const struct {
	const char *container;
	uint64_t total;
	const char *path, *says;
} bad[] = {
	{L(N("0")), 16000, AT("limits", "amount"), "found 0, expected a whole number of GPUs"},
	{R(N("0")), 16000, AT("requests", "amount"), "found 0"},
	{L(N("'0.5'")), 16000, AT("limits", "amount"), "found 0.5"},
	{L(N("'1500m'")), 16000, AT("limits", "amount"), "found 1500m"},
	{L(N("-1")), 16000, AT("limits", "amount"), "found -1"},
	{L(N("'1Ei'")), 16000, AT("limits", "amount"), "found 1Ei"},
	{L(N("'100Ei'")), 16000, AT("limits", "amount"), "found 100Ei"},
	{L(N("10001")), 16000, AT("limits", "amount"), "from 1 to 10000"},
	{L(N("1e300")), 16000, AT("limits", "amount"), "found 1e300"},
	{L(N("''")), 16000, AT("limits", "amount"), "is not a quantity"},
	{L(N("' 1'")), 16000, AT("limits", "amount"), "is not a quantity"},
	{L(N("'one'")), 16000, AT("limits", "amount"), "\"one\" is not a quantity"},
	{L(N("true")), 16000, AT("limits", "amount"), "found true, expected a quantity"},
	{L(N("null")), 16000, AT("limits", "amount"), "found null"},
	{L(N("[]")), 16000, AT("limits", "amount"), "found array"},
	{LR(N("1"), N("2")), 16000, AT("limits", "amount"), "limits say 1 and requests 2"},
	{LR(N("1"), N("'x'")), 16000, AT("limits", "amount"), "is not a quantity"},
	{LR(P("10") "," N("1"), P("20")), 16000, AT("limits", "percent"), "write it once"},
	{L(N("1") "," NUM("2")), 16000, AT("limits", "num"), "two names for the same"},
	{LR(N("1"), NUM("2")), 16000, AT("requests", "num"), "write only gpu-amount"},
	{L(NUM("0")), 16000, AT("limits", "num"), "found 0"},
	{L(P("50")), 16000, "/resources", "add bitfusion.io/gpu-amount: 1"},
	{L(M("'1G'")), 16000, "/resources", "add bitfusion.io/gpu-amount: 1"},
	{L(N("1") "," P("0")), 16000, AT("limits", "percent"), "found 0, expected a percentage"},
	{L(N("1") "," P("101")), 16000, AT("limits", "percent"), "from 1 to 100"},
	{L(N("1") "," P("'100.1'")), 16000, AT("limits", "percent"), "found 100.1"},
	{L(N("1") "," P("-1")), 16000, AT("limits", "percent"), "found -1"},
	{L(N("1") "," M("0")), 16000, AT("limits", "memory"), "from 1M to 16000M"},
	{L(N("1") "," M("'999999'")), 16000, AT("limits", "memory"), "found 999999"},
	{L(N("1") "," M("-1")), 16000, AT("limits", "memory"), "found -1"},
	{L(N("1") "," M("'0.5'")), 16000, AT("limits", "memory"), "found 0.5"},
	{L(N("1") "," M("'16001M'")), 16000, AT("limits", "memory"), "16000M, which is TOTAL"},
	{R(N("1") "," M("'1Ei'")), 16000, AT("requests", "memory"), "found 1Ei"},
	{L(N("1") "," M("'100M'")), 0, AT("limits", "memory"), "has not set TOTAL_GPU_MEMORY"},
	/* memory wins, but percent is looked at */
	{L(N("1") "," M("'100M'") "," P("101")), 16000, AT("limits", "percent"), "found 101"},
};

/* A value is quoted up to its fortieth byte. */
TEST(test_long_values)
{
	static const struct {
		const char *container, *says;
	} rows[] = {
		{L(N("-0.1000000000000000000000000000000000000")),
			"found -0.1000000000000000000000000000000000000,"},
		{L(N("-0.10000000000000000000000000000000000000")),
			"found -0.1000000000000000000000000000000000000,"},
		{LR(N("'1.00000000000000000000000000000000000000'"),
			 N("'2.00000000000000000000000000000000000000'")),
			"limits say 1.00000000000000000000000000000000000000 and requests "
			"2.00000000000000000000000000000000000000;"},
		{LR(N("'1.000000000000000000000000000000000000000'"),
			 N("'2.000000000000000000000000000000000000000'")),
			"limits say 1.00000000000000000000000000000000000000 and requests "
			"2.00000000000000000000000000000000000000;"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct gpu_request r;
		struct warnings w;

		assert_int_equal(read_one(&fix, rows[i].container, 16000, &w, &r), ERR_INVALID);
		if (!strstr(fix.err.msg, rows[i].says))
			fail_msg("row %zu says %s", i, fix.err.msg);
	}
}

TEST(test_bad)
{
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct gpu_request r = {.amount = 77};
		struct warnings w;
		int rc = read_one(&fix, bad[i].container, bad[i].total, &w, &r);

		if (rc != ERR_INVALID)
			fail_msg("row %zu gives %d", i, rc);
		if (strcmp(fix.err.path, bad[i].path) != 0)
			fail_msg("row %zu: path %s", i, fix.err.path);
		if (!strstr(fix.err.msg, bad[i].says))
			fail_msg("row %zu says %s", i, fix.err.msg);
		assert_int_equal(r.amount, 77);
	}
}

static const char *const silent[] = {"{}", "{'resources':null}", "{'resources':{}}",
	"{'resources':{'limits':null,'requests':null}}", "{'resources':{'limits':[]}}",
	L("'cpu':1"), L("'bitfusion.io/gpu':100"), L("'Bitfusion.io/gpu-amount':1"), "[]", "7"};

TEST(test_containers_that_ask_for_nothing)
{
	for (size_t i = 0; i < COUNT(silent); i++) {
		struct gpu_request r;
		struct warnings w;

		assert_int_equal(read_one(&fix, silent[i], 16000, &w, &r), 0);
		assert_false(r.asks);
		assert_int_equal(r.units, 0);
		assert_false(gpu_request_asks(&fix.json, json_root(&fix.json)));
		assert_false(gpu_request_holds_up(&fix.json, json_root(&fix.json)));
	}
	fixture_pod(&fix, L(N("'0'") "," P("0") "," M("-1")));
	assert_true(gpu_request_asks(&fix.json, json_root(&fix.json)));
	assert_false(gpu_request_holds_up(&fix.json, json_root(&fix.json)));
}

/* The least u with u * total >= mb * n * 100, for every memory and up to 8 GPUs. */
TEST(test_units_by_memory)
{
	static const uint64_t totals[] = {1, 7, 100, 999, 16000, 16160};

	for (size_t t = 0; t < COUNT(totals); t++)
		for (uint32_t n = 1; n <= 8; n++)
			for (uint64_t mb = 1; mb <= totals[t]; mb++) {
				uint64_t u = gpu_units(n, 0, mb, totals[t]);

				if (u * totals[t] < mb * n * 100 ||
					(u - 1) * totals[t] >= mb * n * 100)
					fail_msg("%u x %llu of %llu: %llu", n,
						(unsigned long long)mb,
						(unsigned long long)totals[t],
						(unsigned long long)u);
			}
	assert_int_equal(gpu_units(1, 0, 100, 0), 0);
	assert_int_equal(gpu_units(3, 33, 0, 0), 99);
}

TESTS_BETWEEN(set_up, tear_down, test_good, test_long_values, test_bad,
	test_containers_that_ask_for_nothing, test_units_by_memory)
