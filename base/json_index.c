/* SPDX-License-Identifier: Apache-2.0 */
/* base: the strict JSON reader's first look at a text, 64 bytes at a time. */
#include "base/json_index.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* What stands in a block: bit i is its byte i. */
struct found {
	uint64_t quote;
	uint64_t slash;
	uint64_t odd; /* backslashes, control characters, non-ASCII */
};

/* Where the lists go on. */
struct lists {
	uint32_t *quote, *odd;
};

/* Which bytes a backslash escapes; *escaped goes from block to block. In a run of backslashes each second one is
 * escaped: added to the even or odd places, a run that begins there is carried to its end. After Langdale and Lemire,
 * "Parsing Gigabytes of JSON per Second" (2019), section 3.1.1. */
INLINE uint64_t escaped_bytes(uint64_t slash, uint64_t *escaped)
{
	const uint64_t even = UINT64_C(0x5555555555555555);
	uint64_t behind, starts, ends;

	slash &= ~*escaped;
	behind = slash << 1 | *escaped;
	/* Runs that begin at odd places: their escaped bytes stand at odd places less one. */
	starts = slash & ~even & ~behind;
	*escaped = __builtin_add_overflow(starts, slash, &ends);
	return (even ^ ends << 1) & behind;
}

/* ---- blocks ---- */

INLINE struct found look(const char *block)
{
	struct found f = {0};

#ifdef __SSE2__
	for (int i = 0; i < JSON_BLOCK; i += 16) {
		__m128i x = _mm_loadu_si128((const __m128i_u *)(const void *)(block + i));
		__m128i quote = _mm_cmpeq_epi8(x, _mm_set1_epi8('"'));
		__m128i slash = _mm_cmpeq_epi8(x, _mm_set1_epi8('\\'));
		__m128i low = _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(0x1F)), x);

		low = _mm_or_si128(_mm_or_si128(low, slash), x);
		f.quote |= (uint64_t)(uint32_t)_mm_movemask_epi8(quote) << i;
		f.slash |= (uint64_t)(uint32_t)_mm_movemask_epi8(slash) << i;
		f.odd |= (uint64_t)(uint32_t)_mm_movemask_epi8(low) << i;
	}
#else
	for (int i = 0; i < JSON_BLOCK; i++) {
		unsigned char c = (unsigned char)block[i];

		f.quote |= (uint64_t)(c == '"') << i;
		f.slash |= (uint64_t)(c == '\\') << i;
		f.odd |= (uint64_t)(c < 0x20 || c >= 0x80 || c == '\\') << i;
	}
#endif
	return f;
}

INLINE uint32_t *list_places(uint32_t *list, uint64_t bits, uint32_t at)
{
	for (; bits; bits &= bits - 1)
		*list++ = at + (uint32_t)__builtin_ctzll(bits);
	return list;
}

static struct lists list_block(
	struct json_index *x, struct lists to, const char *block, uint32_t at)
{
	struct found f = look(block);

	f.quote &= ~escaped_bytes(f.slash, &x->escaped);
	to.quote = list_places(to.quote, f.quote, at);
	to.odd = list_places(to.odd, f.odd, at);
	return to;
}

/* ---- windows ---- */

/* The whole blocks of the window that ends at end. */
static struct lists list_blocks(struct json_index *x, uint32_t end)
{
	struct lists to = {x->quote, x->odd};

	for (; end - x->next >= JSON_BLOCK; x->next += JSON_BLOCK)
		to = list_block(x, to, x->text + x->next, x->next);
	return to;
}

static void close_lists(struct lists to)
{
	to.quote[0] = to.quote[1] = JSON_NO_QUOTE;
	to.odd[0] = JSON_NO_ODD;
}

void json_index_init(struct json_index *x, const char *text, size_t len)
{
	x->text = text;
	x->len = (uint32_t)len;
	x->next = 0;
	x->escaped = 0;
	close_lists((struct lists){x->quote, x->odd});
}

bool json_index_next(struct json_index *x)
{
	uint32_t end = x->len - x->next < JSON_WINDOW ? x->len : x->next + JSON_WINDOW, left;
	struct lists to;

	if (end == x->next)
		return false;
	to = list_blocks(x, end);
	left = end - x->next;
	if (left > 0) {
		char block[JSON_BLOCK];

		/* Blanks are in neither list. */
		memset(block, ' ', sizeof(block));
		memcpy(block, x->text + x->next, left);
		to = list_block(x, to, block, x->next);
		x->next = end;
	}
	close_lists(to);
	return true;
}
