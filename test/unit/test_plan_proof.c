/* SPDX-License-Identifier: Apache-2.0 */
/* core/pod/plan_proof, core/pod/part_shape, net/mac, with mutate and validate: one replica writes a
 * plan, another, with another configuration, judges it. */
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"

#include "base/yaml/yaml.h"
#include "webhook/core/launcher/launcher_load.h"
#include "webhook/core/pod/part_shape.h"
#include "webhook/edge/admission/plan_keys.h"

/* The profile; image, library and the words' last are another version's in the second. */
#define PROFILE(image, lib, word)                                                                  \
	"apiVersion: poolgate.io/v1alpha1\n"                                                       \
	"kind: LauncherProfile\n"                                                                  \
	"metadata: {name: tool}\n"                                                                 \
	"spec:\n"                                                                                  \
	"  kind: wrap\n"                                                                           \
	"  argv: [/tool/run, -n, '{amount}', {if: fraction, words: [-p, '{fraction}']}, " word     \
	"]\n"                                                                                      \
	"  separator: --\n"                                                                        \
	"  options: {amount: [-n], fraction: [-p]}\n"                                              \
	"  env:\n"                                                                                 \
	"  - {name: GPU_COUNT, value: '{amount}'}\n"                                               \
	"  - {name: TOKEN, secret: {name: tool-token, key: t}}\n"                                  \
	"  - {name: LD_LIBRARY_PATH, prepend: " lib "}\n"                                          \
	"  clients: [{}]\n"                                                                        \
	"  can: {fraction: yes, memory: no, maxAmount: 8}\n"                                       \
	"  initContainers:\n"                                                                      \
	"  - name: copy\n"                                                                         \
	"    image: " image "\n"                                                                   \
	"    command: [cp, -r, /a, /tool]\n"                                                       \
	"    securityContext: {runAsNonRoot: true, privileged: false, capabilities: {drop: "       \
	"[ALL]}}\n"                                                                                \
	"    volumeMounts: [{name: tool, mountPath: /tool}, {name: secret, mountPath: /s}]\n"      \
	"  volumes:\n"                                                                             \
	"  - name: tool\n"                                                                         \
	"    emptyDir: {sizeLimit: 1024Mi}\n"                                                      \
	"  - name: secret\n"                                                                       \
	"    secret: {secretName: tool-secret, items: [{key: k, path: p}]}\n"                      \
	"  volumeMounts:\n"                                                                        \
	"  - {name: tool, mountPath: /tool, readOnly: true}\n"

#define POD(command, env)                                                                          \
	"{'metadata':{'name':'p','annotations':{'auto-management/bitfusion':'all','poolgate.io/"   \
	"launcher':'tool'}},'spec':{'containers':[{'name':'a'," command "," env                    \
	"'resources':{'limits':{'bitfusion.io/gpu-amount':1,'bitfusion.io/gpu-percent':50}}},"     \
	"{'name':'b','command':['sleep','9']},"                                                    \
	"{'name':'c','command':['run me'],'resources':{'limits':{'bitfusion.io/gpu-amount':1}}}]"  \
	"}}"
#define WRAPPED "'command':['python','t.py']"
#define PLAN_AT "/metadata/annotations/poolgate.io~1plan"

/* Two replicas that share a key. */
static struct replicas {
	struct fixture writes, judges;
	struct plan_keys *keys[2];
} fix;

static void load(struct fixture *f, const char *text, const struct plan_keys *keys)
{
	struct yaml_stream stream;
	struct arena tree;

	fixture_init(f);
	arena_init(&tree, YAML_ARENA_MAX);
	if (yaml_parse(&tree, "p.yaml", slice_of(text), YAML_NO_ALIASES, &stream, &f->err) != 0 ||
		launcher_load(stream.first->root, &f->arena, &f->profiles[0], &f->err) != 0 ||
		profile_prepare_proof(&f->profiles[0], mac_digest, &f->arena, &f->err) != 0)
		fail_msg("%s", f->err.msg);
	arena_release(&tree);
	f->world.signer = plan_keys_signer(keys);
}

