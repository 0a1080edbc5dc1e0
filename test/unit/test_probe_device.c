/* SPDX-License-Identifier: Apache-2.0 */
/* test: what is made of a CUDA runtime's answers, by a runtime of which each answer can be chosen.
 */
#include "probe/result/device.h"
#include "test/unit/test.h"

/* What the runtime answers. */
static struct {
	int driver, driver_error, runtime, count, count_error, properties_error, memory_error;
	size_t free_bytes, total;
	const char *pci;
	int attribute[128];
	unsigned char properties[RT_PROPERTIES_BYTES];
} says;

static int driver_version(int *version)
{
	*version = says.driver;
	return says.driver_error;
}

static int runtime_version(int *version)
{
	*version = says.runtime;
	return 0;
}

static const char *error_name(int error)
{
	return error == 35 ? "cudaErrorInsufficientDriver" : "cudaErrorOther";
}

/* As the real one: on an error the count stays as it was. */
static int count_devices(int *count)
{
	if (says.count_error == 0)
		*count = says.count;
	return says.count_error;
}

static int device_attribute(int *value, enum rt_attribute attribute, int device)
{
	if (device < 0 || says.attribute[attribute] == -1000)
		return 1;
	*value = says.attribute[attribute];
	return 0;
}

static int device_properties(void *properties, int device)
{
	(void)device;
	memcpy(properties, says.properties, sizeof(says.properties));
	return says.properties_error;
}

static int device_pci(char *id, int len, int device)
{
	(void)device;
	if (!says.pci)
		return 1;
	snprintf(id, (size_t)len, "%s", says.pci);
	return 0;
}

static int mem_info(size_t *free_bytes, size_t *total)
{
	*free_bytes = says.free_bytes;
	*total = says.total;
	return says.memory_error;
}

static const struct rt rt = {.link = "static",
	.driver_version = driver_version,
	.runtime_version = runtime_version,
	.error_name = error_name,
	.device_count = count_devices,
	.device_attribute = device_attribute,
	.device_properties = device_properties,
	.device_pci = device_pci,
	.mem_info = mem_info};

static void set_name(const char *name)
{
	memset(says.properties, 0, 256);
	memcpy(says.properties, name, strlen(name) + 1);
}

FIXTURE(setup)
{
	memset(&says, 0, sizeof(says));
	says.driver = 13000;
	says.runtime = 12090;
	says.count = 8;
	says.pci = "0000:17:00.0";
	says.free_bytes = 149422080000;
	says.total = 150051225600;
	memset(says.properties, 0xa5, sizeof(says.properties));
	memcpy(says.properties + RT_PROPERTIES_MEMORY, &says.total, sizeof(says.total));
	set_name("NVIDIA H200");
	for (int i = 0; i < 16; i++)
		says.properties[RT_PROPERTIES_UUID + i] = (unsigned char)(i * 17);
	says.attribute[RT_ATTR_CLOCK_KHZ] = 1980000;
	says.attribute[RT_ATTR_MEMORY_CLOCK_KHZ] = 3201000;
	says.attribute[RT_ATTR_BUS_WIDTH_BITS] = 6144;
	says.attribute[RT_ATTR_MULTIPROCESSORS] = 132;
	says.attribute[RT_ATTR_ECC] = 1;
	says.attribute[RT_ATTR_L2_BYTES] = 52428800;
	says.attribute[RT_ATTR_CAPABILITY_MAJOR] = 9;
	says.attribute[RT_ATTR_PCI_BUS] = 0x3a;
	says.attribute[RT_ATTR_PCI_DEVICE] = 1;
	unsetenv("CUDA_VISIBLE_DEVICES");
	return 0;
}

TEST(counts)
{
	struct report r;

	report_init(&r);
	assert_int_equal(device_count(&rt, &r), CODE_NONE);
	assert_int_equal(r.cuda, 8);
	assert_int_equal(r.driver_cuda, 13000);
	assert_int_equal(r.cudart, 12090);
	assert_string_equal(r.link, "static");
	assert_int_equal(r.n_errors, 0);
	report_release(&r);
}

