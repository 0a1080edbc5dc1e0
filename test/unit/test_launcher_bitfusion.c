/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of webhook/core/launcher/launcher_bitfusion: the origin's two files, unchanged, and
 * every way in which they can be wrong. */

#include "base/buf.h"
#include "base/yaml/yaml.h"
#include "test/unit/test.h"
#include "webhook/core/launcher/launcher_bitfusion.h"

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

static const struct yaml_node *parse(const char *file, const char *text)
{
	struct yaml_stream stream;
	struct err err = {0};

	if (yaml_parse(&tree_arena, file, slice_of(text), YAML_NO_ALIASES, &stream, &err) != 0)
		fail_msg("%s", err.msg);
	return stream.first ? stream.first->root : NULL;
}

static int load(const char *catalogue, const char *sidecar, struct profile *ret, struct err *err)
{
	int rc;

	arena_reset(&tree_arena);
	arena_reset(&arena);
	rc = launcher_bitfusion(parse("catalogue.yaml", catalogue), parse("sidecar.yaml", sidecar),
		SLICE("/bin/bash"), &arena, ret, err);
	arena_reset(&tree_arena); /* nothing may point into the trees */
	return rc;
}

static void must_load(const char *catalogue, const char *sidecar, struct profile *ret)
{
	struct err err = {0};

	if (load(catalogue, sidecar, ret, &err) != 0)
		fail_msg("%s", err.msg);
}

static void expect(struct slice got, const char *want)
{
	if (!slice_is(got, want))
		fail_msg("got \"%.*s\", expected \"%s\"", (int)got.len, got.at, want);
}

static const char catalogue[] =
	"BitfusionClients:\n"
	"  - BitfusionVersion: \"400\"\n"
	"    OSVersion: ubuntu18\n"
	"    BinaryPath: /bitfusion/a/usr/bin/bitfusion\n"
	"    EnvVariable: /bitfusion/a/opt/bitfusion/lib/x86_64-linux-gnu/bitfusion/lib/\n"
	"  - BitfusionVersion: \"450\"\n"
	"    OSVersion: centos8\n"
	"    BinaryPath: /bitfusion/b/usr/bin/bitfusion\n"
	"    EnvVariable: \"/bitfusion/b/opt/bitfusion/lib/:\"\n";

static const char sidecar[] =
	"initContainers:\n"
	"  - name: populate\n"
	"    image: docker.io/example/bitfusion-client:450\n"
	"    command: [\"/bin/bash\", \"-c\", \"cp BITFUSION_CLIENT_OPT_PATH /x "
	"BITFUSION_CLIENT_OPT_PATH "
	"{client.lib} ${A}\"]\n"
	"    imagePullPolicy: IfNotPresent\n"
	"    volumeMounts:\n"
	"      - {name: distro, mountPath: /bitfusion-distro}\n"
	"  - name: second\n"
	"    image: example\n"
	"    command: [\"true\"]\n"
	"  - name: third\n"
	"    image: example\n"
	"    command: [echo, -n, \"OPT_PATH \\\"x\\\"\", z]\n"
	"  - name: fourth\n"
	"    image: example\n"
	"    command: [cp, -r, BITFUSION_CLIENT_OPT_PATH]\n"
	"containers:\n"
	"  - name: sidecar\n"
	"    image: unused\n"
	"    volumeMounts:\n"
	"      - {name: ca, mountPath: /etc/bitfusion/tls/ca.crt, subPath: tls/ca.crt}\n"
	"      - {name: distro, mountPath: /bitfusion}\n"
	"  - name: other\n"
	"    volumeMounts: [{name: unknown, mountPath: /unused}]\n"
	"volumes:\n"
	"  - {name: distro, emptyDir: {}}\n"
	"  - name: ca\n"
	"    secret:\n"
	"      secretName: bitfusion-client-secret-ca.crt\n"
	"      items: [{key: ca.crt, path: tls/ca.crt}]\n"
	"  - name: client\n"
	"    secret:\n"
	"      secretName: bitfusion-client-secret-client.yml\n"
	"      items: [{key: client.yaml, path: client.yaml, mode: 0600}]\n";

