/* SPDX-License-Identifier: Apache-2.0 */
/* gate: reviewed pods. Pure. */
#include "gate/readmit.h"

#include <string.h>

void readmit_put(
	struct readmit *r, const char *uid, const unsigned char token[MAC_BYTES], int64_t expires_s)
{
	struct readmit_pod *one = &r->pod[0];

	for (size_t i = 0; i < READMIT_MAX; i++) {
		if (strcmp(r->pod[i].uid, uid) == 0) {
			one = &r->pod[i];
			break;
		}
		if (r->pod[i].expires_s < one->expires_s)
			one = &r->pod[i];
	}
	*one = (struct readmit_pod){.expires_s = expires_s};
	memcpy(one->uid, uid, strlen(uid) + 1);
	memcpy(one->token, token, MAC_BYTES);
}

bool readmit_may(const struct readmit *r, const char *uid, const unsigned char token[MAC_BYTES],
	int64_t now_s)
{
	for (size_t i = 0; i < READMIT_MAX; i++)
		if (strcmp(r->pod[i].uid, uid) == 0)
			return now_s < r->pod[i].expires_s && mac_equal(r->pod[i].token, token);
	return false;
}

void readmit_claims(struct readmit *r, const struct picture *p)
{
	for (size_t i = 0; i < READMIT_MAX; i++)
		if (r->pod[i].uid[0] && !picture_claim(p, r->pod[i].uid))
			r->pod[i] = (struct readmit_pod){0};
}
