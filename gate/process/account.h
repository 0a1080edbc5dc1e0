/* SPDX-License-Identifier: Apache-2.0 */
/* gate: accounts of this machine. */
#ifndef GATE_PROCESS_ACCOUNT_H
#define GATE_PROCESS_ACCOUNT_H

#include <sys/types.h>

#include "base/err.h"
#include "base/slice.h"

/* The account of that name, or number: a number's group is of the same number. One thread may ask
 * at a time. ERR_NOTFOUND: there is no account of that name. */
int account_find(struct slice name, uid_t *ret_uid, gid_t *ret_gid, struct err *err);

#endif
