/* SPDX-License-Identifier: Apache-2.0 */
/* test: the fake CUDA runtime in a unit test. */
#define _GNU_SOURCE
#include "test/unit/fake_rt.h"
#include "test/unit/test.h"

#include "probe/kernels/kernels.h"

static char folder[64]; /* of scenarios */
static int n_scenarios;
static struct rt fake;

static void scenario_file(int n, char *to, size_t size)
{
	snprintf(to, size, "%s/%d.json", folder, n);
}

const char *fake_rt_file(const char *name)
{
	static char file[4096];
	char own[2048] = "";
	ssize_t len = readlink("/proc/self/exe", own, sizeof(own) - 1);

	assert_true(len > 0);
	*strrchr(own, '/') = '\0';
	snprintf(file, sizeof(file), "%s/../probe/%s", own, name);
	return file;
}

void fake_rt_use(const char *scenario)
{
	char file[128];
	FILE *out;

	scenario_file(++n_scenarios, file, sizeof(file));
	out = fopen(file, "wb");
	assert_non_null(out);
	assert_true(fputs(scenario, out) >= 0);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(setenv("GPUPROBE_FAKE", file, 1), 0);
}

int fake_rt_begin(void **state)
{
	struct err err = {0};

	snprintf(folder, sizeof(folder), "/tmp/poolgate-fake.XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	unsetenv("CUDA_VISIBLE_DEVICES");
	*state = &fake;
	return rt_dlopen(fake_rt_file("libcudart-fake.so"), &fake, &err);
}

int fake_rt_end(void **state)
{
	char file[128];

	(void)state;
	for (; n_scenarios > 0; n_scenarios--) {
		scenario_file(n_scenarios, file, sizeof(file));
		(void)unlink(file);
	}
	return rmdir(folder);
}

void fake_rt_launch(const struct rt *rt, const char *name, unsigned blocks, void **args)
{
	rt_library library;
	rt_kernel kernel;

	assert_int_equal(rt->library_load(&library, "image"), 0);
	assert_int_equal(rt->library_kernel(&kernel, library, name), 0);
	assert_int_equal(rt->launch(kernel, (struct rt_dim3){blocks, 1, 1},
				 (struct rt_dim3){KERNEL_THREADS, 1, 1}, args, 0, NULL),
		0);
	assert_int_equal(rt->stream_synchronize(NULL), 0);
}
