/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of webhook/core/launcher/launcher_load (with launcher_argv, launcher_inits,
 * launcher_parts and launcher_hash): what a profile document gives, and the sentence for every way
 * in which it can be wrong. */

#include "base/buf.h"
#include "base/yaml/yaml.h"
#include "test/unit/test.h"
#include "webhook/core/launcher/launcher_load.h"
#include "webhook/core/pod/gpu_request.h"

static struct arena tree_arena, arena;

FIXTURE(setup)
{
	arena_init(&tree_arena, YAML_ARENA_MAX);
	arena_init(&arena, 16 << 20);
	return 0;
}

FIXTURE(teardown)
{
	arena_release(&tree_arena);
	arena_release(&arena);
	return 0;
}

static int load(const char *text, struct profile *ret, struct err *err)
{
	struct yaml_stream stream;
	int rc;

	arena_reset(&tree_arena);
	arena_reset(&arena);
	rc = yaml_parse(&tree_arena, "p.yaml", slice_of(text), YAML_NO_ALIASES, &stream, err);
	if (rc != 0)
		return rc;
	rc = launcher_load(stream.first ? stream.first->root : NULL, &arena, ret, err);
	arena_reset(&tree_arena); /* nothing may point into the tree */
	return rc;
}

static void must_load(const char *text, struct profile *ret)
{
	struct err err = {0};

	if (load(text, ret, &err) != 0)
		fail_msg("%s", err.msg);
}

static void expect(struct slice got, const char *want)
{
	if (!slice_is(got, want))
		fail_msg("got \"%.*s\", expected \"%s\"", (int)got.len, got.at, want);
}

#define HEAD                                                                                       \
	"apiVersion: poolgate.io/v1alpha1\n"                                                       \
	"kind: LauncherProfile\n"                                                                  \
	"metadata: {name: tool}\n"                                                                 \
	"spec:\n"
#define WRAP HEAD "  kind: wrap\n  argv: [/opt/tool, run]\n"
#define ENV HEAD "  kind: env\n  env: [{name: A, value: b}]\n"

static const char full[] =
	HEAD "  kind: wrap\n"
	     "  argv:\n"
	     "    - \"{client.binary}\"\n"
	     "    - run\n"
	     "    - -n\n"
	     "    - \"{amount}\"\n"
	     "    - {if: fraction, words: [-p, \"{fraction}\"]}\n"
	     "    - {if: memory, words: [-m, \"{memory_mb}\"]}\n"
	     "    - {if: filter, words: [--labels, \"{filters}\"]}\n"
	     "    - {each: filter, words: [--filter, \"{filter}\"]}\n"
	     "  separator: --\n"
	     "  shell: /bin/bash\n"
	     "  options: {amount: [-n, --num], fraction: [-p], memoryMB: [-m]}\n"
	     "  env:\n"
	     "    - {name: LD_LIBRARY_PATH, prepend: \"{client.lib}\"}\n"
	     "    - {name: LD_PRELOAD, prepend: /x.so, separator: \" \"}\n"
	     "    - {name: TOOL_HOME, value: /opt/tool}\n"
	     "    - {name: TOOL_LIMIT, value: small, if: memory}\n"
	     "    - {name: TOOL_TOKEN, secret: {name: tool.token-1, key: the.key_1}}\n"
	     "  initContainers:\n"
	     "    - name: copy\n"
	     "      image: example/tool:1\n"
	     "      command: [sh, -c, \"cp {client.binary} ${HOME} {x} /opt\"]\n"
	     "      args: [\"{client.lib}\", plain]\n"
	     "      env:\n"
	     "        - {name: LIB, value: \"{client.lib}/x\"}\n"
	     "        - {name: TOKEN, valueFrom: {secretKeyRef: {name: token, key: t}}}\n"
	     "      resources:\n"
	     "        limits: {cpu: 500m, memory: 64Mi, ephemeral-storage: 1Gi}\n"
	     "        requests: {cpu: 1}\n"
	     "      securityContext: {runAsUser: 0600, readOnlyRootFilesystem: yes}\n"
	     "      volumeMounts: [{name: tool, mountPath: /opt}]\n"
	     "  volumes:\n"
	     "    - {name: tool, emptyDir: {}}\n"
	     "    - name: key\n"
	     "      secret: {secretName: key, items: [{key: k, path: k, mode: 0600}]}\n"
	     "    - name: all\n"
	     "      projected: {sources: [{secret: {name: more}}, {configMap: {name: c}}]}\n"
	     "  volumeMounts: [{name: tool, mountPath: /opt/tool, readOnly: true}]\n"
	     "  secrets: [token, key]\n"
	     "  can: {fraction: yes, memory: bookkeeping, maxAmount: 4}\n"
	     "  clients:\n"
	     "    - os: ubuntu18\n"
	     "      version: \"400\"\n"
	     "      values: {binary: /a/tool, lib: /a/lib}\n"
	     "    - os: ubuntu20\n"
	     "      version: \"450\"\n"
	     "      values: {lib: /b/lib, binary: /b/tool}\n";

