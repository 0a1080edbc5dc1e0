/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: any JSON as what a worker tells of a check. What is accepted is written, read and written
 * again without a difference; what is refused is no pass; and no result that fails, or that was not
 * made, gives a fit GPU. The same bytes as a kernel log. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/result/report.h"
#include "probe/runtime/host_xid.h"
#include "test/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_text(struct slice text, struct check_result *ret, struct err *err)
{
	struct json j = {0};
	char *copy;
	int rc = json_read_copy(&j, text.at, text.len, 10000, &copy, err);

	if (rc == 0) {
		rc = check_read(&j, json_root(&j), ret, err);
		free(copy);
	} else {
		/* there was no check to refuse */
		check_begin(ret, CHECK_ENV_DRIVER);
	}
	json_release(&j);
	return rc;
}

static void check_written(const struct check_result *c)
{
	struct check_result again;
	struct buf first, second;
	struct err err = {0};

	buf_init(&first, 1u << 20);
	buf_init(&second, 1u << 20);
	check_json(c, &first);
	REQUIRE(!first.failed);
	REQUIRE(read_text(buf_as_slice(&first), &again, &err) == 0);
	REQUIRE(again.status == c->status && again.code == c->code && again.id == c->id);
	check_json(&again, &second);
	REQUIRE(slice_eq(buf_as_slice(&first), buf_as_slice(&second)));
	buf_release(&first);
	buf_release(&second);
}

/* Of a GPU of which all else passed. */
static void check_verdict(const struct check_result *c)
{
	struct report r;
	struct gpu_report *gpu;
	struct buf out;
	struct err err = {0};

	report_init(&r);
	r.complete = true;
	gpu = report_add_gpu(&r);
	REQUIRE(gpu);
	gpu->index = 0;
	for (unsigned i = 0; i < CHECK_COUNT; i++) {
		struct check_result passed;

		check_begin(&passed, (enum check_id)i);
		check_pass(&passed);
		passed.errors = 0;
		passed.bytes_tested = 1;
		passed.value = 1;
		REQUIRE(report_set_check(gpu, i == c->id ? c : &passed));
	}
	report_judge(&r);
	REQUIRE((r.exit == EXIT_FIT) == gpu->fit);
	if (c->status == STATUS_FAIL)
		REQUIRE(r.exit == EXIT_UNFIT);
	if (check_kind(c->id)->need[PROFILE_VERIFY] == NEED_REQUIRED && c->status != STATUS_PASS &&
		c->status != STATUS_WARN)
		REQUIRE(!gpu->fit);
	if (c->status == STATUS_PASS && c->errors > 0)
		REQUIRE(!gpu->fit);
	buf_init(&out, 1u << 20);
	REQUIRE(report_json(&r, &out, &err) == 0);
	report_text(&r, (unsigned)c->errors % 200, &out);
	(void)report_nagios(&r, &out);
	buf_release(&out);
	report_release(&r);
}

static void check_log(const char *text)
{
	char pci[PCI_ID_MAX], again[PCI_ID_MAX];
	const char *at = text;
	int xid;

	while (host_xid_next(&at, pci, &xid)) {
		REQUIRE(xid >= 0 && host_pci_id(pci, again) && strcmp(pci, again) == 0);
		REQUIRE(at > text && at <= text + strlen(text));
	}
	REQUIRE(at == text + strlen(text));
	(void)host_pci_id(text, pci);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct check_result c;
	struct err err = {0};
	char *text = malloc(size + 1);
	int rc;

	REQUIRE(text);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	check_log(text);
	rc = read_text((struct slice){text, size}, &c, &err);
	free(text);
	if (rc == 0) {
		check_written(&c);
		check_verdict(&c);
	} else {
		REQUIRE(rc == (int)err.code && err.msg[0]);
		REQUIRE(c.status == STATUS_SKIP);
	}
	return 0;
}
