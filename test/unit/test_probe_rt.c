/* SPDX-License-Identifier: Apache-2.0 */
/* probe/runtime/rt_dlopen, probe/runtime/kernel_image, and what the fake runtime says of its
 * devices. */
#include "probe/kernels/kernels.h"
#include "test/unit/fake_rt.h"
#include "test/unit/test.h"

static const struct rt *rt;

FIXTURE(begin)
{
	int ret = fake_rt_begin(state);

	rt = *state;
	return ret;
}

/* ---- loading ---- */

TEST(says_which_library_is_missing)
{
	struct err err = {0};
	struct rt other;

	assert_int_equal(rt_dlopen("libcudart-none.so", &other, &err), ERR_NOTFOUND);
	assert_non_null(strstr(err.msg, "libcudart-none.so"));
	assert_int_equal(rt_dlopen("libm.so.6", &other, &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, "cudaGetDeviceCount"));
}

TEST(answers_for_calls_that_are_missing)
{
	struct err err = {0};
	int version = -1, count = -1;
	struct rt old;
	size_t available, total;
	rt_library library;
	void *at, *args[1] = {NULL};
	char properties[RT_PROPERTIES_BYTES];

	assert_int_equal(rt_dlopen(fake_rt_file("libcudart-old.so"), &old, &err), 0);
	assert_int_equal(old.driver_version(&version), 0);
	assert_int_equal(version, 11040);
	assert_int_equal(old.device_count(&count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(old.runtime_version(&version), RT_MISSING_CALL);
	assert_int_equal(old.mem_info(&available, &total), RT_MISSING_CALL);
	assert_int_equal(old.mem_alloc(&at, 1), RT_MISSING_CALL);
	assert_int_equal(old.library_load(&library, ""), RT_MISSING_CALL);
	assert_int_equal(old.device_properties(properties, 0), RT_MISSING_CALL);
	assert_int_equal(old.launch(NULL, (struct rt_dim3){1, 1, 1}, (struct rt_dim3){1, 1, 1},
				 args, 0, NULL),
		RT_MISSING_CALL);
	assert_string_equal(old.error_name(1), "");
	/* and the other one still has its calls */
	fake_rt_use("{\"devices\":[{}]}");
	assert_int_equal(rt->library_load(&library, "image"), 0);
}

TEST(finds_one_that_is_already_there)
{
	struct err err = {0};
	struct rt found;
	int count;

	/* the fake has the real one's name */
	fake_rt_use("{\"devices\": [{\"count\": 3}]}");
	assert_int_equal(rt_dlopen("libcudart.so.12", &found, &err), 0);
	assert_int_equal(found.device_count(&count), 0);
	assert_int_equal(count, 3);
	assert_int_equal(rt_dlopen(NULL, &found, &err), 0);
	assert_int_equal(rt_default(&found, &err), 0);
	assert_string_equal(found.link, "dlopen");
}

TEST(every_member_is_there)
{
	struct err err = {0};
	struct rt old;
	void *member;

	assert_int_equal(rt_dlopen(fake_rt_file("libcudart-old.so"), &old, &err), 0);
	for (size_t i = 0; i < sizeof(old) / sizeof(member); i++) {
		memcpy(&member, (char *)rt + i * sizeof(member), sizeof(member));
		assert_non_null(member);
		memcpy(&member, (char *)&old + i * sizeof(member), sizeof(member));
		assert_non_null(member);
	}
	assert_string_equal(rt->link, "dlopen");
}

/* ---- devices ---- */

TEST(no_driver_and_an_old_one_differ_by_their_version)
{
	int version = -1, count = -7;

	fake_rt_use("{\"driver\": 0, \"devices\": [{}]}");
	assert_int_equal(rt->driver_version(&version), 0);
	assert_int_equal(version, 0);
	assert_int_equal(rt->device_count(&count), RT_INSUFFICIENT_DRIVER);
	assert_int_equal(count, -7);
	fake_rt_use("{\"driver\": 11040, \"devices\": [{}]}");
	assert_int_equal(rt->driver_version(&version), 0);
	assert_int_equal(version, 11040);
	assert_int_equal(rt->device_count(&count), RT_INSUFFICIENT_DRIVER);
	fake_rt_use("{\"devices\": []}");
	assert_int_equal(rt->device_count(&count), RT_NO_DEVICE);
	assert_int_equal(rt->last_error(), RT_NO_DEVICE);
	assert_int_equal(rt->last_error(), 0);
	fake_rt_use("{\"init\": 802, \"devices\": [{}]}");
	assert_int_equal(rt->device_count(&count), RT_SYSTEM_NOT_READY);
	assert_string_equal(rt->error_name(802), "cudaErrorSystemNotReady");
}

TEST(describes_devices)
{
	char properties[RT_PROPERTIES_BYTES] = {0}, pci[20];
	int value, count;

	fake_rt_use(
		"{\"devices\": [{\"count\": 2, \"name\": \"A\"}, {\"name\": \"NVIDIA H200\", "
		"\"cc\": \"9.0\","
		"\"uuid\": \"GPU-0011aabb-ccdd-eeff-0102-030405060708\", \"pci\": \"0001:17:02.0\","
		"\"sms\": 132, \"clock_mhz\": 1980, \"memory_clock_mhz\": 3201}]}");
	assert_int_equal(rt->device_count(&count), 0);
	assert_int_equal(count, 3);
	assert_int_equal(rt->device_properties(properties, 2), 0);
	assert_string_equal(properties, "NVIDIA H200");
	assert_memory_equal(properties + RT_PROPERTIES_UUID,
		"\x00\x11\xaa\xbb\xcc\xdd\xee\xff\x01\x02\x03\x04\x05\x06\x07\x08", 16);
	assert_int_equal(rt->device_pci(pci, sizeof(pci), 2), 0);
	assert_string_equal(pci, "0001:17:02.0");
	assert_int_equal(rt->device_attribute(&value, RT_ATTR_PCI_DOMAIN, 2), 0);
	assert_int_equal(value, 1);
	assert_int_equal(rt->device_attribute(&value, RT_ATTR_PCI_BUS, 2), 0);
	assert_int_equal(value, 0x17);
	assert_int_equal(rt->device_attribute(&value, RT_ATTR_MULTIPROCESSORS, 2), 0);
	assert_int_equal(value, 132);
	assert_int_equal(rt->device_attribute(&value, RT_ATTR_MEMORY_CLOCK_KHZ, 2), 0);
	assert_int_equal(value, 3201000);
	assert_int_equal(rt->device_properties(properties, 3), RT_INVALID_DEVICE);
	assert_int_equal(rt->device_pci(pci, sizeof(pci), 1), 0);
	assert_string_equal(pci, "0000:11:00.0");
}

TEST(shows_only_what_is_visible)
{
	char pci[20];
	int count;

	setenv("CUDA_VISIBLE_DEVICES", "GPU-00000000-0000-0000-0000-000000000003,0,9,1", 1);
	fake_rt_use("{\"devices\": [{\"count\": 3}]}");
	assert_int_equal(rt->device_count(&count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(rt->device_pci(pci, sizeof(pci), 0), 0);
	assert_string_equal(pci, "0000:12:00.0");
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	fake_rt_use("{\"devices\": [{\"count\": 3}]}");
	assert_int_equal(rt->device_count(&count), RT_NO_DEVICE);
	unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(rules_fail_the_call_that_they_name)
{
	void *a, *b, *c;
	size_t available, total;

	fake_rt_use(
		"{\"devices\": [{\"count\": 2}], \"calls\": [{\"call\": \"cudaMalloc\", \"use\": "
		"2, \"error\": 2},"
		"{\"call\": \"cudaMemGetInfo\", \"device\": 1, \"error\": 214, \"sticky\": true},"
		"{\"call\": \"cudaFree\", \"worker\": true, \"exit\": 9}]}");
	assert_int_equal(rt->mem_alloc(&a, 1), 0);
	assert_int_equal(rt->mem_alloc(&b, 1), RT_OUT_OF_MEMORY);
	assert_int_equal(rt->mem_alloc(&c, 1), 0);
	assert_int_equal(rt->mem_free(a), 0);
	assert_int_equal(rt->mem_free(c), 0);
	assert_int_equal(rt->mem_info(&available, &total), 0);
	assert_int_equal(rt->set_device(1), 0);
	assert_int_equal(rt->mem_alloc(&a, 1), 0);
	assert_int_equal(rt->mem_info(&available, &total), RT_ECC_UNCORRECTABLE);
	assert_int_equal(rt->mem_free(a), RT_ECC_UNCORRECTABLE);
	assert_int_equal(rt->device_synchronize(), RT_ECC_UNCORRECTABLE);
	assert_int_equal(rt->set_device(0), 0);
	assert_int_equal(rt->device_synchronize(), 0);
}

/* ---- images ---- */

static int best(int major, int minor)
{
	static const struct kernel_image images[] = {{.arch = 50}, {.arch = 60}, {.arch = 61},
		{.arch = 70}, {.arch = 75}, {.arch = 80}, {.arch = 86}, {.arch = 90}, {.arch = 100},
		{.arch = 103}, {.arch = 90, .ptx = 1}, {.arch = 120, .ptx = 1}};
	const struct kernel_image *found = kernel_image_best(images, COUNT(images), major, minor);

	return found ? found->arch * (found->ptx ? -1 : 1) : 0;
}

TEST(the_best_image_is_taken)
{
	const struct kernel_image none[] = {{.arch = 0}, {.arch = 75}};

	assert_int_equal(best(3, 7), 0);
	assert_int_equal(best(5, 2), 50);
	assert_int_equal(best(6, 0), 60);
	assert_int_equal(best(6, 2), 61);
	assert_int_equal(best(7, 0), 70);
	assert_int_equal(best(7, 2), 70);
	assert_int_equal(best(7, 5), 75);
	assert_int_equal(best(8, 0), 80);
	assert_int_equal(best(8, 9), 86);
	assert_int_equal(best(9, 0), 90);
	assert_int_equal(best(10, 1), 100);
	assert_int_equal(best(10, 3), 103);
	assert_int_equal(best(11, 0), -90);
	assert_int_equal(best(12, 1), -120);
	assert_int_equal(best(13, 0), -120);
	assert_ptr_equal(kernel_image_best(none, 2, 7, 5), &none[1]);
	assert_ptr_equal(kernel_image_best(none, 2, 9, 0), &none[0]);
	/* this program is built without CUDA */
	assert_int_equal(kernel_image_for(9, 0)->arch, 0);
}

TESTS_WITHIN(begin, fake_rt_end, says_which_library_is_missing, answers_for_calls_that_are_missing,
	finds_one_that_is_already_there, every_member_is_there,
	no_driver_and_an_old_one_differ_by_their_version, describes_devices,
	shows_only_what_is_visible, rules_fail_the_call_that_they_name, the_best_image_is_taken)
