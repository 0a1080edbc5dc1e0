/* SPDX-License-Identifier: Apache-2.0 */
/* core/validate/validate: what may exist, what is refused and where, and what is claimed. */
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pod/plan.h"

#define ON                                                                                         \
	"'annotations':{'auto-management/bitfusion':'all','bitfusion-client/"                      \
	"os':'ubuntu18','bitfusion-client/version':'400'"
#define POD(meta, spec) "{'metadata':{'name':'p'," meta "},'spec':{" spec "}}"
#define ASKS(n) "'resources':{'limits':{'bitfusion.io/gpu-amount':" #n "}}"
#define UNITS "'resources':{'limits':{'bitfusion.io/gpu':100},'requests':{'bitfusion.io/gpu':100}}"
#define APP "'containers':[{'name':'a','command':['python','t.py']," ASKS(1) "}]"
#define PLAIN "'containers':[{'name':'a','command':['python','t.py']}]"
#define SECRET(how) "'volumes':[{'name':'v'},{'name':'s'," how "}]"
#define CA "bitfusion-client-secret-ca.crt"

#define PLAN_AT "/metadata/annotations/poolgate.io~1plan"

static struct fixture fix;

FIXTURES(fixture_init, fixture_release)

/* What came of a row's pod: NULL: it is allowed. */
static void expect(size_t row, int rc, const char *reason, const char *path)
{
	if ((reason ? rc >= 0 : rc != 0) || (rc < 0 && (strcmp(fix.err.reason, reason) != 0 ||
							       strcmp(fix.err.path, path) != 0)))
		fail_msg("row %zu gives %d %s %s: %s", row, rc, fix.err.reason, fix.err.path,
			fix.err.msg);
}

/* NULL: any. */
static void must_refuse(const char *pod, const char *reason, const char *path)
{
	if (fixture_validate_raw(&fix, pod) != ERR_REFUSED ||
		(reason && strcmp(fix.err.reason, reason) != 0) ||
		(path && strcmp(fix.err.path, path) != 0))
		fail_msg("not refused by %s at %s, but by %s at %s: %s", reason ? reason : "any",
			path ? path : "any", fix.err.reason, fix.err.path, fix.err.msg);
}

/* The same; frees the pod. */
static void must_refuse_made(char *pod, const char *reason, const char *path)
{
	must_refuse(pod, reason, path);
	free(pod);
}

/* ---- pods without a plan ---- */

/* pod; reason of the refusal or NULL; path of the refusal, or a piece of the warning */
static const struct {
	const char *pod, *reason, *says;
} plain[] = {
	{POD("'labels':{}", PLAIN), NULL, NULL},
	{POD("'labels':null,'annotations':null", PLAIN), NULL, NULL},
	{POD(ON "}", PLAIN), NULL, NULL},
	{POD(ON "}", APP), "NotInjected", "/spec/containers/0/resources"},
	{POD("'annotations':{'auto-management/bitfusion':'\\u0061ll','bitfusion-client/"
	     "os':'ubuntu18','bitfusion-client\\/version':'400'}",
		 APP),
		"NotInjected", "/spec/containers/0/resources"},
	{POD(ON ",'auto-management/status':'INJECTED'}", APP), "NotInjected",
		"/spec/containers/0/resources"},
	{POD(ON "}", "'initContainers':[{'name':'i'," ASKS(1) "}]," PLAIN), "NotInjected",
		"/spec/initContainers/0/resources"},
	{POD(ON "}", "'containers':[{'name':'b'},{'name':'a','resources':{'requests':{'bitfusion.io"
		     "\\/gpu-num':'1'}}}]"),
		"NotInjected", "/spec/containers/1/resources"},
	{POD("'annotations':{'auto-management/bitfusion':'yes'}", APP), NULL,
		"set the annotations bitfusion-client/os"},
	{POD("'annotations':{'auto-management/bitfusion':'yes','bitfusion-client/os':''}", APP),
		NULL, "set the annotations bitfusion-client/os"},
	{POD("'annotations':{'auto-management/bitfusion':'yes','poolgate.io/launcher':'lupine'}",
		 APP),
		"NotInjected", "/spec/containers/0/resources"},
	{POD("'annotations':{'auto-management/bitfusion':'none'}", APP), NULL, "the pod will wait"},
	{POD("'labels':{}", APP), NULL, "the pod will wait"},
	{POD("'labels':{'poolgate.io/injected':'true'}", PLAIN), "PlanMissing",
		"/metadata/labels/poolgate.io~1injected"},
	{POD("'labels':{'poolgate.io/injected':''}", PLAIN), "PlanMissing",
		"/metadata/labels/poolgate.io~1injected"},
	{POD("'labels':{}", "'containers':[{'name':'a'," UNITS "}]"), "GpuWithoutPlan",
		"/spec/containers/0/resources"},
	{POD("'labels':{}", "'containers':[{'name':'a','resources':{'requests':{'bitfusion.io/"
			    "gpu':'0'}}}]"),
		"GpuWithoutPlan", "/spec/containers/0/resources"},
	{POD("'labels':{}", "'initContainers':[{'name':'b'},{'name':'i'," UNITS "}]," PLAIN),
		"GpuWithoutPlan", "/spec/initContainers/1/resources"},
	{POD("'labels':{}", PLAIN "," SECRET("'secret':{'secretName':'" CA "'}")),
		"SecretWithoutClaim", "/spec/volumes/1"},
	/* asks, but its node is named: no scheduler makes it wait */
	{POD("'labels':{}", "'nodeName':'n1','containers':[{'name':'a','command':['x']," ASKS(
				    1) "}]," SECRET("'secret':{'secretName':'" CA "'}")),
		"SecretWithoutClaim", "/spec/volumes/1"},
	{POD("'labels':{}", PLAIN "," SECRET("'projected':{'sources':[{'configMap':{'name':'" CA
					     "'}},{'secret':{'name':'" CA "'}}]}")),
		"SecretWithoutClaim", "/spec/volumes/1"},
	{POD("'labels':{}",
		 "'initContainers':[{'name':'i','env':[1,{'name':'A','value':'b'},{'name':'T"
		 "','valueFrom':{'secretKeyRef':{'name':'" CA "','key':'k'}}}]}]," PLAIN),
		"SecretWithoutClaim", "/spec/initContainers/0/env/2"},
	{POD("'labels':{}",
		 "'containers':[{'name':'a'},{'name':'b','envFrom':[{'configMapRef':{'name':"
		 "'" CA "'}},{'secretRef':{'name':'" CA "'}}]}]"),
		"SecretWithoutClaim", "/spec/containers/1/envFrom/1"},
	{POD("'labels':{}",
		 "'containers':[{'name':'a','env':[{'name':'T','valueFrom':{'configMapKeyRef':"
		 "{'name':'" CA "','key':'k'}}}],'envFrom':[{'secretRef':{'name':'another'}}]"
		 "}]"),
		NULL, NULL},
	{POD("'labels':{}", PLAIN "," SECRET("'secret':{'secretName':'another'}")), NULL, NULL},
	{POD("'labels':{}", PLAIN "," SECRET("'configMap':{'name':'" CA "'}")), NULL, NULL},
	{POD("'labels':{}", APP "," SECRET("'secret':{'secretName':'" CA "'}")), NULL,
		"the pod will wait"},
	/* nothing keeps such a pod from running */
	{POD("'labels':{}", "'containers':[{'name':'a'," ASKS('0') "}]," SECRET(
				    "'secret':{'secretName':'" CA "'}")),
		"SecretWithoutClaim", "/spec/volumes/1"},
	{POD("'annotations':{'kubernetes.io/config.mirror':'x'}",
		 "'containers':[{'name':'a'," UNITS "}]"),
		NULL, NULL},
	/* malformed pods that do not concern us are the API server's to refuse */
	{"{}", NULL, NULL},
	{"{'metadata':null,'spec':null}", NULL, NULL},
	{POD("'labels':{}", "'containers':[{}]"), NULL, NULL},
	{"{'metadata':{" ON "}}}", "", "/spec"},
	{POD(ON "}", "'containers':[{'name':'a'},{'name':'a'}]"), "", "/spec/containers/1/name"},
	{POD(ON ",'poolgate.io/plan':'x'}", "'containers':7"), "", "/spec/containers"},
};

