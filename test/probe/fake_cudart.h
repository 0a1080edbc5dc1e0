/* SPDX-License-Identifier: Apache-2.0 */
/* test: a CUDA runtime that has no GPU. README.md has the format of its scenarios. One thread at a
 * time. */
#ifndef TEST_PROBE_FAKE_CUDART_H
#define TEST_PROBE_FAKE_CUDART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/kernels/kernels.h"

#define FAKE_DEVICES_MAX 64
#define FAKE_RULES_MAX 64
#define FAKE_FLIPS_MAX 32

/* What a scenario says of a call. */
struct fake_rule {
	char call[48], kernel[16];
	int device;  /* the scenario's index; -1: any */
	int64_t use; /* the n-th use alone, from 1 on; 0: every one */
	bool worker; /* only in processes started with --worker */
	int process; /* only in the n-th process that comes to it, from 1 on; 0: in all */
	int number;  /* …which of them is this one? 0: it has not come to it */
	int error;   /* 0: none */
	bool sticky; /* from then on everything on this device fails with it */
	double sleep_s;
	bool hang;
	int signal, exit; /* end the process so; exit -1: do not */
	int64_t used;
};

enum fake_flip_kind { FLIP_ONCE, FLIP_TRANSIENT, FLIP_STUCK_0, FLIP_STUCK_1 };

/* A faulty bit of a device's memory. */
struct fake_flip {
	uint64_t cell; /* from the beginning of its memory */
	unsigned bit;  /* 0 … 127 */
	enum fake_flip_kind kind;
	int64_t left; /* how often it still happens */
	bool in;      /* FLIP_ONCE: the cell holds it now */
};

/* A multiprocessor that computes wrong. */
struct fake_wrong {
	int sm; /* -1: none */
	char kernel[16];
	int64_t lane; /* within its block; -1: all */
	uint64_t mask;
	int64_t left; /* launches that it still spoils; -1: all */
};

/* Work that is called done, and is not. */
struct fake_idle {
	char kernel[16]; /* "": none */
	int sm; /* -1: on all of them; gp_fill, gp_check and gp_copy do all that they are to do, but
		   do not count it */
	int64_t left;   /* launches or copies; -1: all */
	uint64_t bytes; /* copies of this size alone; 0: of 1 MiB and more */
};

/* A bit that changes on its way to another device. */
struct fake_peer_wrong {
	int peer; /* the scenario's index; -1: any */
	uint64_t offset;
	unsigned bit; /* of its 16-byte cell */
	int64_t left; /* copies that it still changes; -1: all; 0: none */
};

/* Memory of a device that was handed out. */
struct fake_memory {
	char *at;
	size_t bytes;
	uint64_t physical; /* where in the device's memory */
	/* What was filled by a kernel and is too large to be kept: cells from `from` on hold the
	 * pattern of cell `first` and on. */
	bool symbolic;
	uint64_t from, cells, first, seed;
	struct kernel_cell flip;
	/* cells of it that were written over since, by number within this memory */
	uint64_t *written;
	size_t n_written;
	struct fake_memory *next;
};

struct fake_device {
	char name[128], uuid[64], pci[20];
	char says[64]; /* the UUID that the runtime gives it; "": its own */
	int major, minor, sms, clock_khz, memory_clock_khz, bus_bits, l2_bytes, ecc, compute_mode;
	uint64_t total, free, allocatable; /* bytes */
	bool peers;
	double link;       /* bytes per second, either way */
	double factor[16]; /* by enum fake_speed */
	double clears;     /* bytes per second of freed memory that are cleared; 0: at once */
	int missing_sm;    /* does no work; -1: none */
	char nan_time[16]; /* a kernel whose time is no number */
	struct fake_flip flips[FAKE_FLIPS_MAX];
	size_t n_flips;
	struct fake_wrong wrong;
	struct fake_peer_wrong peer_wrong;
	struct fake_idle idle;
	/* while it runs */
	struct fake_memory *memory;
	uint64_t used;
	int sticky;
	uint64_t peers_on; /* peer access was asked for, by the scenario's index */
	double now_s;      /* its clock */
	double cleared_s;  /* when all freed memory is; by the host's clock: host_s */
	double host_s;
	int64_t nan_launches, launches;
};

