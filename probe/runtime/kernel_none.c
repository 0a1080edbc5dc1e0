/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the kernels of a build without CUDA: one image that only the fake runtime takes. The
 * generated images take its place. */
#include "probe/kernels/kernels.h"

static const unsigned char fake[] = "gpuprobe kernels for the fake runtime";

const struct kernel_image kernel_images[] = {
	{.arch = 0, .ptx = 0, .data = fake, .size = sizeof(fake)}};
const unsigned kernel_image_count = 1;