TEST(test_pods_without_a_plan)
{
	for (size_t i = 0; i < COUNT(plain); i++) {
		int rc = fixture_validate(&fix, plain[i].pod);
		const struct warnings *w = &fix.validation.warnings;

		expect(i, rc, plain[i].reason, plain[i].says);
		if (rc < 0) {
			assert_int_not_equal(fix.err.msg[0], 0);
			continue;
		}
		assert_false(fix.validation.claims);
		if (w->n != (plain[i].says ? 1U : 0U))
			fail_msg("row %zu warns %zu times", i, w->n);
		if (plain[i].says && !strstr(w->text[0].at, plain[i].says))
			fail_msg("row %zu warns %s", i, w->text[0].at);
	}
}

TEST(test_namespaces_that_are_never_touched)
{
	static const char *const names[] = {"kube-system", "kube-public"};

	for (size_t i = 0; i < 2; i++) {
		const struct json_node *pod = fixture_pod(&fix, POD(ON "}", APP));

		assert_int_equal(validate_create(&fix.world, &fix.json, pod, slice_of(names[i]),
					 &fix.scratch, &fix.validation, &fix.err),
			0);
		assert_false(fix.validation.claims);
	}
}

TEST(test_the_secret_rule_is_a_setting)
{
	fix.config.secret_without_claim = false;
	assert_int_equal(
		fixture_validate(&fix,
			POD("'labels':{}", PLAIN "," SECRET("'secret':{'secretName':'" CA "'}"))),
		0);
}

/* More containers than any kubelet runs must not lead around the rules. */
TEST(test_no_rule_is_lost_in_a_crowd)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	buf_str(&b, "{\"metadata\":{},\"spec\":{\"volumes\":[{\"name\":\"s\",\"secret\":"
		    "{\"secretName\":\"" CA "\"}}],\"containers\":[");
	for (int i = 0; i < 5000; i++)
		buf_fmt(&b, "%s{\"name\":\"c%d\"}", i ? "," : "", i);
	buf_str(&b, "]}}");
	assert_true(fixture_validate(&fix, b.data) < 0);
	buf_release(&b);
}

/* ---- pods with a plan ---- */

#define RICH                                                                                       \
	POD(ON "}", "'initContainers':[{'name':'pre','command':['x']," ASKS(                       \
			    2) "}],"                                                               \
			       "'containers':[{'name':'a','command':['python','t.py'],'env':[{'"   \
			       "name':'Q'}],"                                                      \
			       "'resources':{'limits':{'bitfusion.io/gpu-amount':1,'bitfusion.io/" \
			       "gpu-percent':50}}},{'name':'b','command':['sleep']}]")

/* What the injected RICH is: populate and pre are its init containers, a and b its containers; the
 * program of a stands behind 7 launcher words. */
#define REPLACE(path, value) "{'op':'replace','path':'" path "','value':" value "}"
#define ADD(path, value) "{'op':'add','path':'" path "','value':" value "}"
#define REMOVE(path) "{'op':'remove','path':'" path "'}"
#define A "/spec/containers/0"

