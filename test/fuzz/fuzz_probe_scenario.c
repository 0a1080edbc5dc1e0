/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: any bytes as a scenario of the fake CUDA runtime. One that is accepted
 * is what the fake can play: its numbers within bounds, its texts ended, its
 * rules with a call; one that is refused says why. A misspelling that counted
 * for nothing would let a test pass by it. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/fuzz/require.h"
#include "test/probe/fake_cudart.h"

static jmp_buf refused;
static char why[512];
static struct fake_scenario scenario;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where the fake ends its process. */
_Noreturn void fake_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	longjmp(refused, 1);
}

static bool is_text(const char *at, size_t size)
{
	return memchr(at, '\0', size) != NULL;
}

static void check_device(const struct fake_device *d)
{
	REQUIRE(is_text(d->name, sizeof(d->name)) && is_text(d->uuid, sizeof(d->uuid)) &&
		is_text(d->pci, sizeof(d->pci)) && is_text(d->nan_time, sizeof(d->nan_time)));
	REQUIRE(d->uuid[0] && d->pci[0] && d->sms > 0 && d->missing_sm >= -1);
	REQUIRE(d->clock_khz >= 0 && d->memory_clock_khz >= 0 && d->bus_bits >= 0 &&
		d->l2_bytes >= 0 && d->ecc >= 0 && d->compute_mode >= 0);
	REQUIRE(d->total < 1ull << 50 && d->free < 1ull << 50 && d->allocatable < 1ull << 50);
	REQUIRE(isfinite(d->link) && d->link >= 0);
	for (int i = 0; i < SPEED_COUNT; i++)
		REQUIRE(isfinite(d->factor[i]) && d->factor[i] >= 0);
	REQUIRE(d->n_flips <= FAKE_FLIPS_MAX);
	for (size_t i = 0; i < d->n_flips; i++)
		REQUIRE(d->flips[i].bit < 128 && d->flips[i].kind <= FLIP_STUCK_1 &&
			d->flips[i].left >= 0);
	REQUIRE(is_text(d->wrong.kernel, sizeof(d->wrong.kernel)) && d->wrong.sm >= -1 &&
		d->wrong.lane >= -1 && d->wrong.left >= -1);
}

static void check_rule(const struct fake_rule *r)
{
	REQUIRE(r->call[0] && is_text(r->call, sizeof(r->call)) &&
		is_text(r->kernel, sizeof(r->kernel)));
	REQUIRE(r->device >= -1 && r->use >= 0 && r->error >= 0 && r->signal >= 0 && r->exit >= -1);
	REQUIRE(isfinite(r->sleep_s) && r->sleep_s >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char name[32];

	if (fd < 0) {
		fd = memfd_create("scenario", MFD_CLOEXEC);
		REQUIRE(fd >= 0);
		(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	}
	REQUIRE(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	why[0] = '\0';
	if (setjmp(refused)) {
		REQUIRE(why[0]);
		return 0;
	}
	fake_read(&scenario, name);
	REQUIRE(scenario.n_devices >= 0 && scenario.n_devices <= FAKE_DEVICES_MAX);
	REQUIRE(scenario.n_rules >= 0 && scenario.n_rules <= FAKE_RULES_MAX);
	REQUIRE(scenario.n_visible == scenario.n_devices);
	REQUIRE(scenario.driver >= 0 && scenario.runtime >= 0 && scenario.init >= 0 &&
		isfinite(scenario.launch_s) && scenario.launch_s >= 0);
	for (int i = 0; i < scenario.n_devices; i++)
		check_device(&scenario.devices[i]);
	for (int i = 0; i < scenario.n_rules; i++)
		check_rule(&scenario.rules[i]);
	return 0;
}
