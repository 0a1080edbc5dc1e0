/* SPDX-License-Identifier: Apache-2.0 */
/* test: the fake runtime, which the tests of the probe stand on: its memory, its arithmetic, its
 * clock. */
#include <math.h>
#include <signal.h>
#include <sys/wait.h>

#include "probe/kernels/exact.h"
#include "test/unit/fake_rt.h"
#include "test/unit/test.h"

static const struct rt *rt;

FIXTURE(begin)
{
	int ret = fake_rt_begin(state);

	rt = *state;
	return ret;
}

/* ---- memory ---- */

TEST(gives_what_memory_it_has)
{
	size_t available, total;
	void *a, *b;

	fake_rt_use("{\"devices\": [{\"memory_mib\": 81920, \"free_mib\": 80000, "
		    "\"allocatable_mib\": 1000}]}");
	assert_int_equal(rt->mem_info(&available, &total), 0);
	assert_int_equal(total, 81920ull << 20);
	assert_int_equal(available, 80000ull << 20);
	assert_int_equal(rt->mem_alloc(&a, 900u << 20), 0);
	assert_int_equal(rt->mem_alloc(&b, 200u << 20), RT_OUT_OF_MEMORY);
	assert_int_equal(rt->mem_info(&available, &total), 0);
	assert_int_equal(available, 79100ull << 20);
	assert_int_equal(rt->mem_free(a), 0);
	assert_int_equal(rt->mem_free(a), RT_INVALID_VALUE);
	assert_int_equal(rt->mem_info(&available, &total), 0);
	assert_int_equal(available, 80000ull << 20);
}

#define BLOCKS 8

struct pattern_test {
	void *at, *work;
	uint64_t bytes;
	struct kernel_findings *found; /* on the device */
};

static void *zeroed(size_t bytes)
{
	void *at;

	assert_int_equal(rt->mem_alloc(&at, bytes), 0);
	assert_int_equal(rt->mem_set(at, 0, bytes, NULL), 0);
	return at;
}

static void begin_pattern(struct pattern_test *t, uint64_t bytes)
{
	uint64_t first = 0, cells = bytes / 16, seed = 7, flip = 0;
	uint32_t shift = 0;
	void *args[] = {&t->at, &first, &cells, &seed, &flip, &flip, &shift, &t->work};

	t->bytes = bytes;
	assert_int_equal(rt->mem_alloc(&t->at, bytes), 0);
	t->found = zeroed(sizeof(struct kernel_findings));
	t->work = zeroed(BLOCKS * sizeof(struct kernel_work));
	fake_rt_launch(rt, "gp_fill", BLOCKS, args);
}

static struct kernel_findings check_pattern(
	struct pattern_test *t, uint64_t invert, uint32_t rewrite)
{
	uint64_t first = 0, cells = t->bytes / 16, seed = 7, next = ~invert;
	uint32_t shift = 3, down = 1;
	void *args[] = {&t->at, &first, &cells, &seed, &invert, &invert, &shift, &down, &rewrite,
		&next, &next, &t->found, &t->work};
	struct kernel_findings f;

	fake_rt_launch(rt, "gp_check", BLOCKS, args);
	assert_int_equal(rt->mem_copy(&f, t->found, sizeof(f), RT_DEVICE_TO_HOST, NULL), 0);
	return f;
}

static void end_pattern(struct pattern_test *t)
{
	assert_int_equal(rt->mem_free(t->at), 0);
	assert_int_equal(rt->mem_free(t->found), 0);
	assert_int_equal(rt->mem_free(t->work), 0);
}