static const struct {
	const char *change, *reason, *path;
} forged[] = {
	{"[]", NULL, NULL},
	{"[" REPLACE(A "/command/0", "'/tmp/bitfusion'") "]", "PlanMismatch", A "/command"},
	{"[" REPLACE(A "/command/3", "'8'") "]", "PlanMismatch", A "/command"},
	{"[" REPLACE(A "/command/5", "'1.000000'") "]", "PlanMismatch", A "/command"},
	{"[" REMOVE(A "/command/6") "]", "PlanMismatch", A "/command"},
	{"[" REMOVE(A "/command/0") "]", "PlanMismatch", A "/command"},
	{"[" REMOVE(A "/command/7") "," REMOVE(A "/command/7") "]", "PlanMismatch", A "/command"},
	{"[" REMOVE(A "/command") "]", "PlanMismatch", A "/command"},
	{"[" REPLACE(A "/command", "null") "]", "PlanMismatch", A "/command"},
	{"[" REPLACE(A "/command", "['python','t.py']") "]", "PlanMismatch", A "/command"},
	{"[" REPLACE("/spec/initContainers/1/command/3", "'1'") "]", "PlanMismatch",
		"/spec/initContainers/1/command"},
	{"[" REPLACE(A "/resources/limits/bitfusion.io~1gpu", "49") "]", "PlanMismatch",
		A "/resources/limits"},
	{"[" REPLACE(A "/resources/requests/bitfusion.io~1gpu", "'1'") "]", "PlanMismatch",
		A "/resources/requests"},
	{"[" REPLACE(A "/resources/requests/bitfusion.io~1gpu", "'50'") "]", NULL, NULL},
	{"[" REPLACE(A "/resources/requests/bitfusion.io~1gpu", "'50000m'") "]", NULL, NULL},
	{"[" REMOVE(A "/resources/requests") "]", "PlanMismatch", A "/resources/requests"},
	{"[" REMOVE(A "/resources") "]", "PlanMismatch", A "/resources/limits"},
	{"[" REPLACE(A "/resources", "null") "]", "PlanMismatch", A "/resources/limits"},
	{"[" ADD("/spec/containers/1/resources", "{'limits':{'bitfusion.io/gpu':1}}") "]",
		"PlanMismatch", "/spec/containers/1/resources"},
	{"[" ADD("/spec/containers/-", "{'name':'c'," UNITS "}") "]", "PlanMismatch",
		"/spec/containers/2/resources"},
	{"[" ADD("/spec/containers/-", "{'name':'c'," ASKS(1) "}") "]", "NotInjected",
		"/spec/containers/2/resources"},
	{"[" ADD(A "/resources/limits/bitfusion.io~1gpu-num", "1") "]", "NotInjected",
		A "/resources"},
	{"[" ADD("/spec/containers/-", "{'name':'a'," UNITS "}") "]", "",
		"/spec/containers/2/name"},
	{"[" REMOVE("/spec/containers/0") "]", "PlanMismatch", PLAN_AT},
	/* the container is there, but of another kind */
	{"[" REPLACE("/spec/containers/1/name", "'pre'") "," REMOVE("/spec/initContainers/1") "]",
		"PlanMismatch", PLAN_AT},
	{"[" ADD("/spec/initContainers/1/restartPolicy", "'Always'") "]", "PlanMismatch", PLAN_AT},
	{"[" REMOVE("/metadata/labels") "]", "PlanMismatch",
		"/metadata/labels/poolgate.io~1injected"},
	{"[" REPLACE("/metadata/labels/poolgate.io~1injected", "'false'") "]", "PlanMismatch",
		"/metadata/labels/poolgate.io~1injected"},
	{"[" REPLACE("/metadata/labels/poolgate.io~1injected", "true") "]", "PlanMismatch",
		"/metadata/labels/poolgate.io~1injected"},
	{"[" REMOVE("/metadata/annotations/auto-management~1status") "]", "PlanMismatch",
		"/metadata/annotations/auto-management~1status"},
	{"[" REPLACE("/metadata/annotations/auto-management~1status", "'done'") "]", "PlanMismatch",
		"/metadata/annotations/auto-management~1status"},
	{"[" REPLACE("/metadata/annotations/auto-management~1status", "'Injected'") "]", NULL,
		NULL},
	{"[" REMOVE("/metadata/annotations/poolgate.io~1plan") "]", "PlanMissing",
		"/metadata/labels/poolgate.io~1injected"},
	{"[" REPLACE(PLAN_AT, "''") "]", "PlanUnreadable", PLAN_AT},
	{"[" REPLACE(PLAN_AT, "'{}'") "]", "PlanUnreadable", PLAN_AT},
	{"[" REMOVE("/spec/volumes") "]", "PlanMismatch", "/spec/volumes"},
	{"[" REPLACE("/spec/volumes/0/name", "'mine'") "]", "PlanMismatch", "/spec/volumes"},
	{"[" REMOVE("/spec/initContainers/0") "]", "PlanMismatch", "/spec/initContainers"},
	/* what stands there under our names is something else */
	{"[" REPLACE("/spec/volumes/0", "{'name':'bitfusion-distro','hostPath':{'path':'/'}}") "]",
		"PlanMismatch", "/spec/volumes/0"},
	{"[" ADD("/spec/initContainers/0/image", "'evil'") "]", "PlanMismatch",
		"/spec/initContainers/0"},
	{"[" REPLACE(A "/volumeMounts/0/name", "'mine'") "]", "PlanMismatch", A "/volumeMounts/0"},
	/* what API servers and other hooks add to it */
	{"[" ADD("/spec/volumes/0/other", "{'defaultMode':420}") "," ADD(
		 "/spec/initContainers/0/imagePullPolicy",
		 "'Always'") "," ADD("/spec/initContainers/0/volumeMounts",
		 "[{'name':'token','mountPath':'/t'}]") "]",
		NULL, NULL},
	{"[" REMOVE(A "/volumeMounts") "]", "PlanMismatch", A "/volumeMounts"},
	{"[" REPLACE(A "/volumeMounts/0/mountPath", "'/b'") "]", "PlanMismatch", A "/volumeMounts"},
	{"[" REMOVE(A "/env") "]", "PlanMismatch", A "/env"},
	{"[" REPLACE(A "/env/1/value", "'/lib'") "]", "PlanMismatch", A "/env/1"},
	{"[" REPLACE(A "/env/1/value", "'" FIX_LIB "2'") "]", "PlanMismatch", A "/env/1"},
	{"[" REPLACE(A "/env/1/value", "'" FIX_LIB ":/x'") "]", NULL, NULL},
	{"[" ADD(A "/env/-", "{'name':'LD_LIBRARY_PATH','value':'/x'}") "]", "PlanMismatch",
		A "/env/2"},
	/* a later hook put its own program in front, or took everything into args */
	{"[" ADD(A "/command/0", "'/wrapper'") "," ADD(A "/command/1", "'--'") "]", NULL, NULL},
	{"[" REPLACE(A "/command", "['/wrapper']") "," ADD(A "/args",
		 "['" FIX_LAUNCHER "','run','-n','1','-p','0.500000','--','python']") "]",
		NULL, NULL},
	/* ours stand there, but what runs is another launcher with other figures */
	{"[" ADD(A "/command/0", "'--'") "," ADD(A "/command/0", "'8'") "," ADD(
		 A "/command/0", "'-n'") "," ADD(A "/command/0", "'run'") "," ADD(A "/command/0",
		 "'/usr/bin/bitfusion'") "]",
		"PlanMismatch", A "/command"},
	{"[" ADD(A "/command/0", "'bitfusion run -n 8 -- python'") "," ADD(
		 A "/command/0", "'-c'") "," ADD(A "/command/0", "'sh'") "]",
		"PlanMismatch", A "/command"},
	/* a script that begins otherwise than with the launcher is no better than one with exec */
	{"[" ADD(A "/command/0", "'A=1 /x/bitfusion run -n 8 -- python'") "," ADD(
		 A "/command/0", "'-c'") "," ADD(A "/command/0", "'sh'") "]",
		"PlanMismatch", A "/command"},
	{"[" ADD(A "/command/0", "'cd /;\\\"bitfusion\\\" run -n 8'") "," ADD(
		 A "/command/0", "'-c'") "," ADD(A "/command/0", "'sh'") "]",
		"PlanMismatch", A "/command"},
	{"[" ADD(A "/command/0", "'/x/juice'") "]", "PlanMismatch", A "/command"},
	/* a name that only begins or ends like the launcher's is another program's */
	{"[" ADD(A "/command/0", "'/opt/bitfusion-tools/entry'") "," ADD(
		 A "/command/1", "'/mnt/juicefs,my.bitfusion'") "]",
		NULL, NULL},
	{"[" REPLACE(A "/command", "['bitfusion','run','-n','8','--']") "," ADD(A "/args",
		 "['" FIX_LAUNCHER "','run','-n','1','-p','0.500000','--','python']") "]",
		"PlanMismatch", A "/command"},
};

