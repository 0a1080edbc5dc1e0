/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the default runtime of a program that was linked with none: whatever is found. rt_linked.c
 * takes its place. */
#include "probe/runtime/rt.h"

int rt_default(struct rt *ret, struct err *err)
{
	return rt_dlopen(NULL, ret, err);
}
