/* SPDX-License-Identifier: Apache-2.0 */
/* probe: errors that the driver wrote into the kernel's log. */
#include "probe/runtime/host_xid.h"

#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* Errors of applications, as the Kubernetes device plugin has them; 63 and 64 are judged by the
 * remapped rows themselves. */
static const int ignored[] = {13, 31, 43, 45, 63, 64, 68, 109};
/* NVIDIA's catalogue of XIDs and Azure's health checks take a GPU out of service for: ECC errors
 * that cannot be corrected (48, 94 contained, 95 not) or come too often (92), a halt of the GPU's
 * own processors (62, 119, 120), NVLink (74), a fall off the bus (79), and a recovery that the
 * driver asks for (154). Which ones count is a setting. */
static const int default_fatal[] = {48, 62, 74, 79, 92, 94, 95, 119, 120, 154};

static bool is_among(int xid, const int *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == xid)
			return true;
	return false;
}

enum xid_kind host_xid_kind(int xid, const int *fatal, size_t n)
{
	if (fatal ? is_among(xid, fatal, n) : is_among(xid, default_fatal, COUNT(default_fatal)))
		return XID_FATAL;
	return is_among(xid, ignored, COUNT(ignored)) ? XID_IGNORED : XID_NOTED;
}

/* "0000:17:00): 79," at `at`. Lines of drivers before 2014 have no "PCI:". */
static bool read_one(const char *at, char *pci, int *ret)
{
	char id[PCI_ID_MAX] = "";
	size_t n;
	int xid = 0;

	if (strncmp(at, "PCI:", 4) == 0)
		at += 4;
	n = strcspn(at, ")\n");
	if (n >= sizeof(id) || strncmp(at + n, "): ", 3) != 0)
		return false;
	memcpy(id, at, n);
	at += n + 3;
	for (n = 0; at[n] >= '0' && at[n] <= '9' && n < 6; n++)
		xid = xid * 10 + (at[n] - '0');
	*ret = xid;
	return n > 0 && n < 6 && host_pci_id(id, pci);
}

/* 154 tells of a change of what the driver asks for; back to nothing is good news. */
static bool is_all_clear(int xid, const char *line, size_t len)
{
	static const char words[] = " to 0x0 ";

	if (xid != 154)
		return false;
	for (size_t i = 0; i + sizeof(words) - 1 <= len; i++)
		if (memcmp(line + i, words, sizeof(words) - 1) == 0)
			return true;
	return false;
}

bool host_xid_next(const char **at, char pci[static PCI_ID_MAX], int *ret)
{
	static const char mark[] = "NVRM: Xid (";
	const char *found;

	while ((found = strstr(*at, mark)) != NULL) {
		size_t len = strcspn(found, "\n");

		*at = found + len;
		if (read_one(found + sizeof(mark) - 1, pci, ret) && !is_all_clear(*ret, found, len))
			return true;
	}
	*at += strlen(*at);
	return false;
}