TEST(healthy_memory_keeps_its_pattern)
{
	/* really kept, and only remembered */
	const uint64_t sizes[] = {1u << 20, 70ull << 30};

	for (int i = 0; i < 2; i++) {
		struct pattern_test t;
		struct kernel_cell cell, right = pattern_cell(1000, 7);

		fake_rt_use("{\"devices\": [{\"memory_mib\": 81920}]}");
		begin_pattern(&t, sizes[i]);
		assert_int_equal(
			rt->mem_copy(&cell, (char *)t.at + 16000, 16, RT_DEVICE_TO_HOST, NULL), 0);
		assert_memory_equal(&cell, &right, 16);
		assert_int_equal(check_pattern(&t, 0, 1).wrong_cells, 0);
		assert_int_equal(check_pattern(&t, ~0ull, 0).wrong_cells, 0);
		assert_int_equal(
			rt->mem_copy(&cell, (char *)t.at + 16000, 16, RT_DEVICE_TO_HOST, NULL), 0);
		right.lo = ~right.lo;
		right.hi = ~right.hi;
		assert_memory_equal(&cell, &right, 16);
		end_pattern(&t);
	}
}

TEST(flips_are_found_where_they_are)
{
	/* in real memory; above 4 GiB; with more than 2^32 cells before it */
	const uint64_t sizes[] = {1u << 20, 6ull << 30, 70ull << 30};
	const uint64_t offsets[] = {4096, 5ull << 30, 69ull << 30};

	for (int i = 0; i < 3; i++) {
		char scenario[256];
		struct pattern_test t;
		struct kernel_findings f;

		snprintf(scenario, sizeof(scenario),
			"{\"devices\": [{\"memory_mib\": 81920, \"flips\": [{\"offset\": %llu, "
			"\"bit\": 70}]}]}",
			(unsigned long long)offsets[i]);
		fake_rt_use(scenario);
		begin_pattern(&t, sizes[i]);
		f = check_pattern(&t, 0, 1);
		assert_int_equal(f.wrong_cells, 1);
		assert_int_equal(f.kept, 1);
		assert_int_equal(f.mismatch[0].cell, offsets[i] / 16);
		assert_int_equal(f.mismatch[0].expected.lo, f.mismatch[0].got.lo);
		assert_int_equal(f.mismatch[0].expected.hi ^ f.mismatch[0].got.hi, 1u << 6);
		assert_int_equal(f.mismatch[0].again.hi, f.mismatch[0].got.hi);
		assert_int_equal(f.bits_0_to_1 + f.bits_1_to_0, 1);
		/* stored once: what is written over it is right */
		assert_int_equal(check_pattern(&t, ~0ull, 0).wrong_cells, 1);
		end_pattern(&t);
	}
}

TEST(flips_differ_in_kind)
{
	struct pattern_test t;
	struct kernel_findings f;

	fake_rt_use("{\"devices\": [{\"memory_mib\": 8192, \"flips\": [{\"offset\": 5000000000, "
		    "\"bit\": 3, "
		    "\"kind\": \"transient\"}]}]}");
	begin_pattern(&t, 6ull << 30);
	f = check_pattern(&t, 0, 1);
	assert_int_equal(f.wrong_cells, 1);
	assert_int_equal(f.mismatch[0].expected.lo, f.mismatch[0].again.lo);
	assert_int_not_equal(f.mismatch[0].expected.lo, f.mismatch[0].got.lo);
	end_pattern(&t);
	/* one of pattern and complement shows a stuck bit */
	fake_rt_use(
		"{\"devices\": [{\"memory_mib\": 8192, \"flips\": [{\"offset\": 5000000000, "
		"\"bit\": 3, "
		"\"kind\": \"stuck1\"}, {\"offset\": 160, \"bit\": 3, \"kind\": \"stuck0\"}]}]}");
	begin_pattern(&t, 6ull << 30);
	(void)check_pattern(&t, 0, 1);
	f = check_pattern(&t, ~0ull, 0);
	assert_int_equal(f.wrong_cells, 2);
	assert_int_equal(f.bits_0_to_1, 1);
	assert_int_equal(f.bits_1_to_0, 1);
	end_pattern(&t);
}

