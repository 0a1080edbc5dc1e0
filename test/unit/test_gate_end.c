/* SPDX-License-Identifier: Apache-2.0 */
/* core/launcher/launcher_gate, core/pod/gate_end, core/pod/place: a pod that reaches its servers
 * through gates, its place known at once or late. */
#include <cjson/cJSON.h>

#include "base/yaml/yaml.h"
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/launcher/launcher_load.h"
#include "webhook/core/launcher/launcher_parts.h"
#include "webhook/core/pod/gate_end.h"
#include "webhook/core/pod/late.h"
#include "webhook/edge/admission/plan_keys.h"

#define SPEC(more)                                                                                 \
	"apiVersion: poolgate.io/v1alpha1\nkind: LauncherProfile\nmetadata: {name: tool}\nspec:\n" \
	"  kind: env\n" more
#define SERVERS "  env: [{name: SERVER, value: '{servers}'}]\n  placement: servers\n"
#define GATE(image, ca)                                                                            \
	"  gate:\n    image: " image "\n    ca: |\n      -----BEGIN CERTIFICATE-----\n      " ca   \
	"\n"
#define BEGIN "-----BEGIN CERTIFICATE-----"
#define TOOL(image, ca) SPEC(SERVERS GATE(image, ca))
#define BY_ADDRESS SERVERS "  gate: {mode: address}\n"
#define PULLS "    pullSecret: registry\n"
#define ONE "'resources':{'limits':{'bitfusion.io/gpu-amount':1}}"
#define POD(annotations, spec)                                                                     \
	"{'metadata':{'name':'p','annotations':{'auto-management/bitfusion':'all','poolgate.io/"   \
	"launcher':'tool'" annotations "}},'spec':{" spec "'containers':[{'name':'a'," ONE "}]}}"

static int load(struct fixture *f, const char *text)
{
	struct yaml_stream stream;
	struct arena tree;
	int rc;

	arena_init(&tree, YAML_ARENA_MAX);
	err_clear(&f->err);
	rc = yaml_parse(&tree, "p.yaml", slice_of(text), YAML_NO_ALIASES, &stream, &f->err);
	if (rc == 0)
		rc = launcher_load(stream.first->root, &f->arena, &f->profiles[0], &f->err);
	if (rc == 0)
		rc = profile_prepare_proof(&f->profiles[0], mac_digest, &f->arena, &f->err);
	arena_release(&tree);
	return rc;
}

/* A replica where places come late: no pool is asked. */
static void begin(struct fixture *f, const char *text)
{
	fixture_init(f);
	f->config.late_place = true;
	f->world.ledger = NULL;
	if (load(f, text) != 0)
		fail_msg("%s", f->err.msg);
}

static void must_be(const char *text, const char *want)
{
	char *quotes = fixture_quotes(want);

	if (!strstr(text, quotes))
		fail_msg("%s\nis not in\n%s", quotes, text);
	free(quotes);
}

/* As fixture_validate(), for a pod whose paths of fields hold quotes. */
static int judge(struct fixture *f, const char *pod)
{
	const struct json_node *root = fixture_raw(f, pod);

	err_clear(&f->err);
	return validate_create(
		&f->world, &f->json, root, SLICE("ml"), &f->scratch, &f->validation, &f->err);
}

/* ---- the document ---- */

