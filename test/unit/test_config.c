/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of webhook/core/launcher/config: TOTAL_GPU_MEMORY as people write it, and profiles by
 * name. */

#include "test/unit/test.h"
#include "webhook/core/launcher/config.h"

TEST(test_total_memory)
{
	static const struct {
		const char *text;
		uint64_t mb; /* 0: refused */
	} cases[] = {
		{"16160", 16160},
		{"1", 1},
		{"007", 7},
		{"1000000000", 1000000000},
		{"1000000001", 0},
		{"99999999999999999999", 0},
		{"0", 0},
		{"000", 0},
		{"", 0},
		{" 16160", 0},
		{"16160 ", 0},
		{"-16160", 0},
		{"+16160", 0},
		{"16G", 16000},
		{"16Gi", 17179},
		{"16160M", 16160},
		{"16160Mi", 16944},
		{"1.5G", 1500},
		{"1500000k", 1500},
		{"1e9", 1000},
		{"1M", 1},
		{"999999", 999999},
		{"999k", 0},
		{"1500m", 0},
		{"1.5", 0},
		{"1P", 1000000000},
		{"1001T", 0},
		{"8Ei", 0},
		{"16GB", 0},
		{"16 G", 0},
		{"lots", 0},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err err = {0};
		uint64_t mb = 77;
		int rc = config_total_memory(slice_of(cases[i].text), &mb, &err);

		if (cases[i].mb) {
			if (rc != 0 || mb != cases[i].mb)
				fail_msg("\"%s\": %d, %llu MB: %s", cases[i].text, rc,
					(unsigned long long)mb, err.msg);
			continue;
		}
		if (rc != ERR_INVALID)
			fail_msg("\"%s\": accepted as %llu", cases[i].text, (unsigned long long)mb);
		assert_int_equal(mb, 77);
		assert_non_null(strstr(err.msg, "expected the memory of the nominal GPU"));
		assert_non_null(strstr(err.msg, cases[i].text));
	}
}

TEST(test_profile)
{
	struct profile profiles[] = {{.name = SLICE("bitfusion")}, {.name = SLICE("lupine")}};
	struct config c = {.profiles = profiles, .n_profiles = 2};

	assert_ptr_equal(config_profile(&c, SLICE("bitfusion")), &profiles[0]);
	assert_ptr_equal(config_profile(&c, SLICE("lupine")), &profiles[1]);
	assert_null(config_profile(&c, SLICE("Lupine")));
	assert_null(config_profile(&c, SLICE("")));
	assert_null(config_profile(&c, (struct slice){NULL, 0}));
}

TESTS(test_total_memory, test_profile)
