/* SPDX-License-Identifier: Apache-2.0 */
/* test: GPUServer documents: what they become, and what is said about wrong ones. */
#include <sys/stat.h>

#include "test/unit/scratch.h"
#include "test/unit/test.h"
#include "webhook/edge/pool/gpu_servers.h"

#define HEAD "apiVersion: poolgate.io/v1alpha1\nkind: GPUServer\n"
#define NAMED HEAD "metadata: {name: a}\n"
#define ADDR NAMED "spec:\n  address: 10.0.0.1:56001\n"
#define GPUS "  gpus: [{model: T4, memory: 8Gi}]\n"

static const char two[] = HEAD "metadata: {name: gpu-02, labels: {zone: attic, rack: \"7\"}}\n"
			       "spec:\n  address: gpu-02.lab:56001\n  drain: true\n"
			       "  launchers: [lupine, juice]\n"
			       "  gate: {profile: lupine, url: 'https://h:1', caSecret: c, "
			       "tokenSecret: t, strangers: close, mode: address}\n  gpus:\n"
			       "  - {model: Tesla K80, memory: 11441Mi, count: 2}\n"
			       "  - {model: T4, memory: \"15e9\"}\n"
			       "status: {anything: [1, 2]}\n---\n" ADDR GPUS "---\n";

static int parse(const char *text, struct arena *a, struct inventory *ret, struct buf *warnings,
	struct err *err)
{
	return gpu_servers_parse(slice_of(text), "pool.yaml", a, ret, warnings, err);
}

TEST(test_two)
{
	struct arena a;
	struct inventory inv = {0};
	struct buf warnings;
	struct err e = {0};
	const struct gpu_server *s;

	arena_init(&a, 1u << 20);
	buf_init(&warnings, 4096);
	if (parse(two, &a, &inv, &warnings, &e) != 0)
		fail_msg("%s", e.msg);
	assert_int_equal(inv.n_servers, 2);
	assert_int_equal(inv.n_gpus, 4);
	assert_string_equal(inv.servers[0].name, "a");
	s = &inv.servers[1];
	assert_string_equal(s->name, "gpu-02");
	assert_string_equal(s->address, "gpu-02.lab:56001");
	assert_null(s->probe_url);
	assert_true(s->drain);
	/* nobody asks its gate */
	assert_false(s->guarded);
	assert_int_equal(s->gate_by, GATE_BY_ADDRESS);
	assert_int_equal(inv.servers[0].gate_by, GATE_BY_ANY);
	assert_int_equal(s->n_launchers, 2);
	assert_string_equal(s->launchers[1], "juice");
	assert_int_equal(inv.servers[0].n_launchers, 0);
	assert_int_equal(s->first_gpu, 1);
	assert_int_equal(s->n_labels, 2);
	assert_string_equal(s->labels[1].key, "rack");
	assert_string_equal(s->labels[1].value, "7");
	assert_int_equal(s->n_gpus, 3);
	assert_string_equal(s->gpus[1].id, "gpu-1");
	assert_string_equal(s->gpus[1].model, "Tesla K80");
	assert_int_equal(s->gpus[1].bytes, 11441ull << 20);
	assert_string_equal(s->gpus[2].id, "gpu-2");
	assert_int_equal(s->gpus[2].bytes, 15000000000);
	assert_true(s->gpus[2].fit && s->gpus[2].fresh && !s->gpus[2].missing);
	assert_string_equal(s->gpus[2].why, "");
	assert_int_equal(warnings.len, 0);
	buf_release(&warnings);
	arena_release(&a);
}