TEST(test_documents)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{SPEC(SERVERS "  gate: {ca: x}\n"), "\"image\" is missing"},
		{SPEC(SERVERS "  gate: {image: ''}\n"), "\"ca\" is missing"},
		{SPEC(SERVERS "  gate: {image: i, ca: x}\n"), "found 1 bytes, expected the CAs"},
		{SPEC(SERVERS "  gate: {image: i, ca: ''}\n"), "found 0 bytes, expected the CAs"},
		{SPEC(SERVERS "  gate: {image: i, ca: \"x " BEGIN "\"}\n"),
			"found 29 bytes, expected the CAs"},
		{SPEC(SERVERS "  gate: {image: i, ca: \"" BEGIN "\\nx\\0\"}\n"),
			"found 30 bytes, expected the CAs"},
		{SPEC(SERVERS GATE("''", "x")), "expected gpugate's image"},
		{SPEC(SERVERS GATE("i", "x") "    port: 80\n"), "/spec/gate/port"},
		{SPEC(SERVERS GATE("i", "x") "    port: 65520\n"), "/spec/gate/port"},
		{SPEC(SERVERS GATE("i", "x") "    pullSecret: A_b\n"),
			"found \"A_b\", expected the name of a Secret"},
		{SPEC(SERVERS GATE("i", "x") "    pullSecret: {name: a}\n"),
			"/spec/gate/pullSecret"},
		{SPEC(SERVERS GATE("i", "x") "    resource: {}\n"), "did you mean \"resources\""},
		{SPEC(SERVERS GATE("i", "x") "    resources: {cpu: 1}\n"), "unknown key \"cpu\""},
		{SPEC("  env: [{name: A, value: b}]\n" GATE("i", "x")), "not told its servers"},
		{SPEC("  env: [{name: A, value: '{gpus}'}]\n  placement: servers\n" GATE("i", "x")),
			"not told its servers"},
		{SPEC("  env: [{name: A, value: '{servers} {server_host}'}]\n  placement: "
		      "servers\n" GATE("i", "x")),
			"leaves out the port"},
		{SPEC(SERVERS "  addressFamilies: [IPv6]\n" GATE("i", "x")), "cannot use IPv4"},
		{SPEC(SERVERS "  volumes: [{name: gpugate-ca, emptyDir: {}}]\n" GATE("i", "x")),
			"one of that name"},
		{SPEC(SERVERS "  initContainers: [{name: gpugate, image: i}]\n" GATE("i", "x")),
			"one of that name"},
		{SPEC(SERVERS "  can: {memory: gate}\n"), "expected a gate through which"},
		{SPEC(SERVERS "  can: {fraction: gate}\n  granularity: server\n" GATE("i", "x")),
			"expected \"granularity: gpu\""},
		{SPEC(SERVERS "  can: {memory: gates}\n" GATE("i", "x")), "found \"gates\""},
		{SPEC(SERVERS GATE("i", "x") "    mode: session\n"), "found \"session\""},
		{SPEC(SERVERS GATE("i", "x") "    mode: address\n"), "expected that alone"},
		{SPEC(SERVERS "  gate: {mode: address, port: 14840}\n"), "expected that alone"},
		{SPEC(SERVERS "  gate: {mode: token}\n"), "\"image\" is missing"},
		{SPEC("  env: [{name: A, value: b}]\n  gate: {mode: address}\n"),
			"not told its servers"},
		{SPEC(BY_ADDRESS "  can: {fraction: gate}\n  granularity: server\n"),
			"expected \"granularity: gpu\""},
	};
	struct fixture f;

	fixture_init(&f);
	for (size_t i = 0; i < COUNT(rows); i++)
		if (load(&f, rows[i].text) != ERR_INVALID || !strstr(f.err.msg, rows[i].says))
			fail_msg("row %zu says %s", i, f.err.msg);
	/* what the client cannot use, its end can */
	assert_int_equal(load(&f, SPEC(SERVERS "  addressFamilies: [IPv4]\n" GATE("i", "x"))), 0);
	assert_false(f.profiles[0].no_ipv6);
	assert_int_equal(load(&f, SPEC(SERVERS GATE("i", "x") "    port: 65519\n    resources: "
							      "{limits: {cpu: 1}}\n")),
		0);
	assert_int_equal(f.profiles[0].gate.port, 65519);
	assert_true(
		slice_is(f.profiles[0].clients[0].inits[0].resources, "{\"limits\":{\"cpu\":1}}"));
	assert_false(profile_guarded(&f.profiles[0]));
	assert_int_equal(load(&f, SPEC(SERVERS "  can: {memory: gate}\n" GATE("i", "x"))), 0);
	assert_true(profile_guarded(&f.profiles[0]));
	/* counted, and kept elsewhere */
	assert_int_equal(profile_expresses(&f.profiles[0], 1, 0, 4096, &f.err), 0);
	assert_int_equal(profile_expresses(&f.profiles[0], 1, 50, 0, &f.err), ERR_INVALID);
	fixture_release(&f);
}