TEST(test_files)
{
	struct profile p;

	must_load(catalogue, sidecar, &p);
	expect(p.name, "bitfusion");
	assert_int_equal(p.kind, PROFILE_WRAP);
	assert_true(p.by_client);
	assert_int_equal(p.n_clients, 2);
	expect(p.clients[0].os, "ubuntu18");
	expect(p.clients[0].version, "400");
	expect(p.separator, "--");
	expect(p.basename, "bitfusion");
	expect(p.shell, "/bin/bash");
	assert_int_equal(p.can_fraction, CAN_YES);
	assert_int_equal(p.can_memory, CAN_YES);
	assert_false(p.servers_placed);
	assert_false(p.whole_servers);
	assert_int_equal(p.n_volumes, 3);
	expect(p.volumes[2].json,
		"{\"name\":\"client\",\"secret\":{\"secretName\":\"bitfusion-client-secret-client."
		"yml\","
		"\"items\":[{\"key\":\"client.yaml\",\"path\":\"client.yaml\",\"mode\":384}]}}");
	assert_int_equal(p.n_mounts, 2);
	expect(p.mounts[0].path, "/etc/bitfusion/tls/ca.crt");
	assert_int_equal(p.n_secrets, 2);
	expect(p.secrets[0], "bitfusion-client-secret-ca.crt");
	expect(p.secrets[1], "bitfusion-client-secret-client.yml");
	assert_int_equal(p.n_env, 1);
	assert_true(p.env[0].prepend);
	assert_int_equal(p.clients[0].n_inits, 4);
	/* the first word alone; other braces are the script's own */
	expect(p.clients[0].inits[0].json,
		"{\"name\":\"populate\",\"image\":\"docker.io/example/"
		"bitfusion-client:450\",\"command\":["
		"\"/bin/bash\",\"-c\",\"cp /bitfusion/a/opt/bitfusion/* /x "
		"BITFUSION_CLIENT_OPT_PATH "
		"{client.lib} "
		"${A}\"],\"imagePullPolicy\":\"IfNotPresent\",\"volumeMounts\":[{\"name\":"
		"\"distro\",\"mountPath\":\"/bitfusion-distro\"}]}");
	assert_non_null(strstr(p.clients[1].inits[0].json.at, "cp /bitfusion/b/opt/bitfusion/* "));
	expect(p.clients[1].inits[1].json,
		"{\"name\":\"second\",\"image\":\"example\",\"command\":[\"true\"]}");
	/* where the word is not, nothing is put in its place */
	expect(p.clients[1].inits[2].json,
		"{\"name\":\"third\",\"image\":\"example\",\"command\":[\"echo\",\"-n\","
		"\"OPT_PATH \\\"x\\\"\",\"z\"]}");
	expect(p.clients[1].inits[3].json,
		"{\"name\":\"fourth\",\"image\":\"example\",\"command\":[\"cp\",\"-r\","
		"\"/bitfusion/b/opt/bitfusion/*\"]}");
}

/* What a pod gets: the origin's command lines. */
TEST(test_argv)
{
	static const struct slice filters[] = {{"server.name=gpu-01", 18}, {"a=b", 3}};
	static const struct {
		uint32_t amount, percent;
		uint64_t mb;
		size_t n_filters;
		const char *want;
	} cases[] = {
		{1, 50, 0, 0, "run -n 1 -p 0.500000 --"},
		{2, 100, 0, 2, "run -n 2 -p 1.000000 --filter server.name=gpu-01 --filter a=b --"},
		{1, 0, 8000, 0, "run -n 1 -m 8000 --"},
		{1, 13, 0, 1, "run -n 1 -p 0.130000 --filter server.name=gpu-01 --"},
	};
	struct profile p;

	must_load(catalogue, sidecar, &p);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct launch l = {.profile = &p,
			.client = profile_client(&p, SLICE("ubuntu18"), SLICE("400")),
			.amount = cases[i].amount,
			.percent = cases[i].percent,
			.memory_mb = cases[i].mb,
			.filters = filters,
			.n_filters = cases[i].n_filters};
		struct err err = {0};
		struct slice *words;
		struct buf b;
		size_t n;

		assert_int_equal(launch_argv(&l, &arena, &words, &n, &err), 0);
		expect(words[0], "/bitfusion/a/usr/bin/bitfusion");
		buf_init(&b, 1024);
		for (size_t k = 1; k < n; k++)
			buf_fmt(&b, "%s%.*s", k > 1 ? " " : "", (int)words[k].len, words[k].at);
		assert_string_equal(b.data, cases[i].want);
		buf_release(&b);
	}
}