TEST(test_accepted)
{
	static const struct {
		const char *text;
		size_t servers, gpus;
		const char *warning;
	} cases[] = {
		{"apiVersion: v1\nkind: List\nitems: []\n", 0, 0, NULL},
		{"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{\"apiVersion\":\"poolgate."
		 "io/"
		 "v1alpha1\",\"kind\":\"GPUServer\",\"metadata\":{\"name\":\"j\"},\"spec\":{"
		 "\"address\":\"[::1]:1\",\"gpus\":[{\"model\":\"T4\",\"memory\":\"1Gi\"}]}}]}",
			1, 1, NULL},
		{"apiVersion: poolgate.io/v1alpha1\nkind: GPUServerList\nmetadata: {}\nitems: []\n",
			0, 0, NULL},
		{ADDR "  probe: {url: 'https://10.0.0.1:9443'}\n", 1, 0,
			"pool.yaml:1: a holds nothing: without a cluster nobody asks its probe or "
			"reads "
			"Secrets for it; list its GPUs in spec.gpus\n"},
		{ADDR "  gpus:\n  probe: {url: 'http://h/inventory'}\n", 1, 0,
			"nobody asks its probe"},
		/* as the cluster's documents are */
		{ADDR "  probe: {url: 'https://h', caSecret: gpu-01.ca, tokenSecret: t, "
		      "clientSecret: c}\n",
			1, 0, "list its GPUs"},
		{ADDR "  probe: {url: 'http://h', caSecret: null, tokenSecret: }\n", 1, 0,
			"a holds"},
		{ADDR "  gpus: [{model: T4, memory: 1M, count: 64}, {model: T4, memory: 1M, count: "
		      "64}]\n",
			1, 128, NULL},
		{NAMED "spec:\n  address: h:65535\n  launchers: null\n  gate: null\n" GPUS, 1, 1,
			NULL},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct arena a;
		struct inventory inv = {0};
		struct buf warnings;
		struct err e = {0};

		arena_init(&a, 1u << 20);
		buf_init(&warnings, 4096);
		if (parse(cases[i].text, &a, &inv, &warnings, &e) != 0)
			fail_msg("case %zu: %s", i, e.msg);
		assert_int_equal(inv.n_servers, cases[i].servers);
		assert_int_equal(inv.n_gpus, cases[i].gpus);
		if (!cases[i].warning)
			assert_int_equal(warnings.len, 0);
		else if (!warnings.data || !strstr(warnings.data, cases[i].warning))
			fail_msg("case %zu: warned %s", i, warnings.data);
		/* without a place for warnings, too */
		assert_int_equal(parse(cases[i].text, &a, &inv, NULL, &e), 0);
		buf_release(&warnings);
		arena_release(&a);
	}
}