TEST(test_forged_pods)
{
	char *live = fixture_inject(&fix, RICH);

	for (size_t i = 0; i < COUNT(forged); i++) {
		char *pod = fixture_change(live, forged[i].change);
		int rc = fixture_validate_raw(&fix, pod);

		expect(i, rc, forged[i].reason, forged[i].path);
		if (rc >= 0) {
			assert_true(fix.validation.claims);
			assert_int_equal(fix.validation.demand.n_containers, 2);
		}
		free(pod);
	}
	free(live);
}

/* ---- forged plans ---- */

/* The pod with another plan. */
static char *with_plan(const char *live, struct slice plan)
{
	struct buf ops;
	char *out;

	buf_init(&ops, 1 << 20);
	buf_str(&ops, "[{\"op\":\"replace\",\"path\":\"" PLAN_AT "\",\"value\":");
	buf_json_str(&ops, plan);
	buf_str(&ops, "}]");
	out = fixture_apply(live, ops.data);
	buf_release(&ops);
	return out;
}

/* The pod with `from` replaced by `to` in its plan; fails when `from` is not there. */
static char *forge(const char *live, const char *from, const char *to)
{
	struct slice plan;
	struct pod pod;
	const char *at;
	struct buf b;
	char *out, *from2 = fixture_quotes(from), *to2 = fixture_quotes(to);

	fixture_raw(&fix, live);
	pod_glance(&fix.json, json_root(&fix.json), &pod);
	plan = arena_slice(&fix.scratch, pod_annotation(&pod, ANN_PLAN, &fix.scratch));
	assert_non_null(plan.at);
	at = strstr(plan.at, from2);
	if (!at)
		fail_msg("%s is not in %s", from2, plan.at);
	buf_init(&b, 1 << 20);
	buf_add(&b, plan.at, (size_t)(at - plan.at));
	buf_str(&b, to2);
	buf_str(&b, at + strlen(from2));
	out = with_plan(live, buf_as_slice(&b));
	buf_release(&b);
	free(from2);
	free(to2);
	return out;
}

