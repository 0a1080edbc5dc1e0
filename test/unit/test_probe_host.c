/* SPDX-License-Identifier: Apache-2.0 */
/* test: a machine's PCI devices, from trees like sysfs in folders of our own. */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>

#include "probe/runtime/host.h"
#include "test/unit/test.h"

static char root[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

FIXTURE(setup)
{
	snprintf(root, sizeof(root), "/tmp/probe-host-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

FIXTURE(teardown)
{
	return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_folder(const char *path)
{
	char whole[512];

	snprintf(whole, sizeof(whole), "%s/%s", root, path);
	for (char *p = whole + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		assert_true(mkdir(whole, 0755) == 0 || errno == EEXIST);
		*p = '/';
	}
	assert_true(mkdir(whole, 0755) == 0 || errno == EEXIST);
}

static void write_file(const char *folder, const char *name, const char *text, size_t len)
{
	char path[512];
	FILE *f;

	make_folder(folder);
	snprintf(path, sizeof(path), "%s/%s/%s", root, folder, name);
	f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	fclose(f);
}

static void put(const char *folder, const char *name, const char *text)
{
	write_file(folder, name, text, strlen(text));
}

/* A device below `above` ("" or ports, each with a slash behind), linked as sysfs does. */
static void add_device(const char *above, const char *id, const char *class, const char *vendor,
	const char *width, const char *width_max, const char *speed, const char *speed_max)
{
	char folder[256], link[256], target[256];

	snprintf(folder, sizeof(folder), "sys/devices/pci0000:00/%s%s", above, id);
	put(folder, "class", class);
	put(folder, "vendor", vendor);
	put(folder, "numa_node", "1\n");
	put(folder, "current_link_width", width);
	put(folder, "max_link_width", width_max);
	put(folder, "current_link_speed", speed);
	put(folder, "max_link_speed", speed_max);
	write_file(folder, "config", "\xde\x10\x35\x23", 4);
	make_folder("sys/bus/pci/devices");
	snprintf(link, sizeof(link), "%s/sys/bus/pci/devices/%s", root, id);
	snprintf(target, sizeof(target), "../../../devices/pci0000:00/%s%s", above, id);
	assert_int_equal(symlink(target, link), 0);
}

#define PORT "0000:16:01.0/"
#define SWITCH PORT "0000:17:00.0/0000:18:04.0/"

static void add_gpu(const char *above, const char *id)
{
	add_device(above, id, "0x030200\n", "0x10de\n", "16\n", "16\n", "2.5 GT/s PCIe\n",
		"32.0 GT/s PCIe\n");
}

static size_t gpus(struct host_gpu **ret)
{
	struct err err = {0};
	size_t n = 99;

	assert_int_equal(host_gpus(root, ret, &n, &err), 0);
	return n;
}

TEST(finds_gpus)
{
	struct host_gpu *g;

	add_device("", "0000:16:01.0", "0x060400\n", "0x8086\n", "16\n", "16\n", "16.0 GT/s PCIe\n",
		"16.0 GT/s PCIe\n");
	add_gpu(PORT, "0000:d0:00.0");
	add_gpu(PORT, "0000:1b:00.0");
	/* its audio device, its NVSwitch, another maker's display */
	add_device(PORT, "0000:1b:00.1", "0x040300\n", "0x10de\n", "16\n", "16\n", "x\n", "x\n");
	add_device("", "0000:20:00.0", "0x068000\n", "0x10de\n", "16\n", "16\n", "x\n", "x\n");
	add_device("", "0000:02:00.0", "0x030000\n", "0x1a03\n", "1\n", "1\n", "x\n", "x\n");
	add_device("", "0000:03:00.0", "0x030000\n", "0x10de\n", "0\n", "255\n", "Unknown\n", "\n");
	assert_int_equal(gpus(&g), 3);
	assert_string_equal(g[0].pci, "0000:03:00.0");
	assert_string_equal(g[1].pci, "0000:1b:00.0");
	assert_string_equal(g[2].pci, "0000:d0:00.0");
	assert_int_equal(g[1].width, 16);
	assert_int_equal(g[1].width_max, 16);
	assert_true(g[1].speed_gts == 2.5 && g[1].speed_gts_max == 32);
	assert_true(g[1].upstream_gts == 16);
	assert_int_equal(g[1].upstream_width, 16);
	assert_int_equal(g[1].numa_node, 1);
	assert_true(g[1].answers);
	/* what the kernel does not know */
	assert_int_equal(g[0].width, -1);
	assert_int_equal(g[0].width_max, -1);
	assert_true(g[0].speed_gts == 0 && g[0].speed_gts_max == 0 && g[0].upstream_gts == 0);
	assert_int_equal(g[0].upstream_width, -1);
	free(g);
	assert_true(host_has_pci(root, "0000:1b:00.0"));
	assert_true(host_has_pci(root, "00000000:1B:00.0"));
	assert_false(host_has_pci(root, "0000:02:00.0"));
	assert_false(host_has_pci(root, "0000:99:00.0"));
	assert_false(host_has_pci(root, ""));
	assert_false(host_has_pci(root, "../../../etc"));
}

/* The narrowest port on the way counts, through a switch, and a slot that is smaller than the card.
 */
TEST(upstream_is_smaller)
{
	struct host_gpu *g;

	put("sys/devices/pci0000:00/0000:16:01.0", "max_link_speed", "16.0 GT/s PCIe\n");
	put("sys/devices/pci0000:00/0000:16:01.0", "max_link_width", "8\n");
	put("sys/devices/pci0000:00/" PORT "0000:17:00.0", "max_link_speed", "32.0 GT/s PCIe\n");
	put("sys/devices/pci0000:00/" PORT "0000:17:00.0", "max_link_width", "16\n");
	put("sys/devices/pci0000:00/" PORT "0000:17:00.0/0000:18:04.0", "max_link_speed",
		"Unknown\n");
	add_gpu(SWITCH, "0000:1b:00.0");
	assert_int_equal(gpus(&g), 1);
	assert_true(g[0].upstream_gts == 16);
	assert_int_equal(g[0].upstream_width, 8);
	free(g);
}

TEST(lost_gpu)
{
	struct host_gpu *g;

	add_gpu(PORT, "0000:1b:00.0");
	add_gpu(PORT, "0000:1c:00.0");
	write_file(
		"sys/devices/pci0000:00/" PORT "0000:1b:00.0", "config", "\xff\xff\xff\xff\xff", 5);
	assert_int_equal(gpus(&g), 2);
	assert_false(g[0].answers);
	assert_true(g[1].answers);
	free(g);
}

TEST(virtual_functions)
{
	struct host_gpu *g;
	char link[256];

	add_gpu(PORT, "0000:1b:00.0");
	add_gpu(PORT, "0000:1b:00.4");
	snprintf(link, sizeof(link), "%s/sys/devices/pci0000:00/" PORT "0000:1b:00.4/physfn", root);
	assert_int_equal(symlink("../0000:1b:00.0", link), 0);
	assert_int_equal(gpus(&g), 1);
	assert_string_equal(g[0].pci, "0000:1b:00.0");
	free(g);
}

TEST(without_sysfs)
{
	struct host_gpu *g;

	assert_int_equal(gpus(&g), 0);
	assert_null(g);
	assert_false(host_has_pci(root, "0000:1b:00.0"));
	assert_int_equal(host_is_vm(root), -1);
	put("sys/bus/pci", "devices", "a file");
	assert_int_equal(gpus(&g), 0);
}

#define FLAGS "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme"
#define DMI "sys/class/dmi/id"

TEST(virtual_machines)
{
	static const struct {
		const char *vendor, *product, *cpu;
		int vm;
	} cases[] = {
		{NULL, NULL, FLAGS " hypervisor lahf_lm\nbugs\t: x\n", 1},
		{NULL, NULL, FLAGS " hypervisor", 1},
		{NULL, NULL, FLAGS " lahf_lm\nbugs\t: hypervisor\n", 0},
		{NULL, NULL, FLAGS " hypervisor_not\n", 0},
		{NULL, NULL, "processor\t: 0\nFeatures\t: fp asimd\n", -1},
		{"Dell Inc.\n", "PowerEdge XE9680\n", FLAGS "\n", 0},
		{"Dell Inc.\n", "PowerEdge XE9680\n", NULL, 0},
		{"QEMU\n", "Standard PC (Q35 + ICH9, 2009)\n", NULL, 1},
		{"Microsoft Corporation\n", "Virtual Machine\n", FLAGS "\n", 1},
		{"VMware, Inc.\n", "VMware20,1\n", FLAGS " hypervisor\n", 1},
		{"Amazon EC2\n", "p5.48xlarge\n", FLAGS " hypervisor\n", 1},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		teardown(NULL);
		setup(NULL);
		if (cases[i].vendor) {
			put(DMI, "sys_vendor", cases[i].vendor);
			put(DMI, "product_name", cases[i].product);
		}
		if (cases[i].cpu)
			put("proc", "cpuinfo", cases[i].cpu);
		if (host_is_vm(root) != cases[i].vm)
			fail_msg("case %zu: %d", i, host_is_vm(root));
	}
}

TEST(ids)
{
	static const struct {
		const char *text, *id;
	} cases[] = {
		{"0000:17:00.0", "0000:17:00.0"},
		{"00000000:DB:1F.7", "0000:db:1f.7"},
		{"00010000:01:00.0", "10000:01:00.0"},
		{"0001:00:00.0", "0001:00:00.0"},
		{"0000:17:00", "0000:17:00.0"},
		{"17:00.0", ""},
		{"0000:17:00.8", ""},
		{"0000:17:20.0", ""},
		{"0000:17:00.0 ", ""},
		{"0000:17:0.0", ""},
		{"0000:1:00.0", ""},
		{"000000000:17:00.0", ""},
		{"0000-17-00.0", ""},
		{"0000:17:00.", ""},
		{"", ""},
		{"pci0000:00", ""},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char id[PCI_ID_MAX];

		assert_int_equal(host_pci_id(cases[i].text, id), cases[i].id[0] != '\0');
		assert_string_equal(id, cases[i].id);
	}
}

TEST(link_rates)
{
	assert_true(host_link_rate(5, 16) == 8e9);
	assert_in_range((uint64_t)host_link_rate(8, 16), 15750000000, 15760000000);
	assert_in_range((uint64_t)host_link_rate(16, 16), 31500000000, 31510000000);
	assert_in_range((uint64_t)host_link_rate(32, 16), 63010000000, 63020000000);
	assert_in_range((uint64_t)host_link_rate(64, 16), 121000000000, 121000000000);
	assert_true(host_link_rate(0, 16) == 0);
	assert_true(host_link_rate(16, -1) == 0);
	assert_true(host_link_rate(16, 0) == 0);
}

TESTS_BETWEEN(setup, teardown, finds_gpus, upstream_is_smaller, lost_gpu, virtual_functions,
	without_sysfs, virtual_machines, ids, link_rates)