static void begin(struct replicas *r)
{
	struct plan_key key = {.number = 1, .bytes = "shared"};

	for (size_t i = 0; i < 2; i++) {
		r->keys[i] = plan_keys_new(NULL);
		assert_non_null(r->keys[i]);
		plan_keys_share(r->keys[i], &key, 1, 0);
	}
	load(&r->writes, PROFILE("tool:1", "/tool/lib", "--one"), r->keys[0]);
	load(&r->judges, PROFILE("tool:2", "/tool/lib64", "--two"), r->keys[1]);
}

static void end(struct replicas *r)
{
	for (size_t i = 0; i < 2; i++)
		plan_keys_free(r->keys[i]);
	fixture_release(&r->writes);
	fixture_release(&r->judges);
}

FIXTURES(begin, end)

static void expect_allowed(const char *pod, const char *row)
{
	if (fixture_validate(&fix.judges, pod) != 0)
		fail_msg("%s: %s: %s", row, fix.judges.err.path, fix.judges.err.msg);
	assert_true(fix.judges.validation.claims);
	assert_int_equal(fix.judges.validation.proof, PROOF_HOLDS);
}

static void expect_refused(const char *pod, enum proof proof, const char *row)
{
	if (fixture_validate(&fix.judges, pod) != ERR_REFUSED)
		fail_msg("%s: admitted, or %s", row, fix.judges.err.msg);
	if (fix.judges.validation.proof != proof)
		fail_msg("%s: the proof is %d", row, (int)fix.judges.validation.proof);
}

/* ---- what another replica wrote ---- */

static const char *const written[] = {
	POD(WRAPPED, ""),
	POD("'command':['/bin/sh','-c'],'args':['echo \\u0026 a']", ""),
	POD(WRAPPED, "'env':[{'name':'LD_LIBRARY_PATH','value':'/x:/y \\u003c'}],"),
	POD(WRAPPED, "'env':[{'name':'LD_LIBRARY_PATH','value':'/tool/lib:/x'}],"),
	POD(WRAPPED, "'env':[{'name':'LD_LIBRARY_PATH'}],"),
	POD(WRAPPED,
		"'env':[{'name':'LD_LIBRARY_PATH','valueFrom':{'fieldRef':{'fieldPath':'x'}}}],"),
	POD(WRAPPED, "'env':[{'name':'GPU_COUNT','value':'1'},{'name':'TOKEN','valueFrom':{"
		     "'secretKeyRef':{'name':'tool-token','key':'t'}}}],"),
	POD("'command':['/tool/run','-n','1','-p','0.5','python']", ""),
};

TEST(test_another_replicas_pod_is_admitted)
{
	for (size_t i = 0; i < COUNT(written); i++) {
		char *pod = fixture_inject(&fix.writes, written[i]);

		expect_allowed(pod, written[i]);
		/* the plan alone, without the proof, is not believed */
		fix.judges.world.signer = NULL;
		expect_refused(pod, PROOF_UNKNOWN, written[i]);
		fix.judges.world.signer = plan_keys_signer(fix.keys[1]);
		free(pod);
	}
}

/* A profile that is not known here at all, units by another GPU, and nodes that are asked for
 * nothing. */
TEST(test_what_else_replicas_may_differ_in)
{
	char *pod;

	fix.writes.config.total_gpu_mb = 8000;
	fix.writes.config.node_resource_off = true;
	pod = fixture_inject(&fix.writes, POD(WRAPPED, ""));
	expect_allowed(pod, "another configuration");
	fix.judges.profiles[0].name = SLICE("renamed");
	expect_allowed(pod, "an unknown profile");
	assert_null(fix.judges.validation.profile);
	free(pod);
}

