/* SPDX-License-Identifier: Apache-2.0 */
/* test: the fake CUDA runtime in a unit test; test/probe/README.md has the format of scenarios. */
#ifndef TEST_UNIT_FAKE_RT_H
#define TEST_UNIT_FAKE_RT_H

#include "probe/runtime/rt.h"

/* A library that the build leaves beside the tests: "libcudart-fake.so", "libcudart-old.so". The
 * text lives until the next call. */
const char *fake_rt_file(const char *name);

/* From here on this process has the machine that the scenario describes. Makes a file that
 * fake_rt_end() removes. */
void fake_rt_use(const char *scenario);

/* Set up and tear down a group of tests: *state becomes the runtime's table, a struct rt. */
int fake_rt_begin(void **state);
int fake_rt_end(void **state);

/* Load the kernels, launch one of them by name, wait. */
void fake_rt_launch(const struct rt *rt, const char *name, unsigned blocks, void **args);

#endif