TEST(what_the_host_writes_is_found)
{
	struct pattern_test t;
	struct kernel_cell cell;
	struct kernel_findings f;

	fake_rt_use("{\"devices\": [{\"memory_mib\": 8192}]}");
	begin_pattern(&t, 6ull << 30);
	assert_int_equal(
		rt->mem_copy(&cell, (char *)t.at + (4ull << 30), 16, RT_DEVICE_TO_HOST, NULL), 0);
	cell.lo ^= 2;
	assert_int_equal(
		rt->mem_copy((char *)t.at + (4ull << 30), &cell, 16, RT_HOST_TO_DEVICE, NULL), 0);
	f = check_pattern(&t, 0, 1);
	assert_int_equal(f.wrong_cells, 1);
	assert_int_equal(f.mismatch[0].cell, (4ull << 30) / 16);
	assert_int_equal(check_pattern(&t, ~0ull, 0).wrong_cells, 1);
	end_pattern(&t);
}

/* ---- arithmetic and time ---- */

TEST(chains_are_those_of_the_cpu)
{
	static struct kernel_chain out[2048];
	uint32_t steps = 256, fold = 64, shift = 3, turn = 40;
	uint64_t seed = 7;
	void *at, *args[] = {&steps, &fold, &seed, &shift, &turn, &at};

	fake_rt_use("{\"devices\": [{\"sms\": 4, \"wrong\": {\"sm\": 2, \"lane\": 9, \"kernel\": "
		    "\"gp_fma64\", \"times\": 1}}]}");
	at = zeroed(sizeof(out));
	fake_rt_launch(rt, "gp_fma32", 8, args);
	assert_int_equal(rt->mem_copy(out, at, sizeof(out), RT_DEVICE_TO_HOST, NULL), 0);
	for (uint32_t i = 0; i < 2048; i++) {
		assert_int_equal(out[i].sum, exact_fma32(i, steps, fold, seed));
		assert_int_equal(out[i].sm, (i / KERNEL_THREADS + 8 - 3) % 4);
	}
	for (int run = 0; run < 2; run++) {
		unsigned wrong = 0;

		fake_rt_launch(rt, "gp_fma64", 8, args);
		assert_int_equal(rt->mem_copy(out, at, sizeof(out), RT_DEVICE_TO_HOST, NULL), 0);
		for (uint32_t i = 0; i < 2048; i++) {
			if (out[i].sum == exact_fma64(i, steps, fold, seed))
				continue;
			assert_int_equal(out[i].sm, 2);
			assert_int_equal(i % KERNEL_THREADS, 9 + 40);
			wrong++;
		}
		assert_int_equal(wrong, run == 0 ? 2 : 0);
	}
	fold = 128;
	fake_rt_launch(rt, "gp_mma16", 8, args);
	assert_int_equal(rt->mem_copy(out, at, sizeof(out), RT_DEVICE_TO_HOST, NULL), 0);
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(out[i].sum, exact_mma16(i, steps, fold, seed));
	assert_int_equal(rt->mem_free(at), 0);
}

static double read_rate(void)
{
	uint64_t cells = (1u << 30) / 16;
	void *at, *work, *args[] = {&at, &cells, &work};
	rt_event from, to;
	float ms;

	assert_int_equal(rt->mem_alloc(&at, 1u << 30), 0);
	work = zeroed(BLOCKS * sizeof(struct kernel_work));
	assert_int_equal(rt->event_create(&from), 0);
	assert_int_equal(rt->event_create(&to), 0);
	assert_int_equal(rt->event_record(from, NULL), 0);
	fake_rt_launch(rt, "gp_read", 8, args);
	assert_int_equal(rt->event_record(to, NULL), 0);
	assert_int_equal(rt->event_elapsed(&ms, from, to), 0);
	assert_int_equal(rt->event_destroy(from), 0);
	assert_int_equal(rt->event_destroy(to), 0);
	assert_int_equal(rt->mem_free(at), 0);
	assert_int_equal(rt->mem_free(work), 0);
	return (double)(1u << 30) / (double)ms * 1000;
}