/* What the API server and other hooks do between the two. */
static const char *const harmless[] = {
	"{'op':'add','path':'/spec/volumes/1/secret/defaultMode','value':420}",
	"{'op':'add','path':'/spec/volumes/1/secret/items/0/mode','value':292}",
	"{'op':'replace','path':'/spec/volumes/0/emptyDir/sizeLimit','value':'1Gi'}",
	"{'op':'add','path':'/spec/volumes/0','value':{'name':'first','emptyDir':{}}}",
	"{'op':'add','path':'/spec/initContainers/0/imagePullPolicy','value':'Always'}",
	"{'op':'add','path':'/spec/initContainers/0/resources','value':{'limits':{'cpu':'1'}}}",
	"{'op':'add','path':'/spec/initContainers/0/volumeMounts/"
	"-','value':{'name':'kube-api-access'"
	",'mountPath':'/var/run/secrets'}}",
	"{'op':'remove','path':'/spec/initContainers/0/securityContext/privileged'}",
	"{'op':'add','path':'/spec/initContainers/0','value':{'name':'istio','image':'i'}}",
	"{'op':'add','path':'/spec/containers/0/volumeMounts/"
	"0','value':{'name':'first','mountPath':"
	"'/first'}}",
	"{'op':'add','path':'/spec/containers/0/env/0','value':{'name':'MORE','value':'x'}}",
	"{'op':'add','path':'/spec/containers/-','value':{'name':'proxy','image':'i'}}",
	"{'op':'add','path':'/spec/containers/0/command/-','value':'--more'}",
};

static const struct {
	const char *op;
	enum proof proof;
} harmful[] = {
	/* what was rendered */
	{"{'op':'replace','path':'/spec/containers/0/command/2','value':'8'}", PROOF_OTHER},
	{"{'op':'replace','path':'/spec/containers/0/command/0','value':'/tool/run2'}",
		PROOF_OTHER},
	{"{'op':'add','path':'/spec/containers/0/command/0','value':'sh'}", PROOF_OTHER},
	{"{'op':'remove','path':'/spec/containers/0/command'}", PROOF_OTHER},
	{"{'op':'replace','path':'/spec/containers/2/command/0','value':'/tool/run2'}",
		PROOF_OTHER},
	{"{'op':'replace','path':'/spec/containers/0/env/0/value','value':'8'}", PROOF_OTHER},
	{"{'op':'add','path':'/spec/containers/0/env/-','value':{'name':'GPU_COUNT','value':'8'}}",
		PROOF_OTHER},
	{"{'op':'remove','path':'/spec/containers/0/env/0'}", PROOF_OTHER},
	{"{'op':'replace','path':'/spec/containers/0/env/1/valueFrom/secretKeyRef/name','value':"
	 "'x'}",
		PROOF_OTHER},
	{"{'op':'replace','path':'/spec/containers/0/env/2/value','value':'/evil:/tool/lib'}",
		PROOF_OTHER},
	{"{'op':'replace','path':'/spec/containers/0/volumeMounts/0/name','value':'x'}",
		PROOF_OTHER},
	{"{'op':'remove','path':'/spec/containers/0/volumeMounts/0/readOnly'}", PROOF_OTHER},
	{"{'op':'replace','path':'/spec/containers/2/volumeMounts/0/name','value':'x'}",
		PROOF_OTHER},
	{"{'op':'remove','path':'/spec/containers/2/volumeMounts/0'}", PROOF_OTHER},
	{"{'op':'replace','path':'/spec/volumes/1/secret/secretName','value':'x'}", PROOF_OTHER},
	{"{'op':'add','path':'/spec/volumes/1/secret/items/0/path','value':'x'}", PROOF_OTHER},
	{"{'op':'replace','path':'/spec/volumes/0','value':{'name':'tool','hostPath':{}}}",
		PROOF_OTHER},
	{"{'op':'replace','path':'/spec/initContainers/0/image','value':'evil'}", PROOF_OTHER},
	{"{'op':'replace','path':'/spec/initContainers/0/securityContext/privileged','value':true}",
		PROOF_OTHER},
	{"{'op':'add','path':'/spec/initContainers/0/command/-','value':'x'}", PROOF_OTHER},
	{"{'op':'remove','path':'/spec/initContainers/0'}", PROOF_OTHER},
	{"{'op':'replace','path':'/spec/containers/0/name','value':'x'}", PROOF_OTHER},
	/* what is no replica's, and looked at all the same */
	{"{'op':'replace','path':'/spec/containers/0/resources/limits/bitfusion.io~1gpu','value':"
	 "1}",
		PROOF_HOLDS},
	{"{'op':'add','path':'/spec/containers/1/resources','value':{'limits':{'bitfusion.io/"
	 "gpu':1}}}",
		PROOF_HOLDS},
	{"{'op':'remove','path':'/metadata/labels'}", PROOF_HOLDS},
};

