/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: any text as a ServerProfile. A refusal has a sentence; what is accepted gives words for
 * every claim, with the claim's GPUs among them, once. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/server_profile.h"
#include "test/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_words(const struct server_profile *p, struct arena *a)
{
	struct picture_gpu gpus[] = {{"GPU-1", UINT64_C(1) << 33, UINT64_C(1) << 34},
		{"MIG-2", 1, 0}, {"GPU-3", UINT64_MAX, UINT64_MAX}};
	const struct picture_claim claim = {.uid = "u", .gpu = gpus, .n_gpus = 3};
	const struct server_profile_place at = {&claim, "127.91.0.1", "/run/u"};
	char **argv, **env;
	struct err err = {0};
	size_t n = 0, devices = 0;

	if (server_profile_words(p, &at, a, &argv, &env, &err) != 0) {
		REQUIRE(err.code == ERR_NOMEM);
		return;
	}
	while (argv[n])
		n++;
	REQUIRE(n == p->n_argv && argv[0][0] == '/');
	for (n = 0; env[n]; n++) {
		REQUIRE(strchr(env[n], '=') > env[n]);
		devices += strcmp(env[n], "CUDA_VISIBLE_DEVICES=GPU-1,MIG-2,GPU-3") == 0;
		REQUIRE(strncmp(env[n], "CUDA_VISIBLE_DEVICES=GPU-1,", 27) == 0 ||
			strncmp(env[n], "CUDA_VISIBLE_DEVICES=", 21) != 0);
	}
	REQUIRE(devices == 1 && n <= p->n_env + 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size ? size : 1);
	struct server_profile p = {0};
	struct err err = {0};
	struct arena a;

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	arena_init(&a, 64u << 20);
	if (server_profile_read("p.yaml", (struct slice){copy, size}, &a, &p, &err) == 0) {
		REQUIRE(p.name[0] && p.n_argv > 0 && p.port > 0);
		REQUIRE(p.grace_ms <= SERVER_PROFILE_GRACE_MAX_MS && p.readiness_ms >= 100);
		check_words(&p, &a);
	} else {
		REQUIRE(err.msg[0]);
	}
	arena_release(&a);
	free(copy);
	return 0;
}
