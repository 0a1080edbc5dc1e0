/* SPDX-License-Identifier: Apache-2.0 */
/* probe: where reports and progress go. */
#define _GNU_SOURCE
#include "probe/show/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"

#define PATH_LONGEST 4096
#define BAR 18

static int failed(const char *file, struct err *err)
{
	return err_set(err, ERR_IO, "%s: %s", strcmp(file, "-") == 0 ? "standard output" : file,
		strerrordesc_np(errno));
}

/* A device or pipe is written to as it is; a regular file is replaced. */
static bool is_special(const char *file)
{
	struct stat st;

	return stat(file, &st) == 0 && !S_ISREG(st.st_mode);
}

static int beside(const char *file, char *ret, struct err *err)
{
	int n = snprintf(ret, PATH_LONGEST, "%s.%ld.new", file, (long)getpid());

	return n > 0 && n < PATH_LONGEST ? 0
					 : err_set(err, ERR_IO, "%.80s…: too long a path", file);
}

int output_can(const char *file, struct err *err)
{
	char other[PATH_LONGEST];
	int fd;

	if (strcmp(file, "-") == 0)
		return 0; /* output_guard() has looked */
	if (is_special(file)) {
		fd = open(file, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			return failed(file, err);
		(void)close(fd);
		return 0;
	}
	if (beside(file, other, err) != 0)
		return ERR_IO;
	fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return failed(file, err);
	(void)close(fd);
	(void)unlink(other);
	return 0;
}

int output_file(const char *file, const struct buf *text, struct err *err)
{
	char other[PATH_LONGEST];
	int fd, rc;

	if (text->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (strcmp(file, "-") == 0)
		return files_write(STDOUT_FILENO, buf_as_slice(text)) == 0 ? 0 : failed(file, err);
	if (is_special(file)) {
		fd = open(file, O_WRONLY | O_CLOEXEC);
		rc = fd >= 0 && files_write(fd, buf_as_slice(text)) == 0 ? 0 : -1;
	} else {
		if (beside(file, other, err) != 0)
			return ERR_IO;
		fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		rc = fd >= 0 && files_write(fd, buf_as_slice(text)) == 0 ? 0 : -1;
		if (rc == 0)
			rc = fsync(fd); /* a disk may be full, and say so only now */
		if (rc == 0)
			rc = rename(other, file);
		if (rc != 0) {
			rc = failed(file, err);
			if (fd >= 0)
				(void)unlink(other);
		}
	}
	if (rc == -1)
		rc = failed(file, err);
	if (fd >= 0)
		(void)close(fd);
	return rc;
}

bool output_guard(void)
{
	bool open_out = fcntl(STDOUT_FILENO, F_GETFD) >= 0;

	/* the lowest free numbers are taken, so from 0 on */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
			open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY) != fd)
			return false;
	return open_out;
}

unsigned output_width(int fd)
{
	struct winsize size;

	return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40 ? size.ws_col : 80;
}

void progress_begin(struct progress *p, enum probe_show show)
{
	*p = (struct progress){
		.show = show, .terminal = isatty(STDERR_FILENO) == 1, .began_ms = clock_ms()};
	if (p->show == SHOW_AUTO)
		p->show = p->terminal ? SHOW_ALWAYS : SHOW_NEVER;
}

void progress_show(void *progress, double done, const char *text)
{
	struct progress *p = progress;
	int tenth = (int)(done * 10), full = (int)(done * BAR);
	int64_t s = (clock_ms() - p->began_ms) / 1000;

	if (p->show != SHOW_ALWAYS || (!p->terminal && tenth <= p->tenth))
		return;
	p->tenth = tenth;
	if (!p->terminal) {
		(void)fprintf(stderr, "%3d %%  %d:%02d  %s\n", (int)(done * 100), (int)(s / 60),
			(int)(s % 60), text);
		return;
	}
	(void)fprintf(stderr, "\r[%.*s%.*s] %3d %%  %d:%02d  %-34.34s", full, "##################",
		BAR - full, "------------------", (int)(done * 100), (int)(s / 60), (int)(s % 60),
		text);
	p->open = true;
}

void progress_end(struct progress *p)
{
	if (p->open)
		(void)fprintf(stderr, "\r%*s\r", 70, "");
	p->open = false;
}
