/* SPDX-License-Identifier: Apache-2.0 */
/* probe: PCI devices in sysfs, and whether this is a virtual machine. */
#include "probe/runtime/host.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define NVIDIA 0x10deul
#define DISPLAY_CLASS 0x03ul
#define DEVICES "sys/bus/pci/devices"
#define MACHINE_GPUS_MAX 1024

/* Up to `most` hexadecimal digits off the front; how many there were. */
static size_t hex_digits(const char *at, size_t most, unsigned long *ret)
{
	size_t n = 0;

	for (*ret = 0; n < most && isxdigit((unsigned char)at[n]); n++) {
		int c = tolower((unsigned char)at[n]);

		*ret = *ret << 4 | (unsigned long)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return n;
}

bool host_pci_id(const char *text, char ret[static PCI_ID_MAX])
{
	unsigned long domain, bus, device, function = 0;
	size_t n = hex_digits(text, 8, &domain);

	ret[0] = '\0';
	if (n < 4 || text[n] != ':' || hex_digits(text + n + 1, 2, &bus) != 2 ||
		text[n + 3] != ':' || hex_digits(text + n + 4, 2, &device) != 2)
		return false;
	n += 6;
	if (text[n] == '.' && hex_digits(text + n + 1, 1, &function) == 1)
		n += 2;
	if (text[n] != '\0' || device > 31 || function > 7)
		return false;
	(void)snprintf(ret, PCI_ID_MAX, "%04lx:%02lx:%02lx.%lx", domain, bus, device, function);
	return true;
}

/* ---- reading ---- */

/* The beginning of a file below a folder, NUL-terminated; -1: it cannot be read. */
static ssize_t read_bytes(const char *folder, const char *name, char *to, size_t size)
{
	char path[PATH_MAX];
	ssize_t n;
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	do
		n = read(fd, to, size - 1);
	while (n < 0 && errno == EINTR);
	(void)close(fd);
	to[n > 0 ? n : 0] = '\0';
	return n;
}

/* A number as sysfs writes it, "0x10de", "16", "-1"; false: none. */
static bool read_number(const char *folder, const char *name, long *ret)
{
	char text[64], *end;

	if (read_bytes(folder, name, text, sizeof(text)) <= 0)
		return false;
	*ret = strtol(text, &end, 0);
	return end != text && (*end == '\0' || *end == '\n');
}

/* Lanes; 0 and 255 are what the kernel says when it does not know. */
static int read_width(const char *folder, const char *name)
{
	long n;

	return read_number(folder, name, &n) && n > 0 && n <= 32 ? (int)n : -1;
}

/* "16.0 GT/s PCIe", "8 GT/s", "Unknown" */
static double read_speed(const char *folder, const char *name)
{
	char text[64], *end;
	double speed;

	if (read_bytes(folder, name, text, sizeof(text)) <= 0)
		return 0;
	speed = strtod(text, &end);
	return end != text && strncmp(end, " GT/s", 5) == 0 && speed > 0 && speed < 1000 ? speed
											 : 0;
}

/* Of the first bytes of the config space, which are all ones when the device does not answer. Not
 * readable: nothing against it. */
static bool answers(const char *folder)
{
	char bytes[5];
	ssize_t n = read_bytes(folder, "config", bytes, sizeof(bytes));

	return n < 4 || memcmp(bytes, "\xff\xff\xff\xff", 4) != 0;
}

/* ---- GPUs ---- */

static bool is_gpu(const char *folder)
{
	char link[PATH_MAX];
	long vendor, class;

	if (!read_number(folder, "vendor", &vendor) || (unsigned long)vendor != NVIDIA ||
		!read_number(folder, "class", &class) ||
		(unsigned long)class >> 16 != DISPLAY_CLASS)
		return false;
	/* a virtual function is a part of the device that `physfn` leads to */
	return snprintf(link, sizeof(link), "%s/physfn", folder) >= (int)sizeof(link) ||
	       access(link, F_OK) != 0;
}

/* The ports on the way to the root are the folders above the device's own: each links to the one
 * below it at best like this. */
static void look_upstream(const char *folder, struct host_gpu *gpu)
{
	char *path = realpath(folder, NULL), *slash, id[PCI_ID_MAX];

	while (path && (slash = strrchr(path, '/')) != NULL && slash != path) {
		double speed;
		int width;

		*slash = '\0';
		slash = strrchr(path, '/');
		if (!slash || !host_pci_id(slash + 1, id))
			break;
		speed = read_speed(path, "max_link_speed");
		width = read_width(path, "max_link_width");
		/* not `<=`: 0 and -1 are "unknown" */
		if (speed > 0 && !(gpu->upstream_gts > 0 && gpu->upstream_gts < speed))
			gpu->upstream_gts = speed;
		if (width > 0 && !(gpu->upstream_width > 0 && gpu->upstream_width < width))
			gpu->upstream_width = width;
	}
	free(path);
}

static void look(const char *folder, struct host_gpu *gpu)
{
	long node;

	gpu->answers = answers(folder);
	gpu->numa_node = read_number(folder, "numa_node", &node) && node >= 0 && node < 4096
				 ? (int)node
				 : -1;
	gpu->width = read_width(folder, "current_link_width");
	gpu->width_max = read_width(folder, "max_link_width");
	gpu->speed_gts = read_speed(folder, "current_link_speed");
	gpu->speed_gts_max = read_speed(folder, "max_link_speed");
	gpu->upstream_gts = 0;
	gpu->upstream_width = -1;
	look_upstream(folder, gpu);
}

static int by_id(const void *a, const void *b)
{
	const struct host_gpu *x = a, *y = b;

	return strcmp(x->pci, y->pci);
}

static int add(
	const char *devices, const char *name, struct host_gpu **gpus, size_t *n, struct err *err)
{
	char folder[PATH_MAX], id[PCI_ID_MAX];
	struct host_gpu *more;

	if (!host_pci_id(name, id) ||
		snprintf(folder, sizeof(folder), "%s/%s", devices, name) >= (int)sizeof(folder) ||
		!is_gpu(folder) || *n == MACHINE_GPUS_MAX)
		return 0;
	more = realloc(*gpus, (*n + 1) * sizeof(*more));
	if (!more)
		return err_set(err, ERR_NOMEM, "out of memory");
	*gpus = more;
	memset(&more[*n], 0, sizeof(*more));
	memcpy(more[*n].pci, id, sizeof(id));
	look(folder, &more[*n]);
	(*n)++;
	return 0;
}

int host_gpus(const char *root, struct host_gpu **ret, size_t *count, struct err *err)
{
	char devices[PATH_MAX];
	struct host_gpu *gpus = NULL;
	struct dirent *entry;
	size_t n = 0;
	int rc = 0;
	DIR *dir;

	*ret = NULL;
	*count = 0;
	if (snprintf(devices, sizeof(devices), "%s/" DEVICES, root) >= (int)sizeof(devices))
		return err_set(err, ERR_IO, "the path of sysfs is too long");
	dir = opendir(devices);
	if (!dir)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES
			       ? 0
			       : err_set(err, ERR_IO, "cannot read %s: error %d", devices, errno);
	while (rc == 0 && (entry = readdir(dir)) != NULL)
		rc = add(devices, entry->d_name, &gpus, &n, err);
	(void)closedir(dir);
	if (rc != 0) {
		free(gpus);
		return rc;
	}
	if (n > 1)
		qsort(gpus, n, sizeof(*gpus), by_id);
	*ret = gpus;
	*count = n;
	return 0;
}

bool host_same_pci(const char *a, const char *b)
{
	size_t x = strlen(a), y = strlen(b);

	return x >= 12 && y >= 12 && strcasecmp(a + x - 12, b + y - 12) == 0;
}

bool host_has_pci(const char *root, const char *pci)
{
	char folder[PATH_MAX], id[PCI_ID_MAX];
	long vendor;

	return host_pci_id(pci, id) &&
	       snprintf(folder, sizeof(folder), "%s/" DEVICES "/%s", root, id) <
		       (int)sizeof(folder) &&
	       read_number(folder, "vendor", &vendor) && (unsigned long)vendor == NVIDIA;
}

double host_link_rate(double speed_gts, int width)
{
	/* 8 bits in 10 up to 5 GT/s, 128 in 130 up to 32, 242 bytes in 256 from 64 on */
	double share = speed_gts < 6 ? 0.8 : speed_gts < 50 ? 128.0 / 130 : 242.0 / 256;

	if (!(speed_gts > 0) || width <= 0)
		return 0;
	return speed_gts * 1e9 * share * width / 8;
}

/* ---- virtual machine ---- */

/* By the names that hypervisors give their machines; -1: there are no names. */
static int vm_by_names(const char *root)
{
	static const char *const hypervisors[] = {"QEMU", "KVM", "VMware", "VirtualBox", "innotek",
		"Xen", "Bochs", "Virtual Machine", "OpenStack", "Google Compute Engine", "HVM domU",
		"RHEV", "oVirt", "Nutanix AHV", "Apple Virtualization"};
	static const char *const files[] = {"sys_vendor", "product_name"};
	char folder[PATH_MAX], text[256];
	int found = -1;

	if (snprintf(folder, sizeof(folder), "%s/sys/class/dmi/id", root) >= (int)sizeof(folder))
		return -1;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (read_bytes(folder, files[i], text, sizeof(text)) <= 0)
			continue;
		found = 0;
		for (size_t k = 0; k < sizeof(hypervisors) / sizeof(hypervisors[0]); k++)
			if (strstr(text, hypervisors[k]))
				return 1;
	}
	return found;
}

/* By the flag that x86 hypervisors set; -1: the file has no flags. */
static int vm_by_flag(const char *root)
{
	static char const flag[] = " hypervisor";
	char text[8192], *flags, *end;

	/* the first processor is enough */
	if (read_bytes(root, "proc/cpuinfo", text, sizeof(text)) <= 0)
		return -1;
	flags = strstr(text, "\nflags");
	if (!flags)
		return -1;
	end = strchr(flags + 1, '\n');
	if (end)
		*end = '\0';
	for (; (flags = strstr(flags + 1, flag)) != NULL;)
		if (flags[sizeof(flag) - 1] == ' ' || flags[sizeof(flag) - 1] == '\0')
			return 1;
	return 0;
}

int host_is_vm(const char *root)
{
	int names = vm_by_names(root), flag = vm_by_flag(root);

	return names > flag ? names : flag;
}
