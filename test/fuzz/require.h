/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a fuzzer holds its subject to: a law that does not hold ends it, where the law stands.
 */
#ifndef TEST_FUZZ_REQUIRE_H
#define TEST_FUZZ_REQUIRE_H

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(what)                                                                              \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			(void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);   \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
