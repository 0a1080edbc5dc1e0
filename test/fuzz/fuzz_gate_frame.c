/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: what somebody shows a gate first: a frame, the token in it, and the same bytes as the API
 * server's word of it. Read at once or byte by byte it is the same, nothing behind the frame is
 * taken, and a uid is never more than a name. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/bearer.h"
#include "gate/frame.h"
#include "test/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_it(struct frame *f, const uint8_t *data, size_t size, size_t step, size_t *ret_at)
{
	size_t at = 0, wants;
	int rc = 0;

	memset(f, 0, sizeof(*f));
	while (rc == 0 && (wants = frame_wants(f)) > 0 && at < size) {
		size_t n = wants < step ? wants : step;

		REQUIRE(f->have + wants <= sizeof(f->bytes));
		n = n < size - at ? n : size - at;
		memcpy(f->bytes + f->have, data + at, n);
		at += n;
		rc = frame_got(f, n, NULL);
	}
	*ret_at = at;
	return rc;
}

static void check_uid(const char *uid)
{
	REQUIRE(uid[0] && uid[0] != '-' && strlen(uid) < BEARER_UID_MAX);
	REQUIRE(strspn(uid, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") ==
		strlen(uid));
}

static void check_token(struct slice token)
{
	struct bearer b;
	struct err err = {0};

	if (bearer_read(token, &b, &err) == 0)
		check_uid(b.uid);
	else
		REQUIRE(err.msg[0]);
}

static void check_answer(struct slice text)
{
	char uid[BEARER_UID_MAX], *copy = NULL;
	struct json j = {0};
	struct err err = {0};

	if (json_read_copy(&j, text.at, text.len, 2048, &copy, NULL) == 0) {
		if (bearer_reviewed(&j, uid, &err) == 0)
			check_uid(uid);
		else
			REQUIRE(err.msg[0]);
	}
	json_release(&j);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct frame once, slow;
	size_t at_once, at_slow;
	int rc = read_it(&once, data, size, sizeof(once.bytes), &at_once);
	/* An exact copy, so that AddressSanitizer sees a byte too many. */
	char *copy = malloc(size ? size : 1);

	REQUIRE(rc == read_it(&slow, data, size, 1, &at_slow));
	REQUIRE(rc != 0 || (once.have == slow.have && at_once == at_slow));
	if (rc == 0 && frame_wants(&once) == 0) {
		struct buf out;

		REQUIRE(frame_body(&once).len == at_once - FRAME_HEAD);
		check_token(frame_body(&once));
		buf_init(&out, sizeof(once.bytes));
		frame_write((enum frame_word)frame_word(&once), frame_body(&once), &out);
		REQUIRE(out.len == at_once && memcmp(out.data, data, at_once) == 0);
		buf_release(&out);
	}
	if (copy) {
		if (size)
			memcpy(copy, data, size);
		check_token((struct slice){copy, size});
		check_answer((struct slice){copy, size});
	}
	free(copy);
	return 0;
}
