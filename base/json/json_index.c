/* SPDX-License-Identifier: Apache-2.0 */
/* base: the strict JSON reader's first look at a text, 64 bytes at a time. */
#include "base/json/json_index.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
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

/* Which bytes a backslash escapes; *escaped goes from block to block. In a run of backslashes each
 * second byte is escaped: at even places if the run begins at an odd one, at odd places otherwise.
 * Adding its beginning to the former takes it out of the sum. After Langdale and Lemire, "Parsing
 * Gigabytes of JSON per Second" (2019), section 3.1.1. */
INLINE uint64_t escaped_bytes(uint64_t slash, uint64_t *escaped)
{
	const uint64_t even = UINT64_C(0x5555555555555555);
	uint64_t behind, starts, ends;

	slash &= ~*escaped;
	behind = slash << 1 | *escaped;
	starts = slash & ~even & ~behind;
	*escaped = __builtin_add_overflow(starts, slash, &ends);
	return (even ^ ends << 1) & behind;
}

/* ---- blocks ---- */

#ifdef __x86_64__
__attribute__((target("avx2,bmi,popcnt"))) INLINE struct found look_avx2(const char *block)
{
	struct found f = {0};

	for (int i = 0; i < JSON_BLOCK; i += 32) {
		__m256i x = _mm256_loadu_si256((const __m256i_u *)(const void *)(block + i));
		__m256i quote = _mm256_cmpeq_epi8(x, _mm256_set1_epi8('"'));
		__m256i slash = _mm256_cmpeq_epi8(x, _mm256_set1_epi8('\\'));
		__m256i low = _mm256_cmpeq_epi8(_mm256_min_epu8(x, _mm256_set1_epi8(0x1F)), x);

		/* The mask takes the top bit of each byte: x itself stands for "not ASCII". */
		low = _mm256_or_si256(_mm256_or_si256(low, slash), x);
		f.quote |= (uint64_t)(uint32_t)_mm256_movemask_epi8(quote) << i;
		f.slash |= (uint64_t)(uint32_t)_mm256_movemask_epi8(slash) << i;
		f.odd |= (uint64_t)(uint32_t)_mm256_movemask_epi8(low) << i;
	}
	return f;
}

/* Four places are written at a time, for a branch that depends on their number costs more than they
 * do. */
__attribute__((target("avx2,bmi,popcnt"))) INLINE uint32_t *list_avx2(
	uint32_t *list, uint64_t bits, uint32_t at)
{
	uint32_t *end = list + _mm_popcnt_u64(bits);

	for (; bits; list += 4)
		for (int i = 0; i < 4; i++, bits = _blsr_u64(bits))
			list[i] = at + (uint32_t)_tzcnt_u64(bits);
	return end;
}

__attribute__((target("avx2,bmi,popcnt"))) static struct lists window_avx2(
	struct json_index *x, uint32_t end)
{
	struct lists to = {x->quote, x->odd};

	for (; end - x->next >= JSON_BLOCK; x->next += JSON_BLOCK) {
		struct found f = look_avx2(x->text + x->next);

		f.quote &= ~escaped_bytes(f.slash, &x->escaped);
		to.quote = list_avx2(to.quote, f.quote, x->next);
		to.odd = list_avx2(to.odd, f.odd, x->next);
	}
	return to;
}
#endif

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

#ifdef __x86_64__
	if (x->avx2)
		return window_avx2(x, end);
#endif
	for (; end - x->next >= JSON_BLOCK; x->next += JSON_BLOCK)
		to = list_block(x, to, x->text + x->next, x->next);
	return to;
}

static void close_lists(uint32_t *quote, uint32_t *odd)
{
	quote[0] = quote[1] = JSON_NO_QUOTE;
	odd[0] = JSON_NO_ODD;
}

void json_index_init(struct json_index *x, const char *text, size_t len)
{
	x->text = text;
	x->len = (uint32_t)len;
	x->next = 0;
	x->escaped = 0;
	x->avx2 = false;
#ifdef __x86_64__
	x->avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
		  __builtin_cpu_supports("popcnt");
#endif
	close_lists(x->quote, x->odd);
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
	close_lists(to.quote, to.odd);
	return true;
}