/* An empty element of LD_LIBRARY_PATH is the current folder. */
TEST(test_library_path)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"/a/opt/bitfusion/lib", "/a/opt/bitfusion/lib"},
		{"'/a/opt/bitfusion/lib:'", "/a/opt/bitfusion/lib"},
		{"':/a/opt/bitfusion/lib::'", "/a/opt/bitfusion/lib"},
		{"'/a/opt/bitfusion/lib::/b'", "/a/opt/bitfusion/lib:/b"},
		{"'a::/opt/bitfusion/lib'", "a:/opt/bitfusion/lib"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct launch l = {0};
		struct profile p;
		struct buf b;

		buf_init(&b, 1024);
		buf_fmt(&b,
			"BitfusionClients: [{BitfusionVersion: 450, OSVersion: o, BinaryPath: /b, "
			"EnvVariable: %s}]",
			cases[i].text);
		must_load(b.data, sidecar, &p);
		buf_release(&b);
		expect(p.clients[0].version, "450"); /* also without quotes */
		expect(p.basename, "b");
		l.profile = &p;
		l.client = &p.clients[0];
		expect(template_expand(p.env[0].value, &l, SLICE(""), &arena), cases[i].want);
	}
}

#define ENTRY(version, binary, lib)                                                                \
	"  - {BitfusionVersion: \"" version "\", OSVersion: o, BinaryPath: " binary                \
	", EnvVariable: " lib "}\n"

TEST(test_duplicates)
{
	struct profile p;

	must_load("BitfusionClients:\n" ENTRY("1", "/a/bf", "/opt/bitfusion/1")
			  ENTRY("2", "/a/bf", "/opt/bitfusion/2")
				  ENTRY("1", "/c/other", "/opt/bitfusion/3") "Extra: ignored\n",
		sidecar, &p);
	assert_int_equal(p.n_clients, 2);
	expect(profile_client(&p, SLICE("o"), SLICE("1"))->values[0].value, "/c/other");
	expect(p.basename, "bitfusion"); /* the entries do not share a name */
}

/* Without the word nobody needs /opt/bitfusion; a sidecar config without init containers is a short
 * one. */
TEST(test_generous)
{
	struct profile p;

	must_load(
		"BitfusionClients:\n" ENTRY("1", "/a/bf", "/lib"), "containers: [{name: x}]\n", &p);
	assert_int_equal(p.clients[0].n_inits, 0);
	assert_int_equal(p.n_mounts, 0);
	must_load("BitfusionClients:\n" ENTRY("1", "/a/bf", "/lib"),
		"containers: [{name: x}]\ninitContainers: [{name: a, image: b, args: "
		"[\"{x}\"]}]\nmore: "
		"{}\n",
		&p);
	assert_int_equal(p.clients[0].n_inits, 1);
}

