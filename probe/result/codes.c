/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the words for everything that can be wrong. The plain word comes first; what CUDA calls it
 * stands in the report beside. */
#include "probe/result/codes.h"

#include "probe/runtime/rt.h"

static const struct code_text texts[CODE_COUNT] = {
	[CODE_NONE] = {"", "", "", ACTION_NONE},
	[CODE_NO_DRIVER] = {"NO_DRIVER", "no NVIDIA driver library was found",
		"On a GPU server install the driver; in a pod the command is not wrapped, or the "
		"container has "
		"no GPU.",
		ACTION_CONFIGURE},
	[CODE_DRIVER_TOO_OLD] = {"DRIVER_TOO_OLD",
		"the driver is older than the CUDA runtime of this program needs",
		"Install a newer driver (CUDA 13 needs 580, CUDA 12 needs 525, CUDA 11 needs 450), "
		"or use the "
		"build for CUDA 12.",
		ACTION_CONFIGURE},
	[CODE_STUB_LIBRARY] = {"STUB_LIBRARY",
		"the driver library that was found is the toolkit's stub, which is for linking "
		"alone",
		"Take the toolkit's folder lib64/stubs off the library path.", ACTION_CONFIGURE},
	[CODE_NO_DEVICE] = {"NO_DEVICE", "the driver is loaded, but it shows no GPU",
		"Look at CUDA_VISIBLE_DEVICES and at what the container was given; on the server "
		"see whether "
		"`lspci` lists the cards.",
		ACTION_CONFIGURE},
	[CODE_FABRIC_NOT_READY] = {"FABRIC_NOT_READY",
		"the GPUs are linked by NVSwitch, and their fabric is not up",
		"Start the service nvidia-fabricmanager, of the driver's very version.",
		ACTION_CONFIGURE},
	[CODE_DRIVER_MISMATCH] = {"DRIVER_MISMATCH",
		"the driver's library and its kernel module are of different versions",
		"Reload the kernel module or reboot the server: the driver was updated under it.",
		ACTION_REBOOT},
	[CODE_COMPAT_UNSUPPORTED] = {"COMPAT_UNSUPPORTED",
		"a CUDA compatibility library is loaded that this GPU does not support",
		"Take the cuda-compat folder off the library path, or update the server's driver.",
		ACTION_CONFIGURE},
	[CODE_INIT_FAILED] = {"INIT_FAILED", "the driver is there, but it did not start",
		"See that /dev/nvidia* and /dev/nvidia-uvm exist and may be opened here (device "
		"nodes, module "
		"nvidia_uvm, the container's device rules), and look into the kernel's log.",
		ACTION_CONFIGURE},
	[CODE_NO_RUNTIME] = {"NO_RUNTIME", "no CUDA runtime could be loaded",
		"Look at --cudart, or let the library path show libcudart.so.12; `gpuprobe` alone "
		"has one of its own.",
		ACTION_CONFIGURE},
	[CODE_RUNTIME_INCOMPLETE] = {"RUNTIME_INCOMPLETE",
		"the CUDA runtime that answers lacks a call that is needed",
		"A remote-GPU client that replaces the runtime may not forward it: `gpuprobe list` "
		"still works, "
		"as do clients that replace the driver.",
		ACTION_CONFIGURE},
	[CODE_DEVICE_BUSY] = {"DEVICE_BUSY",
		"the GPU is in use, or its compute mode admits no further process",
		"End what runs on it, or set the compute mode to default (`nvidia-smi -c 0`).",
		ACTION_RETRY},
	[CODE_NO_KERNEL_IMAGE] = {"NO_KERNEL_IMAGE",
		"this build holds no kernels for the architecture of this GPU",
		"`gpuprobe --version` lists its architectures; GPUs before Maxwell (K80 and older) "
		"are out of "
		"its reach.",
		ACTION_CONFIGURE},
	[CODE_ECC_UNCORRECTABLE] = {"ECC_UNCORRECTABLE",
		"the GPU's memory had an error that ECC could not correct",
		"Drain the server and reset the GPU; when it comes again, have the card replaced.",
		ACTION_RESET},
	[CODE_NVLINK_ERROR] = {"NVLINK_ERROR", "a link between the GPUs failed",
		"Drain the server and reset all its GPUs; when it comes again, have it repaired.",
		ACTION_RESET},
	[CODE_CONTAINED_ERROR] = {"CONTAINED_ERROR",
		"the GPU met a hardware error and confined it to one process",
		"Drain the server and reset the GPU.", ACTION_RESET},
	[CODE_KERNEL_FAULT] = {"KERNEL_FAULT",
		"a kernel that is known to be right faulted on this GPU",
		"Suspect the card or the driver: look for XID lines in the kernel's log, then "
		"reset the GPU.",
		ACTION_RESET},
	[CODE_HANG] = {"HANG", "the GPU or the server did not answer in time",
		"Drain the server, then reset the GPU or reboot; a process that hangs in the "
		"driver cannot be "
		"killed.",
		ACTION_REBOOT},
	[CODE_WORKER_DIED] = {"WORKER_DIED", "the process that tested this GPU died",
		"Look into the kernel's log: out of memory, or a crash in the driver; then run it "
		"again.",
		ACTION_RETRY},
	[CODE_OUT_OF_MEMORY] = {"OUT_OF_MEMORY", "the GPU refused memory that the test needs",
		"See what else holds memory on it (`nvidia-smi`), or test less with --memory.",
		ACTION_RETRY},
	[CODE_CUDA_ERROR] = {"CUDA_ERROR", "a CUDA call failed in an unexpected way",
		"Run it once more; when it stays, look for XID lines in the kernel's log.",
		ACTION_RETRY},
	[CODE_RETRIED] = {"RETRIED", "a check failed once, and not in a fresh process",
		"Another process on the GPU may have caused it: look for XID lines in the kernel's "
		"log. When it comes again, drain the server and reset the GPU.",
		ACTION_RETRY},
	[CODE_MEMORY_ERRORS] = {"MEMORY_ERRORS",
		"the GPU's memory did not give back what was written",
		"Take the GPU out of the pool; have the card replaced.", ACTION_ISOLATE},
	[CODE_COMPUTE_ERRORS] = {"COMPUTE_ERRORS", "the GPU computed wrong results",
		"Take the GPU out of the pool; have the card replaced.", ACTION_ISOLATE},
	[CODE_WORK_MISSING] = {"WORK_MISSING",
		"a kernel or a copy was called done, and did not do all of its work",
		"In a pod suspect the remote-GPU client first; on a server take the GPU out of the "
		"pool.",
		ACTION_ISOLATE},
	[CODE_TOO_FAST] = {"TOO_FAST",
		"a rate is higher than the GPU's own clocks and widths allow",
		"What was timed was not done, or the GPU misstates its clocks: in a pod suspect "
		"the remote-GPU client or the virtual GPU.",
		ACTION_ISOLATE},
	[CODE_SMS_MISSED] = {"SMS_MISSED", "not every multiprocessor of the GPU was reached",
		"Run it again on an idle GPU.", ACTION_RETRY},
	[CODE_COVERAGE] = {"COVERAGE", "too little of the GPU's memory could be tested",
		"Free the GPU's memory, then run it again.", ACTION_RETRY},
	[CODE_LOW_FREE_MEMORY] = {"LOW_FREE_MEMORY", "something else holds memory of this GPU",
		"Find what was left running (`nvidia-smi`), and end it.", ACTION_CONFIGURE},
	[CODE_SHORT_ALLOCATION] = {"SHORT_ALLOCATION",
		"the GPU says memory is free that it does not give",
		"Run it again on an idle GPU; when it stays, reset the GPU.", ACTION_RESET},
	[CODE_SLOW] = {"SLOW", "the GPU is slower than its kind should be",
		"Look at temperature, power limit, clocks and the PCIe link.", ACTION_ISOLATE},
	[CODE_SLOWER_THAN_PEERS] = {"SLOWER_THAN_PEERS",
		"the GPU is slower than others of its model in this server",
		"Look at temperature, power limit, clocks and the PCIe link.", ACTION_ISOLATE},
	[CODE_NOT_A_NUMBER] = {"NOT_A_NUMBER", "a measurement or a result is not a number",
		"Suspect the card: a healthy GPU cannot cause it.", ACTION_ISOLATE},
	[CODE_LINK_ERRORS] = {"LINK_ERRORS",
		"data changed on their way between GPUs, or between GPU and host",
		"Between cards on PCIe see that ACS is off and the IOMMU does not translate "
		"between them; else reseat the card, or the bridge between the GPUs. Do not use "
		"them until it passes.",
		ACTION_ISOLATE},
	[CODE_REMAP_PENDING] = {"REMAP_PENDING",
		"rows of the GPU's memory wait to be replaced by spare ones",
		"Drain the server and reset the GPU.", ACTION_RESET},
	[CODE_REMAP_FAILED] = {"REMAP_FAILED",
		"a bad row of the GPU's memory could not be replaced: the spare ones are used up",
		"Take the GPU out of the pool; have the card replaced.", ACTION_ISOLATE},
	[CODE_RETIRE_PENDING] = {"RETIRE_PENDING",
		"bad pages of the GPU's memory wait to be retired",
		"Drain the server and reset the GPU.", ACTION_RESET},
	[CODE_RECOVERY_NEEDED] = {"RECOVERY_NEEDED", "the driver asks for this GPU to be recovered",
		"Drain the server, then do what the message says.", ACTION_RESET},
	[CODE_ECC_CORRECTABLE] = {"ECC_CORRECTABLE",
		"ECC corrected errors of the memory in this run",
		"Watch it; one of them alone is no fault.", ACTION_NONE},
	[CODE_THROTTLED] = {"THROTTLED", "heat or power supply slowed the GPU down under load",
		"Look at cooling, dust, power cables and the power supply.", ACTION_ISOLATE},
	[CODE_POWER_CAP] = {"POWER_CAP", "the GPU's power limit slowed its arithmetic down",
		"Nothing is broken. When the limit was lowered, `nvidia-smi -pl` raises it; a "
		"small board cannot hold its clocks under such a load.",
		ACTION_NONE},
	[CODE_PCIE_DEGRADED] = {"PCIE_DEGRADED",
		"the GPU's PCIe link is slower than card and slot allow",
		"Reseat the card or its riser, then look at the slot's settings in the firmware.",
		ACTION_ISOLATE},
	[CODE_XID] = {"XID", "the driver logged an error of this GPU",
		"Look up the XID number in NVIDIA's catalogue; drain and reset the GPU.",
		ACTION_RESET},
	[CODE_MIG_MODE] = {"MIG_MODE", "the GPU is divided into instances (MIG)",
		"Each instance counts as a GPU of its own: make some, or switch MIG off when the "
		"pool wants "
		"whole ones.",
		ACTION_CONFIGURE},
	[CODE_COMPUTE_MODE] = {"COMPUTE_MODE", "the GPU's compute mode keeps processes out",
		"Set it to default: `nvidia-smi -c 0`.", ACTION_CONFIGURE},
	[CODE_PERSISTENCE_OFF] = {"PERSISTENCE_OFF",
		"the driver unloads when nobody uses the GPU, so each start takes seconds",
		"Run the service nvidia-persistenced.", ACTION_CONFIGURE},
	[CODE_DEBUG_VARIABLES] = {"DEBUG_VARIABLES",
		"variables in the environment slow CUDA down or load code into it",
		"Unset them for servers in the pool.", ACTION_CONFIGURE},
	[CODE_GPU_MISSING] = {"GPU_MISSING", "a GPU that should be there is not",
		"It may have fallen off the bus: look for XID 79 in the kernel's log, then power "
		"the server off "
		"and on.",
		ACTION_REBOOT},
	[CODE_NAME_MISMATCH] = {"NAME_MISMATCH", "the GPU is of another model than was expected",
		"Correct --expect-name, or the pool's list of GPUs.", ACTION_CONFIGURE},
	[CODE_MEMORY_TOO_SMALL] = {"MEMORY_TOO_SMALL", "the GPU has less memory than was asked for",
		"Correct --min-memory, or the pool's list of GPUs.", ACTION_CONFIGURE},
	[CODE_NOT_RUN] = {"NOT_RUN", "a check that is required did not run",
		"Nothing is known of this GPU without it: run it again.", ACTION_RETRY},
	[CODE_INTERRUPTED] = {"INTERRUPTED", "the run was ended early", "Run it again to the end.",
		ACTION_RETRY},
	[CODE_TIMED_OUT] = {"TIMED_OUT", "the run took longer than it was given",
		"Run it again with a longer --timeout.", ACTION_RETRY},
};