enum fake_speed {
	SPEED_READ,
	SPEED_COPY,
	SPEED_FILL,
	SPEED_CHECK,
	SPEED_FMA32,
	SPEED_FMA64,
	SPEED_MMA16,
	SPEED_H2D,
	SPEED_D2H,
	SPEED_P2P,
	SPEED_COUNT
};

struct fake_scenario {
	int driver, runtime; /* 12090 */
	int init;            /* what every call on devices answers; 0 */
	double launch_s;     /* of each kernel */
	struct fake_device devices[FAKE_DEVICES_MAX];
	int n_devices;
	struct fake_rule rules[FAKE_RULES_MAX];
	int n_rules;
	/* CUDA_VISIBLE_DEVICES: indices of devices */
	int visible[FAKE_DEVICES_MAX];
	int n_visible;
	bool worker;
};

/* The scenario that GPUPROBE_FAKE names, read at the first call that sees this name. A scenario
 * that cannot be read ends the process with status 97. */
struct fake_scenario *fake(void);

/* Read it (fake_scenario.c). */
void fake_read(struct fake_scenario *s, const char *file);

/* Say what is wrong with the test and end the process. */
_Noreturn void fake_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Memory (fake_memory.c). All give an error number of the runtime. */
int fake_alloc(struct fake_device *d, void **at, size_t bytes);
int fake_free(struct fake_device *d, void *at);
void fake_free_all(struct fake_device *d);
/* What `at` lies in; NULL: nothing of this device. */
struct fake_memory *fake_find(struct fake_device *d, const void *at);
/* Before the host reads or writes so many bytes there. */
void fake_host_reads(struct fake_device *d, const void *at, size_t bytes);
void fake_host_writes(struct fake_device *d, const void *at, size_t bytes);
/* From one device to another, with what its memory and the way do to them. */
void fake_send(struct fake_device *from, const void *source, struct fake_device *to, void *target,
	size_t bytes);
void fake_fill(struct fake_device *d, void *at, uint64_t first, uint64_t cells, uint64_t seed,
	struct kernel_cell flip);
void fake_check(struct fake_device *d, void *at, uint64_t first, uint64_t cells, uint64_t seed,
	struct kernel_cell flip, struct kernel_findings *out);
/* Cells of one allocation to another of the same device. */
void fake_copy(struct fake_device *d, void *to, void *from, uint64_t cells);

/* Note a wrong cell as the kernels do. */
void fake_report(struct kernel_findings *out, uint64_t cell, struct kernel_cell expected,
	struct kernel_cell got, struct kernel_cell again);

/* Run a kernel; args as cudaLaunchKernel has them (fake_kernels.c). An error number of the runtime.
 */
int fake_launch(struct fake_device *d, const char *name, unsigned blocks, void **args);
/* Its name, which lives on; NULL: there is none. */
const char *fake_kernel(const char *name);
double fake_peak_memory(const struct fake_device *d);
/* The share of its speed that work of a kind has now. */
double fake_share(const struct fake_device *d, enum fake_speed kind);

/* What calls begin and end with (fake_core.c). */
extern int fake_current;         /* device, by its visible number */
extern char fake_kernel_now[16]; /* the kernel of this or the last launch, for rules */
/* A visible device, or NULL. */
struct fake_device *fake_device_at(int number);
/* What the scenario's rules say to this use of a call on the device (NULL: of none). */
int fake_rules(const char *call, struct fake_device *d);
/* Why there is no device to be had at all, or 0. */
int fake_environment(void);
/* Begin a call on the current device, or one that is named: 0 and *ret, or the error. */
int fake_begin(const char *call, struct fake_device **ret);
int fake_begin_at(const char *call, int device, struct fake_device **ret);
/* Remember an error for cudaGetLastError, and return it. */
int fake_done(int error);

#endif
