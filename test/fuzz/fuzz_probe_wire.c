/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: any bytes as a line of a worker, and as its job. A line that is accepted is written and
 * read again without a difference; one that is refused carries no pass. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/check/worker.h"
#include "probe/check/worker_wire.h"
#include "test/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const struct wire_line *line)
{
	struct wire_line again;
	struct buf first, second;

	buf_init(&first, 1u << 20);
	buf_init(&second, 1u << 20);
	wire_write(line, &first);
	REQUIRE(!first.failed && first.len > 1 && first.data[first.len - 1] == '\n');
	REQUIRE(!memchr(first.data, '\n', first.len - 1));
	REQUIRE(wire_read((struct slice){first.data, first.len - 1}, &again, NULL) == 0);
	REQUIRE(again.kind == line->kind);
	wire_write(&again, &second);
	/* seconds and shares are written with a few digits */
	REQUIRE(slice_eq(buf_as_slice(&first), buf_as_slice(&second)));
	buf_release(&first);
	buf_release(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_line line;
	struct worker_job job;
	struct err err = {0};
	char *text = malloc(size + 1);
	int rc;

	REQUIRE(text);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	rc = wire_read((struct slice){text, size}, &line, &err);
	REQUIRE(rc == 0 ? true
			: rc == (int)err.code && err.msg[0] && line.check.status != STATUS_PASS);
	if (rc == 0)
		check_line(&line);
	err = (struct err){0};
	rc = worker_job_read(text, &job, &err);
	REQUIRE(rc == 0 ? job.index >= 0 && job.index < REPORT_GPUS_MAX
			: err.msg[0] && !job.thresholds && !job.cudart);
	if (rc == 0)
		worker_job_release(&job);
	free(text);
	return 0;
}