static const char *const actions[] = {
	[ACTION_NONE] = "none",
	[ACTION_RETRY] = "retry",
	[ACTION_CONFIGURE] = "configure",
	[ACTION_RESET] = "reset",
	[ACTION_REBOOT] = "reboot",
	[ACTION_ISOLATE] = "isolate",
};

const struct code_text *code_text(enum probe_code code)
{
	return &texts[(unsigned)code < CODE_COUNT ? code : CODE_NONE];
}

const char *action_name(enum probe_action action)
{
	return actions[(unsigned)action <= ACTION_ISOLATE ? action : ACTION_NONE];
}

bool code_is_no_cuda(enum probe_code code)
{
	return code >= CODE_NO_DRIVER && code <= CODE_RUNTIME_INCOMPLETE;
}

/* A list of what is known to be no evidence: a code that is added without a thought counts against
 * the GPU. */
bool code_is_fault(enum probe_code code)
{
	static const enum probe_code harmless[] = {CODE_NONE, CODE_DEVICE_BUSY,
		CODE_NO_KERNEL_IMAGE, CODE_WORKER_DIED, CODE_OUT_OF_MEMORY, CODE_CUDA_ERROR,
		CODE_SMS_MISSED, CODE_COVERAGE, CODE_NOT_RUN, CODE_INTERRUPTED, CODE_TIMED_OUT};

	if (code_is_no_cuda(code))
		return false;
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		if (code == harmless[i])
			return false;
	return true;
}