TEST(test_refused)
{
	static const struct {
		const char *text, *want[3];
	} cases[] = {
		{"", {"pool.yaml", "holds no document", "GPUServers"}},
		{"# nothing\n---\n", {"holds no document"}},
		{"a: [", {"pool.yaml:"}},
		{"[]\n", {"pool.yaml:1", "a mapping"}},
		{"kind: GPUServer\n", {"pool.yaml:1: /apiVersion: found nothing, expected "
				       "poolgate.io/v1alpha1"}},
		{"apiVersion: v1\n", {"/kind: found nothing, expected GPUServer"}},
		{"apiVersion: v1\nkind: Pod\n", {"pool.yaml:2: /kind: found \"Pod\"", "GPUServer"}},
		{"apiVersion: poolgate.io/v2\nkind: GPUServer\n",
			{"pool.yaml:1: /apiVersion: found \"poolgate.io/v2\"",
				"poolgate.io/v1alpha1"}},
		{"apiVersion: v1\nkind: List\n", {"/items: found nothing, expected a seq"}},
		{"apiVersion: v1\nkind: List\nitems: 3\n", {"/items: found 3", "a sequence"}},
		{"apiVersion: v1\nkind: List\nitems: [3]\n", {"/items/0: found 3", "a mapping"}},
		{"apiVersion: v1\nkind: List\nitems: [3, {apiVersion: poolgate.io/v1alpha1, kind: "
		 "GPUServerList, items: []}]\n",
			{"/items/0: found 3"}},
		{"apiVersion: poolgate.io/v1alpha1\nkind: List\nitems: []\n",
			{"/kind: found \"List\""}},
		{"apiVersion: v1\nkind: GPUServerList\nitems: []\n",
			{"/kind: found \"GPUServerList\""}},
		{"apiVersion: v1\nkind: GPUServer\n", {"/apiVersion: found \"v1\""}},
		{"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: []}]\n",
			{"/items/0/kind: found \"List\""}},
		{HEAD, {"\"metadata\" is missing"}},
		{HEAD "metadata: 3\n", {"/metadata: found 3", "a mapping"}},
		{HEAD "metadata: {}\n", {"/metadata", "\"name\" is missing"}},
		{HEAD "metadata: {name: Gpu_1}\n",
			{"pool.yaml:3: /metadata/name: found \"Gpu_1\"", "a-z, 0-9"}},
		{HEAD "metadata: {name: a-}\n", {"/metadata/name"}},
		{HEAD "metadata: {name: a..b}\n", {"/metadata/name"}},
		{HEAD "metadata: {name: 7}\n", {"/metadata/name: found 7", "quote"}},
		{HEAD "metadata: {name: a, labels: {x: 7}}\n", {"/metadata/labels/x: found 7"}},
		{HEAD "metadata: {name: a, labels: {7: x}}\n", {"found 7"}},
		{HEAD "metadata: {name: a, labels: [x]}\n", {"/metadata/labels", "a mapping"}},
		{NAMED, {"\"spec\" is missing"}},
		{NAMED "spec: 3\n", {"/spec: found 3"}},
		{NAMED "spec: {}\n", {"\"address\" is missing"}},
		{NAMED "spec: {address: 10.0.0.1}\n",
			{"/spec/address: found \"10.0.0.1\"", "HOST:PORT", "10.117.32.177:56001"}},
		{ADDR GPUS
			"---\n" HEAD
			"metadata: {name: b}\nspec:\n  address: '[::ffff:10.0.0.1]:056001'\n" GPUS,
			{"pool.yaml:8: /spec/address", "[::ffff:10.0.0.1]:056001",
				"GPUServer a, which came first, has its address"}},
		/* of several the first by name is told */
		{HEAD "metadata: {name: c}\nspec:\n  address: 10.0.0.1:1\n" GPUS "---\n" HEAD
		      "metadata: {name: b}\nspec:\n  address: 10.0.0.1:1\n" GPUS "---\n" HEAD
		      "metadata: {name: a}\nspec:\n  address: 10.0.0.1:1\n" GPUS,
			{"pool.yaml:8: /spec/address", "GPUServer a, which came first"}},
		{NAMED "spec: {address: 7}\n", {"/spec/address: found 7"}},
		{NAMED "spec: {address: '[]:80'}\n", {"/spec/address"}},
		{NAMED "spec: {address: '[h:80'}\n", {"/spec/address"}},
		{NAMED "spec: {address: 'h]:80'}\n", {"/spec/address"}},
		{NAMED "spec: {address: 'h:'}\n", {"/spec/address"}},
		{NAMED "spec: {address: ':80'}\n", {"/spec/address"}},
		{NAMED "spec: {address: 'h:0'}\n", {"/spec/address"}},
		{NAMED "spec: {address: 'h:65536'}\n", {"/spec/address"}},
		{NAMED "spec: {address: 'h;rm:1'}\n", {"/spec/address"}},
		{NAMED "spec: {address: '$(X):1'}\n", {"/spec/address"}},
		{ADDR, {"neither gpus nor probe", "expected one of"}},
		{ADDR GPUS "  probe: {url: 'http://h'}\n", {"both gpus and probe"}},
		{ADDR GPUS "  drian: true\n", {"pool.yaml:7: /spec/drian: unknown key \"drian\" "
					       "(did you mean \"drain\"?)"}},
		{ADDR GPUS "  drain: maybe\n", {"/spec/drain: found \"maybe\""}},
		{ADDR GPUS "  launchers: []\n", {"/spec/launchers: found a sequence", "1 to 64"}},
		{ADDR GPUS "  launchers: lupine\n", {"/spec/launchers: found \"lupine\""}},
		{ADDR GPUS "  launchers: [a, A B]\n",
			{"/spec/launchers/1: found \"A B\"", "such as lupine"}},
		{ADDR GPUS "  launchers: [lupine, 7]\n", {"/spec/launchers/1: found 7"}},
		{ADDR GPUS "  gate: 3\n", {"/spec/gate: found 3", "a mapping"}},
		{ADDR GPUS
			"  gate: {profile: a, url: 'https://h', tokenSecret: t, caSecret: A_b}\n",
			{"/spec/gate/caSecret: found \"A_b\""}},
		{ADDR GPUS "  gate: {url: 'https://h'}\n", {"\"profile\" is missing"}},
		{ADDR GPUS "  gate: {profile: a}\n", {"\"url\" is missing"}},
		{ADDR GPUS "  gate: {profile: A, url: 'https://h'}\n",
			{"/spec/gate/profile: found \"A\""}},
		{ADDR GPUS "  gate: {profile: a, url: h}\n", {"the gate's URL"}},
		{ADDR GPUS "  gate: {profile: a, url: 'http://h', tokenSecret: t}\n",
			{"/spec/gate/url: found \"http://h\"", "in the clear"}},
		{ADDR GPUS "  gate: {profile: a, url: 'https://h'}\n",
			{"/spec/gate", "\"tokenSecret\" is missing"}},
		{ADDR GPUS "  gate: {profile: a, url: 'https://h', tokenSecret: A_b}\n",
			{"/spec/gate/tokenSecret: found \"A_b\""}},
		{ADDR GPUS "  gate: {profile: a, url: 'http://h', strangers: x}\n",
			{"/spec/gate/strangers: found \"x\""}},
		{ADDR GPUS "  gate: {profile: a, url: 'https://h', mode: x}\n",
			{"/spec/gate/mode: found \"x\""}},
		{ADDR GPUS "  gate: {profile: a, url: 'http://h', clientSecret: x}\n",
			{"unknown key \"clientSecret\""}},
		{ADDR "  gpus: []\n", {"empty list"}},
		{ADDR "  gpus: 2\n", {"/spec/gpus: found 2", "a sequence"}},
		{ADDR "  gpus: [T4]\n", {"/spec/gpus/0: found \"T4\"", "a mapping"}},
		{ADDR "  gpus: [{memory: 1Gi}]\n", {"/spec/gpus/0", "\"model\" is missing"}},
		{ADDR "  gpus: [{model: '', memory: 1Gi}]\n", {"/spec/gpus/0/model"}},
		{ADDR "  gpus: [{model: T4}]\n", {"\"memory\" is missing"}},
		{ADDR "  gpus: [{model: T4, memory: 16160}]\n",
			{"pool.yaml:6: /spec/gpus/0/memory: found 16160", "16160Mi"}},
		{ADDR "  gpus: [{model: T4, memory: 0}]\n", {"/spec/gpus/0/memory: found 0"}},
		{ADDR "  gpus: [{model: T4, memory: -1Gi}]\n", {"/spec/gpus/0/memory"}},
		{ADDR "  gpus: [{model: T4, memory: 1Ei}]\n", {"/spec/gpus/0/memory"}},
		{ADDR "  gpus: [{model: T4, memory: lots}]\n", {"/spec/gpus/0/memory", "lots"}},
		{ADDR "  gpus: [{model: T4, memory: 1Gi, count: 0}]\n",
			{"/spec/gpus/0/count", "64"}},
		{ADDR "  gpus: [{model: T4, memory: 1Gi, count: 65}]\n",
			{"/spec/gpus/0/count: found 65"}},
		{ADDR "  gpus: [{model: T4, memory: 1Gi, number: 2}]\n",
			{"/spec/gpus/0/number: unknown key"}},
		{ADDR "  gpus: [&g {model: T4, memory: 1Gi}, *g]\n", {"pool.yaml:6"}},
		{ADDR "  gpus:\n  - {model: T4, memory: 1Gi, count: 64}\n  - {model: T4, memory: "
		      "1Gi, count: 64}\n  - {model: T4, memory: 1Gi, count: 64}\n  - {model: T4, "
		      "memory: 1Gi, count: 64}\n  - {model: T4, memory: 1Gi}\n",
			{"pool.yaml:11: /spec/gpus/4", "more than 256 GPUs"}},
		{ADDR "  probe: 3\n", {"/spec/probe: found 3", "a mapping"}},
		{ADDR "  probe: {url: 'https://h', clientSecret: A_b}\n",
			{"/spec/probe/clientSecret: found \"A_b\"", "name of a Secret"}},
		{ADDR "  probe: {}\n", {"/spec/probe", "\"url\" is missing"}},
		{ADDR "  probe: {url: 'ftp://h'}\n",
			{"/spec/probe/url: found \"ftp://h\"", "https://"}},
		{ADDR "  probe: {url: 'https://'}\n", {"/spec/probe/url"}},
		{ADDR "  probe: {url: 'https://h/a b'}\n", {"/spec/probe/url"}},
		{ADDR "  probe: {url: 'https://h', ca: x}\n", {"/spec/probe/ca: unknown key"}},
		{ADDR "  probe: {url: 'https://h', caSecret: A_b}\n",
			{"/spec/probe/caSecret: found \"A_b\"", "name of a Secret"}},
		{ADDR "  probe: {url: 'https://h', tokenSecret: {name: x}}\n",
			{"/spec/probe/tokenSecret"}},
		{ADDR "  probe: {url: 'http://h', tokenSecret: t}\n",
			{"/spec/probe/url: found \"http://h\"", "https URL beside tokenSecret"}},
		{ADDR GPUS "extra: 1\n", {"/extra: unknown key"}},
		{ADDR GPUS "---\n" ADDR GPUS, {"pool.yaml:8", "\"a\"", "pool.yaml:1"}},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct arena a;
		struct inventory inv = {.n_servers = 77};
		struct err e = {0};
		int rc;

		arena_init(&a, 1u << 20);
		rc = parse(cases[i].text, &a, &inv, NULL, &e);
		if (rc == 0)
			fail_msg("case %zu was accepted: %s", i, cases[i].text);
		for (size_t w = 0; w < 3 && cases[i].want[w]; w++)
			if (!strstr(e.msg, cases[i].want[w]))
				fail_msg("case %zu: \"%s\" says no \"%s\"", i, e.msg,
					cases[i].want[w]);
		assert_int_equal(inv.n_servers, 77);
		arena_release(&a);
	}
}

