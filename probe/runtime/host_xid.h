/* SPDX-License-Identifier: Apache-2.0 */
/* probe: errors that the driver wrote into the kernel's log: "NVRM: Xid (PCI:0000:17:00): 79, …".
 */
#ifndef PROBE_RUNTIME_HOST_XID_H
#define PROBE_RUNTIME_HOST_XID_H

#include "probe/runtime/host.h"

/* What an XID says of the GPU. */
enum xid_kind {
	XID_IGNORED, /* an application's error, or one that is judged by the state of the memory's
			repairs */
	XID_NOTED,
	XID_FATAL
};

/* The next XID of the log at *at, which moves behind its line. False: no more. */
bool host_xid_next(const char **at, char pci[static PCI_ID_MAX], int *ret);

/* fatal: n numbers that take the place of the default list; NULL: the default. */
enum xid_kind host_xid_kind(int xid, const int *fatal, size_t n);

#endif
