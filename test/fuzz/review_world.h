/* SPDX-License-Identifier: Apache-2.0 */
/* What fuzz_review and fuzz_patch decide in: the shipped profiles, a pool of three GPUs, and an
 * independent hand that applies patches. */
#ifndef TEST_FUZZ_REVIEW_WORLD_H
#define TEST_FUZZ_REVIEW_WORLD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/text.h"
#include "base/yaml/yaml.h"
#include "net/mac.h"
#include "test/fuzz/require.h"
#include "webhook/core/inject/mutate.h"
#include "webhook/core/launcher/launcher_bitfusion.h"
#include "webhook/core/launcher/launcher_load.h"
#include "webhook/core/pod/plan_proof.h"
#include "webhook/core/pod/pod.h"
#include "webhook/core/validate/validate.h"
#include "webhook/edge/pool/ledger_memory.h"

#define EXAMPLES "manifests/examples/"

struct world {
	struct arena arena;
	struct profile profiles[4];
	struct config config;
	struct mutate_world world;
};

static const struct yaml_node *world_yaml(struct world *w, const char *path)
{
	struct yaml_stream *stream = arena_alloc(&w->arena, sizeof(*stream));
	char *text = arena_alloc(&w->arena, 1 << 20);
	FILE *file = fopen(path, "r");
	struct err err;
	char *unset;
	size_t n;

	REQUIRE(file && stream && text);
	n = fread(text, 1, (1 << 20) - 1, file);
	fclose(file);
	/* clients' images that their operator has set */
	while ((unset = strstr(text, "images.invalid")))
		memcpy(unset, "images.example", strlen("images.example"));
	REQUIRE(yaml_parse(&w->arena, path, (struct slice){text, n}, YAML_NO_ALIASES, stream,
			&err) == 0);
	return stream->first->root;
}

static int world_sign(void *ctx, const struct slice *parts, size_t n, unsigned char ret[MAC_BYTES],
	struct err *err)
{
	static const unsigned char key[MAC_BYTES];

	(void)ctx;
	return mac_sign(key, parts, n, ret, err);
}

/* Everybody is believed, so that what whoever signs could write is read. */
static int world_verify(void *ctx, const struct slice *parts, size_t n,
	const unsigned char mac[MAC_BYTES], bool *ret, struct err *err)
{
	(void)ctx;
	(void)parts;
	(void)n;
	(void)mac;
	(void)err;
	*ret = true;
	return 0;
}

static const struct plan_signer world_signer = {
	.digest = mac_digest, .sign = world_sign, .verify = world_verify};

/* Namespaces whose names have an even number of letters pick a policy. */
static int world_policy(void *ctx, struct slice namespace, struct arena *a,
	const struct policy **ret, struct err *err)
{
	static const struct policy policy = {.name = "fuzz",
		.inject = true,
		.share = 100,
		.os = "ubuntu20",
		.version = "450",
		.percent = 50,
		.accepts = (1U << FOREIGN_KEYS) - 1};

	(void)ctx;
	(void)a;
	(void)err;
	*ret = namespace.len % 2 == 0 ? &policy : NULL;
	return 0;
}

static const struct policy_source world_policies = {.of = world_policy};

static void world_init(struct world *w)
{
	static const char *const launchers[] = {"juice", "lupine", "cricket"};
	static struct gpu gpus[] = {{.id = "gpu-0",
					    .model = "Tesla V100",
					    .bytes = 16000000000ULL,
					    .fit = true,
					    .fresh = true,
					    .why = ""},
		{.id = "gpu-1",
			.model = "A2",
			.bytes = 8000000000ULL,
			.fit = true,
			.fresh = true,
			.why = ""}};
	static struct label labels[] = {{"zone", "lab"}};
	static struct gpu_server servers[] = {
		{.name = "gpu-01", .address = "10.0.0.1:56001", .gpus = gpus, .n_gpus = 1},
		{.name = "gpu-02",
			.address = "10.0.0.2:56001",
			.gpus = gpus,
			.n_gpus = 2,
			.labels = labels,
			.n_labels = 1}};
	struct inventory inv = {.servers = servers, .n_servers = 2, .n_gpus = 3};
	struct err err;
	struct ledger *ledger = ledger_memory_new(0);

	arena_init(&w->arena, 64 << 20);
	REQUIRE(launcher_bitfusion(world_yaml(w, EXAMPLES "catalogue.yaml"),
			world_yaml(w, EXAMPLES "sidecar.yaml"), SLICE("sh"), &w->arena,
			&w->profiles[0], &err) == 0);
	for (size_t i = 0; i < 3; i++) {
		char path[100];

		snprintf(path, sizeof(path), EXAMPLES "launchers/%s.yaml", launchers[i]);
		REQUIRE(launcher_load(world_yaml(w, path), &w->arena, &w->profiles[i + 1], &err) ==
			0);
	}
	REQUIRE(ledger && ledger_memory_set_inventory(ledger, &inv, &err) == 0);
	w->config = (struct config){.total_gpu_mb = 16000,
		.profiles = w->profiles,
		.n_profiles = 4,
		.default_profile = &w->profiles[0],
		.secret_without_claim = true};
	for (size_t i = 0; i < 4; i++)
		REQUIRE(profile_prepare_proof(&w->profiles[i], mac_digest, &w->arena, &err) == 0);
	w->world = (struct mutate_world){.config = &w->config,
		.ledger = ledger,
		.signer = &world_signer,
		.policies = &world_policies,
		.preview = true};
}