/* The pod after one change. PROOF_HOLDS with a refusal: what else is looked at refuses it. */
static void expect_changed(const char *pod, const char *op, bool allowed, enum proof proof)
{
	char ops[400], *changed;

	snprintf(ops, sizeof(ops), "[%s]", op);
	changed = fixture_change(pod, ops);
	if (allowed)
		expect_allowed(changed, op);
	else
		expect_refused(changed, proof, op);
	free(changed);
}

TEST(test_injection_mode)
{
	char *pod = fixture_inject(&fix.writes,
		"{'metadata':{'name':'p','annotations':{'auto-management/bitfusion':'injection',"
		"'poolgate.io/launcher':'tool'}},'spec':{'containers':[{'name':'a','command':["
		"'/tool/run','-n','1','python'],'resources':{'limits':{'bitfusion.io/"
		"gpu-amount':1}}}]}}");

	expect_allowed(pod, "injection");
	expect_changed(pod, "{'op':'replace','path':'/spec/containers/0/command/2','value':'8'}",
		false, PROOF_OTHER);
	free(pod);
}

TEST(test_what_may_change_and_what_may_not)
{
	char *pod = fixture_inject(&fix.writes, POD(WRAPPED, ""));

	for (size_t i = 0; i < COUNT(harmless); i++)
		expect_changed(pod, harmless[i], true, PROOF_HOLDS);
	for (size_t i = 0; i < COUNT(harmful); i++)
		expect_changed(pod, harmful[i].op, false, harmful[i].proof);
	free(pod);
}

/* A variable that the first pod set itself, as the profile does, is held, too: a copy cannot ask
 * for more by it. */
TEST(test_own_variables_are_held)
{
	char *pod = fixture_inject(
		&fix.writes, POD(WRAPPED, "'env':[{'name':'GPU_COUNT','value':'1'}],"));

	expect_changed(pod, "{'op':'replace','path':'/spec/containers/0/env/0/value','value':'8'}",
		false, PROOF_OTHER);
	free(pod);
}

/* ---- what is in the annotation ---- */

/* The plan's text with one piece made another of the same length or not; the caller frees it. */
static char *with_plan(const char *pod, const char *from, const char *to)
{
	const char *at = strstr(pod, from);
	size_t before;
	char *out;

	if (!at)
		fail_msg("%s is not in %s", from, pod);
	before = (size_t)(at - pod);
	out = malloc(strlen(pod) + strlen(to) + 1);
	assert_non_null(out);
	memcpy(out, pod, before);
	strcpy(out + before, to);
	strcat(out, at + strlen(from));
	return out;
}

TEST(test_a_changed_plan_is_nobodys)
{
	static const struct {
		const char *from, *to;
		enum proof proof;
	} rows[] = {
		{"\\\"amount\\\":1", "\\\"amount\\\":8", PROOF_UNKNOWN},
		{"\\\"percent\\\":50", "\\\"percent\\\":1", PROOF_UNKNOWN},
		{"\\\"totalMB\\\":16000", "\\\"totalMB\\\":11000", PROOF_UNKNOWN},
		{"\\\"profile\\\":\\\"tool\\\"", "\\\"profile\\\":\\\"pool\\\"", PROOF_UNKNOWN},
		{"\\\"v\\\":1", "\\\"v\\\":2", PROOF_UNKNOWN},
		{"\\\"shape\\\":\\\"", "\\\"shape\\\":\\\"x,", PROOF_OTHER},
		{"\\\"shape\\\":\\\"", "\\\"shape\\\":\\\"(((", PROOF_OTHER},
		{",\\\"proof\\\":", ", \\\"proof\\\":", PROOF_NONE},
		{"\\\"digest\\\":\\\"", "\\\"digest\\\":\\\"A", PROOF_NONE},
		{"\\\"digest\\\":", "\\\"digesT\\\":", PROOF_NONE},
	};
	char *pod, *changed, *mac;

	pod = fixture_inject(&fix.writes, POD(WRAPPED, ""));
	for (size_t i = 0; i < COUNT(rows); i++) {
		changed = with_plan(pod, rows[i].from, rows[i].to);
		expect_refused(changed, rows[i].proof, rows[i].to);
		free(changed);
	}
	mac = strstr(pod, "\\\"mac\\\":\\\"");
	assert_non_null(mac);
	mac += strlen("\\\"mac\\\":\\\"");
	*mac = *mac == 'A' ? 'B' : 'A';
	expect_refused(pod, PROOF_UNKNOWN, "another MAC");
	free(pod);
}