/* A certificate's text of n bytes. */
static int load_long_ca(struct fixture *f, size_t n)
{
	struct buf b;
	int rc;

	buf_init(&b, 1u << 20);
	buf_str(&b, SPEC(SERVERS "  gate: {image: i, ca: \"" BEGIN));
	for (size_t i = strlen(BEGIN); i < n; i++)
		buf_char(&b, 'x');
	buf_str(&b, "\"}\n");
	buf_char(&b, '\0');
	assert_false(b.failed);
	rc = load(f, b.data);
	buf_release(&b);
	return rc;
}

TEST(test_longest_ca)
{
	struct fixture f;

	fixture_init(&f);
	if (load_long_ca(&f, GATE_CA_MAX) != 0)
		fail_msg("%s", f.err.msg);
	assert_int_equal(f.profiles[0].gate.ca.len, GATE_CA_MAX);
	assert_int_equal(load_long_ca(&f, GATE_CA_MAX + 1), ERR_INVALID);
	assert_non_null(strstr(f.err.msg, "found 32769 bytes, expected the CAs"));
	assert_non_null(strstr(f.err.msg, "at most 32768 bytes"));
	fixture_release(&f);
}

/* Whatever is written into pods is in the hash. */
TEST(test_hash)
{
	static const char *const texts[] = {SPEC(SERVERS), TOOL("i", "x"), TOOL("j", "x"),
		TOOL("i", "y"), TOOL("i", "x") "    port: 2000\n",
		TOOL("i", "x") "    resources: {limits: {cpu: 2}}\n", TOOL("i", "x") PULLS,
		TOOL("i", "x") "    pullSecret: other\n"};
	uint64_t seen[COUNT(texts)];
	struct fixture f;

	fixture_init(&f);
	for (size_t i = 0; i < COUNT(texts); i++) {
		assert_int_equal(load(&f, texts[i]), 0);
		seen[i] = f.profiles[0].hash;
		for (size_t k = 0; k < i; k++)
			assert_true(seen[k] != seen[i]);
	}
	fixture_release(&f);
}

/* ---- one replica ---- */

/* Admitted, and undone: as it was. Returns what was injected. */
static char *goes_and_comes_back(struct fixture *f, const char *plain)
{
	char *pod = fixture_inject(f, plain), *back;
	cJSON *want, *got;

	if (judge(f, pod) != 0)
		fail_msg("%s: %s", f->err.path, f->err.msg);
	fixture_raw(f, pod);
	buf_clear(&f->patch);
	assert_int_equal(mutate_undo(&f->json, json_root(&f->json), &f->scratch, &f->patch,
				 &f->mutation, &f->err),
		0);
	back = fixture_apply(pod, f->patch.data);
	fixture_pod(f, plain);
	want = cJSON_Parse(f->json_text);
	got = cJSON_Parse(back);
	assert_true(cJSON_Compare(want, got, true));
	cJSON_Delete(want);
	cJSON_Delete(got);
	free(back);
	return pod;
}

/* The manifest is put in the live pod's place: what it pulls with comes back, since the API server
 * lets nobody change it. */
static void is_put_again(struct fixture *f, const char *plain, const char *live)
{
	char *quoted = fixture_quotes(plain), *back;
	size_t size = strlen(quoted) + strlen(live) + 32;
	char *both = malloc(size);
	const struct json_node *root;
	cJSON *want, *got;

	assert_non_null(both);
	snprintf(both, size, "{\"new\":%s,\"old\":%s}", quoted, live);
	root = fixture_raw(f, both);
	buf_clear(&f->patch);
	assert_int_equal(mutate_update(&f->config, &f->json, json_get(&f->json, root, SLICE("new")),
				 json_get(&f->json, root, SLICE("old")), SLICE("ml"), &f->scratch,
				 &f->patch, &f->mutation, &f->err),
		0);
	back = fixture_apply(quoted, f->patch.data);
	want = cJSON_Parse(live);
	got = cJSON_Parse(back);
	assert_true(cJSON_Compare(
		cJSON_GetObjectItem(cJSON_GetObjectItem(want, "spec"), "imagePullSecrets"),
		cJSON_GetObjectItem(cJSON_GetObjectItem(got, "spec"), "imagePullSecrets"), true));
	cJSON_Delete(want);
	cJSON_Delete(got);
	free(back);
	free(both);
	free(quoted);
}