TEST(test_files)
{
	const char *dir, *path;
	struct arena a;
	struct inventory inv = {0};
	struct err e = {0};

	arena_init(&a, 1u << 20);
	assert_int_equal(scratch_begin(NULL), 0);
	dir = scratch("");
	assert_int_equal(gpu_servers_load(dir, &a, &inv, NULL, &e), ERR_INVALID);
	assert_non_null(strstr(e.msg, "*.yaml"));

	scratch_file("b.yaml", ADDR GPUS);
	scratch_file("a.yml", HEAD "metadata: {name: z}\nspec:\n  address: h:1\n" GPUS);
	scratch_file("c.json", "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[]}");
	scratch_file(".hidden.yaml", "nonsense");
	scratch_file("notes.txt", "nonsense");
	if (gpu_servers_load(dir, &a, &inv, NULL, &e) != 0)
		fail_msg("%s", e.msg);
	assert_int_equal(inv.n_servers, 2);
	assert_string_equal(inv.servers[1].name, "z");

	/* a name that comes twice, in two files */
	scratch_file("d.yaml", ADDR GPUS);
	assert_int_equal(gpu_servers_load(dir, &a, &inv, NULL, &e), ERR_INVALID);
	assert_non_null(strstr(e.msg, "b.yaml:1"));
	assert_non_null(strstr(e.msg, "d.yaml:1"));
	unlink(scratch("d.yaml"));

	/* what cannot be read */
	path = scratch("e.yaml");
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(gpu_servers_load(path, &a, &inv, NULL, &e), ERR_IO);
	assert_non_null(strstr(e.msg, "not a regular file"));
	unlink(path);
	assert_int_equal(gpu_servers_load(path, &a, &inv, NULL, &e), ERR_NOTFOUND);
	assert_non_null(strstr(e.msg, "No such file"));
	assert_int_equal(symlink("/nonexistent", path), 0);
	assert_int_not_equal(gpu_servers_load(dir, &a, &inv, NULL, &e), 0);
	assert_int_equal(scratch_end(NULL), 0);
	arena_release(&a);
}

