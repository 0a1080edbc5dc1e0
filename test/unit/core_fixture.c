/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration and a pool for tests of the core. */
#include <cjson/cJSON.h>

#include "base/text.h"
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/edge/pool/ledger_memory.h"

static struct slice bf_always[] = {{"{client.binary}", 15}, {"run", 3}, {"-n", 2}, {"{amount}", 8}};
static struct slice bf_fraction[] = {{"-p", 2}, {"{fraction}", 10}};
static struct slice bf_memory[] = {{"-m", 2}, {"{memory_mb}", 11}};
static struct slice bf_filter[] = {{"--filter", 8}, {"{filter}", 8}};
static struct profile_words bf_argv[] = {{WORD_ALWAYS, bf_always, 4},
	{WORD_FRACTION, bf_fraction, 2}, {WORD_MEMORY, bf_memory, 2},
	{WORD_EACH_FILTER, bf_filter, 2}};
static struct slice opt_n[] = {{"-n", 2}, {"--num_gpus", 10}};
static struct slice opt_p[] = {{"-p", 2}, {"--partial", 9}};
static struct slice opt_m[] = {{"-m", 2}};
static struct profile_env bf_env[] = {{.name = {"LD_LIBRARY_PATH", 15},
	.value = {"{client.lib}", 12},
	.prepend = true,
	.separator = {":", 1}}};
static struct profile_value bf_values[] = {
	{{"binary", 6}, {FIX_LAUNCHER, sizeof(FIX_LAUNCHER) - 1}},
	{{"lib", 3}, {FIX_LIB, sizeof(FIX_LIB) - 1}}};
#define INIT_JSON "{\"name\":\"populate\",\"image\":\"client:400\"}"
static struct profile_init bf_inits[] = {
	{.name = {"populate", 8}, .json = {INIT_JSON, sizeof(INIT_JSON) - 1}}};
static struct profile_client bf_clients[] = {{.os = {"ubuntu18", 8},
	.version = {"400", 3},
	.values = bf_values,
	.n_values = 2,
	.inits = bf_inits,
	.n_inits = 1}};
#define VOL_JSON "{\"name\":\"bitfusion-distro\",\"emptyDir\":{}}"
#define MOUNT_JSON "{\"name\":\"bitfusion-distro\",\"mountPath\":\"/bitfusion\"}"
static struct profile_volume bf_volumes[] = {
	{{"bitfusion-distro", 16}, {VOL_JSON, sizeof(VOL_JSON) - 1}}};
static struct profile_mount bf_mounts[] = {
	{{"/bitfusion", 10}, {MOUNT_JSON, sizeof(MOUNT_JSON) - 1}}};
static struct slice bf_secrets[] = {{"bitfusion-client-secret-ca.crt", 30}};

static struct slice juice_always[] = {
	{"/juice/juice", 12}, {"run", 3}, {"--vram", 6}, {"{memory_gib}", 12}};
static struct profile_words juice_argv[] = {{WORD_ALWAYS, juice_always, 4}};
static struct profile_client no_client[1];

static struct profile_env lupine_env[] = {
	{.name = {"LUPINE_SERVER", 13}, .value = {"{servers}", 9}}};

static struct gpu gpus[] = {{.id = "gpu-0",
				    .model = "Tesla V100",
				    .bytes = 16000000000ULL,
				    .fit = true,
				    .fresh = true,
				    .why = ""},
	{.id = "gpu-1",
		.model = "Tesla V100",
		.bytes = 16000000000ULL,
		.fit = true,
		.fresh = true,
		.why = ""}};
static struct gpu_server servers[] = {
	{.name = "gpu-01", .address = "10.0.0.1:14833", .gpus = gpus, .n_gpus = 2}};