TEST(test_admitted_and_taken_back)
{
	struct fixture f;
	char *pod;

	begin(&f, TOOL("i", "x"));
	pod = goes_and_comes_back(&f, POD("", ""));
	must_be(pod, "{'name':'SERVER','value':'$(POOLGATE_SERVERS)'}");
	must_be(pod, "'poolgate.io/gate-ca':'-----BEGIN CERTIFICATE-----\\nx\\n'");
	assert_null(strstr(pod, "\"poolgate.io/gate-servers\":"));
	assert_null(strstr(pod, "imagePullSecrets"));
	free(pod);
	fixture_release(&f);
}

/* Put in where it is not there; taken out where we put it in. */
TEST(test_pull_secret)
{
	static const struct {
		const char *spec, *comes;
		bool ours, made;
	} rows[] = {
		{"", "'imagePullSecrets':[{'name':'registry'}]", true, true},
		{"'imagePullSecrets':[],", "'imagePullSecrets':[{'name':'registry'}]", true, false},
		{"'imagePullSecrets':[{'name':'mine'}],",
			"'imagePullSecrets':[{'name':'mine'},{'name':'registry'}]", true, false},
		{"'imagePullSecrets':[{'name':'registry'},{'name':'mine'}],",
			"'imagePullSecrets':[{'name':'registry'},{'name':'mine'}]", false, false},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char plain[512], *pod;
		struct fixture f;

		begin(&f, TOOL("i", "x") PULLS);
		snprintf(plain, sizeof(plain), POD("", "%s"), rows[i].spec);
		pod = goes_and_comes_back(&f, plain);
		must_be(pod, rows[i].comes);
		assert_int_equal(
			strstr(pod, "\\\"pullSecret\\\":\\\"registry\\\"") != NULL, rows[i].ours);
		assert_int_equal(strstr(pod, "\\\"imagePullSecrets\\\"]") != NULL, rows[i].made);
		is_put_again(&f, plain, pod);
		free(pod);
		fixture_release(&f);
	}
}

/* What the plan of this pod asks of the pool. */
static struct demand demand_of(struct fixture *f, const char *pod)
{
	struct demand d;
	struct plan plan;

	fixture_raw(f, pod);
	assert_int_equal(plan_read(json_str(&f->json,
					   json_path(&f->json, json_root(&f->json), "metadata",
						   "annotations", ANN_PLAN, NULL),
					   &f->scratch),
				 &f->scratch, &plan, &f->err),
		0);
	assert_int_equal(plan_demand(&plan, false, &f->scratch, &d, &f->err), 0);
	return d;
}

/* The plan says it, for the leader that places the pod; and is held to it. */
TEST(test_guarded)
{
	struct demand d;
	struct fixture f;
	char *pod;

	begin(&f, SPEC(SERVERS "  can: {memory: gate}\n" GATE("i", "x")));
	pod = fixture_inject(&f, POD("", ""));
	must_be(pod, "\\'guarded\\':true");
	if (judge(&f, pod) != 0)
		fail_msg("%s: %s", f.err.path, f.err.msg);
	d = demand_of(&f, pod);
	assert_true(d.guarded && d.gate_by == GATE_BY_TOKEN);
	assert_int_equal(load(&f, TOOL("i", "x")), 0);
	assert_int_equal(judge(&f, pod), ERR_REFUSED);
	free(pod);
	fixture_release(&f);
}

TEST(test_refused_when_it_comes)
{
	static const struct {
		const char *pod, *path;
	} rows[] = {
		{POD("", "'hostNetwork':true,"), "/spec/hostNetwork"},
		{POD(",'poolgate.io/gate-ca':''", ""), "/metadata/annotations"},
		{POD(",'poolgate.io/gate-servers':'a:1'", ""), "/metadata/annotations"},
		{POD("", "'initContainers':[{'name':'i','ports':[{'containerPort':1},{"
			 "'containerPort':14855,'protocol':'TCP'}]}],"),
			"/spec/initContainers/0/ports/1/containerPort"},
	};
	struct fixture f;

	begin(&f, TOOL("i", "x"));
	for (size_t i = 0; i < COUNT(rows); i++)
		if (fixture_mutate(&f, rows[i].pod) != ERR_INVALID ||
			strcmp(f.err.path, rows[i].path) != 0)
			fail_msg("row %zu: %s: %s", i, f.err.path, f.err.msg);
	fixture_release(&f);
}