TEST(test_full)
{
	struct profile p;
	const struct profile_init *init;

	must_load(full, &p);
	expect(p.name, "tool");
	assert_int_equal(p.kind, PROFILE_WRAP);
	assert_int_equal(p.n_argv, 8);
	assert_int_equal(p.argv[4].when, WORD_FRACTION);
	assert_int_equal(p.argv[5].when, WORD_MEMORY);
	assert_int_equal(p.argv[6].when, WORD_ANY_FILTER);
	assert_int_equal(p.argv[7].when, WORD_EACH_FILTER);
	expect(p.argv[7].word[1], "{filter}");
	expect(p.separator, "--");
	expect(p.basename, "tool");
	expect(p.shell, "/bin/bash");
	assert_int_equal(p.options.n_amount, 2);
	expect(p.options.amount[1], "--num");
	assert_int_equal(p.n_env, 5);
	expect(p.env[4].secret, "tool.token-1");
	expect(p.env[4].secret_key, "the.key_1");
	assert_true(p.env[0].prepend);
	expect(p.env[0].separator, ":");
	expect(p.env[1].separator, " ");
	assert_false(p.env[2].prepend);
	assert_true(p.by_client);
	assert_int_equal(p.n_clients, 2);
	expect(p.clients[1].version, "450");
	assert_int_equal(p.n_volumes, 3);
	expect(p.volumes[1].json, "{\"name\":\"key\",\"secret\":{\"secretName\":\"key\",\"items\":["
				  "{\"key\":\"k\",\"path\":"
				  "\"k\",\"mode\":384}]}}");
	assert_int_equal(p.n_mounts, 1);
	expect(p.mounts[0].path, "/opt/tool");
	expect(p.mounts[0].json,
		"{\"name\":\"tool\",\"mountPath\":\"/opt/tool\",\"readOnly\":true}");
	assert_int_equal(p.n_secrets, 4);
	expect(p.secrets[0], "token");
	expect(p.secrets[1], "key");
	expect(p.secrets[2], "tool.token-1");
	expect(p.secrets[3], "more");
	assert_int_equal(p.can_fraction, CAN_YES);
	assert_int_equal(p.can_memory, CAN_BOOKKEEPING);
	assert_int_equal(p.max_amount, 4);
	assert_false(p.servers_placed);
	assert_false(p.whole_servers);
	init = &p.clients[1].inits[0];
	expect(init->name, "copy");
	expect(init->json,
		"{\"name\":\"copy\",\"image\":\"example/tool:1\",\"command\":[\"sh\",\"-c\",\"cp "
		"/b/tool "
		"${HOME} {x} /opt\"],\"args\":[\"/b/lib\",\"plain\"],\"env\":[{\"name\":\"LIB\","
		"\"value\":\"/b/lib/"
		"x\"},{\"name\":\"TOKEN\",\"valueFrom\":{\"secretKeyRef\":{\"name\":"
		"\"token\",\"key\":\"t\"}}}],\"securityContext\":{\"runAsUser\":384,"
		"\"readOnlyRootFilesystem\":true},\"volumeMounts\":[{\"name\":\"tool\","
		"\"mountPath\":"
		"\"/opt\"}]}");
	expect(init->limit_cpu, "500m");
	expect(init->limit_memory, "64Mi");
	expect(init->request_cpu, "1");
	assert_null(init->request_memory.at);
	expect(init->other_limits, "\"ephemeral-storage\":\"1Gi\"");
	assert_null(init->other_requests.at);
}

TEST(test_defaults)
{
	struct profile p;

	must_load(WRAP, &p);
	assert_null(p.separator.at);
	expect(p.basename, "tool");
	expect(p.shell, "sh");
	assert_false(p.by_client);
	assert_int_equal(p.n_clients, 1);
	assert_null(p.clients[0].os.at);
	assert_int_equal(p.clients[0].n_inits, 0);
	/* argv tells the client neither share nor number */
	assert_int_equal(p.can_fraction, CAN_NO);
	assert_int_equal(p.can_memory, CAN_NO);
	assert_int_equal(p.max_amount, 1);

	must_load(HEAD "  kind: wrap\n  argv: [/opt/tool, \"{amount}\", {if: memory, words: "
		       "[\"{memory_gib}\"]}]\n  launcher: other\n",
		&p);
	expect(p.basename, "other");
	assert_int_equal(p.can_fraction, CAN_NO);
	assert_int_equal(p.can_memory, CAN_YES);
	assert_int_equal(p.max_amount, GPU_AMOUNT_MAX);

	must_load(HEAD "  kind: libpath\n  env: [{name: S, value: \"{servers}\"}]\n  placement: "
		       "servers\n  granularity: server\n",
		&p);
	assert_int_equal(p.kind, PROFILE_LIBPATH);
	assert_null(p.shell.at);
	assert_null(p.basename.at);
	assert_true(p.servers_placed);
	assert_true(p.whole_servers);
	assert_false(p.one_server);
	assert_false(p.no_ipv4 || p.no_ipv6);
	assert_null(p.clients[0].arch.at);
	assert_int_equal(p.max_amount, GPU_AMOUNT_MAX);

	must_load(HEAD "  kind: libpath\n  env: [{name: S, value: \"{servers}\"}]\n  placement: "
		       "servers\n  addressFamilies: [IPv4]\n  clients: [{arch: arm64}]\n",
		&p);
	assert_true(p.no_ipv6);
	assert_false(p.no_ipv4 || p.by_client);
	expect(p.clients[0].arch, "arm64");

	must_load(HEAD "  kind: env\n  env: [{name: S, value: \"{server_host}\", if: filter}]\n  "
		       "placement: servers\n",
		&p);
	assert_true(p.one_server);

	must_load(HEAD "  kind: env\n  env: [{name: A, value: b}, {name: M, value: "
		       "\"{memory_mb}m\", if: memory}, {name: F, prepend: \"{percent}\", if: "
		       "fraction}, {name: T, value: \"{filters}\", if: filter}]\n",
		&p);
	assert_int_equal(p.env[0].when, WORD_ALWAYS);
	assert_int_equal(p.env[1].when, WORD_MEMORY);
	assert_int_equal(p.env[2].when, WORD_FRACTION);
	assert_int_equal(p.env[3].when, WORD_ANY_FILTER);
	assert_int_equal(p.can_fraction, CAN_YES);
	assert_int_equal(p.can_memory, CAN_YES);

	must_load(HEAD "  kind: preload\n  env: [{name: S, value: \"{client.a}\"}]\n  clients: "
		       "[{values: {a: b}}]\n  can: {fraction: \"no\", memory: no}\n",
		&p);
	assert_false(p.by_client);
	expect(p.clients[0].values[0].value, "b");
}

