/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation on the host fails, for each n, while a GPU is checked: the check says
 * so, the GPU is not to blame, and all that it lent is given back. Linked with --wrap for malloc,
 * calloc and realloc. */
#include "test/unit/check_fixture.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"

TEST(a_host_without_memory_is_no_fault_of_the_gpu)
{
	for (size_t i = 0; i < SUBJECTS; i++) {
		for (long n = 0;; n++) {
			struct check_world w = healthy_world();
			struct check_result r;
			bool failed;

			/* what is not pinned is allocated, too */
			spoiled.pinned_refused = true;
			oom_begin(n, OOM_ONE);
			r = ask(&w, subjects[i].id);
			failed = oom_end();
			if (!failed) {
				assert_int_equal(r.status, STATUS_PASS);
				assert_true(n > 0);
				break;
			}
			if (r.status != STATUS_ERROR || r.code != CODE_OUT_OF_MEMORY ||
				!strstr(r.message, "host") || !cuda_usable(&r))
				fail_msg("%s, allocation %ld: %s", check_title(r.id), n, r.message);
		}
	}
}

TESTS_WITHIN(check_begin_group, check_end_group, a_host_without_memory_is_no_fault_of_the_gpu)
