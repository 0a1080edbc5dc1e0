/* SPDX-License-Identifier: Apache-2.0 */
/* probe: which of the embedded images a GPU gets. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "probe/kernels/kernels.h"

/* Machine code runs on its own capability and newer ones of the same major version; PTX on
 * everything that is not older. */
static bool runs(const struct kernel_image *image, int major, int minor)
{
	if (image->arch > major * 10 + minor)
		return false;
	return image->ptx || image->arch == 0 || image->arch / 10 == major;
}

/* Is `a` to be taken rather than `b`, which may be NULL? */
static bool better(const struct kernel_image *a, const struct kernel_image *b)
{
	if (!b || b->arch == 0)
		return true;
	if (a->arch == 0 || a->ptx != b->ptx)
		return a->arch != 0 && !a->ptx;
	return a->arch > b->arch;
}

const struct kernel_image *kernel_image_best(
	const struct kernel_image *images, unsigned count, int major, int minor)
{
	const struct kernel_image *best = NULL;

	for (unsigned i = 0; i < count; i++) {
		if (runs(&images[i], major, minor) && better(&images[i], best))
			best = &images[i];
	}
	return best;
}

const struct kernel_image *kernel_image_for(int major, int minor)
{
	return kernel_image_best(kernel_images, kernel_image_count, major, minor);
}

void kernel_archs(char *to, unsigned long size)
{
	size_t used = 0;

	to[0] = '\0';
	for (unsigned i = 0; i < kernel_image_count; i++) {
		char word[32];
		int n = snprintf(word, sizeof(word), "%s%s_%d", used ? " " : "",
			kernel_images[i].ptx ? "compute" : "sm", kernel_images[i].arch);

		if (kernel_images[i].arch == 0)
			continue; /* the fake's */
		if (n < 0 || used + (size_t)n >= size)
			return;
		memcpy(to + used, word, (size_t)n + 1);
		used += (size_t)n;
	}
}