/* in the plan of RICH */
static const struct {
	const char *from, *to, *reason, *path;
} plans[] = {
	{"'percent':50", "'percent':1", "PlanMismatch", PLAN_AT},
	{"'percent':50,'units':50", "'percent':1,'units':1", "PlanMismatch", A "/resources/limits"},
	{"'amount':2,'percent':100,'units':200", "'amount':1,'percent':100,'units':100",
		"PlanMismatch", "/spec/initContainers/1/resources/limits"},
	{"'percent':50,'units':50", "'memoryMB':10,'units':50", "PlanMismatch", PLAN_AT},
	{"'percent':50,'units':50", "'memoryMB':8000,'units':50", "PlanMismatch", A "/command"},
	{"'units':50,'command':'wrapped','argv':7", "'units':50,'command':'wrapped','argv':1",
		"PlanMismatch", A "/command"},
	{"'units':50,'command':'wrapped','argv':7", "'units':50,'command':'none'", "PlanMismatch",
		PLAN_AT},
	{"'units':50,'command':'wrapped','argv':7", "'units':50,'command':'shell','argv':7",
		"PlanMismatch", A "/command"},
	/* a command that starts the launcher itself and agrees is as good */
	{"'units':50,'command':'wrapped','argv':7", "'units':50,'command':'own'", NULL, NULL},
	{"'kind':'app'", "'kind':'init'", "PlanMismatch", PLAN_AT},
	{"'name':'a'", "'name':'b'", "PlanMismatch", A "/resources"},
	{"'name':'a'", "'name':'pre'", "PlanUnreadable", PLAN_AT},
	{"'mode':'full'", "'mode':'injection'", "PlanMismatch", PLAN_AT},
	{"'mode':'full'", "'mode':'none'", "PlanUnreadable", PLAN_AT},
	/* the hash says that this replica has the profile, so it must know the client */
	{"'os':'ubuntu18'", "'os':'beos'", "PlanMismatch", PLAN_AT},
	{",'client':{'os':'ubuntu18','version':'400'}", "", "PlanMismatch", PLAN_AT},
	{",'containers':", ",'filters':['a=b'],'containers':", "PlanMismatch",
		"/spec/initContainers/1/command"},
	{",'containers':",
		",'servers':[{'name':'gpu-01','address':'10.0.0.1:14833'}],'containers':",
		"PlanMismatch", PLAN_AT},
	{"'v':1", "'v':2", NULL, NULL},
	/* who writes a plan chooses neither by which profile he is checked nor what his units are
	   worth */
	{"'profile':'bitfusion'", "'profile':'unknown'", "ProfileChanged", PLAN_AT},
	{"'profile':'bitfusion'", "'profile':'lupine'", "ProfileChanged", PLAN_AT},
	{"'totalMB':16000", "'totalMB':11000", "PlanMismatch", PLAN_AT},
	{"'totalMB':16000,", "", "PlanMismatch", PLAN_AT},
};

TEST(test_forged_plans)
{
	char *live = fixture_inject(&fix, RICH);

	for (size_t i = 0; i < COUNT(plans); i++) {
		char *pod = forge(live, plans[i].from, plans[i].to);

		expect(i, fixture_validate_raw(&fix, pod), plans[i].reason, plans[i].path);
		free(pod);
	}
	free(live);
}

/* Who refuses a plan that cannot be read says what its reader does. */
TEST(test_what_is_wrong_with_a_plan)
{
	static const char *const texts[] = {"", "{", "7", "{}", "{'v':1}", "{'v':1,'v':1}"};
	char *live = fixture_inject(&fix, RICH);

	for (size_t i = 0; i < COUNT(texts); i++) {
		char *text = fixture_quotes(texts[i]), says[700];
		struct err why = {0};
		struct plan plan;

		must_refuse_made(with_plan(live, slice_of(text)), "PlanUnreadable", PLAN_AT);
		assert_true(plan_read(slice_of(text), &fix.scratch, &plan, &why) < 0);
		(void)snprintf(says, sizeof(says), "is no plan that poolgate wrote: %s", why.msg);
		assert_string_equal(fix.err.msg, says);
		assert_true(strlen(why.msg) > 10);
		free(text);
	}
	free(live);
}

/* The profile was changed between the two hooks, or the plan is forged: nobody can tell, so it is
 * made anew. */
TEST(test_another_version_of_the_profile)
{
	char *live = fixture_inject(&fix, RICH);

	/* Another client's part of it: this pod is as it would be written now. */
	fix.profiles[0].hash++;
	assert_int_equal(fixture_validate(&fix, live), 0);
	fix.config.total_gpu_mb++;
	must_refuse(live, "ProfileChanged", PLAN_AT);
	/* What is wrong is the plan, wherever it was noticed. */
	fix.config.total_gpu_mb--;
	must_refuse_made(
		fixture_change(live, "[" REMOVE("/spec/volumes") "]"), "ProfileChanged", PLAN_AT);
	fix.config.total_gpu_mb++;
	fix.profiles[0].hash--;
	must_refuse(live, "PlanMismatch", PLAN_AT);
	free(live);
}

/* A plan that claims one percent, and says that it need not be looked at: by an unknown profile, by
 * a mode without words. */
