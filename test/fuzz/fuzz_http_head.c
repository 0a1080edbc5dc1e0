/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: the head of an answer. A URL that is taken is taken once more when it is put together from
 * its parts, and its host is plain; a challenge's words hold no more than was there. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/http_head.h"
#include "test/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_url(struct slice text, struct arena *a)
{
	struct https_url url, again;
	struct slice whole;

	if (!https_url_read(text, &url))
		return;
	REQUIRE(url.host.len > 0 && url.host.len < text.len);
	for (size_t i = 0; i < url.host.len; i++)
		REQUIRE((url.host.at[i] >= 'a' && url.host.at[i] <= 'z') ||
			(url.host.at[i] >= '0' && url.host.at[i] <= '9') || url.host.at[i] == '-' ||
			url.host.at[i] == '.' || url.host.at[i] == ':');
	REQUIRE(url.rest.len == 0 || url.rest.at[0] == '/');
	whole = slice_of(arena_fmt(a, "https://%.*s%.*s", (int)url.host.len, url.host.at,
		(int)url.rest.len, url.rest.at));
	REQUIRE(https_url_read(whole, &again));
	REQUIRE(slice_eq(again.host, url.host) && slice_eq(again.rest, url.rest));
}

static void check_challenge(struct slice text, struct arena *a)
{
	struct http_challenge c = {0};

	if (!http_challenge_read(text, a, &c))
		return;
	REQUIRE(c.realm.len <= text.len && c.service.len <= text.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"Location", "WWW-Authenticate", "Content-Type"};
	struct slice text = {(const char *)data, size};
	struct arena a;

	if (size > 65536)
		return 0;
	arena_init(&a, 64u << 20);
	check_url(text, &a);
	check_challenge(text, &a);
	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
		struct slice value;

		for (size_t n = 0; n < 8 && (value = http_head_value(text, names[k], n)).at; n++) {
			REQUIRE(value.at >= text.at && value.at + value.len <= text.at + text.len);
			REQUIRE(http_media_type(value).len <= value.len);
			check_url(value, &a);
			check_challenge(value, &a);
		}
	}
	REQUIRE(!a.failed);
	arena_release(&a);
	return 0;
}