static void make_profiles(struct fixture *f)
{
	f->profiles[0] = (struct profile){.name = SLICE("bitfusion"),
		.hash = 0xb17f,
		.kind = PROFILE_WRAP,
		.by_client = true,
		.argv = bf_argv,
		.n_argv = COUNT(bf_argv),
		.separator = SLICE("--"),
		.basename = SLICE("bitfusion"),
		.options = {opt_n, 2, opt_p, 2, opt_m, 1},
		.shell = SLICE("sh"),
		.env = bf_env,
		.n_env = 1,
		.clients = bf_clients,
		.n_clients = 1,
		.volumes = bf_volumes,
		.n_volumes = 1,
		.mounts = bf_mounts,
		.n_mounts = 1,
		.secrets = bf_secrets,
		.n_secrets = 1,
		.max_amount = 10000};
	f->profiles[1] = (struct profile){.name = SLICE("juice"),
		.hash = 0x1ce,
		.kind = PROFILE_WRAP,
		.argv = juice_argv,
		.n_argv = 1,
		.basename = SLICE("juice"),
		.shell = SLICE("sh"),
		.clients = no_client,
		.n_clients = 1,
		.can_fraction = CAN_NO,
		.max_amount = 1};
	f->profiles[2] = (struct profile){.name = SLICE("lupine"),
		.hash = 0x1b1,
		.kind = PROFILE_ENV,
		.env = lupine_env,
		.n_env = 1,
		.clients = no_client,
		.n_clients = 1,
		.can_fraction = CAN_NO,
		.can_memory = CAN_NO,
		.max_amount = 64,
		.servers_placed = true,
		.whole_servers = true};
}

void fixture_init(struct fixture *f)
{
	struct inventory inv = {.servers = servers, .n_servers = 1, .n_gpus = 2};

	*f = (struct fixture){0};
	arena_init(&f->arena, 1 << 20);
	arena_init(&f->scratch, 64 << 20);
	buf_init(&f->patch, 16 << 20);
	make_profiles(f);
	f->config = (struct config){.total_gpu_mb = 16000,
		.profiles = f->profiles,
		.n_profiles = 3,
		.default_profile = &f->profiles[0],
		.secret_without_claim = true};
	f->ledger = ledger_memory_new(0);
	assert_non_null(f->ledger);
	assert_int_equal(ledger_memory_set_inventory(f->ledger, &inv, &f->err), 0);
	f->world = (struct mutate_world){.config = &f->config, .ledger = f->ledger};
}

void fixture_release(struct fixture *f)
{
	ledger_memory_free(f->ledger);
	json_release(&f->json);
	free(f->json_text);
	buf_release(&f->patch);
	arena_release(&f->scratch);
	arena_release(&f->arena);
}

const struct json_node *fixture_raw(struct fixture *f, const char *text)
{
	json_release(&f->json);
	free(f->json_text);
	f->json_text = NULL;
	arena_reset(&f->scratch);
	if (json_read_copy(&f->json, text, strlen(text), 1000000, &f->json_text, &f->err) < 0)
		fail_msg("%s in %s", f->err.msg, text);
	err_clear(&f->err);
	return json_root(&f->json);
}

const struct json_node *fixture_pod(struct fixture *f, const char *text)
{
	char *copy = fixture_quotes(text);
	const struct json_node *root;

	root = fixture_raw(f, copy);
	free(copy);
	return root;
}

int fixture_mutate(struct fixture *f, const char *text)
{
	const struct json_node *pod = fixture_pod(f, text);

	buf_clear(&f->patch);
	return mutate_create(&f->world, &f->json, pod, SLICE("ml"), &f->scratch, &f->patch,
		&f->mutation, &f->err);
}

static int validate(struct fixture *f, const struct json_node *pod)
{
	return validate_create(
		&f->world, &f->json, pod, SLICE("ml"), &f->scratch, &f->validation, &f->err);
}

int fixture_validate(struct fixture *f, const char *text)
{
	return validate(f, fixture_pod(f, text));
}

int fixture_validate_raw(struct fixture *f, const char *text)
{
	return validate(f, fixture_raw(f, text));
}

const struct json_node *fixture_both(struct fixture *f, const char *old, const char *new)
{
	size_t size = strlen(old) + strlen(new) + 32;
	char *both = malloc(size);
	const struct json_node *root;

	assert_non_null(both);
	(void)snprintf(both, size, "{\"old\":%s,\"new\":%s}", old, new);
	root = fixture_raw(f, both);
	free(both);
	return root;
}

int fixture_update(struct fixture *f, const struct config *config, const char *old, const char *new)
{
	const struct json_node *root = fixture_both(f, old, new);

	buf_clear(&f->patch);
	return mutate_update(config, &f->json, json_get(&f->json, root, SLICE("new")),
		json_get(&f->json, root, SLICE("old")), SLICE("ml"), &f->scratch, &f->patch,
		&f->mutation, &f->err);
}

