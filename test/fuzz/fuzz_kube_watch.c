/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: the stream of a watch. However it is cut into pieces, the same events come out and it ends
 * for the same reason; the first byte says how long the pieces are. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "kube/kube_object.h"
#include "kube/watch_reader.h"
#include "test/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was told, as text. */
static int told(void *ctx, const struct watch_event *event, struct err *err)
{
	struct buf *out = ctx;
	struct slice raw = event->object ? json_raw(event->json, event->object) : SLICE("-");
	struct kube_meta m = kube_meta(event->json, event->object);
	size_t len = strnlen(event->version, sizeof(event->version));

	REQUIRE(len > 0 && len < sizeof(event->version));
	REQUIRE(slice_eq(m.version, slice_of(event->version)));
	buf_fmt(out, "%d %s ", (int)event->what, event->version);
	buf_slice(out, raw);
	buf_char(out, '\n');
	return slice_is(m.name, "stop") ? err_set(err, ERR_REFUSED, "stopped") : 0;
}

static void read_all(struct watch_reader *r, struct slice text, size_t piece, struct buf *out)
{
	bool more = true;

	buf_init(out, 64 << 20);
	watch_reader_init(r, told, out);
	while (more && text.len > 0) {
		size_t n = piece < text.len ? piece : text.len;
		/* of its own, so that a reader that looks behind it is caught */
		char *own = malloc(n);

		REQUIRE(own);
		memcpy(own, text.at, n);
		more = watch_reader_read(r, (struct slice){own, n});
		free(own);
		text.at += n;
		text.len -= n;
	}
	REQUIRE(!out->failed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct watch_reader whole, parts;
	struct buf events, same;
	struct slice text;

	if (size == 0)
		return 0;
	text = (struct slice){(const char *)data + 1, size - 1};
	read_all(&whole, text, size, &events);
	read_all(&parts, text, data[0] % 64 + 1u, &same);
	REQUIRE(slice_eq(buf_as_slice(&events), buf_as_slice(&same)));
	REQUIRE(whole.err.code == parts.err.code && whole.expired == parts.expired);
	REQUIRE(strcmp(whole.err.msg, parts.err.msg) == 0);
	if (whole.err.code != ERR_NONE)
		REQUIRE(whole.err.msg[0] && text_utf8(slice_of(whole.err.msg)));
	else
		REQUIRE(!whole.expired);
	/* A new stream begins as if there had been none. */
	watch_reader_reset(&whole);
	REQUIRE(whole.err.code == ERR_NONE && !whole.expired);
	buf_clear(&events);
	(void)watch_reader_read(&whole, SLICE("{\"type\":\"ADDED\",\"object\":{\"metadata\":{"
					      "\"resourceVersion\":\"7\"}}}\n"));
	REQUIRE(whole.err.code == ERR_NONE && strncmp(events.data, "0 7 {", 5) == 0);
	watch_reader_release(&whole);
	watch_reader_release(&parts);
	buf_release(&events);
	buf_release(&same);
	return 0;
}
