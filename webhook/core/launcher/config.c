/* SPDX-License-Identifier: Apache-2.0 */
/* core: looking things up in the configuration, and the nominal GPU's memory as people write it. */
#include "webhook/core/launcher/config.h"

#include "base/text.h"

#define TOTAL_MB_MAX                                                                               \
	1000000000u /* 10^9 MB are a thousand million million bytes: no GPU comes near */
#define NANO_PER_MB INT64_C(1000000000000000) /* quantities count 10^-9 bytes */

const struct profile *config_profile(const struct config *c, struct slice name)
{
	for (size_t i = 0; i < c->n_profiles; i++)
		if (slice_eq(c->profiles[i].name, name))
			return &c->profiles[i];
	return NULL;
}

static bool all_digits(struct slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!text_is_digit(s.at[i]))
			return false;
	return s.len > 0;
}

static int refuse(struct slice text, struct err *err)
{
	return err_set(err, ERR_INVALID,
		"found \"%.*s\", expected the memory of the nominal GPU: whole megabytes (16160) "
		"or a "
		"quantity of bytes (16G, 16160Mi), from 1 to %u megabytes",
		text.len > 80 ? 80 : (int)text.len, text.at ? text.at : "", TOTAL_MB_MAX);
}

int config_total_memory(struct slice text, uint64_t *ret_mb, struct err *err)
{
	struct quantity q;
	uint64_t mb = 0;

	if (all_digits(text)) {
		if (!text_u64(text, TOTAL_MB_MAX, &mb) || mb == 0)
			return refuse(text, err);
	} else {
		/* A quantity without a suffix (1.5, 2e9) counts bytes, like one with a suffix. */
		if (quantity_parse(text, &q, NULL) != 0 || q.nano < NANO_PER_MB ||
			q.nano / NANO_PER_MB > TOTAL_MB_MAX)
			return refuse(text, err);
		mb = (uint64_t)(q.nano / NANO_PER_MB);
	}
	*ret_mb = mb;
	return 0;
}