TEST(test_lies_about_the_launcher)
{
	static const char *const lies[][2] = {
		{"'profile':'bitfusion'", "'profile':'unknown'"},
		{"'mode':'full'", "'mode':'injection'"},
	};

	for (size_t i = 0; i < COUNT(lies); i++) {
		char *live = fixture_inject(&fix,
			POD(ON "}", "'containers':[{'name':'a','command':['x']," ASKS(1) "}]"));
		char *poor = fixture_change(
			live, "[" REPLACE(A "/resources",
				      "{'limits':{'bitfusion.io/gpu':1},'requests':{'bitfusion.io/"
				      "gpu':1}}") "]");
		char *less = forge(poor, "'percent':100,'units':100", "'percent':1,'units':1");
		char *lie = forge(less, lies[i][0], lies[i][1]), *pod = lie;

		if (i == 1)
			pod = forge(lie, "'command':'wrapped','argv':7", "'command':'none'");
		must_refuse(pod, i ? "PlanMismatch" : "ProfileChanged", i ? A "/command" : PLAN_AT);
		if (pod != lie)
			free(pod);
		free(lie);
		free(less);
		free(poor);
		free(live);
	}
}

/* In front of our words no launcher is named that the configuration has; what it has not is a
 * program like others. */
TEST(test_launchers_in_front)
{
	char *pod = fixture_inject(
		&fix, POD(ON "}", "'containers':[{'name':'a','command':['x']," ASKS(1) "}]"));
	char *front =
		fixture_change(pod, "[{'op':'add','path':'" A "/command/0','value':'/opt/juice'}]");

	must_refuse(front, "PlanMismatch", A "/command");
	assert_non_null(strstr(fix.err.msg, "names a launcher in front of"));
	fix.config.n_profiles = 1;
	assert_int_equal(fixture_validate_raw(&fix, front), 0);
	fix.config.n_profiles = 2;
	fix.profiles[1].kind = PROFILE_ENV;
	assert_int_equal(fixture_validate_raw(&fix, front), 0);
	free(front);
	free(pod);
}

TEST(test_own_launcher)
{
	char *live = fixture_inject(&fix,
		POD(ON "}", "'containers':[{'name':'a','command':['/bin/bash','-c','bitfusion run "
			    "-n 1 -p 1 -- python t.py']," ASKS(1) "}]"));

	assert_int_equal(fix.mutation.plan.containers[0].command, COMMAND_OWN);
	assert_int_equal(fixture_validate(&fix, live), 0);
	must_refuse_made(
		fixture_change(live, "[" REPLACE(A "/command/2", "'bitfusion run -n 4 -- x'") "]"),
		NULL, A "/command");
	must_refuse_made(fixture_change(live, "[" REPLACE(A "/command/2", "'python t.py'") "]"),
		NULL, A "/command");
	free(live);
}

/* Rule R13: for so long its GPUs may have to be kept. */
TEST(test_grace_period)
{
	char *live = fixture_inject(&fix, POD(ON "}", "'terminationGracePeriodSeconds':3601," APP));

	assert_int_equal(fixture_validate(&fix, live), 0);
	fix.config.max_grace_s = 3601;
	assert_int_equal(fixture_validate(&fix, live), 0);
	fix.config.max_grace_s = 3600;
	assert_int_equal(fixture_validate(&fix, live), ERR_INVALID);
	assert_string_equal(fix.err.path, "/spec/terminationGracePeriodSeconds");
	assert_string_equal(fix.err.msg,
		"found 3601, expected at most 3600 for a pod that asks for GPUs: so long its GPUs "
		"may have to be kept after it was deleted by force");
	free(live);
	/* who asks for none may run on as long as he likes */
	assert_int_equal(
		fixture_validate(&fix, POD(ON "}", "'terminationGracePeriodSeconds':7200," PLAIN)),
		0);
}

TEST(test_servers)
{
	char *live = fixture_inject(&fix, POD(ON ",'poolgate.io/launcher':'lupine'}",
						  "'containers':[{'name':'a'," ASKS(1) "}]"));

	assert_int_equal(fixture_validate(&fix, live), 0);
	must_refuse_made(forge(live, "10.0.0.1:14833", "10.6.6.6:14833"), NULL, NULL);
	must_refuse_made(forge(live, "'name':'gpu-01'", "'name':'gpu-02'"), "ServerTaken", NULL);
	must_refuse_made(
		forge(live, ",'servers':[{'name':'gpu-01','address':'10.0.0.1:14833'}]", ""),
		"PlanMismatch", NULL);
	must_refuse_made(fixture_change(live, "[" REPLACE(A "/env/0/value", "'10.6.6.6:1'") "]"),
		NULL, A "/env/0");
	free(live);
}

/* A launcher that is told one host: a plan with two servers is none of ours. */
TEST(test_one_server)
{
	static struct profile_env host = {
		.name = {"LUPINE_SERVER", 13}, .value = {"{server_host}", 13}};
	char *live;

	fix.profiles[2].env = &host;
	fix.profiles[2].one_server = true;
	live = fixture_inject(&fix, POD(ON ",'poolgate.io/launcher':'lupine'}",
					    "'containers':[{'name':'a'," ASKS(1) "}]"));
	assert_int_equal(fixture_validate(&fix, live), 0);
	must_refuse_made(forge(live, "'address':'10.0.0.1:14833'}",
				 "'address':'10.0.0.1:14833'},{'name':'gpu-02','address':'x:1'}"),
		"PlanMismatch", PLAN_AT);
	free(live);
}

/* What the profile cannot express now is refused at the container that asks for it, whatever it
 * was when the plan was made. */
