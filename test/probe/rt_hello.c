/* SPDX-License-Identifier: Apache-2.0 */
/* test: says what the runtime that was linked in says, and which kernels came with it. */
#include <stdio.h>

#include "probe/kernels/kernels.h"
#include "probe/runtime/rt.h"

int main(void)
{
	struct err err = {0};
	int driver = -1, runtime = -1, count = -1, error;
	struct rt rt;

	if (rt_default(&rt, &err) != 0) {
		printf("{\"error\": \"%s\"}\n", err.msg);
		return 1;
	}
	(void)rt.driver_version(&driver);
	(void)rt.runtime_version(&runtime);
	error = rt.device_count(&count);
	printf("{\"link\": \"%s\", \"driver\": %d, \"runtime\": %d, \"error\": %d, \"name\": "
	       "\"%s\", \"count\": %d, "
	       "\"images\": [",
		rt.link, driver, runtime, error, rt.error_name(error), count);
	for (unsigned i = 0; i < kernel_image_count; i++)
		printf("%s\"%s_%d\"", i ? ", " : "", kernel_images[i].ptx ? "compute" : "sm",
			kernel_images[i].arch);
	printf("]}\n");
	return error ? 3 : 0;
}