TEST(test_many)
{
	struct arena a;
	struct inventory inv = {0};
	struct buf text;
	struct err e = {0};

	arena_init(&a, 64u << 20);
	buf_init(&text, 8u << 20);
	for (int i = 0; i < 2000; i++)
		buf_fmt(&text,
			"---\n" HEAD "metadata: {name: s-%d}\nspec:\n  address: h-%d:1\n" GPUS, i,
			i);
	if (parse(text.data, &a, &inv, NULL, &e) != 0)
		fail_msg("%s", e.msg);
	assert_int_equal(inv.n_servers, 2000);
	for (size_t i = 1; i < inv.n_servers; i++) {
		assert_true(strcmp(inv.servers[i - 1].name, inv.servers[i].name) < 0);
		assert_int_equal(inv.servers[i].first_gpu, i);
	}
	buf_release(&text);
	arena_release(&a);
}

TEST(test_no_memory)
{
	size_t failed = 0;

	for (size_t max = 0; max < 4096; max += 16) {
		struct arena a;
		struct inventory inv = {0};
		struct err e = {0};
		int rc;

		arena_init(&a, max);
		rc = parse(two, &a, &inv, NULL, &e);
		assert_true(rc == 0 || rc == ERR_NOMEM);
		failed += rc != 0;
		arena_release(&a);
	}
	assert_true(failed > 10 && failed < 250);
}