TEST(speeds_are_as_told)
{
	double peak = 2 * 3.201e9 * 6144 / 8;

	fake_rt_use("{\"launch_us\": 0, \"devices\": [{}]}");
	assert_true(fabs(read_rate() / peak - 0.92) < 0.001);
	fake_rt_use("{\"launch_us\": 0, \"devices\": [{\"speed\": {\"read\": 0.5}}]}");
	assert_true(fabs(read_rate() / peak - 0.46) < 0.001);
	fake_rt_use("{\"devices\": [{\"nan_time\": \"gp_read\"}]}");
	assert_true(isnan(read_rate()));
}

TEST(a_multiprocessor_may_get_no_work)
{
	static struct kernel_chain out[2048];
	uint32_t steps = 64, fold = 64, shift = 0, turn = 0;
	uint64_t seed = 7;
	void *at, *args[] = {&steps, &fold, &seed, &shift, &turn, &at};

	fake_rt_use("{\"devices\": [{\"sms\": 4, \"missing_sm\": 3}]}");
	at = zeroed(sizeof(out));
	fake_rt_launch(rt, "gp_fma32", 8, args);
	assert_int_equal(rt->mem_copy(out, at, sizeof(out), RT_DEVICE_TO_HOST, NULL), 0);
	for (uint32_t i = 0; i < 2048; i++) {
		assert_int_not_equal(out[i].sm, 3);
		assert_int_equal(out[i].sum, exact_fma32(i, steps, fold, seed));
	}
	assert_int_equal(rt->mem_free(at), 0);
}

TEST(shared_memory_may_be_wrong)
{
	uint32_t rounds = 2;
	uint64_t seed = 7;
	struct kernel_findings f;
	void *found, *sms, *work, *args[] = {&rounds, &seed, &found, &sms, &work};

	fake_rt_use("{\"devices\": [{\"wrong\": {\"sm\": 1, \"kernel\": \"gp_smem\"}}]}");
	assert_int_equal(rt->mem_alloc(&found, sizeof(f)), 0);
	assert_int_equal(rt->mem_alloc(&sms, 8 * sizeof(uint32_t)), 0);
	assert_int_equal(rt->mem_set(found, 0, sizeof(f), NULL), 0);
	work = zeroed(BLOCKS * sizeof(struct kernel_work));
	fake_rt_launch(rt, "gp_smem", 8, args);
	assert_int_equal(rt->mem_copy(&f, found, sizeof(f), RT_DEVICE_TO_HOST, NULL), 0);
	assert_int_equal(f.wrong_cells, 2);
	assert_int_equal(f.mismatch[0].cell, KERNEL_SHARED_BYTES / 16);
	assert_int_equal(rt->mem_free(found), 0);
	assert_int_equal(rt->mem_free(sms), 0);
	assert_int_equal(rt->mem_free(work), 0);
}

/* ---- how a process ends ---- */

/* The status that waitpid() gives of a process that asks for free memory on this machine. */
static int status_with(const char *scenario)
{
	size_t available, total;
	int status;
	pid_t child;

	fake_rt_use(scenario);
	child = fork();
	if (child == 0) {
		(void)alarm(2);
		(void)close(2);
		_exit(rt->mem_info(&available, &total));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

TEST(processes_end_as_told)
{
	int status;

	status = status_with(
		"{\"devices\": [{}], \"calls\": [{\"call\": \"cudaMemGetInfo\", \"exit\": 7}]}");
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	status = status_with(
		"{\"devices\": [{}], \"calls\": [{\"call\": \"cudaMemGetInfo\", \"signal\": 9}]}");
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	status = status_with(
		"{\"devices\": [{}], \"calls\": [{\"call\": \"cudaMemGetInfo\", \"hang\": true}]}");
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
	status = status_with(
		"{\"devices\": [{}], \"calls\": [{\"call\": \"cudaMemGetInfo\", \"sleep_s\": 0.1, "
		"\"error\": 46}]}");
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == RT_DEVICE_UNAVAILABLE);
}

/* What such a process says before it ends; "" when it does not end with 97. */
static const char *said_with(const char *scenario)
{
	static char said[1024];
	size_t available, total, len = 0;
	int status, ends[2];
	pid_t child;
	ssize_t n;

	fake_rt_use(scenario);
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		(void)alarm(2);
		(void)dup2(ends[1], 2);
		_exit(rt->mem_info(&available, &total));
	}
	(void)close(ends[1]);
	while ((n = read(ends[0], said + len, sizeof(said) - 1 - len)) > 0)
		len += (size_t)n;
	(void)close(ends[0]);
	said[len] = '\0';
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) && WEXITSTATUS(status) == 97 ? said : "";
}