TEST(test_another_namespace)
{
	char *pod = fixture_inject(&fix.writes, POD(WRAPPED, ""));

	fixture_raw(&fix.judges, pod);
	assert_int_equal(validate_create(&fix.judges.world, &fix.judges.json,
				 json_root(&fix.judges.json), SLICE("theirs"), &fix.judges.scratch,
				 &fix.judges.validation, &fix.judges.err),
		ERR_REFUSED);
	assert_int_equal(fix.judges.validation.proof, PROOF_UNKNOWN);
	free(pod);
}

/* A hook that brings a container later makes us write the plan again: on from one that nobody has
 * proven. */
TEST(test_a_plan_that_goes_on_has_no_proof)
{
	char *pod, *more, *again;

	pod = fixture_inject(&fix.writes, POD(WRAPPED, ""));
	more = fixture_change(pod,
		"[{'op':'add','path':'/spec/containers/-','value':{'name':'late',"
		"'command':['x'],'resources':{'limits':{'bitfusion.io/"
		"gpu-amount':1}}}}]");
	again = fixture_inject(&fix.writes, more);
	assert_non_null(strstr(pod, "\\\"proof\\\":"));
	assert_null(strstr(again, "\\\"proof\\\":"));
	expect_refused(again, PROOF_NONE, "went on");
	free(again);
	free(more);
	free(pod);
}

/* ---- keys that a later version writes ---- */

/* A plan that lists the key, signed as a later version would; the caller frees it. */
static char *plan_with_keys(const char *keys)
{
	struct plan_signer signer = *plan_keys_signer(fix.keys[0]);
	struct profile_client *client = &fix.writes.profiles[0].clients[0];
	struct err err = {0};
	struct buf text, none;
	char *pod;

	buf_init(&text, 4096);
	buf_init(&none, 1);
	buf_fmt(&text,
		"{\"v\":2,\"profile\":\"tool\",\"hash\":\"0000000000000000\",\"mode\":\"full\","
		"\"containers\":[{\"name\":\"a\",\"kind\":\"app\",\"amount\":1,\"percent\":50,"
		"\"units\":50,\"command\":\"none\"}],\"keys\":[%s]}",
		keys);
	assert_int_equal(plan_prove(&signer, SLICE("ml"), client, &none, &text, &err), 0);
	pod = malloc(8192);
	assert_non_null(pod);
	strcpy(pod, "{\"metadata\":{\"name\":\"p\",\"annotations\":{\"auto-management/"
		    "bitfusion\":\"all\",\"poolgate.io/later\":\"x\",\"poolgate.io/plan\":");
	buf_clear(&none);
	none.max = 8192;
	buf_json_str(&none, buf_as_slice(&text));
	strcat(pod, none.data);
	strcat(pod, "}},\"spec\":{\"containers\":[{\"name\":\"a\",\"command\":[\"x\"]}]}}");
	buf_release(&text);
	buf_release(&none);
	return pod;
}

TEST(test_keys_of_a_later_version)
{
	char *pod = plan_with_keys("\"poolgate.io/later\"");

	/* the key passes; that the pod is nothing like its plan is told then */
	assert_int_equal(fixture_validate(&fix.judges, pod), ERR_REFUSED);
	assert_string_equal(fix.judges.err.reason, "ProfileChanged");
	assert_int_equal(fixture_mutate(&fix.judges, pod), 0);
	free(pod);
	pod = plan_with_keys("\"poolgate.io/another\"");
	assert_int_equal(fixture_validate(&fix.judges, pod), ERR_INVALID);
	assert_non_null(strstr(fix.judges.err.msg, "poolgate.io/later"));
	assert_int_equal(fixture_mutate(&fix.judges, pod), ERR_INVALID);
	free(pod);
	pod = plan_with_keys("\"poolgate.io/later\"");
	fix.judges.world.signer = NULL;
	assert_int_equal(fixture_validate(&fix.judges, pod), ERR_INVALID);
	assert_int_equal(fixture_mutate(&fix.judges, pod), ERR_INVALID);
	free(pod);
}

