/* SPDX-License-Identifier: Apache-2.0 */
/* test: what all calls of the fake CUDA runtime begin and end with: the scenario and its rules. */
#define _GNU_SOURCE
#include "test/probe/fake_cudart.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "probe/runtime/rt.h"

static struct fake_scenario scenario;
static char scenario_file[4096];
int fake_current;
static int last_error;
char fake_kernel_now[16];

_Noreturn void fake_die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)fputs("fake CUDA runtime: ", stderr);
	(void)vfprintf(stderr, fmt, args);
	(void)fputc('\n', stderr);
	va_end(args);
	_exit(97);
}

/* A test may name another file, and then has another machine. */
struct fake_scenario *fake(void)
{
	const char *file = getenv("GPUPROBE_FAKE");

	if (!file)
		fake_die("GPUPROBE_FAKE names no scenario");
	if (strcmp(file, scenario_file) == 0)
		return &scenario;
	for (int i = 0; i < scenario.n_devices; i++)
		fake_free_all(&scenario.devices[i]);
	fake_read(&scenario, file);
	(void)snprintf(scenario_file, sizeof(scenario_file), "%s", file);
	fake_current = 0;
	last_error = 0;
	return &scenario;
}

struct fake_device *fake_device_at(int number)
{
	struct fake_scenario *s = fake();

	return number < 0 || number >= s->n_visible ? NULL : &s->devices[s->visible[number]];
}

static void sleep_for(double seconds)
{
	struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};

	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
}

/* What one rule does. Returns its error. */
static int apply(struct fake_rule *rule, struct fake_device *d)
{
	if (rule->sleep_s > 0)
		sleep_for(rule->sleep_s);
	while (rule->hang)
		sleep_for(3600);
	if (rule->signal)
		(void)kill(getpid(), rule->signal);
	if (rule->exit >= 0)
		_exit(rule->exit);
	if (rule->sticky && d)
		d->sticky = rule->error;
	return rule->error;
}

/* Which of the processes that come to the rule is this one? Each leaves a file beside the scenario.
 */
static int number_of(const struct fake_scenario *s, struct fake_rule *rule)
{
	char path[sizeof(scenario_file) + 64];

	for (int n = 1; rule->number == 0; n++) {
		int fd;

		(void)snprintf(path, sizeof(path), "%s.rule%d.%d", scenario_file,
			(int)(rule - s->rules), n);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0)
			rule->number = n;
		else if (errno != EEXIST)
			fake_die("%s: cannot be made", path);
		if (fd >= 0)
			(void)close(fd);
	}
	return rule->number;
}

/* The rules for this use of a call on the device (NULL: of none). */
int fake_rules(const char *call, struct fake_device *d)
{
	struct fake_scenario *s = fake();
	int error = 0;

	for (int i = 0; i < s->n_rules; i++) {
		struct fake_rule *rule = &s->rules[i];

		if (strcmp(rule->call, call) != 0 || (rule->worker && !s->worker) ||
			(rule->device >= 0 && (!d || d != &s->devices[rule->device])) ||
			(rule->kernel[0] && strcmp(rule->kernel, fake_kernel_now) != 0))
			continue;
		if (rule->process && rule->process != number_of(s, rule))
			continue;
		rule->used++;
		if ((rule->use == 0 || rule->use == rule->used) && error == 0)
			error = apply(rule, d);
	}
	return error;
}

/* Why there is no device to be had at all. */
int fake_environment(void)
{
	struct fake_scenario *s = fake();

	if (s->init)
		return s->init;
	if (s->driver / 1000 < s->runtime / 1000)
		return RT_INSUFFICIENT_DRIVER;
	return s->n_visible > 0 ? 0 : RT_NO_DEVICE;
}

int fake_done(int error)
{
	if (error)
		last_error = error;
	return error;
}

/* Begin a call on the current device: 0 and *ret, or the error. */
int fake_begin(const char *call, struct fake_device **ret)
{
	int error = fake_environment();

	*ret = fake_device_at(fake_current);
	if (!error && !*ret)
		error = RT_INVALID_DEVICE;
	if (!error)
		error = fake_rules(call, *ret);
	if (!error)
		error = (*ret)->sticky;
	return fake_done(error);
}

/* A call on a device that is named. */
int fake_begin_at(const char *call, int device, struct fake_device **ret)
{
	int error = fake_environment();

	*ret = fake_device_at(device);
	if (!error && !*ret)
		error = RT_INVALID_DEVICE;
	return fake_done(error ? error : fake_rules(call, *ret));
}

const char *cudaGetErrorName(int error)
{
	static const struct {
		int error;
		const char *name;
	} names[] = {{0, "cudaSuccess"}, {1, "cudaErrorInvalidValue"},
		{2, "cudaErrorMemoryAllocation"}, {3, "cudaErrorInitializationError"},
		{34, "cudaErrorStubLibrary"}, {35, "cudaErrorInsufficientDriver"},
		{46, "cudaErrorDevicesUnavailable"}, {98, "cudaErrorInvalidDeviceFunction"},
		{100, "cudaErrorNoDevice"}, {101, "cudaErrorInvalidDevice"},
		{209, "cudaErrorNoKernelImageForDevice"}, {214, "cudaErrorECCUncorrectable"},
		{217, "cudaErrorPeerAccessUnsupported"}, {704, "cudaErrorPeerAccessAlreadyEnabled"},
		{220, "cudaErrorNvlinkUncorrectable"}, {500, "cudaErrorSymbolNotFound"},
		{600, "cudaErrorNotReady"}, {700, "cudaErrorIllegalAddress"},
		{702, "cudaErrorLaunchTimeout"}, {719, "cudaErrorLaunchFailure"},
		{800, "cudaErrorNotPermitted"}, {802, "cudaErrorSystemNotReady"},
		{803, "cudaErrorSystemDriverMismatch"},
		{804, "cudaErrorCompatNotSupportedOnDevice"}, {999, "cudaErrorUnknown"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i].error == error)
			return names[i].name;
	}
	return "unrecognized error code";
}

int cudaGetLastError(void)
{
	int error = last_error;

	last_error = 0;
	return error;
}
