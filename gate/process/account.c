/* SPDX-License-Identifier: Apache-2.0 */
/* gate: an account's numbers. */
#include "gate/process/account.h"

#include <pwd.h>
#include <stdio.h>

#include "base/text.h"

/* Longer than any name of an account. */
#define NAME_MAX_BYTES 256

int account_find(struct slice name, uid_t *ret_uid, gid_t *ret_gid, struct err *err)
{
	const struct passwd *account;
	char text[NAME_MAX_BYTES];
	uint64_t number;

	if (text_u64(name, UINT32_MAX - 1, &number)) {
		*ret_uid = (uid_t)number;
		*ret_gid = (gid_t)number;
		return 0;
	}
	(void)snprintf(text, sizeof(text), "%.*s", (int)name.len, name.at);
	account = getpwnam(text);
	if (!account)
		return err_set(err, ERR_NOTFOUND, "there is no account \"%s\"", text);
	*ret_uid = account->pw_uid;
	*ret_gid = account->pw_gid;
	return 0;
}