/* ---- shapes ---- */

static bool shape_of(const char *object, struct buf *out)
{
	char *copy = fixture_quotes(object), *text;
	struct json j = {0};
	bool good;

	assert_int_equal(json_read_copy(&j, copy, strlen(copy), 1000, &text, NULL), 0);
	good = shape_write(&j, json_root(&j), out);
	json_release(&j);
	free(text);
	free(copy);
	return good;
}

TEST(test_shapes)
{
	static const struct {
		const char *object, *shape;
	} rows[] = {
		{"{}", ";"},
		{"{'a':1,'b':[1,2],'c':[]}", "a,b,c;"},
		{"{'a':{},'b':{'c':{'d':null}}}", "a(),b(c(d));"},
		{"{'a':[{'b':1,'c':{}},{},{'d':2}]}", "a[b,c();;d];"},
		{"{'nvidia.com/gpu-1_x':1}", "nvidia.com/gpu-1_x;"},
		{"{'a,b':1}", NULL},
		{"{'':1}", NULL},
		{"{'a\\n':1}", NULL},
		{"{'\303\251':1}", NULL},
		{"{'a':[{},1]}", NULL},
		{"{'a':[1,{}]}", "a;"},
		{"{'a':{'b,c':1}}", NULL},
		{"{'a':{'b':{'':1}}}", NULL},
		{"{'a':[{'b':{'c(':1}}]}", NULL},
		{"[]", NULL},
	};
	struct buf out;

	for (size_t i = 0; i < COUNT(rows); i++) {
		buf_init(&out, 1000);
		if (shape_of(rows[i].object, &out) != (rows[i].shape != NULL))
			fail_msg("%s", rows[i].object);
		if (rows[i].shape)
			assert_string_equal(out.data, rows[i].shape);
		buf_release(&out);
	}
}

/* Each byte that a key may have, alone, at its front and at its end. */
TEST(test_bytes_of_keys)
{
	for (int c = ' '; c <= 0x7f; c++) {
		bool may = c > ' ' && c < 0x7f && !strchr(",;()[]\"\\", c);
		const char *keys[] = {"%c", "%ca", "a%c"};
		char object[32], key[8], shape[16];

		if (c == '"' || c == '\\' || c == '\'')
			continue;
		for (size_t i = 0; i < COUNT(keys); i++) {
			struct buf out;

			(void)snprintf(key, sizeof(key), keys[i], c);
			(void)snprintf(object, sizeof(object), "{'%s':1}", key);
			(void)snprintf(shape, sizeof(shape), "%s;", key);
			buf_init(&out, 1000);
			if (shape_of(object, &out) != may || (may && strcmp(out.data, shape) != 0))
				fail_msg("a key with byte %d", c);
			buf_release(&out);
		}
	}
}

/* The values of an object by a shape, as text; NULL when the shape is bad. The caller frees it. */
static char *values(const char *shape, const char *object, size_t *ret_len)
{
	char *copy = fixture_quotes(object), *text, *got = NULL;
	struct shape_reader r;
	struct json j = {0};
	struct arena a;
	struct buf out;

	arena_init(&a, 1 << 20);
	buf_init(&out, 1 << 20);
	assert_int_equal(json_read_copy(&j, copy, strlen(copy), 100000, &text, NULL), 0);
	r = shape_reader(slice_of(shape), &a);
	shape_values(&r, &j, json_root(&j), &out);
	if (!r.bad && r.left.len == 0)
		got = buf_take(&out, ret_len);
	buf_release(&out);
	json_release(&j);
	arena_release(&a);
	free(text);
	free(copy);
	return got;
}