/* Whatever YAML calls yes and no, where the client is told the one and not the other. */
TEST(test_can)
{
	static const struct {
		const char *can;
		enum can fraction, memory;
	} rows[] = {
		{"", CAN_YES, CAN_NO},
		{"  can: {}\n", CAN_YES, CAN_NO},
		{"  can: {fraction: true, memory: false}\n", CAN_YES, CAN_NO},
		{"  can: {fraction: false}\n", CAN_NO, CAN_NO},
		{"  can: {fraction: no, memory: no}\n", CAN_NO, CAN_NO},
		{"  can: {fraction: \"no\", memory: \"no\"}\n", CAN_NO, CAN_NO},
		{"  can: {fraction: bookkeeping, memory: bookkeeping}\n", CAN_BOOKKEEPING,
			CAN_BOOKKEEPING},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct profile p;
		char text[512];

		(void)snprintf(text, sizeof(text),
			HEAD "  kind: preload\n  env: [{name: F, value: \"{fraction}\", if: "
			     "fraction}]\n%s",
			rows[i].can);
		must_load(text, &p);
		if (p.can_fraction != rows[i].fraction || p.can_memory != rows[i].memory)
			fail_msg("row %zu: %d, %d", i, (int)p.can_fraction, (int)p.can_memory);
	}
}

/* The same document gives the same hash; every change that decides something gives another one. */
TEST(test_hash)
{
	static const struct {
		const char *from, *to;
	} changes[] = {
		{"name: tool}", "name: tol}"},
		{"[-p, \"{fraction}\"]", "[-q, \"{fraction}\"]"},
		{"if: filter", "each: filter"},
		{"separator: --", "separator: -x"},
		{"shell: /bin/bash", "shell: /bin/sh"},
		{"[-n, --num]", "[-n, --nun]"},
		{"fraction: [-p]", "fraction: [-q]"},
		{"memoryMB: [-m]", "memoryMB: [-M]"},
		{"prepend: /x.so", "prepend: /y.so"},
		{"name: LD_PRELOAD", "name: LD_AUDIT"},
		{"{name: TOOL_HOME, value", "{name: TOOL_HOME, prepend"},
		{"separator: \" \"", "separator: \":\""},
		{"value: small, if: memory", "value: small, if: fraction"},
		{"value: small, if: memory", "value: small"},
		{"name: tool.token-1", "name: tool.token-2"},
		{"the.key_1", "the.key_2"},
		{"example/tool:1", "example/tool:2"},
		{"cpu: 500m", "cpu: 501m"},
		{"mode: 0600", "mode: 0400"},
		{"readOnly: true", "readOnly: false"},
		{"limits: {cpu: 500m", "limits: {cpu: 400m"},
		{"memory: 64Mi", "memory: 65Mi"},
		{"ephemeral-storage: 1Gi", "ephemeral-storage: 2Gi"},
		{"requests: {cpu: 1}", "requests: {cpu: 2}"},
		{"requests: {cpu: 1}", "requests: {cpu: 1, memory: 1Mi}"},
		{"requests: {cpu: 1}", "requests: {cpu: 1, ephemeral-storage: 1}"},
		{"version: \"400\"", "version: \"401\""},
		{"secrets: [token, key]", "secrets: [tokem, key]"},
		{"memory: bookkeeping", "memory: yes"},
		{"maxAmount: 4", "maxAmount: 3"},
		{"os: ubuntu18", "os: ubuntu16"},
		{"lib: /b/lib", "lib: /c/lib"},
		{"can:", "granularity: server\n  can:"},
		/* of each list the first and the last */
		{"- run\n", "- start\n"},
		{"{filter}", "x={filter}"},
		{"[-n, --num]", "[-N, --num]"},
		{"name: LD_LIBRARY_PATH", "name: LIBRARY_PATH"},
		{"prepend: \"{client.lib}\"", "prepend: \"{client.lib}/64\""},
		{"prepend: \"{client.lib}\"", "value: \"{client.lib}\""},
		{"name: TOOL_TOKEN", "name: TOOL_KEY"},
		{"name: copy", "name: fetch"},
		{"{name: tool, emptyDir: {}}", "{name: tool, emptyDir: {medium: Memory}}"},
		{"configMap: {name: c}", "configMap: {name: d}"},
		{"mountPath: /opt/tool", "mountPath: /opt/tools"},
		{"secrets: [token, key]", "secrets: [token, lock]"},
		{"secrets: [token, key]", "secrets: [token]"},
		{"version: \"450\"", "version: \"451\""},
		{"os: ubuntu20", "os: ubuntu22"},
		{"binary: /a/tool", "binary: /c/tool"},
		{"binary: /b/tool", "binary: /c/tool"},
	};
	struct profile p;
	uint64_t hash;

	must_load(full, &p);
	hash = p.hash;
	must_load(full, &p);
	assert_true(p.hash == hash);
	for (size_t i = 0; i < COUNT(changes); i++) {
		const char *at = strstr(full, changes[i].from);
		struct buf b;

		assert_non_null(at);
		buf_init(&b, 8192);
		buf_add(&b, full, (size_t)(at - full));
		buf_str(&b, changes[i].to);
		buf_str(&b, at + strlen(changes[i].from));
		must_load(b.data, &p);
		if (p.hash == hash)
			fail_msg("%s makes no difference", changes[i].to);
		buf_release(&b);
	}
}