TEST(misspelled_scenarios_are_refused)
{
	static const struct {
		const char *scenario, *says;
	} wrong[] = {{"{\"device\": []}", "no such member: \"device\""},
		{"{\"devices\": [{\"memory\": 1}]}", "no such member of a device: \"memory\""},
		{"{\"devices\": [{\"flips\": [{\"kind\": \"sticky\"}]}]}", "no such kind of flip"},
		{"{\"devices\": [{\"flips\": [{\"bits\": 3}]}]}",
			"no such member of a flip: \"bits\""},
		{"{\"devices\": [{\"sms\": \"4\"}]}", "expected a whole number"},
		{"{\"devices\": [{\"sms\": 0}]}", "without multiprocessors"},
		{"{\"calls\": [{\"error\": 2}]}", "a rule without a call"},
		{"{\"calls\": [{\"call\": \"cudaFree\", \"errors\": 2}]}",
			"no such member of a rule: \"errors\""},
		{"{\"devices\": [{\"speed\": {\"reed\": 1}}]}", "no such speed: \"reed\""},
		{"{\"devices\": [{\"speed\": 2}]}", "expected an object"},
		/* one where a list belongs counted for nothing */
		{"{\"devices\": {\"count\": 2}}", "expected an array in: \"devices\""},
		{"{\"devices\": [{}], \"calls\": {\"call\": \"cudaFree\"}}",
			"expected an array in: \"calls\""},
		{"{\"devices\": [{\"flips\": {\"bit\": 3}}]}", "expected an array in: \"flips\""},
		{"{\"devices\": [{\"flips\": [3]}]}", "expected an object, found: 3"},
		{"{\"devices\": [8]}", "expected an object, found: 8"},
		{"{\"devices\": [{}], \"calls\": [\"cudaFree\"]}", "expected an object, found"},
		{"{\"devices\": [{\"wrong\": [1]}]}", "expected an object, found"},
		{"{\"devices\": [{\"count\": 65}]}", "from 1 to 64"},
		{"{\"devices\": [{\"flips\": [{\"bit\": 128}]}]}", "from 0 to 127"},
		{"{\"devices\": [{\"memory_mib\": -1}]}", "from 0 to 1e15"},
		{"{\"devices\": [{\"memory_mib\": 1e12}]}", "more memory than a GPU has"},
		{"{\"devices\": [{\"name\": \"a\\tb\"}]}", "without escapes"}, {"[]", "no object"},
		{"", "expected a value"}};

	for (size_t i = 0; i < COUNT(wrong); i++) {
		const char *said = said_with(wrong[i].scenario);

		row_says(wrong[i].scenario, said, "", wrong[i].says);
	}
}

TESTS_WITHIN(begin, fake_rt_end, gives_what_memory_it_has, healthy_memory_keeps_its_pattern,
	flips_are_found_where_they_are, flips_differ_in_kind, what_the_host_writes_is_found,
	chains_are_those_of_the_cpu, speeds_are_as_told, a_multiprocessor_may_get_no_work,
	shared_memory_may_be_wrong, processes_end_as_told, misspelled_scenarios_are_refused)
