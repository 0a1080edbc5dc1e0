/* SPDX-License-Identifier: Apache-2.0 */
/* test: a runtime that knows next to nothing, as that of an old remote-GPU client. */

int cudaGetDeviceCount(int *count);
int cudaDriverGetVersion(int *version);

int cudaGetDeviceCount(int *count)
{
	*count = 1;
	return 0;
}

int cudaDriverGetVersion(int *version)
{
	*version = 11040;
	return 0;
}