TEST(test_values_by_shape)
{
	static const struct {
		const char *shape, *one, *other;
		bool same;
	} rows[] = {
		{"a,b;", "{'a':'x','b':1}", "{'z':1,'b':1,'a':'x'}", true},
		{"a;", "{'a':'x\\u003c'}", "{'a':'x<'}", true},
		{"a;", "{'a':'1024Mi'}", "{'a':'1Gi'}", true},
		{"a,b,c,d;", "{'a':false,'b':'','c':[],'d':0}", "{'b':null}", true},
		{"a();", "{'a':{}}", "{'a':{'b':1}}", true},
		{"a();", "{'a':{}}", "{}", false},
		{"a();", "{'a':{}}", "{'a':1}", false},
		{"a(b);", "{'a':{'b':1}}", "{'b':1}", false},
		{"a[b];", "{'a':[{'b':1}]}", "{'a':[{'b':1,'c':2},{'b':2}]}", true},
		{"a[b;b];", "{'a':[{'b':1},{'b':2}]}", "{'a':[{'b':2},{'b':1}]}", false},
		{"a[b;b];", "{'a':[{'b':1},{}]}", "{'a':[{'b':1}]}", false},
		{"a;", "{'a':['x','y']}", "{'a':['x','y','z']}", false},
		{"a;", "{'a':['xy']}", "{'a':['x','y']}", false},
		{"a;", "{'a':true}", "{'a':'true'}", false},
		{"a,b;", "{'a':'x'}", "{'b':'x'}", false},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		size_t n = 0, m = 0;
		char *one = values(rows[i].shape, rows[i].one, &n);
		char *other = values(rows[i].shape, rows[i].other, &m);

		assert_non_null(one);
		assert_non_null(other);
		if ((n == m && memcmp(one, other, n) == 0) != rows[i].same)
			fail_msg("%s: %s, %s", rows[i].shape, one, other);
		free(one);
		free(other);
	}
}

TEST(test_bad_shapes)
{
	static const char *const rows[] = {
		"", "a", "a(;", "a);", "a(b;", "a[b;", "a]", "a,;", ",a;", "a\\;", "a;b;"};
	char deep[200] = "";
	size_t n;

	for (size_t i = 0; i < COUNT(rows); i++)
		if (values(rows[i], "{'a':1}", &n))
			fail_msg("\"%s\" is no shape", rows[i]);
	for (size_t i = 0; i < 40; i++)
		strcat(deep, "a(");
	for (size_t i = 0; i < 40; i++)
		strcat(deep, ")");
	strcat(deep, ";");
	assert_null(values(deep, "{'a':{'a':1}}", &n));
	/* an object is where a value was */
	assert_null(values("a;", "{'a':{'b':1}}", &n));
	assert_null(values("a;", "{'a':[{'b':1}]}", &n));
}

/* However long a forged shape and a wide object are, the work has an end. */
TEST(test_dear_shapes)
{
	struct buf shape, object;
	size_t n;

	buf_init(&shape, 1 << 20);
	buf_init(&object, 1 << 20);
	buf_char(&object, '{');
	for (int i = 0; i < 4000; i++)
		buf_fmt(&object, "%s'k%d':1", i ? "," : "", i);
	buf_char(&object, '}');
	for (int i = 0; i < 200; i++)
		buf_str(&shape, i ? ",k3999" : "k3999");
	buf_char(&shape, ';');
	assert_non_null(object.data);
	free(values(shape.data, object.data, &n));
	shape.len--;
	for (int i = 0; i < 200; i++)
		buf_str(&shape, ",k3999");
	buf_char(&shape, ';');
	assert_null(values(shape.data, object.data, &n));
	buf_release(&shape);
	buf_release(&object);
}

TESTS_BETWEEN(set_up, tear_down, test_another_replicas_pod_is_admitted,
	test_what_else_replicas_may_differ_in, test_injection_mode,
	test_what_may_change_and_what_may_not, test_own_variables_are_held,
	test_a_changed_plan_is_nobodys, test_another_namespace,
	test_a_plan_that_goes_on_has_no_proof, test_keys_of_a_later_version, test_shapes,
	test_bytes_of_keys, test_values_by_shape, test_bad_shapes, test_dear_shapes)