/* The client dials the gates itself: nothing is added, and {servers} is what it is without. */
TEST(test_by_address)
{
	static const char host[] = POD("", "'hostNetwork':true,");
	char *pod, *named;
	struct fixture f;

	begin(&f, SPEC(BY_ADDRESS "  can: {memory: gate}\n"));
	assert_true(f.profiles[0].gate.by_address && profile_guarded(&f.profiles[0]));
	pod = goes_and_comes_back(&f, POD("", ""));
	must_be(pod, "{'name':'SERVER','value':'$(POOLGATE_SERVERS)'}");
	assert_null(strstr(pod, "initContainers"));
	assert_null(strstr(pod, "gate-"));
	assert_int_equal(demand_of(&f, pod).gate_by, GATE_BY_ADDRESS);
	free(pod);
	assert_int_equal(fixture_mutate(&f, host), ERR_INVALID);
	assert_string_equal(f.err.path, "/spec/hostNetwork");
	assert_non_null(strstr(f.err.msg, "has its node's address"));
	fixture_release(&f);
	/* the plan is held to it, as to ports */
	begin(&f, SPEC(BY_ADDRESS));
	pod = fixture_inject(&f, POD("", ""));
	assert_int_equal(judge(&f, pod), 0);
	assert_int_equal(load(&f, SPEC(SERVERS)), 0);
	assert_int_equal(judge(&f, pod), ERR_REFUSED);
	assert_non_null(strstr(f.err.msg, "goes through gates in another way"));
	free(pod);
	fixture_release(&f);
	/* nor where another replica has let it through */
	begin(&f, SPEC(SERVERS));
	pod = fixture_inject(&f, host);
	named = strdup(pod);
	assert_int_equal(judge(&f, pod), 0);
	assert_int_equal(load(&f, SPEC(BY_ADDRESS)), 0);
	assert_int_equal(judge(&f, named), ERR_INVALID);
	assert_string_equal(f.err.path, "/spec/hostNetwork");
	free(named);
	free(pod);
	fixture_release(&f);
}

/* Another hook puts it on its node's network behind us: the proof does not speak of that. */
TEST(test_by_address_and_a_plan_that_is_proven)
{
	struct plan_key key = {.number = 1, .bytes = "shared"};
	struct plan_keys *keys = plan_keys_new(NULL);
	struct fixture f;
	char *pod, *changed;

	assert_non_null(keys);
	plan_keys_share(keys, &key, 1, 0);
	begin(&f, SPEC(BY_ADDRESS));
	f.world.signer = plan_keys_signer(keys);
	pod = fixture_inject(&f, POD("", ""));
	changed = fixture_change(pod, "[{'op':'add','path':'/spec/hostNetwork','value':true}]");
	assert_int_equal(judge(&f, pod), 0);
	assert_int_equal(judge(&f, changed), ERR_INVALID);
	assert_string_equal(f.err.path, "/spec/hostNetwork");
	free(changed);
	free(pod);
	fixture_release(&f);
	plan_keys_free(keys);
}

/* ---- another replica, whose gates have other CAs and whose sidecar has another image ---- */

static const struct {
	const char *op;
	enum proof proof;
	int rc;
} changes[] = {
	{"{'op':'add','path':'/spec/initContainers/0/resources/limits/cpu','value':'1'}",
		PROOF_HOLDS, 0},
	{"{'op':'replace','path':'/metadata/annotations/poolgate.io~1gate-ca','value':'mine'}",
		PROOF_OTHER, ERR_REFUSED},
	{"{'op':'replace','path':'/spec/initContainers/0/image','value':'mine'}", PROOF_OTHER,
		ERR_REFUSED},
	{"{'op':'replace','path':'/spec/initContainers/0/args/2','value':'14841'}", PROOF_OTHER,
		ERR_REFUSED},
	{"{'op':'replace','path':'/spec/volumes/0/projected/sources/0/serviceAccountToken/"
	 "audience','value':'x'}",
		PROOF_OTHER, ERR_REFUSED},
	{"{'op':'remove','path':'/metadata/annotations/poolgate.io~1gate-ca'}", PROOF_UNASKED,
		ERR_REFUSED},
	{"{'op':'add','path':'/metadata/annotations/poolgate.io~1gate-servers','value':'mine:1'}",
		PROOF_UNASKED, ERR_REFUSED},
	{"{'op':'add','path':'/spec/hostNetwork','value':true}", PROOF_UNASKED, ERR_INVALID},
};