/* Whom a gate lets in: by a token, where it does not say. */
TEST(test_gate_mode)
{
	static const struct {
		const char *mode;
		int by;
	} rows[] = {{"", GATE_BY_TOKEN}, {", mode: token", GATE_BY_TOKEN},
		{", mode: address", GATE_BY_ADDRESS}, {", strangers: tell", GATE_BY_TOKEN}};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct inventory inv = {0};
		struct err e = {0};
		struct arena a;
		char text[512];

		(void)snprintf(text, sizeof(text),
			ADDR GPUS "  gate: {profile: p, url: 'https://h', tokenSecret: t%s}\n",
			rows[i].mode);
		arena_init(&a, 1u << 20);
		assert_int_equal(parse(text, &a, &inv, NULL, &e), 0);
		assert_int_equal(inv.servers[0].gate_by, rows[i].by);
		arena_release(&a);
	}
}

/* ---- bounds ---- */

/* Is this accepted? What is not must be ERR_INVALID or ERR_TOOBIG, as it says, with these words. */
static void accepts(const char *text, int want, const char *said)
{
	struct inventory inv = {0};
	struct arena a;
	struct err e = {0};
	int rc;

	arena_init(&a, 64u << 20);
	rc = parse(text, &a, &inv, NULL, &e);
	if (rc != want || (rc != 0 && !strstr(e.msg, said)))
		fail_msg("%d \"%s\", expected %d \"%s\" of %.300s", rc, e.msg, want, said, text);
	arena_release(&a);
}

