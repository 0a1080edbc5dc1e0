/* SPDX-License-Identifier: Apache-2.0 */
/* test: base/json/json_keys: where the seed of keys comes from, and that a kernel that gives none
 * is no reason for one that is known. */
#include <errno.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/json/json_keys.h"
#include "base/json/json_read.h"
#include "test/unit/test.h"

/* What the kernel answers: first `interrupted` times that it was, then so many bytes, or -1 and
 * why. */
static struct {
	bool played; /* else it is asked itself: libraries do that as they are loaded */
	int interrupted, why;
	ssize_t n;
	unsigned char byte;
	unsigned calls, flags;
} kernel;

/* In place of the C library's. */
ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
	if (!kernel.played)
		return syscall(SYS_getrandom, buffer, length, flags);
	kernel.calls++;
	kernel.flags |= flags;
	if (kernel.interrupted > 0) {
		kernel.interrupted--;
		errno = EINTR;
		return -1;
	}
	if (kernel.n < 0) {
		errno = kernel.why;
		return -1;
	}
	memset(buffer, kernel.byte, (size_t)kernel.n < length ? (size_t)kernel.n : length);
	errno = EINTR; /* of another call: nobody reads it */
	return kernel.n;
}

struct drawn {
	struct json_seed seed;
	unsigned calls, flags;
	bool finds; /* a key that stands twice */
};

/* A process draws its seed once: so a new one does. */
static struct drawn draw(void)
{
	static const char twice[] = "{\"a\":1,\"b\":2,\"a\":3}";
	struct drawn ret = {0};
	int ends[2], status = 0;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		struct err err = {0};
		struct json j = {0};
		char *copy = NULL;

		kernel.played = true;
		ret.seed = json_seed();
		kernel.played = false;
		ret.finds =
			json_read_copy(&j, twice, strlen(twice), 100, &copy, &err) == ERR_SYNTAX;
		ret.calls = kernel.calls;
		ret.flags = kernel.flags;
		_exit(write(ends[1], &ret, sizeof(ret)) != (ssize_t)sizeof(ret));
	}
	assert_true(child > 0);
	assert_int_equal(read(ends[0], &ret, sizeof(ret)), sizeof(ret));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	(void)close(ends[0]);
	(void)close(ends[1]);
	assert_true(ret.finds);
	assert_int_equal(ret.flags, 0);
	return ret;
}

TEST(the_kernel_gives_it)
{
	struct json_seed want;

	for (int i = 0; i < 3; i++) {
		struct drawn d;

		kernel.n = sizeof(want);
		kernel.byte = 0x5a;
		kernel.interrupted = i;
		d = draw();
		memset(&want, 0x5a, sizeof(want));
		assert_memory_equal(&d.seed, &want, sizeof(want));
		assert_int_equal(d.calls, i + 1);
	}
}

/* No number of it is the same as before: not where there is no such call, nor where it gave nothing
 * or half. */
TEST(the_kernel_gives_none)
{
	static const ssize_t given[] = {-1, 0, sizeof(uint64_t)};
	struct json_seed seen[3 * COUNT(given)];

	for (size_t n = 0; n < COUNT(seen); n++) {
		struct drawn d;

		kernel.n = given[n % COUNT(given)];
		kernel.why = ENOSYS;
		kernel.byte = 0x5a;
		kernel.interrupted = 0;
		d = draw();
		assert_int_equal(d.calls, 1);
		for (size_t k = 0; k < n; k++) {
			assert_true(d.seed.a != seen[k].a);
			assert_true(d.seed.b != seen[k].b);
		}
		assert_true(d.seed.a != d.seed.b);
		assert_true(d.seed.a != UINT64_C(0x5a5a5a5a5a5a5a5a));
		seen[n] = d.seed;
	}
}

TESTS(the_kernel_gives_it, the_kernel_gives_none)