TEST(test_what_a_profile_cannot_express)
{
	char *live = fixture_inject(&fix, RICH);
	char *memory = fixture_inject(&fix,
		POD(ON "}", "'containers':[{'name':'a','command':['x'],'resources':{'limits':{"
			    "'bitfusion.io/gpu-amount':1,'bitfusion.io/gpu-memory':'8000M'}}}]"));
	struct profile *p = &fix.profiles[0];
	const struct profile was = *p;

	p->max_amount = 2;
	assert_int_equal(fixture_validate_raw(&fix, live), 0);
	p->max_amount = 1;
	assert_int_equal(fixture_validate_raw(&fix, live), ERR_INVALID);
	assert_string_equal(fix.err.path, "/spec/initContainers/1/resources");
	*p = was;
	p->can_fraction = CAN_NO;
	assert_int_equal(fixture_validate_raw(&fix, live), ERR_INVALID);
	assert_string_equal(fix.err.path, A "/resources");
	assert_int_equal(fixture_validate_raw(&fix, memory), 0);
	*p = was;
	p->can_memory = CAN_NO;
	assert_int_equal(fixture_validate_raw(&fix, live), 0);
	assert_int_equal(fixture_validate_raw(&fix, memory), ERR_INVALID);
	assert_string_equal(fix.err.path, A "/resources");
	free(memory);
	free(live);
}

/* As the profile says, but for what was kept open; of a profile that is gone the plan tells. */
TEST(test_whole_servers)
{
	static const struct {
		const char *profile;
		bool whole;       /* what the profile says */
		size_t n_servers; /* in the plan */
		unsigned late;
		bool late_whole, want;
	} rows[] = {
		{"lupine", true, 0, 0, false, true},
		{"lupine", false, 1, 0, false, false},
		{"gone", true, 0, 0, false, false},
		{"gone", false, 1, 0, false, true},
		{"gone", false, 2, 0, false, true},
		{"lupine", true, 1, 1, false, false},
		{"lupine", false, 0, 1, true, true},
		{"gone", false, 1, 2, false, false},
		{"gone", false, 0, 2, true, true},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct plan plan = {
			.profile = slice_of(rows[i].profile), .n_servers = rows[i].n_servers};

		plan.late.values = rows[i].late;
		plan.late.whole_servers = rows[i].late_whole;
		fix.profiles[2].whole_servers = rows[i].whole;
		if (validate_whole_servers(&fix.config, &plan) != rows[i].want)
			fail_msg("row %zu", i);
		plan.profile = SLICE("gone");
		assert_int_equal(validate_whole_servers(NULL, &plan),
			validate_whole_servers(&fix.config, &plan));
	}
}

/* ---- updates ---- */

static const struct {
	const char *old, *new, *path;
} updates[] = {
	{"{}", "{}", NULL},
	{"{'annotations':{'a':'b'}}", "{'annotations':{'a':'c'},'labels':{'x':'y'}}", NULL},
	{"{'annotations':{'poolgate.io/plan':'x'}}", "{'annotations':{'poolgate.io/plan':'x'}}",
		NULL},
	{"{'annotations':{'poolgate.io/plan':'x'}}",
		"{'annotations':{'poolgate.io\\/plan':'\\u0078'}}", NULL},
	{"{'annotations':{'poolgate.io/b':'','poolgate.io/a':'1'}}",
		"{'annotations':{'poolgate.io/a':'1','c':'','poolgate.io/b':''}}", NULL},
	/* one key begins with another */
	{"{'annotations':{'poolgate.io/a':'1','poolgate.io/ab':'2','poolgate.io/abc':'3'}}",
		"{'annotations':{'poolgate.io/abc':'3','poolgate.io/ab':'2','poolgate.io/a':'1'}}",
		NULL},
	{"{'annotations':{'poolgate.io/plan':'x'}}", "{'annotations':{'poolgate.io/plan':'y'}}",
		"/metadata/annotations"},
	{"{'annotations':{'poolgate.io/plan':'x'}}", "{'annotations':null}",
		"/metadata/annotations"},
	{"{}", "{'annotations':{'poolgate.io/plan':'y'}}", "/metadata/annotations"},
	{"{'annotations':{'poolgate.io/a':'1'}}",
		"{'annotations':{'poolgate.io/a':'1','poolgate.io/b':'1'}}",
		"/metadata/annotations"},
	{"{'labels':{'poolgate.io/injected':'true'}}", "{'labels':{}}", "/metadata/labels"},
	{"{'labels':{'poolgate.io/injected':'true'}}",
		"{'labels':{'poolgate.io/injected':'false'}}", "/metadata/labels"},
	{"{}", "{'labels':{'poolgate.io/injected':'true'}}", "/metadata/labels"},
};

static int update(const char *old, const char *new)
{
	size_t size = strlen(old) + strlen(new) + 64;
	char *text = malloc(size);
	const struct json_node *root;
	struct review r;

	snprintf(text, size, "{\"old\":{\"metadata\":%s},\"new\":{\"metadata\":%s}}", old, new);
	root = fixture_pod(&fix, text);
	free(text);
	r = (struct review){.j = &fix.json,
		.kind = SLICE("Pod"),
		.subresource = SLICE(""),
		.namespace = SLICE("ml"),
		.operation = OP_UPDATE,
		.object = json_get(&fix.json, root, SLICE("new")),
		.old_object = json_get(&fix.json, root, SLICE("old"))};
	return validate_update(&fix.world, &r, &fix.scratch, &fix.err);
}

/* A pod that was never injected cannot be injected while it lives; its deletion must not depend on
 * us. */
