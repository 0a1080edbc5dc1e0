/* SPDX-License-Identifier: Apache-2.0 */
/* edge: /proc/self/stat and its neighbours as metrics with the names that every exporter uses. */
#include "webhook/edge/metrics/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/metric.h"
#include "base/text.h"

/* Fields of /proc/self/stat behind the name in brackets, the state being the first (proc(5)). */
enum { UTIME = 11, STIME = 12, THREADS = 17, START = 19, VSIZE = 20, RSS = 21, FIELDS = 22 };

static void add(struct buf *out, const char *name, const char *help, enum metric_type type,
	uint64_t value, int64_t scale)
{
	metric_head(out, name, help, type);
	metric_sample(out, name, NULL, 0, value > INT64_MAX ? INT64_MAX : (int64_t)value, scale);
}

/* A small file of /proc into text, NUL-terminated. */
static bool read_small(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	if (fd >= 0) {
		n = read(fd, text, size - 1);
		(void)close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static bool read_stat(uint64_t fields[FIELDS])
{
	char text[1024];
	struct slice rest, word;
	const char *at;

	if (!read_small("/proc/self/stat", text, sizeof(text)))
		return false;
	/* The name may hold blanks and brackets. */
	at = strrchr(text, ')');
	if (!at)
		return false;
	rest = slice_of(at + 1);
	for (size_t i = 0; i < FIELDS; i++) {
		fields[i] = 0;
		if (!text_word(&rest, &word))
			return false;
		/* Letters and negative numbers are none of ours. */
		(void)text_u64(word, UINT64_MAX, &fields[i]);
	}
	return true;
}

static int64_t clock_cs(clockid_t id)
{
	struct timespec t;

	(void)clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 100 + t.tv_nsec / 10000000;
}

/* When the machine started, hundredths of a second since 1970: asked once, so that the answer stays
 * the same. */
static int64_t boot_cs(void)
{
	static _Atomic int64_t kept;
	int64_t was = 0, now = clock_cs(CLOCK_REALTIME) - clock_cs(CLOCK_BOOTTIME);

	return atomic_compare_exchange_strong(&kept, &was, now) ? now : was;
}

static uint64_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		(void)closedir(dir);
	/* ".", ".." and the folder itself */
	return n > 3 ? n - 3 : 0;
}

void process_metrics(struct buf *out)
{
	uint64_t f[FIELDS], hz = (uint64_t)sysconf(_SC_CLK_TCK);
	struct rlimit limit;

	if (read_stat(f)) {
		add(out, "process_cpu_seconds_total", "CPU time of this process.", METRIC_COUNTER,
			(f[UTIME] + f[STIME]) * 100 / hz, 100);
		add(out, "process_resident_memory_bytes", "Memory that is resident.", METRIC_GAUGE,
			f[RSS] * (uint64_t)sysconf(_SC_PAGESIZE), 1);
		add(out, "process_virtual_memory_bytes", "Address space that is mapped.",
			METRIC_GAUGE, f[VSIZE], 1);
		add(out, "process_threads", "Threads.", METRIC_GAUGE, f[THREADS], 1);
		add(out, "process_start_time_seconds", "Start of this process, seconds since 1970.",
			METRIC_GAUGE, (uint64_t)boot_cs() + f[START] * 100 / hz, 100);
	}
	add(out, "process_open_fds", "Open file descriptors.", METRIC_GAUGE, count_fds(), 1);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		add(out, "process_max_fds", "Most file descriptors that may be open.", METRIC_GAUGE,
			limit.rlim_cur, 1);
}