/* As much of something as is accepted, and one more, which is told. */
TEST(test_how_much)
{
	static const struct {
		const char *before, *piece, *after;
		int most, rc;
		const char *said;
	} rows[] = {
		{NAMED "spec:\n  address: '", "h", ":1'\n" GPUS, 253, ERR_INVALID,
			"/spec/address: found"},
		{NAMED "spec:\n  address: '[", ":", "]:1'\n" GPUS, 253, ERR_INVALID,
			"/spec/address: found"},
		{ADDR "  gpus: [{model: ", "m", ", memory: 8Gi}]\n", 128, ERR_INVALID,
			"/spec/gpus/0/model: found"},
		{ADDR "  gpus: [", "{model: T4, memory: 8Gi},", "]\n", 256, ERR_TOOBIG,
			"found 257 entries, accepted are at most 256"},
		{ADDR GPUS "  launchers: [", "a,", "]\n", 64, ERR_INVALID, "1 to 64 names"},
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		for (int more = 0; more < 2; more++) {
			struct buf text;

			buf_init(&text, 1 << 16);
			buf_str(&text, rows[i].before);
			for (int n = 0; n < rows[i].most + more; n++)
				buf_str(&text, rows[i].piece);
			buf_str(&text, rows[i].after);
			accepts(text.data, more ? rows[i].rc : 0, rows[i].said);
			buf_release(&text);
		}
}

/* As many servers as a pool may have, in one list, and one more. */
TEST(test_how_many_servers)
{
	for (int more = 0; more < 2; more++) {
		struct buf text;

		buf_init(&text, 8u << 20);
		buf_str(&text, "{apiVersion: v1, kind: List, items: [\n");
		for (int i = 0; i < GPU_SERVERS_MAX + more; i++)
			buf_fmt(&text,
				"{apiVersion: poolgate.io/v1alpha1, kind: GPUServer, metadata: "
				"{name: s-%d}, spec: {address: 'h-%d:1', gpus: [{model: T4, "
				"memory: 1M}]}},\n",
				i, i);
		buf_str(&text, "]}\n");
		accepts(text.data, more ? ERR_TOOBIG : 0, "more than 10000 GPU servers");
		buf_release(&text);
	}
}

/* A GPU's memory is whole bytes, from a megabyte to a pebibyte. */
TEST(test_memory)
{
	static const struct {
		const char *memory;
		bool good;
	} rows[] = {{"999999", false}, {"1000000", true}, {"1M", true}, {"999999500m", false},
		{"1000000500m", false}, {"1000001000m", true}, {"1Pi", true},
		{"1125899906842623", true}, {"1125899906842625", false},
		{"1125899906842624500m", false}};
	char text[256];

	for (size_t i = 0; i < COUNT(rows); i++) {
		(void)snprintf(text, sizeof(text), ADDR "  gpus: [{model: T4, memory: %s}]\n",
			rows[i].memory);
		accepts(text, rows[i].good ? 0 : ERR_INVALID, "from 1M to 1Pi");
	}
}

/* What a host may have in it: a name or an IPv4 address, and an IPv6 one within brackets. */
TEST(test_hosts)
{
	static const struct {
		const char *before, *after, *marks;
	} rows[] = {{"a", "a:1", ".-_"}, {"", ":1", ".-_"}, {"a", ":1", ".-_"},
		{"[a", "a]:1", ".-:%"}, {"[", "]:1", ".-:%"}};
	char text[256];

	for (size_t i = 0; i < COUNT(rows); i++)
		for (char c = ' '; c <= '~'; c++) {
			bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
				    (c >= '0' && c <= '9') || strchr(rows[i].marks, c);

			(void)snprintf(text, sizeof(text), NAMED "spec:\n  address: '%s%s%c%s'\n%s",
				rows[i].before, c == '\'' ? "'" : "", c, rows[i].after, GPUS);
			accepts(text, good ? 0 : ERR_INVALID, "/spec/address: found");
		}
}

TESTS(test_two, test_accepted, test_refused, test_files, test_many, test_no_memory, test_gate_mode,
	test_how_much, test_how_many_servers, test_memory, test_hosts)
