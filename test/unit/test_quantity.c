/* SPDX-License-Identifier: Apache-2.0 */
/* test: base/quantity, against what k8s.io/apimachinery accepts and how it rounds. */
#include "base/quantity.h"
#include "test/unit/test.h"

#define UNIT INT64_C(1000000000)
#define MAX INT64_MAX

/* whole units, and nano-units beyond them */
static const struct {
	const char *in;
	int64_t units, nano;
} good[] = {
	{"0", 0, 0},
	{"1", 1, 0},
	{"+1", 1, 0},
	{"-1", -1, 0},
	{"0001", 1, 0},
	{"12", 12, 0},
	{"0.5", 0, 500000000},
	{".5", 0, 500000000},
	{"5.", 5, 0},
	{"1.G", UNIT, 0},
	{"-0.5", 0, -500000000},
	{"12500m", 12, 500000000},
	{"1m", 0, 1000000},
	{"1u", 0, 1000},
	{"1n", 0, 1},
	{"0.1n", 0, 1},
	{"-0.1n", 0, -1},
	{"0.0000000001", 0, 1},
	{"1.0000000001", 1, 1},
	{"1e3", 1000, 0},
	{"1E3", 1000, 0},
	{"1e+3", 1000, 0},
	{"1e-3", 0, 1000000},
	{"1E-9", 0, 1},
	{"1e-10", 0, 1},
	{"1e-2000000000", 0, 1},
	{"0e-2000000000", 0, 0},
	{"1.5e3", 1500, 0},
	{"1e0", 1, 0},
	{"1e003", 1000, 0},
	{"1k", 1000, 0},
	{"1M", 1000000, 0},
	{"1G", UNIT, 0},
	{"1T", 1000 * UNIT, 0},
	{"1P", 1000000 * UNIT, 0},
	{"1E", UNIT *UNIT, 0},
	{"1Ki", 1024, 0},
	{"1Mi", 1 << 20, 0},
	{"1Gi", 1 << 30, 0},
	{"1Ti", INT64_C(1) << 40, 0},
	{"1Pi", INT64_C(1) << 50, 0},
	{"1Ei", INT64_C(1) << 60, 0},
	{"16160Mi", INT64_C(16160) << 20, 0},
	{"1.5Gi", INT64_C(3) << 29, 0},
	{"0.1Ki", 102, 400000000},
	{"0.001Ki", 1, 24000000},
	{"0.0000000001Ki", 0, 103}, /* 102.4 n, rounded up */
	{"0.1Ei", INT64_C(115292150460684697), 600000000},
	{"0.123456789012345678901234567890Ei", INT64_C(142335986942043633), 765524428},
	{"7.99999999999Ei", INT64_C(9223372036843246592), 953931531},
	{"9223372036854775807", MAX, 0},
	{"9223372036854775806.5", MAX - 1, 500000000},
	{"9223372036854775807.5", MAX, 0},
	{"9223372036854775808", MAX, 0},
	{"-9223372036854775808", -MAX, 0},
	{"8Ei", MAX, 0},
	{"-8Ei", -MAX, 0},
	{"100E", MAX, 0},
	{"99999999999999999999999999999999999999999999999", MAX, 0},
	{"1e2000000000", MAX, 0},
	{"0e2000000000", 0, 0},
	{"0.00000000000000000000001e23", 1, 0},
	{"100000000000000000000000e-23", 1, 0},
	/* Kubernetes lets the digits be missing. */
	{"+", 0, 0},
	{"-", 0, 0},
	{".", 0, 0},
	{"Ki", 0, 0},
	{"m", 0, 0},
	{"-.Gi", 0, 0},
};

TEST(accepted)
{
	for (size_t i = 0; i < COUNT(good); i++) {
		struct quantity q = {0};
		__int128_t want = (__int128_t)good[i].units * UNIT + good[i].nano;

		if (quantity_parse(slice_of(good[i].in), &q, NULL) != 0)
			fail_msg("\"%s\" is refused", good[i].in);
		if (q.nano != want)
			fail_msg("\"%s\" is %lld.%09lld", good[i].in, (long long)(q.nano / UNIT),
				(long long)(q.nano % UNIT));
	}
}