TEST(test_another_replica)
{
	struct plan_key key = {.number = 1, .bytes = "shared"};
	struct plan_keys *keys = plan_keys_new(NULL);
	struct fixture writes, judges;
	char *pod;

	assert_non_null(keys);
	plan_keys_share(keys, &key, 1, 0);
	begin(&writes, TOOL("i", "x"));
	begin(&judges, TOOL("j", "y"));
	writes.world.signer = judges.world.signer = plan_keys_signer(keys);
	pod = fixture_inject(&writes, POD("", ""));
	assert_int_equal(judge(&judges, pod), 0);
	assert_int_equal(judges.validation.proof, PROOF_HOLDS);
	for (size_t i = 0; i < COUNT(changes); i++) {
		char op[400], *changed;

		snprintf(op, sizeof(op), "[%s]", changes[i].op);
		changed = fixture_change(pod, op);
		if (judge(&judges, changed) != changes[i].rc ||
			judges.validation.proof != changes[i].proof)
			fail_msg(
				"row %zu: %d: %s", i, (int)judges.validation.proof, judges.err.msg);
		free(changed);
	}
	free(pod);
	fixture_release(&writes);
	fixture_release(&judges);
	plan_keys_free(keys);
}

/* ---- the place ---- */

#define GPU(name)                                                                                  \
	{                                                                                          \
		.id = name, .model = "V100", .bytes = 1000, .fit = true, .fresh = true, .why = ""  \
	}

/* Each container is told the ports of its own servers, which count all that the pod has. */
TEST(test_place_of_a_claim)
{
	struct gpu one[] = {GPU("g0")}, two[] = {GPU("h0")}, three[] = {GPU("i0")};
	struct gpu_server servers[] = {
		{.name = "a", .address = "10.0.0.1:9446", .gpus = one, .n_gpus = 1},
		{.name = "b", .address = "b:9446", .gpus = two, .n_gpus = 1, .first_gpu = 1},
		{.name = "c",
			.address = "[fd::1]:9446",
			.gpus = three,
			.n_gpus = 1,
			.first_gpu = 2}};
	struct inventory inv = {.servers = servers, .n_servers = 3, .n_gpus = 3};
	struct plan_container containers[] = {
		{.name = SLICE("x"), .amount = 1, .percent = 50, .slot = 0},
		{.name = SLICE("y"), .amount = 1, .percent = 100, .slot = 1}};
	struct plan plan = {.containers = containers,
		.n_containers = 2,
		.gate_port = 2000,
		.late = {.values = 1u << LATE_SERVERS}};
	const uint64_t held[] = {500, 0, 1000};
	struct gpu_place place;
	const struct json_node *pod;
	struct fixture f;
	struct buf out;

	fixture_init(&f);
	/* which forgets what lies in the scratch */
	pod = fixture_pod(&f, "{'metadata':{'name':'p','uid':'u','annotations':{}},'spec':{"
			      "'schedulingGates':[{'name':'poolgate.io/capacity'}]}}");
	assert_int_equal(gpu_place_of(&plan, &inv, held, &f.scratch, &place, &f.err), 0);
	assert_true(slice_is(place.gates, "10.0.0.1:9446,[fd::1]:9446"));
	assert_true(slice_is(place.containers[0].value[LATE_SERVERS], "127.0.0.1:2000"));
	assert_true(slice_is(place.containers[1].value[LATE_SERVERS], "127.0.0.1:2001"));
	buf_init(&out, 4096);
	assert_true(late_patch(&f.json, pod, &plan, &place, &f.scratch, &out));
	must_be(out.data, "{'op':'add','path':'/metadata/annotations/poolgate.io~1gate-servers',"
			  "'value':'10.0.0.1:9446,[fd::1]:9446'}");
	plan.late.whole_servers = true;
	assert_int_equal(gpu_place_of(&plan, &inv, held, &f.scratch, &place, &f.err), 0);
	assert_true(
		slice_is(place.containers[1].value[LATE_SERVERS], "127.0.0.1:2000,127.0.0.1:2001"));
	plan.gate_port = 0;
	assert_int_equal(gpu_place_of(&plan, &inv, held, &f.scratch, &place, &f.err), 0);
	assert_null(place.gates.at);
	buf_release(&out);
	fixture_release(&f);
}

