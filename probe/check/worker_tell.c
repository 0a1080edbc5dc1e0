/* SPDX-License-Identifier: Apache-2.0 */
/* probe: a worker tells its parent. */
#include "probe/check/worker_tell.h"

#include <stdarg.h>
#include <stdio.h>

void tell_line(struct worker_tell *t, const struct wire_line *line)
{
	if (!t->unheard && !wire_send(line, t->fd))
		t->unheard = true;
}

void tell_within(struct worker_tell *t, const char *phase, double seconds)
{
	struct wire_line line = {.kind = WIRE_WITHIN, .seconds = seconds};

	(void)snprintf(line.text, sizeof(line.text), "%s", phase);
	tell_line(t, &line);
}

void tell_error(
	struct worker_tell *t, int gpu, enum probe_code code, int cuda, const char *fmt, ...)
{
	struct wire_line line = {
		.kind = WIRE_ERROR, .error = {.gpu = gpu, .code = code, .cuda_error = cuda}};
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(line.error.message, sizeof(line.error.message), fmt, args);
	va_end(args);
	tell_line(t, &line);
}

bool tell_ends(struct worker_tell *t)
{
	return t->unheard || (t->stopped && t->stopped(t->arg));
}

void tell_done(struct worker_tell *t)
{
	struct wire_line line = {.kind = WIRE_DONE};

	tell_line(t, &line);
}

int tell_status(const struct worker_tell *t, int status)
{
	return t->unheard ? 3 : status;
}