TEST(refused)
{
	static const char *const bad[] = {"", " ", "1 Gi", " 1", "1 ", "1.1.M", "1+1.0M", "0.1mi",
		"0.1am", "aoeu", ".5i", "1i", "-3.01i", "-3.01e-", "--1", "++1", "+-1", "1KB",
		"1Kib", "1ki", "1K", "1g", "1MiB", "1mi", "1ni", "1e", "1ee3", "1Ei3", "1E3k",
		"1e3Gi", "1e1.5", "1e+", "1e99999999999999999999", "1e2147483648", "0x10", "1,000",
		"1_000", "1\n", "NaN", "Infinity", "\xef\xbc\x91", "1\xc2\xb5", "e", "1e-", "5%",
		"\"1\""};

	for (size_t i = 0; i < COUNT(bad); i++) {
		struct quantity q = {7};
		struct err err = {0};

		if (quantity_parse(slice_of(bad[i]), &q, &err) != ERR_INVALID)
			fail_msg("\"%s\" is accepted", bad[i]);
		assert_true(q.nano == 7);
		assert_non_null(strstr(err.msg, "is not a quantity"));
		assert_non_null(strstr(err.msg, "16Gi"));
	}
	assert_int_equal(
		quantity_parse((struct slice){NULL, 0}, &(struct quantity){0}, NULL), ERR_INVALID);
	assert_int_equal(
		quantity_parse((struct slice){"1\0", 2}, &(struct quantity){0}, NULL), ERR_INVALID);
}

static struct quantity parsed(const char *s)
{
	struct quantity q;

	assert_int_equal(quantity_parse(slice_of(s), &q, NULL), 0);
	return q;
}

TEST(rounding_up)
{
	static const struct {
		const char *in;
		int64_t ceil;
		bool integral;
	} cases[] = {
		{"0", 0, true},
		{"1", 1, true},
		{"1.1", 2, false},
		{"0.1n", 1, false},
		{"12500m", 13, false},
		{"-0.5", -1, false},
		{"-1.1", -2, false},
		{"-2", -2, true},
		{"8Ei", MAX, true},
		{"-8Ei", -MAX, true},
		{"9223372036854775806.5", MAX, false},
		{"1000m", 1, true},
		{"2e3", 2000, true},
		{"0.1Ki", 103, false},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct quantity q = parsed(cases[i].in);

		assert_true(quantity_ceil(q) == cases[i].ceil);
		assert_int_equal(quantity_integral(q), cases[i].integral);
	}
}

TEST(order)
{
	static const char *const rising[] = {"-8Ei", "-1", "-0.5", "-1n", "0", "1n", "1u", "1m",
		"0.5", "999m", "1", "1.000000001", "1k", "1Ki", "1M", "1Mi", "1G", "1Gi", "16160Mi",
		"16Gi", "1E", "1Ei", "8Ei"};
	static const char *const same[][2] = {{"1", "1000m"}, {"0.5", "500m"}, {"1Gi", "1024Mi"},
		{"1e3", "1k"}, {"100E", "8Ei"}, {"-0", "0"}, {"1E", "1e18"}};

	for (size_t i = 0; i < COUNT(rising); i++)
		for (size_t k = 0; k < COUNT(rising); k++)
			assert_int_equal(quantity_cmp(parsed(rising[i]), parsed(rising[k])),
				(i > k) - (i < k));
	for (size_t i = 0; i < COUNT(same); i++)
		assert_int_equal(quantity_cmp(parsed(same[i][0]), parsed(same[i][1])), 0);
}

/* A binary suffix on every millionth of a unit: the exact product, by integers. */
TEST(binary_fractions_are_exact)
{
	for (uint64_t n = 1; n < 1000000; n += 997) {
		char text[32];
		__int128_t product = (__int128_t)n * UNIT << 60;
		__int128_t want = product / 1000000 + (product % 1000000 != 0);

		snprintf(text, sizeof(text), "0.%06lluEi", (unsigned long long)n);
		if (parsed(text).nano != want)
			fail_msg("%s", text);
	}
}

TESTS(accepted, refused, rounding_up, order, binary_fractions_are_exact)