/* Which variable has which Secret's value, where the profile reads the same Secrets. */
TEST(test_hash_of_secrets_that_are_exchanged)
{
#define SECRETS(first, second)                                                                     \
	HEAD "  kind: env\n  secrets: [one, two]\n  env: [{name: A, secret: {name: " first         \
	     ", key: k}}, {name: B, secret: {name: " second ", key: k}}]\n"
	struct profile p;
	uint64_t hash;

	must_load(SECRETS("one", "two"), &p);
	hash = p.hash;
	must_load(SECRETS("two", "one"), &p);
	assert_true(p.hash != hash);
}

/* A client's value that stands nowhere but in the launcher's words. */
TEST(test_hash_of_a_clients_value)
{
#define CLIENT(value)                                                                              \
	HEAD "  kind: wrap\n  argv: [\"{client.binary}\"]\n  clients:\n"                           \
	     "    - {os: a, version: \"1\", values: {binary: " value "}}\n"
	struct profile p;
	uint64_t hash;

	must_load(CLIENT("/a/tool"), &p);
	hash = p.hash;
	must_load(CLIENT("/b/tool"), &p);
	assert_true(p.hash != hash);
#undef CLIENT
}

#define SECRET(name, key) WRAP "  env: [{name: A, secret: {name: " name ", key: " key "}}]\n"
#define TEN(s) s s s s s s s s s s

/* A Secret's name and its keys are of 253 characters at most. */
TEST(test_longest_names)
{
#define LONGEST TEN(TEN("ab")) TEN("abcde") "abc"
	static const char longest[] = SECRET(LONGEST, LONGEST);
	static const char *const longer[] = {SECRET(LONGEST "d", "k"), SECRET("n", LONGEST "d")};
	struct err err = {0};
	struct profile p;

	must_load(longest, &p);
	for (size_t i = 0; i < COUNT(longer); i++)
		assert_int_equal(load(longer[i], &p, &err), ERR_INVALID);
}

