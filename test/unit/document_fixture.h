/* SPDX-License-Identifier: Apache-2.0 */
/* test: whoever reads a document that people write: 0, or what is wrong with it. */
#ifndef TEST_UNIT_DOCUMENT_FIXTURE_H
#define TEST_UNIT_DOCUMENT_FIXTURE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "base/slice.h"

typedef int document_reader(struct slice text, struct arena *a, struct err *err);

/* The config file, a launcher profile, GPUServers, a gate's ServerProfile. */
document_reader document_settings, document_launcher, document_pool, document_server_profile;
/* As the API server gives them: a GPUPolicy, a GPUServer. */
document_reader document_policy, document_server_object;

/* JSON, given to `read`. */
int document_of_json(struct slice text, struct arena *a, struct err *err,
	int (*read)(const struct json *j, struct arena *a, struct err *err));

#endif
