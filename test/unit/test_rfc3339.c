/* SPDX-License-Identifier: Apache-2.0 */
/* test: times as Kubernetes writes them. */
#include "base/rfc3339.h"
#include "test/unit/test.h"

TEST(test_times)
{
	static const struct {
		const char *text;
		int64_t ms;
		const char *written; /* NULL: as it was read */
	} good[] = {
		{"1970-01-01T00:00:00Z", 0, NULL},
		{"2026-11-21T09:30:00Z", INT64_C(1795253400000), NULL},
		{"2000-02-29T23:59:59Z", INT64_C(951868799000), NULL},
		{"1969-12-31T23:59:59Z", -1000, NULL},
		{"1969-12-31T23:59:59.001Z", -999, "1969-12-31T23:59:59Z"},
		{"2026-11-21T09:30:00.987654321Z", INT64_C(1795253400987), "2026-11-21T09:30:00Z"},
		{"2026-11-21T09:30:00.5+05:30", INT64_C(1795233600500), "2026-11-21T04:00:00Z"},
		{"2026-11-21T09:30:00-02:00", INT64_C(1795260600000), "2026-11-21T11:30:00Z"},
		{"2026-12-31T23:00:00-02:00", INT64_C(1798765200000), "2027-01-01T01:00:00Z"},
		{"0000-01-01T00:00:00Z", INT64_C(-62167219200000), NULL},
		{"9999-12-31T23:59:59Z", INT64_C(253402300799000), NULL},
		{"1900-02-28T00:00:00Z", INT64_C(-2203977600000), NULL},
		{"2100-03-01T00:00:00Z", INT64_C(4107542400000), NULL},
	};
	static const char *const bad[] = {"", "2026", "2026-11-21", "2026-11-21T09:30:00",
		"2026-11-21 09:30:00Z", "2026-11-21t09:30:00Z", "2026-11-21T09:30:00z",
		"2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-02-29T00:00:00Z",
		"1900-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-04-00T00:00:00Z",
		"2026-11-21T24:00:00Z", "2026-11-21T09:60:00Z", "2026-11-21T09:30:60Z",
		"2026-11-21T09:30:00.Z", "2026-11-21T09:30:00Z ", "2026-11-21T09:30:00+24:00",
		"2026-11-21T09:30:00+01:60", "2026-11-21T09:30:00+0100", "2026-11-21T9:30:00Z",
		"+026-11-21T09:30:00Z", "0000-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01",
		"2026-11-21T09:30:00.", "2026-11-21T09:30:00+01:000"};
	char text[32];
	int64_t ms;

	for (size_t i = 0; i < COUNT(good); i++) {
		assert_true(rfc3339_read(slice_of(good[i].text), &ms));
		if (ms != good[i].ms)
			fail_msg("%s: %lld", good[i].text, (long long)ms);
		rfc3339_write(ms, text);
		assert_string_equal(text, good[i].written ? good[i].written : good[i].text);
		/* What stands behind the text's end is none of it. */
		for (size_t len = 0; len < strlen(good[i].text); len++)
			assert_false(rfc3339_read((struct slice){good[i].text, len}, &ms));
	}
	for (size_t i = 0; i < COUNT(bad); i++)
		if (rfc3339_read(slice_of(bad[i]), &ms))
			fail_msg("accepted: %s", bad[i]);
	rfc3339_write(INT64_MAX, text);
	assert_string_equal(text, "9999-12-31T23:59:59Z");
	rfc3339_write(INT64_MIN, text);
	assert_string_equal(text, "0000-01-01T00:00:00Z");
	/* every day of five centuries and more */
	for (int64_t day = -300000; day < 300000; day++) {
		rfc3339_write(day * 86400000 + 43200000, text);
		assert_true(rfc3339_read(slice_of(text), &ms));
		assert_int_equal(ms, day * 86400000 + 43200000);
	}
}

TESTS(test_times)
