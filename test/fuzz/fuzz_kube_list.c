/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: what an API server answers to a list: any bytes as a page, and as the body of a failure.
 * What is taken names its version and its objects in a way that can be asked for again; what is not
 * gets a message that people and logs can read. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "kube/kube_answer.h"
#include "kube/kube_object.h"
#include "test/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_object(const struct json *j, const struct json_node *object)
{
	struct kube_meta m = kube_meta(j, object);
	const struct slice parts[] = {m.name, m.namespace, m.uid, m.version};
	struct buf number;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		REQUIRE(parts[i].len == 0 || (!memchr(parts[i].at, '"', parts[i].len) &&
						     !memchr(parts[i].at, '\\', parts[i].len)));
	/* a version counts as a number only when it is written as one */
	buf_init(&number, 64);
	buf_fmt(&number, "%llu", (unsigned long long)kube_version_number(m.version));
	if (kube_version_number(m.version) != 0 && m.version.at[0] != '0')
		REQUIRE(slice_eq(buf_as_slice(&number), m.version));
	buf_release(&number);
}

static void check_path(struct slice token)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%";
	struct buf path;

	buf_init(&path, 16 << 20);
	buf_percent(&path, token);
	REQUIRE(!path.failed && path.len >= token.len);
	REQUIRE(path.len == 0 || strspn(path.data, plain) == path.len);
	buf_release(&path);
}

static void check_page(struct slice text)
{
	const struct json_node *items = NULL;
	struct kube_page page = {0};
	struct json j = {0};
	struct err err = {0};
	struct buf body;
	int rc;

	buf_init(&page.next, 4096);
	buf_init(&body, 16 << 20);
	buf_slice(&body, text);
	rc = kube_read(&body, &j, &err);
	REQUIRE(rc == 0 || (rc == (int)err.code && err.msg[0]));
	rc = kube_page_items(&j, "/api/v1/pods", &items, &err);
	if (rc == 0)
		rc = kube_page_read(&page, "/api/v1/pods", &j, &err);
	if (rc == 0) {
		size_t len = strnlen(page.version, sizeof(page.version));

		REQUIRE(len > 0 && len < sizeof(page.version));
		check_path(buf_as_slice(&page.next));
		JSON_EACH(&j, items, object)
		check_object(&j, object);
	} else {
		REQUIRE(rc == (int)err.code && err.msg[0] && text_utf8(slice_of(err.msg)));
		REQUIRE(rc == ERR_SYNTAX || rc == ERR_NOMEM);
	}
	json_release(&j);
	buf_release(&body);
	buf_release(&page.next);
}

static void check_failure(struct slice text, long status)
{
	struct json j = {0};
	struct err err = {0};
	struct buf body;
	int rc;

	buf_init(&body, 16 << 20);
	buf_slice(&body, text);
	(void)kube_read(&body, &j, &err);
	err = (struct err){0};
	rc = kube_failure("GET", "/api/v1/pods", status, &j, buf_as_slice(&body), &err);
	REQUIRE(rc < 0 && rc == (int)err.code && strstr(err.msg, "GET /api/v1/pods: "));
	REQUIRE(text_utf8(slice_of(err.msg)));
	json_release(&j);
	buf_release(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const long statuses[] = {400, 401, 404, 409, 410, 413, 422, 429, 500, 504};
	struct slice text = {(const char *)data, size};

	check_page(text);
	check_failure(text, statuses[size % (sizeof(statuses) / sizeof(statuses[0]))]);
	return 0;
}