/* Which bytes a name may hold behind its first one: of the environment, of a Secret, of a key. */
TEST(test_characters_of_names)
{
#define SMALL "abcdefghijklmnopqrstuvwxyz"
#define LARGE "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
	static const struct {
		const char *before, *after, *allowed;
	} rows[] = {
		{WRAP "  env: [{name: \"a", "\", value: b}]\n", SMALL LARGE DIGITS "_"},
		{WRAP "  env: [{name: \"", "\", value: b}]\n", SMALL LARGE "_"},
		{WRAP "  env: [{name: A, secret: {name: \"a", "b\", key: k}}]\n",
			SMALL DIGITS "-."},
		{WRAP "  env: [{name: A, secret: {name: \"", "\", key: k}}]\n", SMALL DIGITS},
		{WRAP "  env: [{name: A, secret: {name: a, key: \"", "\"}}]\n",
			SMALL LARGE DIGITS "-_"},
		{WRAP "  env: [{name: A, secret: {name: a, key: \"a", "\"}}]\n",
			SMALL LARGE DIGITS "-_."},
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		for (int c = ' '; c < 0x7f; c++) {
			struct err err = {0};
			struct profile p;
			char text[512];

			snprintf(text, sizeof(text), "%s%s%c%s", rows[i].before,
				c == '"' || c == '\\' ? "\\" : "", c, rows[i].after);
			if ((load(text, &p, &err) == 0) != (strchr(rows[i].allowed, c) != NULL))
				fail_msg("row %zu: '%c': %s", i, c, err.msg);
		}
#undef SMALL
#undef LARGE
#undef DIGITS
}

/* Each text, the line that the message must name, and a part of what it must say. */
static const struct {
	const char *text;
	int line;
	const char *complaint;
} wrong[] = {
	{"", 0, ""},
	{"[]", 1, "expected a mapping"},
	{"kind: LauncherProfile\n", 1, "apiVersion"},
	{"apiVersion: v1\nkind: LauncherProfile\n", 1, "expected poolgate.io/v1alpha1"},
	{"apiVersion: poolgate.io/v1alpha1\nkind: GPUServer\n", 2, "expected LauncherProfile"},
	{"apiVersion: poolgate.io/v1alpha1\nkind: LauncherProfile\nspec: {}\n", 1, "metadata"},
	{"apiVersion: poolgate.io/v1alpha1\nkind: LauncherProfile\nmetadata: {name: Tool}\nspec: "
	 "{}\n",
		3, "/metadata/name: found \"Tool\""},
	{"apiVersion: poolgate.io/v1alpha1\nkind: LauncherProfile\nmetadata: {name: a}\n", 1,
		"spec"},
	{"apiVersion: poolgate.io/v1alpha1\nkind: LauncherProfile\nmetadata: {name: a}\nspec: {}\n"
	 "status: {}\n",
		5, "status"},
	{HEAD "  argv: [x]\n", 5, "kind"},
	{HEAD "  kind: shim\n", 5, "found \"shim\", expected"},
	{WRAP "  argV: [x]\n", 7, "argV"},
	/* argv */
	{HEAD "  kind: wrap\n", 5, "argv"},
	{HEAD "  kind: wrap\n  argv: /x\n", 6, "expected a sequence"},
	{HEAD "  kind: wrap\n  argv: []\n", 6, "found 0 words, expected 1 to"},
	{HEAD "  kind: wrap\n  argv: [{if: memory, words: [a]}]\n", 6, "the launcher itself"},
	{HEAD "  kind: wrap\n  argv: [/]\n", 6, "expected the path of a program"},
	{HEAD "  kind: wrap\n  argv: [/x, 1]\n", 6, "found 1, expected a string"},
	{HEAD "  kind: wrap\n  argv: [/x, \"{gpu}\"]\n", 6,
		"/spec/argv/1: unknown place {gpu}; known here: {amount}"},
	{HEAD "  kind: wrap\n  argv: [/x, \"{filter}\"]\n", 6, "unknown place {filter}"},
	{HEAD "  kind: wrap\n  argv: [/x, \"{client.a}\"]\n", 6, "unknown place {client.a}"},
	{HEAD "  kind: wrap\n  argv: [/x, \"{fraction}\"]\n", 6, "\"if: fraction\""},
	{HEAD "  kind: wrap\n  argv: [/x, \"{memory_gib}\"]\n", 6, "\"if: memory\""},
	{HEAD "  kind: wrap\n  argv: [/x, {if: memory, words: [\"{percent}\"]}]\n", 6,
		"\"if: fraction\""},
	{HEAD "  kind: wrap\n  argv: [/x, {words: [a]}]\n", 6, "found neither if nor each"},
	{HEAD "  kind: wrap\n  argv: [/x, {if: memory, each: filter, words: [a]}]\n", 6,
		"found both if and each"},
	{HEAD "  kind: wrap\n  argv: [/x, {if: mem, words: [a]}]\n", 6, "found \"mem\", expected"},
	{HEAD "  kind: wrap\n  argv: [/x, {each: gpu, words: [a]}]\n", 6,
		"found \"gpu\", expected"},
	{HEAD "  kind: wrap\n  argv: [/x, {if: memory}]\n", 6, "words"},
	{HEAD "  kind: wrap\n  argv: [/x, {if: memory, words: a}]\n", 6, "expected a sequence"},
	{HEAD "  kind: wrap\n  argv: [/x, {if: memory, words: []}]\n", 6, "found 0 words"},
	{HEAD "  kind: wrap\n  argv: [/x, {if: memory, word: [a]}]\n", 6, "word"},
	{HEAD "  kind: wrap\n  argv: [/x, \"a\\0b\"]\n", 6, "NUL"},
	{WRAP "  separator: \"a b\"\n", 7, "expected one word"},
	{WRAP "  separator: \"\"\n", 7, "expected one word"},
	{WRAP "  launcher: a/b\n", 7, "expected a file name"},
	{WRAP "  shell: \"\"\n", 7, "expected one word"},
	{WRAP "  shell: [sh, -c]\n", 7, "expected a string"},
	{WRAP "  options: {amount: -n}\n", 7, "expected a sequence"},
	{WRAP "  options: {amount: [num]}\n", 7, "found \"num\", expected an option"},
	{WRAP "  options: {amount: [\"-n 1\"]}\n", 7, "expected one word"},
	{WRAP "  options: {memory: [-m]}\n", 7, "memory"},
	{HEAD "  kind: wrap\n  argv: [\"{client.b}\"]\n  clients: [{os: a, version: b, values: {b: "
	      "/x}}, {os: b, version: b, values: {b: /y}}]\n",
		6, "gives \"x\" for one client and \"y\" for another"},
	{ENV "  argv: [x]\n", 7, "argv belongs to profiles of kind wrap"},
	{ENV "  separator: --\n", 7, "separator belongs to profiles of kind wrap"},
	{ENV "  launcher: x\n", 7, "launcher belongs to profiles of kind wrap"},
	{ENV "  options: {}\n", 7, "options belongs to profiles of kind wrap"},
	{ENV "  shell: x\n", 7, "shell belongs to profiles of kind wrap"},
	/* env */
	{HEAD "  kind: env\n", 5, "found no env"},
	{HEAD "  kind: preload\n  env: []\n", 5, "found no env"},
	{WRAP "  env: {A: b}\n", 7, "expected a sequence"},
	{WRAP "  env: [A]\n", 7, "expected a mapping"},
	{WRAP "  env: [{value: b}]\n", 7, "name"},
	{WRAP "  env: [{name: A-B, value: b}]\n", 7,
		"expected the name of an environment variable"},
	{WRAP "  env: [{name: 1A, value: b}]\n", 7, "expected the name of an environment variable"},
	{WRAP "  env: [{name: A}]\n", 7, "found none of value, prepend, secret and field"},
	{WRAP "  env: [{name: A, value: b, prepend: c}]\n", 7,
		"found more than one of value, prepend"},
	{WRAP "  env: [{name: A, value: b, separator: c}]\n", 7, "separator belongs to prepend"},
	{WRAP "  env: [{name: A, prepend: b, separator: \"\"}]\n", 7, "found \"\", expected what"},
	{WRAP "  env: [{name: A, prepend: \"\"}]\n", 7, "text that is not empty"},
	{WRAP "  env: [{name: A, prepend: \"b:\"}]\n", 7, "gives \"b:\""},
	{WRAP "  env: [{name: A, prepend: \":b\"}]\n", 7, "gives \":b\""},
	{WRAP "  env: [{name: A, value: \"{fraction}\"}]\n", 7, "no value for every request"},
	{WRAP "  env: [{name: A, value: \"{fraction}\", if: memory}]\n", 7,
		"an entry of argv or env with \"if: fraction\""},
	{WRAP "  env: [{name: A, value: b, if: percent}]\n", 7, "found \"percent\""},
	{WRAP "  env: [{name: A, value: b, each: filter}]\n", 7, "unknown key \"each\""},
	{WRAP "  env: [{name: A, value: \"{filter}\", if: filter}]\n", 7, "unknown place {filter}"},
	{WRAP "  env: [{name: A, field: spec.nodeName}]\n", 7, "expected metadata.uid"},
	{WRAP "  env: [{name: A, field: metadata.uid, value: b}]\n", 7, "more than one of value"},
	{WRAP "  env: [{name: A, field: metadata.uid, separator: b}]\n", 7,
		"separator belongs to prepend"},
	{WRAP "  env: [{name: A, secret: b}]\n", 7, "expected a mapping"},
	{WRAP "  env: [{name: A, secret: {key: b}}]\n", 7, "name"},
	{WRAP "  env: [{name: A, secret: {name: b}}]\n", 7, "key"},
	{WRAP "  env: [{name: A, secret: {name: b, key: c, optional: yes}}]\n", 7, "unknown key"},
	{WRAP "  env: [{name: A, secret: {name: B, key: c}}]\n", 7,
		"expected the name of a Secret"},
	{WRAP "  env: [{name: A, secret: {name: \"\", key: c}}]\n", 7, "the name of a Secret"},
	{WRAP "  env: [{name: A, secret: {name: -b, key: c}}]\n", 7, "the name of a Secret"},
	{WRAP "  env: [{name: A, secret: {name: b-, key: c}}]\n", 7, "the name of a Secret"},
	{WRAP "  env: [{name: A, secret: {name: b-.c, key: c}}]\n", 7, "the name of a Secret"},
	{WRAP "  env: [{name: A, secret: {name: b..c, key: c}}]\n", 7, "the name of a Secret"},
	{WRAP "  env: [{name: A, secret: {name: b., key: c}}]\n", 7, "the name of a Secret"},
	{WRAP "  env: [{name: A, secret: {name: b, key: \"\"}}]\n", 7, "a key of a Secret"},
	{WRAP "  env: [{name: A, secret: {name: b, key: a/b}}]\n", 7, "a key of a Secret"},
	{WRAP "  env: [{name: A, secret: {name: b, key: ..c}}]\n", 7, "a key of a Secret"},
	{WRAP "  env: [{name: A, secret: {name: b, key: c}, value: d}]\n", 7, "more than one"},
	{WRAP "  env: [{name: A, secret: {name: b, key: c}, separator: d}]\n", 7,
		"separator belongs to prepend"},
	{WRAP "  env: [{name: A, value: b}, {name: A, value: c}]\n", 7, "found \"A\" twice"},
	{WRAP "  env: [{name: A, valueFrom: {}}]\n", 7, "valueFrom"},
	/* clients */
	{WRAP "  clients: {}\n", 7, "expected a sequence"},
	{WRAP "  clients: []\n", 7, "found 0 clients"},
	{WRAP "  clients: [a]\n", 7, "expected a mapping"},
	{WRAP "  clients: [{os: a}]\n", 7, "version"},
	{WRAP "  clients: [{version: \"4\"}]\n", 7, "os"},
	{WRAP "  clients: [{os: a, version: 4}]\n", 7, "expected a string; put it in quotes"},
	{WRAP "  clients: [{os: \"\", version: b}]\n", 7, "found an empty os or version"},
	{WRAP "  clients: [{values: {a: b}}, {values: {a: c}}]\n", 7, "os"},
	{WRAP "  clients: [{os: a, version: b}, {os: a, version: b}]\n", 7, "twice"},
	{WRAP "  clients:\n  - {os: a, version: b, values: {x: v}}\n  - {os: a, version: c}\n", 9,
		"no value \"x\", which the first client has"},
	{WRAP "  clients:\n  - {os: a, version: b}\n  - {os: a, version: c, values: {x: v}}\n", 9,
		"has 1 values and the first client 0"},
	{WRAP "  clients: [{values: {A_b: v}}]\n", 7, "expected a name of"},
	{WRAP "  clients: [{values: {a: \"\"}}]\n", 7, "text that is not empty"},
	{WRAP "  clients: [{values: {a: 4}}]\n", 7, "expected a string"},
	{WRAP "  clients: [{values: [a]}]\n", 7, "expected a mapping"},
	{WRAP "  clients: [{name: a}]\n", 7, "name"},
	/* volumes and mounts */
	{WRAP "  volumes: [{emptyDir: {}}]\n", 7, "name"},
	{WRAP "  volumes: [a]\n", 7, "expected a mapping"},
	{WRAP "  volumes: {a: b}\n", 7, "expected a sequence"},
	{WRAP "  volumes: [{name: A}]\n", 7, "found \"A\", expected the name of a volume"},
	{WRAP "  volumes: [{name: a}, {name: a}]\n", 7, "found \"a\" twice"},
	{WRAP "  volumes: [{name: a, x: .inf}]\n", 7, ""},
	{WRAP "  volumes: [{name: a, secret: {secretName: 5}}]\n", 7, "expected a string"},
	{WRAP "  volumes: [{name: a, projected: {sources: [{secret: {name: [b]}}]}}]\n", 7,
		"expected"},
	{WRAP "  volumeMounts: [{name: a, mountPath: /a}]\n", 7, "one of this file's volumes"},
	{WRAP "  volumes: [{name: a}]\n  volumeMounts: [{name: a}]\n", 8, "mountPath"},
	{WRAP "  volumes: [{name: a}]\n  volumeMounts: [{name: a, mountPath: a}]\n", 8,
		"found \"a\", expected an absolute path"},
	{WRAP "  volumes: [{name: a}]\n  volumeMounts: [{name: a, mountPath: \"/a:b\"}]\n", 8,
		"without ':'"},
	{WRAP "  volumes: [{name: a}]\n  volumeMounts: [{name: a, mountPath: /a}, {name: a, "
	      "mountPath: "
	      "/a}]\n",
		8, "found \"/a\" twice"},
	/* init containers */
	{WRAP "  initContainers: a\n", 7, "expected a sequence"},
	{WRAP "  initContainers: [{image: b}]\n", 7, "name"},
	{WRAP "  initContainers: [{name: a}]\n", 7, "image"},
	{WRAP "  initContainers: [{name: a, image: \"\"}]\n", 7, "expected an image"},
	{WRAP "  initContainers: [{name: a, image: 4}]\n", 7, "expected a string"},
	{WRAP "  initContainers: [{name: a, image: b}, {name: a, image: b}]\n", 7, "twice"},
	{WRAP "  initContainers: [{name: a, image: b, command: c}]\n", 7, "expected a sequence"},
	{WRAP "  initContainers: [{name: a, image: b, command: [1]}]\n", 7, "expected a string"},
	{WRAP "  initContainers: [{name: a, image: b, args: [\"{client.x}\"]}]\n", 7,
		"found the place \"{client.x}\""},
	{WRAP "  initContainers: [{name: a, image: b, args: [\"{client.x\"]}]\n", 7,
		"found the place \"{client.x\""},
	{WRAP "  initContainers: [{name: a, image: b, env: {}}]\n", 7, "expected a sequence"},
	{WRAP "  initContainers: [{name: a, image: b, env: [c]}]\n", 7, "expected a mapping"},
	{WRAP "  initContainers: [{name: a, image: b, env: [{name: c, value: 1}]}]\n", 7,
		"expected a string"},
	{WRAP "  initContainers: [{name: a, image: b, volumeMounts: [{name: v, mountPath: /v}]}]\n",
		7, "one of this file's volumes"},
	{WRAP "  initContainers: [{name: a, image: b, resources: {limit: {}}}]\n", 7, "limit"},
	{WRAP "  initContainers: [{name: a, image: b, resources: {limits: {cpu: x}}}]\n", 7,
		"\"x\""},
	{WRAP "  initContainers: [{name: a, image: b, resources: {limits: [cpu]}}]\n", 7,
		"expected a mapping"},
	/* secrets, can, placement */
	{WRAP "  secrets: a\n", 7, "expected a sequence"},
	{WRAP "  secrets: [\"\"]\n", 7, "expected the name of a Secret"},
	{WRAP "  can: [a]\n", 7, "expected a mapping"},
	{WRAP "  can: {gpu: yes}\n", 7, "gpu"},
	{WRAP "  can: {fraction: maybe}\n", 7, "found \"maybe\", expected"},
	{WRAP "  can: {fraction: yes}\n", 7,
		"no place of argv or env tells the client the fraction"},
	{WRAP "  can: {memory: true}\n", 7, "no place of argv or env tells the client the memory"},
	{WRAP "  can: {memory: \"yes\"}\n", 7,
		"no place of argv or env tells the client the memory"},
	{WRAP "  can: {maxAmount: 0}\n", 7, "0"},
	{WRAP "  can: {maxAmount: 10001}\n", 7, "10001"},
	{WRAP "  placement: pool\n", 7, "found \"pool\", expected"},
	{WRAP "  placement: servers\n", 7, "no place {servers}, {server_host}, {gpus} or "},
	{WRAP "  env: [{name: A, value: \"{server_host}\"}]\n", 5, "\"placement: servers\""},
	{WRAP "  granularity: host\n", 7, "found \"host\", expected"},
	{WRAP "  addressFamilies: []\n", 7, "expected IPv4, IPv6 or both"},
	{WRAP "  addressFamilies: [IPv5]\n", 7, "found \"IPv5\", expected"},
	{WRAP "  addressFamilies: IPv4\n", 7, "expected a sequence"},
	{WRAP "  clients: [{arch: X86}]\n", 7, "expected an architecture"},
	{HEAD "  kind: &a wrap\n", 5, ""},
};

TEST(test_wrong)
{
	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct profile p = {.max_amount = 77};
		struct err err = {0};
		char where[32];
		int rc = load(wrong[i].text, &p, &err);

		if (rc == 0)
			fail_msg("accepted: %s", wrong[i].text);
		assert_int_equal(err.code, rc);
		assert_int_equal(p.max_amount, 77);
		snprintf(where, sizeof(where), "p.yaml:%d: ", wrong[i].line);
		row_says(wrong[i].text, err.msg, wrong[i].line ? where : "", wrong[i].complaint);
	}
}

