/* SPDX-License-Identifier: Apache-2.0 */
/* edge: client CAs, loaded and told. */
#include "webhook/edge/admin/client_ca.h"

#include "base/files.h"
#include "base/text.h"

int client_ca_load(
	struct tls_trust *clients, const struct settings *s, const struct log *log, struct err *err)
{
	struct tls_trust_info before, info;

	if (!clients || !s->client_ca)
		return 0;
	(void)tls_trust_info(clients, &before);
	if (tls_trust_load_file(clients, s->client_ca, s->client_names, s->n_client_names, err) !=
		0)
		return settings_blame(s, err);
	if (log && tls_trust_info(clients, &info) && info.generation != before.generation)
		log_line(log, LOG_LEVEL_INFO, "client CA in force", log_str("path", s->client_ca),
			log_int("certificates", (int64_t)info.certificates),
			log_int("names", (int64_t)s->n_client_names),
			log_int("not_after", info.not_after));
	return 0;
}

uint64_t client_ca_mark(const struct settings *s)
{
	uint64_t sum = s->client_ca ? files_mark(s->client_ca) : 1;

	for (size_t i = 0; i < s->n_client_names; i++)
		sum = sum * 31 + text_hash64(slice_of(s->client_names[i]));
	return sum;
}