TEST(test_wrong)
{
	static const struct {
		const char *catalogue, *sidecar; /* NULL: the good one */
		const char *complaint;
	} cases[] = {
		{"", NULL, ""},
		{"[]", NULL, "catalogue.yaml:1: "},
		{"BitfusionClient: []\n", NULL, "BitfusionClients"},
		{"bitfusionclients: []\n", NULL, "BitfusionClients"},
		{"BitfusionClients: []\n", NULL, "/BitfusionClients: found 0 clients"},
		{"BitfusionClients: {}\n", NULL, "expected a sequence"},
		{"BitfusionClients: [a]\n", NULL, "expected a mapping"},
		{"BitfusionClients:\n  - {OSVersion: o, BinaryPath: /b, EnvVariable: /l}\n", NULL,
			"BitfusionVersion"},
		{"BitfusionClients:\n  - {BitfusionVersion: v, BinaryPath: /b, EnvVariable: /l}\n",
			NULL, "OSVersion"},
		{"BitfusionClients:\n  - {BitfusionVersion: v, OSVersion: o, EnvVariable: /l}\n",
			NULL, "catalogue.yaml:2: /BitfusionClients/0"},
		{"BitfusionClients:\n  - {BitfusionVersion: v, OSVersion: o, binaryPath: /b, "
		 "EnvVariable: /l}\n",
			NULL, "\"BinaryPath\""},
		{"BitfusionClients:\n  - {BitfusionVersion: v, OSVersion: o, BinaryPath: /b}\n",
			NULL, "EnvVariable"},
		{"BitfusionClients:\n" ENTRY("", "/b", "/l"), NULL, "expected text of 1 to"},
		{"BitfusionClients:\n" ENTRY("v", "[b]", "/l"), NULL, "BinaryPath"},
		{"BitfusionClients:\n" ENTRY("v", "/b/", "/opt/bitfusion"), NULL,
			"expected the path of a program"},
		{"BitfusionClients:\n" ENTRY("v", "/b", "':'"), NULL,
			"expected the client's library folder"},
		{"BitfusionClients:\n" ENTRY("v", "/b", "/opt/bitfusio"), NULL,
			"catalogue.yaml:2: /BitfusionClients/0/EnvVariable: found "
			"\"/opt/bitfusio\", "
			"expected a path that holds /opt/bitfusion"},
		{NULL, "", ""},
		{NULL, "[]", "sidecar.yaml:1: "},
		{NULL, "volumes: []\n", "containers"},
		{NULL, "initContainers: {}\n", "/initContainers: found a mapping, expected"},
		{NULL, "containers: []\n", "found no container"},
		{NULL, "containers: [a]\n", "expected a mapping"},
		{NULL, "containers: {}\n", "expected a sequence"},
		{NULL, "containers: [{volumeMounts: [{name: a, mountPath: /a}]}]\n",
			"sidecar.yaml:1: /containers/0/volumeMounts/0/name: found \"a\", expected "
			"the "
			"name of one of this file's volumes"},
		{NULL, "containers: [{}]\nvolumes: [{}]\n", "sidecar.yaml:2: /volumes/0/name: "},
		{NULL, "containers: [{}]\nvolumes: [{name: a}, {name: a}]\n", "twice"},
		{NULL, "containers: [{}]\ninitContainers: [{name: a}]\n", "image"},
		{NULL, "containers: [{}]\ninitContainers: [{image: a}]\n", "name"},
		{NULL, "containers: [{}]\ninitContainers: a\n", "expected a sequence"},
		{NULL,
			"containers: [{}]\ninitContainers: [{name: a, image: b, command: [cp, "
			"BITFUSION_CLIENT_OPT_PATH]}]\n",
			"sidecar.yaml:2: /initContainers/0/command/1: found "
			"BITFUSION_CLIENT_OPT_PATH, "
			"expected it in command[2] alone"},
		{NULL,
			"containers: [{}]\ninitContainers: [{name: a, image: b, args: [a, b, "
			"BITFUSION_CLIENT_OPT_PATH]}]\n",
			"/initContainers/0/args/2"},
		{NULL,
			"containers: [{}]\ninitContainers: [{name: a, image: b, command: [a, b, "
			"BITFUSION_CLIENT_OPT_PATH, BITFUSION_CLIENT_OPT_PATH]}]\n",
			"/initContainers/0/command/3"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct profile p = {.max_amount = 77};
		struct err err = {0};
		int rc = load(cases[i].catalogue ? cases[i].catalogue : catalogue,
			cases[i].sidecar ? cases[i].sidecar : sidecar, &p, &err);

		if (rc != ERR_INVALID)
			fail_msg("case %zu accepted", i);
		assert_int_equal(p.max_amount, 77);
		row_says(cases[i].sidecar ? cases[i].sidecar : cases[i].catalogue, err.msg, "",
			cases[i].complaint);
	}
}

TEST(test_out_of_memory)
{
	const struct yaml_node *c = parse("catalogue.yaml", catalogue);
	const struct yaml_node *s = parse("sidecar.yaml", sidecar);
	size_t max;

	for (max = 0; max < 65536; max += 64) {
		struct profile p = {.max_amount = 77};
		struct err err = {0};
		struct arena small;
		int rc;

		arena_init(&small, max);
		rc = launcher_bitfusion(c, s, SLICE("sh"), &small, &p, &err);
		arena_release(&small);
		if (rc == 0)
			break;
		assert_int_equal(rc, ERR_NOMEM);
		assert_int_equal(p.max_amount, 77);
	}
	assert_in_range(max, 1024, 65535);
}

static char *read_text(const char *path, char *text, size_t size)
{
	FILE *f = fopen(path, "r");
	size_t n;

	if (!f)
		fail_msg("%s cannot be read", path);
	n = fread(text, 1, size - 1, f);
	fclose(f);
	text[n] = '\0';
	return text;
}

TEST(test_examples)
{
	static const char *const os[] = {"ubuntu18", "ubuntu20", "centos7", "centos8"};
	static const char *const version[] = {"400", "401", "450"};
	static char c[16384], s[16384];
	struct profile p;

	must_load(read_text("manifests/examples/catalogue.yaml", c, sizeof(c)),
		read_text("manifests/examples/sidecar.yaml", s, sizeof(s)), &p);
	assert_int_equal(p.n_clients, 12);
	for (size_t i = 0; i < COUNT(os); i++)
		for (size_t k = 0; k < COUNT(version); k++)
			assert_non_null(profile_client(&p, slice_of(os[i]), slice_of(version[k])));
	assert_int_equal(p.n_secrets, 3);
}

TESTS_BETWEEN(setup, teardown, test_files, test_argv, test_library_path, test_duplicates,
	test_generous, test_wrong, test_out_of_memory, test_examples)