TEST(cannot_count)
{
	static const struct {
		int driver, error, count, pci, cuda;
		enum probe_code code;
		const char *words;
	} cases[] = {
		{0, 35, 8, -1, -1, CODE_NO_DRIVER, "CUDA error 35, cudaErrorInsufficientDriver"},
		{11040, 35, 8, -1, -1, CODE_DRIVER_TOO_OLD,
			"the driver supports CUDA 11.4, this program needs 12.9: driver 525 or "
			"newer; "
			"cudaErrorInsufficientDriver"},
		{13000, 34, 8, -1, -1, CODE_STUB_LIBRARY, "CUDA error 34, cudaErrorOther"},
		{13000, 802, 8, -1, -1, CODE_FABRIC_NOT_READY, "CUDA error 802, cudaErrorOther"},
		{13000, 803, 8, -1, -1, CODE_DRIVER_MISMATCH, "CUDA error 803, cudaErrorOther"},
		{13000, 999, 8, -1, -1, CODE_INIT_FAILED, "CUDA error 999, cudaErrorOther"},
		{13000, 100, 8, 0, 0, CODE_NO_DEVICE, "none is on the PCI bus either"},
		{13000, 0, 0, 8, 0, CODE_NO_DEVICE,
			"the PCI bus shows 8 GPUs that the driver does not"},
		{13000, -1, 8, -1, -1, CODE_RUNTIME_INCOMPLETE, "cudaGetDeviceCount is missing"},
		{13000, 0, -3, -1, -1, CODE_CUDA_ERROR,
			"the runtime counts -3 GPUs; accepted are at most 128"},
		{13000, 0, 129, -1, -1, CODE_CUDA_ERROR,
			"the runtime counts 129 GPUs; accepted are at most 128"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct report r;

		report_init(&r);
		r.pci = cases[i].pci;
		r.complete = true;
		says.driver = cases[i].driver;
		says.count_error = cases[i].error;
		says.count = cases[i].count;
		assert_int_equal(device_count(&rt, &r), cases[i].code);
		assert_int_equal(r.cuda, cases[i].cuda);
		assert_int_equal(r.n_errors, 1);
		assert_int_equal(r.errors[0].code, cases[i].code);
		assert_int_equal(r.errors[0].gpu, -1);
		assert_string_equal(r.errors[0].message, cases[i].words);
		report_judge(&r);
		assert_int_equal(r.exit,
			cases[i].code == CODE_CUDA_ERROR ? EXIT_INCONCLUSIVE : EXIT_NO_CUDA);
		report_release(&r);
	}
}

TEST(hidden_by_the_environment)
{
	struct report r;

	setenv("CUDA_VISIBLE_DEVICES", "7", 1);
	says.count_error = 100;
	report_init(&r);
	r.pci = 4;
	assert_int_equal(device_count(&rt, &r), CODE_NO_DEVICE);
	assert_string_equal(
		r.errors[0].message, "CUDA_VISIBLE_DEVICES is \"7\"; the PCI bus shows 4 GPUs");
	report_release(&r);
}

/* A client that forwards to a remote GPU may know no driver; what counts is that it counts. */
TEST(driver_is_not_told)
{
	struct report r;

	says.driver_error = RT_MISSING_CALL;
	report_init(&r);
	assert_int_equal(device_count(&rt, &r), CODE_NONE);
	assert_int_equal(r.driver_cuda, 0);
	assert_int_equal(r.cuda, 8);
	report_release(&r);
}

TEST(describes)
{
	struct gpu_report g;
	int error;

	memset(&g, 0x55, sizeof(g));
	assert_int_equal(device_describe(&rt, 3, &g, &error), CODE_NONE);
	assert_int_equal(g.index, 3);
	assert_string_equal(g.name, "NVIDIA H200");
	assert_string_equal(g.uuid, "GPU-00112233-4455-6677-8899-aabbccddeeff");
	assert_string_equal(g.pci, "0000:17:00.0");
	assert_int_equal(g.cc_major, 9);
	assert_int_equal(g.cc_minor, 0);
	assert_int_equal(g.sm_count, 132);
	assert_int_equal(g.ecc, 1);
	assert_int_equal(g.mig, -1);
	assert_int_equal(g.compute_mode, 0);
	assert_int_equal(g.l2_bytes, 52428800);
	assert_int_equal(g.clock_max_mhz, 1980);
	assert_int_equal(g.memory_clock_max_mhz, 3201);
	assert_int_equal(g.memory_bus_bits, 6144);
	assert_int_equal(g.memory_total_bytes, 150051225600);
	assert_int_equal(g.memory_free_bytes, -1);
	assert_false(g.fit);
	for (int i = 0; i < CHECK_COUNT; i++)
		assert_null(g.checks[i]);
}

TEST(describes_what_it_can)
{
	struct gpu_report g;
	int error;

	for (size_t i = 0; i < COUNT(says.attribute); i++)
		says.attribute[i] = -1000;
	says.pci = NULL;
	memset(says.properties + RT_PROPERTIES_UUID, 0, 16);
	assert_int_equal(device_describe(&rt, 0, &g, &error), CODE_NONE);
	assert_string_equal(g.uuid, "");
	assert_string_equal(g.pci, "");
	assert_int_equal(g.cc_major, -1);
	assert_int_equal(g.ecc, -1);
	assert_int_equal(g.clock_max_mhz, -1);
	setup(NULL);
	says.pci = "nonsense";
	says.attribute[RT_ATTR_CLOCK_KHZ] = 0;
	says.attribute[RT_ATTR_ECC] = -5;
	assert_int_equal(device_describe(&rt, 0, &g, &error), CODE_NONE);
	assert_string_equal(g.pci, "0000:3a:01.0");
	assert_int_equal(g.clock_max_mhz, -1);
	assert_int_equal(g.ecc, -1);
}

TEST(mig_instance)
{
	struct gpu_report g;
	int error;

	set_name("NVIDIA H200 MIG 1g.18gb");
	assert_int_equal(device_describe(&rt, 0, &g, &error), CODE_NONE);
	assert_int_equal(g.mig, 1);
	assert_string_equal(g.uuid, "MIG-00112233-4455-6677-8899-aabbccddeeff");
}

/* A name without an end, with bytes that no terminal should see. */
TEST(hostile_name)
{
	struct gpu_report g;
	int error;

	memset(says.properties, 0x1b, 256);
	assert_int_equal(device_describe(&rt, 0, &g, &error), CODE_NONE);
	assert_int_equal(strlen(g.name), sizeof(g.name) - 1);
	for (const char *p = g.name; *p; p++)
		assert_int_equal(*p, '?');
	says.properties[0] = '\0';
	assert_int_equal(device_describe(&rt, 0, &g, &error), CODE_NONE);
	assert_string_equal(g.name, "");
}

/* A runtime that leaves there what was there, and one that says nothing. */
TEST(memory_that_is_none)
{
	struct gpu_report g;
	int error;

	memset(says.properties + RT_PROPERTIES_MEMORY, 0xa5, 8);
	assert_int_equal(device_describe(&rt, 0, &g, &error), CODE_NONE);
	assert_int_equal(g.memory_total_bytes, -1);
	memset(says.properties + RT_PROPERTIES_MEMORY, 0, 8);
	assert_int_equal(device_describe(&rt, 0, &g, &error), CODE_NONE);
	assert_int_equal(g.memory_total_bytes, -1);
}

TEST(cannot_be_described)
{
	struct gpu_report g;
	int error;

	says.properties_error = 101;
	assert_int_equal(device_describe(&rt, 5, &g, &error), CODE_GPU_MISSING);
	assert_int_equal(error, 101);
	assert_int_equal(g.index, 5);
	assert_string_equal(g.name, "");
	says.properties_error = RT_MISSING_CALL;
	assert_int_equal(device_describe(&rt, 5, &g, &error), CODE_RUNTIME_INCOMPLETE);
}

TEST(memory)
{
	static const struct {
		size_t free_bytes, total;
		int error;
		enum probe_code code;
	} cases[] = {
		{10, 20, 0, CODE_NONE},
		{20, 20, 0, CODE_NONE},
		{0, 20, 0, CODE_NONE},
		{0, 0, 0, CODE_CUDA_ERROR},
		{21, 20, 0, CODE_CUDA_ERROR},
		{1, SIZE_MAX, 0, CODE_CUDA_ERROR},
		{10, 20, 46, CODE_DEVICE_BUSY},
		{10, 20, 214, CODE_ECC_UNCORRECTABLE},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gpu_report g;
		int error = 77;

		report_gpu_init(&g);
		says.free_bytes = cases[i].free_bytes;
		says.total = cases[i].total;
		says.memory_error = cases[i].error;
		assert_int_equal(device_memory(&rt, &g, &error), cases[i].code);
		assert_int_equal(error, cases[i].error);
		if (cases[i].code == CODE_NONE) {
			assert_int_equal(g.memory_free_bytes, cases[i].free_bytes);
			assert_int_equal(g.memory_total_bytes, cases[i].total);
		} else {
			assert_int_equal(g.memory_total_bytes, -1);
		}
	}
}

TESTS_BETWEEN(setup, NULL, counts, cannot_count, hidden_by_the_environment, driver_is_not_told,
	describes, describes_what_it_can, mig_instance, hostile_name, memory_that_is_none,
	cannot_be_described, memory)