/* Errors by which a runtime says that it could not start. */
static enum probe_code code_of_start(int error, int driver, int runtime)
{
	if (driver <= 0)
		return CODE_NO_DRIVER;
	if (error == RT_INSUFFICIENT_DRIVER && driver < runtime)
		return CODE_DRIVER_TOO_OLD;
	return error == RT_NO_DEVICE ? CODE_NO_DEVICE : CODE_INIT_FAILED;
}

enum probe_code code_of_cuda(int error, int driver, int runtime)
{
	switch (error) {
	case RT_SUCCESS:
		return CODE_NONE;
	case RT_MISSING_CALL:
		return CODE_RUNTIME_INCOMPLETE;
	case RT_INSUFFICIENT_DRIVER:
	case RT_NO_DEVICE:
	case RT_INITIALIZATION:
	case RT_UNKNOWN:
	case 304: /* operating system call failed */
		return code_of_start(error, driver, runtime);
	case 36: /* a call that needs a newer driver */
		return CODE_DRIVER_TOO_OLD;
	case RT_STUB_LIBRARY:
		return CODE_STUB_LIBRARY;
	case RT_SYSTEM_NOT_READY:
		return CODE_FABRIC_NOT_READY;
	case RT_DRIVER_MISMATCH:
		return CODE_DRIVER_MISMATCH;
	case RT_COMPAT_UNSUPPORTED:
		return CODE_COMPAT_UNSUPPORTED;
	case RT_INVALID_DEVICE: /* it was there when devices were counted */
		return CODE_GPU_MISSING;
	case RT_DEVICE_UNAVAILABLE:
		return CODE_DEVICE_BUSY;
	case RT_NO_KERNEL_IMAGE:
	case 221: /* no compiler for PTX */
	case 222: /* PTX of a newer version */
	case 223: /* compiling PTX is switched off */
		return CODE_NO_KERNEL_IMAGE;
	case RT_ECC_UNCORRECTABLE:
		return CODE_ECC_UNCORRECTABLE;
	case 220:
		return CODE_NVLINK_ERROR;
	case 226:
		return CODE_CONTAINED_ERROR;
	case RT_LAUNCH_TIMEOUT:
		return CODE_HANG;
	case RT_OUT_OF_MEMORY:
		return CODE_OUT_OF_MEMORY;
	default:
		/* 700: illegal address; 714 … 719: stack, instruction, alignment, address space,
		 * counter, launch */
		return error == 700 || (error >= 714 && error <= 719) ? CODE_KERNEL_FAULT
								      : CODE_CUDA_ERROR;
	}
}
