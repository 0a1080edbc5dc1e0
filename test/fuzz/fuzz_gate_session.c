/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: the first bytes of a connection that is to say whose it is. Of fewer bytes nothing else is
 * said, but that more are needed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/session.h"
#include "test/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of an exact copy, so that AddressSanitizer sees a byte too many. */
static enum session_word judge(const uint8_t *data, size_t size)
{
	char *copy = malloc(size ? size : 1);
	enum session_word word;

	REQUIRE(copy != NULL);
	if (size)
		memcpy(copy, data, size);
	word = session_judge((struct slice){copy, size}, SLICE("x-s"), SLICE("u"));
	free(copy);
	return word;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t all = size < SESSION_BYTES_MAX ? size : SESSION_BYTES_MAX;
	enum session_word word = judge(data, all);

	for (size_t n = all / 16; n < all; n += all / 16 + 1) {
		enum session_word before = judge(data, n);

		REQUIRE(before == SESSION_MORE || before == word);
	}
	REQUIRE(word != SESSION_MORE || all < SESSION_BYTES_MAX);
	return 0;
}