TEST(test_update_of_a_waiting_pod)
{
	static const struct {
		const char *meta, *subresource;
		int rc;
	} rows[] = {
		{"", "", ERR_REFUSED},
		{"", "status", 0},
		{"'deletionTimestamp':'2026-01-01T00:00:00Z',", "", 0},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[1024];
		const struct json_node *pod;
		struct review r;

		snprintf(text, sizeof(text),
			"{'metadata':{%s'annotations':{'auto-management/"
			"bitfusion':'all','bitfusion-client/os':'ubuntu18',"
			"'bitfusion-client/"
			"version':'400'}},'spec':{'containers':[{'name':'a','resources':{'limits':"
			"{'bitfusion.io/gpu-amount':'1'}}}]}}",
			rows[i].meta);
		pod = fixture_pod(&fix, text);
		r = (struct review){.j = &fix.json,
			.kind = SLICE("Pod"),
			.subresource = slice_of(rows[i].subresource),
			.namespace = SLICE("ml"),
			.operation = OP_UPDATE,
			.object = pod,
			.old_object = pod};
		assert_int_equal(
			validate_update(&fix.world, &r, &fix.scratch, &fix.err), rows[i].rc);
		if (rows[i].rc)
			assert_string_equal(fix.err.reason, "NotInjected");
	}
}

TEST(test_updates)
{
	for (size_t i = 0; i < COUNT(updates); i++) {
		int rc = update(updates[i].old, updates[i].new);

		if (rc != (updates[i].path ? ERR_REFUSED : 0))
			fail_msg("row %zu gives %d", i, rc);
		if (rc < 0) {
			assert_string_equal(fix.err.reason, "PlanChanged");
			assert_string_equal(fix.err.path, updates[i].path);
		}
	}
}

/* A container for debugging that comes with a Secret of the launchers', from an environment or a
 * volume, is refused where it is added, unless the rule is off. */
TEST(test_ephemeral_containers)
{
#define DEBUG                                                                                      \
	"'volumes':[{'name':'s','secret':{'secretName':'" CA "'}},{'name':'e','emptyDir':{}}],"
#define BY_ENV                                                                                     \
	"{'name':'d','env':[{'name':'T','valueFrom':{'secretKeyRef':{'name':'" CA "','key':'k'}}}" \
	"]}"
#define BY_MOUNT                                                                                   \
	"{'name':'d','volumeMounts':[{'name':'e','mountPath':'/e'},{'name':'s','mountPath':'/"     \
	"s'}]}"
	static const struct {
		const char *old, *new, *path;
	} rows[] = {
		{"", "{'name':'c'}," BY_ENV, "/spec/ephemeralContainers/1/env/0"},
		{"", "{'name':'c'}," BY_MOUNT, "/spec/ephemeralContainers/1/volumeMounts/1"},
		{BY_ENV, "{'name':'c'}," BY_ENV, NULL},
		{BY_MOUNT, BY_MOUNT ",{'name':'c'}", NULL},
		{"", "{'name':'d','volumeMounts':[{'name':'e','mountPath':'/e'}]}", NULL},
	};

	for (size_t i = 0; i < 2 * COUNT(rows); i++) {
		const char *path = i % 2 ? NULL : rows[i / 2].path;
		const struct json_node *root;
		struct review r;
		char text[2048];
		int rc;

		fix.config.secret_without_claim = i % 2 == 0;
		(void)snprintf(text, sizeof(text),
			"{'old':{'spec':{" DEBUG "'ephemeralContainers':[%s]}},"
			"'new':{'spec':{" DEBUG "'ephemeralContainers':[%s]}}}",
			rows[i / 2].old, rows[i / 2].new);
		root = fixture_pod(&fix, text);
		r = (struct review){.j = &fix.json,
			.kind = SLICE("Pod"),
			.subresource = SLICE("ephemeralcontainers"),
			.namespace = SLICE("ml"),
			.operation = OP_UPDATE,
			.object = json_get(&fix.json, root, SLICE("new")),
			.old_object = json_get(&fix.json, root, SLICE("old"))};
		err_clear(&fix.err);
		rc = validate_update(&fix.world, &r, &fix.scratch, &fix.err);
		if (rc != (path ? ERR_REFUSED : 0) || strcmp(fix.err.path, path ? path : "") != 0)
			fail_msg("row %zu: %d at %s", i, rc, fix.err.path);
		if (path)
			assert_string_equal(fix.err.reason, "SecretWithoutClaim");
		/* or there is no memory */
		for (size_t max = 0, least = 1; least; max += 8) {
			struct arena a;

			arena_init(&a, max);
			rc = validate_update(&fix.world, &r, &a, &fix.err);
			least = rc == ERR_NOMEM;
			assert_true(least || rc == (path ? ERR_REFUSED : 0));
			arena_release(&a);
		}
	}
#undef DEBUG
#undef BY_ENV
#undef BY_MOUNT
}

/* 60 000 keys of ours on both sides cost no square. */
TEST(test_an_update_with_many_keys)
{
	struct buf b;

	buf_init(&b, 8 << 20);
	buf_str(&b, "{\"annotations\":{");
	for (int i = 0; i < 60000; i++)
		buf_fmt(&b, "%s\"poolgate.io/%d\":\"%d\"", i ? "," : "", i, i);
	buf_str(&b, "}}");
	alarm(20);
	assert_int_equal(update(b.data, b.data), 0);
	alarm(0);
	buf_release(&b);
}

TESTS_BETWEEN(set_up, tear_down, test_pods_without_a_plan, test_namespaces_that_are_never_touched,
	test_the_secret_rule_is_a_setting, test_no_rule_is_lost_in_a_crowd, test_forged_pods,
	test_forged_plans, test_what_is_wrong_with_a_plan, test_lies_about_the_launcher,
	test_another_version_of_the_profile, test_launchers_in_front, test_own_launcher,
	test_grace_period, test_servers, test_one_server, test_what_a_profile_cannot_express,
	test_whole_servers, test_updates, test_update_of_a_waiting_pod,
	test_an_update_with_many_keys, test_ephemeral_containers)