TEST(test_too_many)
{
	struct profile p;
	struct err err = {0};
	struct buf b;

	buf_init(&b, 1 << 20);
	buf_str(&b, WRAP "  volumes:\n");
	for (int i = 0; i < 65; i++)
		buf_fmt(&b, "  - {name: v%d}\n", i);
	assert_int_equal(load(b.data, &p, &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, "found 65 entries, expected at most 64"));
	buf_clear(&b);
	buf_str(&b, WRAP "  volumes: [{name: v, x: ");
	for (int i = 0; i < 300000; i++)
		buf_char(&b, 'x');
	buf_str(&b, "}]\n");
	assert_int_equal(load(b.data, &p, &err), ERR_TOOBIG);
	assert_non_null(strstr(err.msg, "p.yaml:7: /spec/volumes/0"));
	buf_release(&b);
}

/* Every shortage of memory is an error, and enough is enough. */
TEST(test_out_of_memory)
{
	struct yaml_stream stream;
	struct err err = {0};
	size_t max;

	assert_int_equal(
		yaml_parse(&tree_arena, "p.yaml", slice_of(full), YAML_NO_ALIASES, &stream, &err),
		0);
	for (max = 0; max < 65536; max += 64) {
		struct profile p = {.max_amount = 77};
		struct arena small;
		int rc;

		arena_init(&small, max);
		rc = launcher_load(stream.first->root, &small, &p, &err);
		arena_release(&small);
		if (rc == 0)
			break;
		assert_int_equal(rc, ERR_NOMEM);
		assert_int_equal(p.max_amount, 77);
	}
	assert_in_range(max, 1024, 65535);
}

TEST(test_examples)
{
	static const char *const files[] = {"juice", "lupine", "cricket"};

	for (size_t i = 0; i < COUNT(files); i++) {
		char path[128], text[16384];
		struct profile p;
		size_t n;
		FILE *f;

		snprintf(path, sizeof(path), "manifests/examples/launchers/%s.yaml", files[i]);
		f = fopen(path, "r");
		if (!f)
			fail_msg("%s cannot be read", path);
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
		text[n] = '\0';
		must_load(text, &p);
		expect(p.name, files[i]);
		assert_int_equal(p.clients[0].n_inits, 1);
	}
}

TESTS_BETWEEN(setup, teardown, test_full, test_defaults, test_can, test_hash,
	test_hash_of_secrets_that_are_exchanged, test_hash_of_a_clients_value, test_longest_names,
	test_characters_of_names, test_wrong, test_too_many, test_out_of_memory, test_examples)
