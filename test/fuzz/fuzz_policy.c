/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: any JSON as a GPUPolicy. A refusal has a sentence; what is accepted is within its bounds,
 * and stands when the text is gone. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/fuzz/require.h"
#include "webhook/core/policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_list(const char *const *list, size_t n)
{
	REQUIRE(n <= 64);
	for (size_t i = 0; i < n; i++)
		REQUIRE(strlen(list[i]) < 1u << 20);
}

static void check(const struct policy *p)
{
	REQUIRE(p->name[0] && strlen(p->name) <= 63 && !strchr(p->name, '/'));
	REQUIRE(p->share <= 100 && p->percent <= 100 && p->accepts < 1u << FOREIGN_KEYS);
	REQUIRE(!p->launcher || p->launcher[0]);
	REQUIRE(!p->os || p->os[0]);
	REQUIRE(!p->version || p->version[0]);
	REQUIRE(!p->when_full || strcmp(p->when_full, "wait") == 0 ||
		strcmp(p->when_full, "refuse") == 0);
	REQUIRE(p->priority >= -1000000000 && p->priority <= 1000000000);
	REQUIRE(p->gpus <= 1000000 || p->gpus == UINT32_MAX);
	REQUIRE(p->waiting <= 1000000 || p->waiting == UINT32_MAX);
	check_list(p->launchers, p->n_launchers);
	check_list(p->models, p->n_models);
	REQUIRE(p->n_servers <= 64);
	for (size_t i = 0; i < p->n_servers; i++)
		REQUIRE(p->servers[i].key && p->servers[i].value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct policy p = {0};
	struct err err = {0};
	struct json j = {0};
	struct arena a;
	char *copy = NULL;
	bool read;

	if (json_read_copy(&j, (const char *)data, size, 100000, &copy, &err) != 0) {
		json_release(&j);
		return 0;
	}
	arena_init(&a, 64u << 20);
	read = policy_read(&j, json_root(&j), &a, &p, &err) == 0;
	REQUIRE(read || err.msg[0]);
	err_clear(&err);
	REQUIRE(policy_check_keys(&j, json_root(&j), &a, &err) == 0 || err.msg[0]);
	json_release(&j);
	free(copy);
	if (read)
		check(&p);
	arena_release(&a);
	return 0;
}