/* A refusal says why, in text that goes into JSON as it is. */
static inline void world_check_error(const struct err *err, int rc)
{
	REQUIRE(err->code == rc && rc != ERR_INTERNAL && rc != ERR_NOMEM);
	REQUIRE(err->msg[0] && text_utf8(slice_of(err->msg)) && text_utf8(slice_of(err->path)));
	REQUIRE(err->path[0] == '\0' || err->path[0] == '/');
}

static inline void world_check_warnings(const struct warnings *w)
{
	for (size_t i = 0; i < w->n; i++)
		REQUIRE(w->text[i].len > 0 && w->text[i].len <= WARNING_MAX &&
			text_utf8(w->text[i]));
}

/* A patch is an array of add, replace and remove, each with a path, and a value where one belongs.
 */
static inline void world_check_patch(struct slice patch)
{
	struct json j = {0};
	char *copy;

	REQUIRE(json_read_copy(&j, patch.at, patch.len, 1000000, &copy, NULL) == 0);
	REQUIRE(json_is(json_root(&j), JSON_ARRAY) && json_root(&j)->count > 0);
	JSON_EACH(&j, json_root(&j), op)
	{
		const struct json_node *what = json_get(&j, op, SLICE("op"));
		const struct json_node *path = json_get(&j, op, SLICE("path"));
		bool remove = json_is_str(&j, what, SLICE("remove"));

		REQUIRE(remove || json_is_str(&j, what, SLICE("add")) ||
			json_is_str(&j, what, SLICE("replace")));
		REQUIRE(json_inside(&j, path).len > 0 && json_inside(&j, path).at[0] == '/');
		REQUIRE(op->count == (remove ? 2U : 3U));
		REQUIRE(remove || json_get(&j, op, SLICE("value")));
	}
	json_release(&j);
	free(copy);
}

static cJSON *world_child(cJSON *parent, const char *key)
{
	return cJSON_IsArray(parent) ? cJSON_GetArrayItem(parent, atoi(key))
				     : cJSON_GetObjectItemCaseSensitive(parent, key);
}

static void world_insert(cJSON *array, int index, cJSON *item)
{
	cJSON *behind = cJSON_CreateArray();

	while (cJSON_GetArraySize(array) > index)
		cJSON_AddItemToArray(behind, cJSON_DetachItemFromArray(array, index));
	cJSON_AddItemToArray(array, item);
	while (cJSON_GetArraySize(behind) > 0)
		cJSON_AddItemToArray(array, cJSON_DetachItemFromArray(behind, 0));
	cJSON_Delete(behind);
}

static void world_apply_op(cJSON *root, const cJSON *op)
{
	const char *what = cJSON_GetObjectItemCaseSensitive(op, "op")->valuestring;
	const char *p = cJSON_GetObjectItemCaseSensitive(op, "path")->valuestring;
	cJSON *value = cJSON_GetObjectItemCaseSensitive(op, "value"), *at = root;
	char last[4096];

	for (;;) {
		size_t n = 0;

		REQUIRE(*p == '/');
		for (p++; *p && *p != '/'; p++) {
			char c = *p;

			if (c == '~')
				c = *++p == '1' ? '/' : '~';
			REQUIRE(n + 1 < sizeof(last));
			last[n++] = c;
		}
		last[n] = '\0';
		if (!*p)
			break;
		at = world_child(at, last);
		REQUIRE(at);
	}
	REQUIRE(strcmp(what, "add") == 0 || world_child(at, last));
	if (cJSON_IsArray(at)) {
		int index = strcmp(last, "-") == 0 ? cJSON_GetArraySize(at) : atoi(last);

		REQUIRE(index <= cJSON_GetArraySize(at));
		if (strcmp(what, "add") != 0)
			cJSON_DeleteItemFromArray(at, index);
		if (value)
			world_insert(at, index, cJSON_Duplicate(value, true));
		return;
	}
	REQUIRE(cJSON_IsObject(at));
	cJSON_DeleteItemFromObjectCaseSensitive(at, last);
	if (value)
		cJSON_AddItemToObject(at, last, cJSON_Duplicate(value, true));
}

/* The object with the patch applied, strictly; the caller frees it. */
static inline char *world_apply(struct slice object, struct slice patch)
{
	cJSON *root = cJSON_ParseWithLength(object.at, object.len);
	cJSON *ops = cJSON_ParseWithLength(patch.at, patch.len), *op;
	char *out;

	REQUIRE(root && ops);
	cJSON_ArrayForEach(op, ops) world_apply_op(root, op);
	out = cJSON_PrintUnformatted(root);
	REQUIRE(out);
	cJSON_Delete(root);
	cJSON_Delete(ops);
	return out;
}

#endif