/* The node that a pointer's last but one segment leads to, and that last segment, decoded. */
static cJSON *walk(cJSON *root, const char *path, char *last, size_t size)
{
	cJSON *at = root;
	const char *p = path;

	for (;;) {
		size_t n = 0;

		assert_int_equal(*p, '/');
		p++;
		while (*p && *p != '/') {
			char c = *p++;

			if (c == '~')
				c = *p++ == '1' ? '/' : '~';
			assert_true(n + 1 < size);
			last[n++] = c;
		}
		last[n] = '\0';
		if (!*p)
			return at;
		at = cJSON_IsArray(at) ? cJSON_GetArrayItem(at, atoi(last))
				       : cJSON_GetObjectItemCaseSensitive(at, last);
		if (!at)
			fail_msg("%s leads nowhere", path);
	}
}

/* cJSON_InsertItemInArray of 1.7.15 refuses a second insertion in front of a single element. */
static void insert(cJSON *array, int index, cJSON *item)
{
	cJSON *behind = cJSON_CreateArray();

	assert_non_null(item);
	while (cJSON_GetArraySize(array) > index)
		cJSON_AddItemToArray(behind, cJSON_DetachItemFromArray(array, index));
	cJSON_AddItemToArray(array, item);
	while (cJSON_GetArraySize(behind) > 0)
		cJSON_AddItemToArray(array, cJSON_DetachItemFromArray(behind, 0));
	cJSON_Delete(behind);
}

static void apply_op(cJSON *root, const cJSON *op)
{
	const char *what = cJSON_GetObjectItemCaseSensitive(op, "op")->valuestring;
	const char *path = cJSON_GetObjectItemCaseSensitive(op, "path")->valuestring;
	cJSON *value = cJSON_GetObjectItemCaseSensitive(op, "value"), *parent;
	bool add = strcmp(what, "add") == 0;
	char last[512];

	parent = walk(root, path, last, sizeof(last));
	if (!add && !(cJSON_IsArray(parent) ? cJSON_GetArrayItem(parent, atoi(last))
					    : cJSON_GetObjectItemCaseSensitive(parent, last)))
		fail_msg("%s %s: there is nothing", what, path);
	if (cJSON_IsArray(parent)) {
		int index = strcmp(last, "-") == 0 ? cJSON_GetArraySize(parent) : atoi(last);

		assert_true(index <= cJSON_GetArraySize(parent));
		if (!add)
			cJSON_DeleteItemFromArray(parent, index);
		if (strcmp(what, "remove") == 0)
			return;
		insert(parent, index, cJSON_Duplicate(value, true));
		return;
	}
	assert_true(cJSON_IsObject(parent));
	cJSON_DeleteItemFromObjectCaseSensitive(parent, last);
	if (strcmp(what, "remove") != 0)
		assert_true(cJSON_AddItemToObject(parent, last, cJSON_Duplicate(value, true)));
}

char *fixture_apply(const char *text, const char *patch)
{
	cJSON *root = cJSON_Parse(text), *ops = cJSON_Parse(patch && *patch ? patch : "[]"), *op;
	char *out;

	assert_non_null(root);
	assert_non_null(ops);
	cJSON_ArrayForEach(op, ops) apply_op(root, op);
	out = cJSON_PrintUnformatted(root);
	cJSON_Delete(root);
	cJSON_Delete(ops);
	assert_non_null(out);
	return out;
}

char *fixture_change(const char *text, const char *ops)
{
	char *patch = fixture_quotes(ops), *out = fixture_apply(text, patch);

	free(patch);
	return out;
}

char *fixture_inject(struct fixture *f, const char *text)
{
	if (fixture_mutate(f, text) < 0)
		fail_msg("refused: %s: %s", f->err.path, f->err.msg);
	return fixture_apply(f->json_text, f->patch.data);
}

char *fixture_undo(struct fixture *f, const char *pod)
{
	const struct json_node *node = fixture_raw(f, pod);

	buf_clear(&f->patch);
	if (mutate_undo(&f->json, node, &f->scratch, &f->patch, &f->mutation, &f->err) < 0)
		fail_msg("%s: %s in %s", f->err.path, f->err.msg, pod);
	return fixture_apply(pod, f->patch.data);
}

/* What came out may hold single quotes in its strings. */
struct cJSON *fixture_tree(const char *text)
{
	char *copy = text[1] == '"' ? strdup(text) : fixture_quotes(text);
	cJSON *ret = cJSON_Parse(copy);

	assert_non_null(ret);
	free(copy);
	return ret;
}

void fixture_same(size_t row, const char *what, const char *text, const char *other)
{
	cJSON *x = fixture_tree(text), *y = fixture_tree(other);

	if (!cJSON_Compare(x, y, true))
		fail_msg("row %zu, %s: %s\nis not\n%s", row, what, text, other);
	cJSON_Delete(x);
	cJSON_Delete(y);
}
