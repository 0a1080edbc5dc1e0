/* SPDX-License-Identifier: Apache-2.0 */
/* gate: frames, written and read. Pure. */
#include "gate/frame.h"

#include <string.h>

static const char magic[4] = {'g', 'p', 'u', 'g'};

static size_t body_len(const struct frame *f)
{
	return (size_t)(unsigned char)f->bytes[6] << 8 | (unsigned char)f->bytes[7];
}

size_t frame_wants(const struct frame *f)
{
	size_t all = f->have < FRAME_HEAD ? FRAME_HEAD : FRAME_HEAD + body_len(f);

	return all - f->have;
}

int frame_got(struct frame *f, size_t n, struct err *err)
{
	size_t magical;

	f->have += n;
	magical = f->have < sizeof(magic) ? f->have : sizeof(magic);
	if (memcmp(f->bytes, magic, magical) != 0)
		return err_set(err, ERR_SYNTAX, "the peer speaks another protocol than gpugate's");
	if (f->have >= 5 && f->bytes[4] != FRAME_VERSION)
		return err_set(err, ERR_SYNTAX,
			"the peer speaks version %d of the protocol, expected version %d",
			(unsigned char)f->bytes[4], FRAME_VERSION);
	if (f->have >= FRAME_HEAD && body_len(f) > FRAME_BODY_MAX)
		return err_set(err, ERR_TOOBIG, "the peer shows %zu bytes, expected at most %d",
			body_len(f), FRAME_BODY_MAX);
	return 0;
}

unsigned frame_word(const struct frame *f)
{
	return (unsigned char)f->bytes[5];
}

struct slice frame_body(const struct frame *f)
{
	return (struct slice){f->bytes + FRAME_HEAD, f->have - FRAME_HEAD};
}

void frame_write(enum frame_word word, struct slice body, struct buf *out)
{
	size_t len = body.len < FRAME_BODY_MAX ? body.len : FRAME_BODY_MAX;
	const char rest[4] = {FRAME_VERSION, (char)word, (char)(len >> 8), (char)(len & 0xff)};

	buf_add(out, magic, sizeof(magic));
	buf_add(out, rest, sizeof(rest));
	buf_add(out, body.at, len);
}
