/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: base/quantity, and the strict words and numbers of base/text beside it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "test/fuzz/require.h"

#define NANO INT64_C(1000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_quantity(struct slice s)
{
	struct quantity q = {0}, back = {0};
	struct err err = {0};
	__int128_t ceil;
	char text[64];

	if (quantity_parse(s, &q, &err) < 0) {
		REQUIRE(err.code == ERR_INVALID && err.msg[0] && text_utf8(slice_of(err.msg)));
		return;
	}
	REQUIRE(s.len > 0 && quantity_cmp(q, q) == 0);
	REQUIRE(q.nano <= (__int128_t)INT64_MAX * NANO && q.nano >= -(__int128_t)INT64_MAX * NANO);
	/* Rounded up: away from zero, by less than one. */
	ceil = (__int128_t)quantity_ceil(q) * NANO;
	REQUIRE(q.nano >= 0 ? ceil >= q.nano && ceil - q.nano < NANO
			    : ceil <= q.nano && q.nano - ceil < NANO);
	REQUIRE(quantity_integral(q) == (ceil == q.nano));
	/* Written out as units and nano-units it is the same quantity. */
	snprintf(text, sizeof(text), "%s%lld.%09lld", q.nano < 0 ? "-" : "",
		(long long)((q.nano < 0 ? -q.nano : q.nano) / NANO),
		(long long)((q.nano < 0 ? -q.nano : q.nano) % NANO));
	REQUIRE(quantity_parse(slice_of(text), &back, NULL) == 0 && quantity_cmp(q, back) == 0);
}

static void check_words(struct slice s)
{
	struct slice rest = s, word;
	size_t len = 0, cut;
	uint64_t n;
	int64_t ms;
	char host[64];
	uint16_t port;

	while (text_word(&rest, &word)) {
		REQUIRE(word.len > 0 && word.at >= s.at && word.at + word.len <= s.at + s.len);
		len += word.len;
	}
	REQUIRE(len <= s.len);
	REQUIRE(!text_u64(s, 1000, &n) || n <= 1000);
	REQUIRE(!text_duration_ms(s, &ms) || ms >= 0);
	REQUIRE(text_ieq(s, s));
	for (size_t max = 0; max <= s.len && max < 20; max++) {
		cut = text_utf8_cut(s, max);
		REQUIRE(cut <= max && (!text_utf8(s) || text_utf8((struct slice){s.at, cut})));
	}
	REQUIRE(text_basename(s).len <= s.len);
	REQUIRE(!text_dns_label(s) || s.len <= 63);
	if (text_host_port(s, host, &port, NULL) == 0)
		REQUIRE(strlen(host) < s.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* An exact copy, so that AddressSanitizer sees a byte too many. */
	char *copy = malloc(size ? size : 1);
	struct slice s = {copy, size};

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	check_quantity(s);
	check_words(s);
	free(copy);
	return 0;
}