TEST(test_as_many_servers_as_ports)
{
	struct gpu gpu[] = {GPU("g0")};
	struct gpu_server servers[PROFILE_GATE_SERVERS + 1];
	struct inventory inv = {.servers = servers};
	struct plan_container container = {.name = SLICE("x"), .percent = 100};
	struct plan plan = {.containers = &container,
		.n_containers = 1,
		.gate_port = 2000,
		.late = {.values = 1u << LATE_SERVERS, .whole_servers = true}};
	uint64_t held[PROFILE_GATE_SERVERS + 1];
	struct gpu_place place;
	struct fixture f;

	fixture_init(&f);
	for (size_t i = 0; i < COUNT(servers); i++) {
		servers[i] = (struct gpu_server){.name = arena_fmt(&f.arena, "s%02zu", i),
			.address = "a:1",
			.gpus = gpu,
			.n_gpus = 1,
			.first_gpu = i};
		held[i] = 1000;
	}
	for (inv.n_servers = 16; inv.n_servers < 18; inv.n_servers++) {
		inv.n_gpus = inv.n_servers;
		container.amount = (uint32_t)inv.n_servers;
		assert_int_equal(gpu_place_of(&plan, &inv, held, &f.scratch, &place, &f.err),
			inv.n_servers == 16 ? 0 : ERR_INVALID);
	}
	assert_non_null(strstr(f.err.msg, "of 17 servers, and a pod reaches 16"));
	fixture_release(&f);
}

/* One replica names a pull secret, the other none: what the first has put in is held by its proof.
 */
TEST(test_pull_secret_of_another_replica)
{
	static const struct {
		const char *op;
		int rc;
	} rows[] = {
		{"{'op':'test','path':'/metadata/name','value':'p'}", 0},
		{"{'op':'add','path':'/spec/imagePullSecrets/0','value':{'name':'mine'}}", 0},
		{"{'op':'remove','path':'/spec/imagePullSecrets'}", ERR_REFUSED},
		{"{'op':'replace','path':'/spec/imagePullSecrets/0/name','value':'mine'}",
			ERR_REFUSED},
	};
	struct plan_key key = {.number = 1, .bytes = "shared"};
	struct plan_keys *keys = plan_keys_new(NULL);
	struct fixture writes, judges;
	char *pod;

	assert_non_null(keys);
	plan_keys_share(keys, &key, 1, 0);
	begin(&writes, TOOL("i", "x") PULLS);
	begin(&judges, TOOL("i", "x"));
	writes.world.signer = judges.world.signer = plan_keys_signer(keys);
	pod = fixture_inject(&writes, POD("", ""));
	for (size_t i = 0; i < COUNT(rows); i++) {
		char op[200], *changed;

		snprintf(op, sizeof(op), "[%s]", rows[i].op);
		changed = fixture_change(pod, op);
		/* who names it, too, asks for no proof */
		if (judge(&writes, changed) != rows[i].rc || judge(&judges, changed) != rows[i].rc)
			fail_msg("row %zu: %s", i, judges.err.msg);
		assert_int_equal(judges.validation.proof, rows[i].rc ? PROOF_OTHER : PROOF_HOLDS);
		free(changed);
	}
	free(pod);
	/* and one that was written before the secret was named */
	pod = fixture_inject(&judges, POD("", ""));
	assert_int_equal(judge(&writes, pod), 0);
	assert_int_equal(writes.validation.proof, PROOF_HOLDS);
	/* without a proof it is another profile's */
	judges.world.signer = writes.world.signer = NULL;
	free(pod);
	pod = fixture_inject(&writes, POD("", ""));
	assert_int_equal(judge(&judges, pod), ERR_REFUSED);
	assert_string_equal(judges.err.reason, "ProfileChanged");
	free(pod);
	fixture_release(&writes);
	fixture_release(&judges);
	plan_keys_free(keys);
}

TESTS(test_documents, test_longest_ca, test_hash, test_admitted_and_taken_back, test_pull_secret,
	test_pull_secret_of_another_replica, test_guarded, test_refused_when_it_comes,
	test_by_address, test_by_address_and_a_plan_that_is_proven, test_another_replica,
	test_place_of_a_claim, test_as_many_servers_as_ports)
