/* SPDX-License-Identifier: Apache-2.0 */
/* probe: everything that can be wrong with a GPU server, as a code for machines, a sentence and a
 * hint for people, and what is to be done. The codes are part of the report's format: they are
 * added to, never renamed. */
#ifndef PROBE_RESULT_CODES_H
#define PROBE_RESULT_CODES_H

#include <stdbool.h>

enum probe_code {
	CODE_NONE,
	/* CUDA cannot be used at all: exit status 3 */
	CODE_NO_DRIVER,
	CODE_DRIVER_TOO_OLD,
	CODE_STUB_LIBRARY,
	CODE_NO_DEVICE,
	CODE_FABRIC_NOT_READY,
	CODE_DRIVER_MISMATCH,
	CODE_COMPAT_UNSUPPORTED,
	CODE_INIT_FAILED,
	CODE_NO_RUNTIME,         /* no CUDA runtime could be loaded */
	CODE_RUNTIME_INCOMPLETE, /* a remote-GPU client's runtime without a call that is needed */
	/* one GPU */
	CODE_DEVICE_BUSY,
	CODE_NO_KERNEL_IMAGE,
	CODE_ECC_UNCORRECTABLE,
	CODE_NVLINK_ERROR,
	CODE_CONTAINED_ERROR,
	CODE_KERNEL_FAULT,
	CODE_HANG,
	CODE_WORKER_DIED,
	CODE_OUT_OF_MEMORY,
	CODE_CUDA_ERROR, /* any other error of the runtime */
	CODE_RETRIED,    /* it failed once, and not in a fresh process */
	CODE_MEMORY_ERRORS,
	CODE_COMPUTE_ERRORS,
	CODE_WORK_MISSING, /* a kernel or copy did not do all of its work */
	CODE_TOO_FAST,     /* more than its clocks and widths allow */
	CODE_SMS_MISSED,   /* not every multiprocessor was reached */
	CODE_COVERAGE,     /* too little memory could be tested */
	CODE_LOW_FREE_MEMORY,
	CODE_SHORT_ALLOCATION,
	CODE_SLOW,
	CODE_SLOWER_THAN_PEERS,
	CODE_NOT_A_NUMBER,
	CODE_LINK_ERRORS, /* data changed on their way between two GPUs */
	CODE_REMAP_PENDING,
	CODE_REMAP_FAILED,
	CODE_RETIRE_PENDING,
	CODE_RECOVERY_NEEDED, /* the driver itself asks for a reset or reboot */
	CODE_ECC_CORRECTABLE,
	CODE_THROTTLED,
	CODE_POWER_CAP, /* slow, and held back by its power limit */
	CODE_PCIE_DEGRADED,
	CODE_XID,
	CODE_MIG_MODE,
	CODE_COMPUTE_MODE,
	CODE_PERSISTENCE_OFF,
	CODE_DEBUG_VARIABLES,
	/* the server */
	CODE_GPU_MISSING,
	CODE_NAME_MISMATCH,
	CODE_MEMORY_TOO_SMALL,
	/* no verdict */
	CODE_NOT_RUN,
	CODE_INTERRUPTED,
	CODE_TIMED_OUT,
	CODE_COUNT
};

/* What to do about it; "none" where watching is enough. */
enum probe_action {
	ACTION_NONE,
	ACTION_RETRY,
	ACTION_CONFIGURE,
	ACTION_RESET,
	ACTION_REBOOT,
	ACTION_ISOLATE
};

struct code_text {
	const char *name;     /* "NO_DRIVER" */
	const char *sentence; /* what it means, without a full stop */
	const char *hint;     /* what to do, a sentence for the person in front of it */
	enum probe_action action;
};

/* Never NULL; CODE_NONE and numbers out of range have empty texts. */
const struct code_text *code_text(enum probe_code code);

/* "reset"; never NULL. */
const char *action_name(enum probe_action action);

/* Can nothing at all be done with CUDA on this machine? */
bool code_is_no_cuda(enum probe_code code);

/* How a message begins of a call that failed: the call, its number, and the name of that. Tables
 * repeat the first two words. */
#define CUDA_SAID "%s: %d (%s)"

/* Is it evidence against the GPU or server? If not, it only kept a check from running, and nothing
 * is known. */
bool code_is_fault(enum probe_code code);

/* The code for an error of the CUDA runtime, given the driver's and runtime's versions (12090
 * for 12.9; driver 0: none was found, which is how error 35 without a driver is told from 35 with
 * one that is too old). RT_SUCCESS: CODE_NONE; RT_MISSING_CALL: CODE_RUNTIME_INCOMPLETE. */
enum probe_code code_of_cuda(int error, int driver, int runtime);

#endif
