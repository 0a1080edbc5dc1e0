/* SPDX-License-Identifier: Apache-2.0 */
/* cli/doctor/doctor: what is judged wrong, what well, what neither; the manifests in the program;
 * an API server that fails. */
#include "base/rfc3339.h"
#include "certs/x509.h"
#include "test/unit/api_fixture.h"
#include "test/unit/doctor_fixture.h"
#include "test/unit/test.h"

#define NAME "poolgate.poolgate-system.svc"

/* ---- the report ---- */

TEST(test_report)
{
	doctor_print(&dr.r, false, &dr.out);
	assert_string_equal(dr.out.data, "all is well\n");
	buf_clear(&dr.out);
	doctor_ok(&dr.r, "fine");
	doctor_unchecked(&dr.r, "may not read %s", "it");
	assert_true(doctor_group_troubled(&dr.r));
	doctor_print(&dr.r, false, &dr.out);
	assert_string_equal(dr.out.data, "ok           test: fine\nnot checked  test: may not read "
					 "it\nnothing wrong was found, 1 not checked\n");
	buf_clear(&dr.out);
	/* what somebody else has written moves no cursor, turns no line around and forges none */
	doctor_wrong(&dr.r, "mend \"it\"",
		"a\nb\x1b[2J\xc2\x9b\xe2\x80\xae\xe2\x81\xa6\xff\x7f\xc3\xbc\xe2\x82\xac");
	doctor_print(&dr.r, false, &dr.out);
	assert_non_null(strstr(dr.out.data, "wrong        test: a?b?[2J?????\xc3\xbc\xe2\x82\xac; "
					    "mend it: mend \"it\"\n1 wrong, 1 not checked\n"));
	buf_clear(&dr.out);
	doctor_print(&dr.r, true, &dr.out);
	assert_non_null(strstr(dr.out.data,
		"{\"ok\":false,\"wrong\":1,\"notChecked\":1,\"findings\":[{\"verdict\":\"ok\","));
	assert_non_null(strstr(dr.out.data, "\"verdict\":\"notChecked\""));
	assert_non_null(strstr(dr.out.data, "\"mend\":\"mend \\\"it\\\"\"}]}\n"));
	for (int i = 0; i < 100; i++)
		doctor_ok(&dr.r, "%d", i);
	assert_int_equal(dr.r.n, 103);
	assert_string_equal(doctor_fmt(&dr.r, "a%sb", "\n"), "a?b");
}

TEST(test_sights)
{
	struct sight s = {.what = "Secret a in b"};

	assert_false(sight_there(&s, &dr.r));
	s.state = SIGHT_FORBIDDEN;
	assert_false(sight_there(&s, &dr.r));
	s.state = SIGHT_FAILED;
	s.why = "no answer";
	assert_false(sight_there(&s, &dr.r));
	s.state = SIGHT_MISSING;
	assert_false(sight_there(&s, &dr.r));
	assert_int_equal(dr.r.n, 3);
	assert_string_equal(dr.r.at[1].text, "may not read Secret a in b");
	assert_string_equal(dr.r.at[2].text, "cannot read Secret a in b: no answer");
	s.state = SIGHT_THERE;
	assert_true(sight_there(&s, &dr.r));
}

/* ---- the manifests in the program ---- */

TEST(test_shipped)
{
	const struct sight *hooks, *rights;

	hooks = &dr.f.shipped[SHIPPED_HOOKS];
	rights = &dr.f.shipped[SHIPPED_RIGHTS];
	assert_non_null(shipped_doc(hooks, "MutatingWebhookConfiguration", NULL));
	assert_non_null(shipped_doc(hooks, "ValidatingWebhookConfiguration", "poolgate"));
	assert_non_null(shipped_doc(
		&dr.f.shipped[SHIPPED_CRD], "CustomResourceDefinition", "gpuservers.poolgate.io"));
	assert_non_null(shipped_doc(rights, "ClusterRole", "poolgate"));
	assert_non_null(shipped_doc(
		&dr.f.shipped[SHIPPED_SECRET_RIGHTS], "Role", "poolgate-secrets-source"));
	assert_null(shipped_doc(rights, "ClusterRole", "other"));
	assert_null(shipped_doc(rights, "Thing", NULL));
}

#define OWN "kubectl apply -k DIR, your own kustomization"

/* the Deployment's image (NULL: it is not there), are Secrets copied, component, the command */
static const struct {
	const char *image;
	bool sync;
	const char *component, *command;
} apply_rows[] = {
	{NULL, false, NULL, "kubectl apply -k manifests/base"},
	{NULL, true, NULL, "kubectl apply -k manifests/overlays/secrets"},
	{"localhost/poolgate:0.0.9", false, NULL, "kubectl apply -k manifests/base"},
	{"localhost/poolgate@sha256:1", false, NULL, "kubectl apply -k manifests/base"},
	{"localhost/poolgate", true, "secrets", "kubectl apply -k manifests/overlays/secrets"},
	{"localhost/poolgate", false, "device-plugin",
		"kubectl apply -k manifests/overlays/device-plugin"},
	/* would end the copying */
	{"localhost/poolgate", true, "device-plugin",
		OWN ", with manifests/components/device-plugin"},
	/* would put another image back */
	{"localhost/poolgate-e2e:1", false, NULL,
		OWN ", which names the image localhost/poolgate-e2e:1"},
	{"registry.example/poolgate:1", true, NULL,
		OWN ", which names the image registry.example/poolgate:1, with "
		    "manifests/components/secrets"},
};

TEST(test_apply)
{
	char text[256];

	for (size_t i = 0; i < COUNT(apply_rows); i++) {
		dr_anew();
		dr.f.settings.cluster.secrets_sync = apply_rows[i].sync;
		(void)snprintf(text, sizeof(text),
			"{'spec':{'template':{'spec':{'containers':[{'name':'other','image':'other'"
			"},"
			"{'name':'poolgate','image':'%s'}]}}}}",
			apply_rows[i].image ? apply_rows[i].image : "");
		if (apply_rows[i].image)
			dr_put(&dr.f.deployment, text);
		assert_string_equal(
			doctor_apply(&dr.f, &dr.r, apply_rows[i].component), apply_rows[i].command);
	}
}

/* want, got, equal when got may have more, equal, place of the difference then */
static const struct {
	const char *want, *got;
	bool part, exact;
	const char *path;
} pairs[] = {
	{"{}", "{}", true, true, ""},
	{"{'a':1}", "{'a':1.0}", true, true, ""},
	{"{'a':1}", "{'a':2}", false, false, "/a"},
	{"{'a':'\\u0062'}", "{'a':'b'}", true, true, ""},
	{"{'a':'b'}", "{'a':'c'}", false, false, "/a"},
	{"{'a':true}", "{'a':false}", false, false, "/a"},
	{"{'a':null}", "{}", true, false, ""},
	{"{'a':{'b':[1,{'c':2}]}}", "{'a':{'b':[1,{'c':3}]}}", false, false, "/a/b/1/c"},
	{"{'a':{'b':1}}", "{'a':{'b':1,'more':2}}", true, false, "/a/more"},
	{"{'a':[1,2]}", "{'a':[1]}", false, false, "/a"},
	{"{'a':[1]}", "{'a':[1,2]}", false, false, "/a"},
	{"{'a':1}", "{'a':'1'}", false, false, "/a"},
	{"{'b':2,'a':1}", "{'a':1,'b':2}", true, true, ""},
};

TEST(test_same)
{
	for (size_t i = 0; i < COUNT(pairs); i++) {
		struct sight want = {0}, got = {0};
		struct buf path;

		buf_init(&path, 1000);
		dr_put(&want, pairs[i].want);
		dr_put(&got, pairs[i].got);
		if (shipped_same(&want.json, json_root(&want.json), &got.json, json_root(&got.json),
			    false, NULL) != pairs[i].part)
			fail_msg("row %zu in part", i);
		if (shipped_same(&want.json, json_root(&want.json), &got.json, json_root(&got.json),
			    true, &path) != pairs[i].exact)
			fail_msg("row %zu", i);
		if (pairs[i].path[0] && strcmp(path.data, pairs[i].path) != 0)
			fail_msg("row %zu: %s", i, path.data);
		sight_release(&want);
		sight_release(&got);
		buf_release(&path);
	}
	assert_true(shipped_same(NULL, NULL, NULL, NULL, true, NULL));
}

/* ---- webhooks ---- */

static const struct {
	size_t which;
	const char *from, *to, *says;
} hook_rows[] = {
	{HOOKS_MUTATING, "'Ignore'", "'Fail'",
		"mutate.poolgate.io has failurePolicy Fail, expected Ignore"},
	{HOOKS_MUTATING, "'IfNeeded'", "'Never'", "reinvocationPolicy Never, expected IfNeeded"},
	{HOOKS_VALIDATING, "'Fail'", "'Ignore'",
		"validate.poolgate.io has failurePolicy Ignore, expected Fail"},
	{HOOKS_VALIDATING, "'NoneOnDryRun'", "'None'", "sideEffects None, expected NoneOnDryRun"},
	{HOOKS_VALIDATING, "'pods/status'", "'pods/exec'", "has other rules"},
	{HOOKS_VALIDATING, "'name':'warn.poolgate.io'", "'name':'other'",
		"Validating has no hook warn.poolgate.io"},
	{HOOKS_VALIDATING, "'poolgate-system','path'", "'elsewhere','path'",
		"calls elsewhere/poolgate:443/validate"},
	{HOOKS_VALIDATING, "'port':443", "'port':8443",
		"calls poolgate-system/poolgate:8443/validate, expected"},
	{HOOKS_MUTATING, "'NotIn'", "'In'", "is called for pods of poolgate-system, too"},
	{HOOKS_MUTATING, "'kube-system',", "", "is called for pods of kube-system, too"},
	{HOOKS_MUTATING, "not-a-mirror-pod", "other", "has other matchConditions"},
	{HOOKS_MUTATING, "'v1'", "'v1beta1'", "has other admissionReviewVersions"},
	/* one list of Secrets */
	{HOOKS_VALIDATING, "juice-token", "mine", "has other matchConditions"},
	/* the operator's */
	{HOOKS_MUTATING, "'timeoutSeconds':5", "'timeoutSeconds':10", "all is well"},
	{HOOKS_MUTATING, "'kube-system',", "'kube-system','mine',", "all is well"},
	{HOOKS_MUTATING, "'namespaceSelector':{'matchExpressions':[",
		"'namespaceSelector':{'matchExpressions':[{'key':'poolgate.io/policy','operator':"
		"'DoesNotExist'},",
		"the namespaceSelector of mutate.poolgate.io says DoesNotExist of the label "
		"poolgate.io/policy, expected nothing: pods of such namespaces are reviewed by "
		"other "
		"hooks, twice, or by none"},
	{HOOKS_MUTATING, "'port':443", "'more':1", "all is well"},
};

static const struct {
	const char *map, *says;
} secret_rows[] = {
	{"{'data':{'a.yaml':'spec: {secrets: [juice-token], env: [{name: A, value: b}]}'}}",
		"all is well"},
	{"{'data':{'a.yaml':'no: [yaml'}}", "all is well"},
	{"{'data':{'a.yaml':'spec: {secrets: [mine]}'}}",
		"validate.poolgate.io does not know the Secret mine of a.yaml: its profile is left "
		"out; mend it: apply what `poolgate hooks --config"},
	{"{'data':{'a.yaml':'spec: {env: [{name: A, secret: {name: mine, key: k}}]}'}}",
		"the Secret mine of a.yaml"},
	{"{'data':{'a.yaml':'volumes: [{name: v, secret: {secretName: mine}}]'}}",
		"the Secret mine of a.yaml"},
	{"{'data':{'a.yaml':'volumes: [{projected: {sources: [{secret: {name: mine}}]}}]'}}",
		"the Secret mine of a.yaml"},
};

TEST(test_webhooks)
{
	dr.f.others.sight.state = SIGHT_THERE;
	for (size_t i = 0; i < COUNT(hook_rows); i++) {
		dr_hooks(HOOKS_MUTATING, NULL, NULL);
		dr_hooks(HOOKS_VALIDATING, NULL, NULL);
		SAYS(doctor_webhooks, "all is well");
		dr_hooks(hook_rows[i].which, hook_rows[i].from, hook_rows[i].to);
		SAYS(doctor_webhooks, hook_rows[i].says);
		if (strcmp(hook_rows[i].says, "all is well") != 0)
			assert_int_equal(doctor_count(&dr.r, DOCTOR_WRONG), 1);
	}
	/* profiles whose Secrets they know, and do not */
	dr_hooks(HOOKS_VALIDATING, NULL, NULL);
	for (size_t i = 0; i < COUNT(secret_rows); i++) {
		dr_put(&dr.f.clients[CLIENTS_LAUNCHERS], secret_rows[i].map);
		SAYS(doctor_webhooks, secret_rows[i].says);
	}
	sight_release(&dr.f.clients[CLIENTS_LAUNCHERS]);
	dr.f.clients[CLIENTS_LAUNCHERS].state = SIGHT_NOT_ASKED;
	/* as `poolgate hooks` writes them */
	dr_hooks(HOOKS_VALIDATING, NULL, NULL);
	for (char *at = dr.f.hooks[HOOKS_VALIDATING].text; (at = strstr(at, "juice-token"));)
		memcpy(at, "other-token", 11);
	SAYS(doctor_webhooks, "all is well");
	dr_hooks(HOOKS_MUTATING, NULL, NULL);
	dr.f.hooks[HOOKS_MUTATING].state = SIGHT_MISSING;
	SAYS(doctor_webhooks, "there is no Mutating: no pod is injected; mend it: kubectl apply -k "
			      "manifests/base");
	dr.f.hooks[HOOKS_MUTATING].state = SIGHT_FORBIDDEN;
	SAYS(doctor_webhooks, "not checked  test: may not read Mutating");
}

/* Made by hand, or by a version for API servers that knew no CEL. */
TEST(test_webhooks_without_conditions)
{
	const char *bare =
		"{'webhooks':[{'name':'mutate.poolgate.io','clientConfig':{'service':{'name':'"
		"poolgate',"
		"'namespace':'poolgate-system','path':'/mutate'}},'admissionReviewVersions':['v1'],"
		"'failurePolicy':'Ignore','sideEffects':'None','reinvocationPolicy':'IfNeeded',"
		"'namespaceSelector':{'matchExpressions':[{'key':'kubernetes.io/metadata.name',"
		"'operator':'NotIn','values':['kube-system','poolgate-system']}]},'rules':[{'"
		"apiGroups':[''],"
		"'apiVersions':['v1'],'operations':['CREATE','UPDATE'],'resources':['pods'],"
		"'scope':'Namespaced'}]}]}";

	dr.f.others.sight.state = SIGHT_THERE;
	dr_hooks(HOOKS_VALIDATING, NULL, NULL);
	dr_put(&dr.f.hooks[HOOKS_MUTATING], bare);
	SAYS(doctor_webhooks, "mutate.poolgate.io has other matchConditions");
	dr.f.replicas.sight.state = SIGHT_THERE;
	dr.f.api_minor = 29;
	SAYS(doctor_versions,
		"the API server is 1.29, poolgate needs 1.30; mend it: upgrade Kubernetes");
	dr.f.api_minor = 30;
	SAYS(doctor_versions, "ok           test: the API server is 1.30");
	dr.f.api_major = dr.f.api_minor = 0;
	SAYS(doctor_versions, "the API server does not tell its version");
}

/* ---- certificates ---- */

static void base64_of(struct buf *out, const struct buf *bytes)
{
	buf_base64(out, bytes->data, bytes->len);
}

/* A pair for that name made at from_s for life_s, and hooks that know its CA. */
static void certificates(const char *name, int64_t from_s, int64_t life_s, int64_t ca_life_s)
{
	struct certs_names names = {0};
	struct x509_pair ca, pair;
	struct err err = {0};
	struct buf b;

	x509_pair_init(&ca);
	x509_pair_init(&pair);
	buf_init(&b, 1 << 20);
	assert_int_equal(certs_names_dns(&names, slice_of(name), &err), 0);
	assert_int_equal(x509_make_ca(&names, from_s, ca_life_s, &ca, &err), 0);
	assert_int_equal(x509_make_serving(&ca, &names, from_s, life_s, &pair, &err), 0);
	buf_str(&b, "{'data':{'tls.crt':'");
	base64_of(&b, &pair.cert);
	buf_str(&b, "','tls.key':'");
	base64_of(&b, &pair.key);
	buf_str(&b, "'}}");
	dr_put(&dr.f.tls, b.data);
	for (size_t i = 0; i < HOOKS_COUNT; i++) {
		buf_clear(&b);
		buf_str(&b, "{'webhooks':[{'name':'h','clientConfig':{'caBundle':'");
		base64_of(&b, &ca.cert);
		buf_str(&b, "'}}]}");
		dr_put(&dr.f.hooks[i], b.data);
	}
	buf_release(&b);
	x509_pair_release(&ca);
	x509_pair_release(&pair);
}

#define DAY INT64_C(86400)

TEST(test_certificates)
{
	certificates(NAME, NOW_S, 90 * DAY, 3650 * DAY);
	SAYS(doctor_certificates, "all is well");
	assert_non_null(strstr(dr.out.data, "2 hooks vouch for it"));
	/* a sixth of its life is left, and a bit less */
	certificates(NAME, NOW_S - 75 * DAY + 3600, 90 * DAY, 3650 * DAY);
	SAYS(doctor_certificates, "all is well");
	certificates(NAME, NOW_S - 75 * DAY - 3600, 90 * DAY, 3650 * DAY);
	SAYS(doctor_certificates,
		"and should have been renewed; mend it: kubectl -n poolgate-system rollout "
		"restart");
	certificates(NAME, NOW_S - 91 * DAY, 90 * DAY, 3650 * DAY);
	SAYS(doctor_certificates, "the serving certificate ended at ");
	assert_int_equal(doctor_count(&dr.r, DOCTOR_WRONG), 1);
	certificates(NAME, NOW_S - 91 * DAY, 90 * DAY, 90 * DAY);
	SAYS(doctor_certificates, "every CA in the caBundle of h has ended");
	certificates(NAME, NOW_S + DAY, 90 * DAY, 3650 * DAY);
	SAYS(doctor_certificates, "begins at ");
	certificates("other.poolgate-system.svc", NOW_S, 90 * DAY, 3650 * DAY);
	SAYS(doctor_certificates,
		"is not for " NAME ", which API servers call; mend it: kubectl -n poolgate-system "
		"delete secret poolgate-tls");
	certificates(NAME, NOW_S, 90 * DAY, 3650 * DAY);
	dr_put(&dr.f.hooks[HOOKS_MUTATING],
		"{'webhooks':[{'name':'h','clientConfig':{'caBundle':'!'}}]}");
	SAYS(doctor_certificates, "the caBundle of h cannot be read");
	dr_put(&dr.f.hooks[HOOKS_MUTATING], "{'webhooks':[{'name':'h','clientConfig':{}}]}");
	SAYS(doctor_certificates, "h has no caBundle");
	dr_put(&dr.f.tls, "{'data':{}}");
	SAYS(doctor_certificates, "tls.crt of it cannot be read");
	dr.f.tls.state = SIGHT_FORBIDDEN;
	certificates(NAME, NOW_S, 90 * DAY, 3650 * DAY);
	dr.f.tls.state = SIGHT_FORBIDDEN;
	SAYS(doctor_certificates, "not checked  test: may not read it");
	assert_int_equal(doctor_count(&dr.r, DOCTOR_OK), 0);
	dr.f.tls.state = SIGHT_MISSING;
	dr.f.settings.cluster.tls_manage = false;
	SAYS(doctor_certificates,
		"mend it: kubectl -n poolgate-system describe certificate poolgate");
}

/* ---- leader ---- */

static void lease(const char *holder, int64_t age_s)
{
	char text[400], when[32];

	rfc3339_write(NOW_MS - age_s * 1000, when);
	(void)snprintf(text, sizeof(text),
		"{'spec':{'holderIdentity':'%s','leaseDurationSeconds':15,'renewTime':'%s'}}",
		holder, when);
	dr_put(&dr.f.lease, text);
}

static void replica(const char *name, const char *image, bool running)
{
	struct doctor_replica *p = doctor_more(&dr.f, &dr.f.replicas, sizeof(*p));

	*p = (struct doctor_replica){
		.name = name, .image = image, .image_id = "", .running = running, .ready = true};
	dr.f.replicas.sight.state = SIGHT_THERE;
	dr.f.replicas.sight.what = "pods";
}

TEST(test_leader)
{
	dr.f.lease.what = "Lease a";
	dr.f.lease.state = SIGHT_MISSING;
	SAYS(doctor_leader, "there is no Lease a: nobody has ever led");
	replica("a", "i", true);
	replica("b", "i", false);
	lease("a_0", 20);
	SAYS(doctor_leader, "all is well");
	lease("a_0", 21);
	SAYS(doctor_leader, "nobody leads: a_0 has not renewed the Lease for 21 s");
	dr.f.lease_moved = true;
	SAYS(doctor_leader, "ok           test: a_0 leads");
	dr.f.lease_moved = false;
	lease("a_0", -6);
	SAYS(doctor_leader, "nobody leads");
	lease("b_0", 0);
	SAYS(doctor_leader,
		"b_0 leads, whose pod does not run; mend it: kubectl -n poolgate-system describe "
		"pod b");
	lease("c_0", 0);
	SAYS(doctor_leader, "c_0 leads, which is no replica here");
	lease("a", 0);
	SAYS(doctor_leader, "all is well");
	dr.f.plan_keys.what = "Secret k";
	dr.f.plan_keys.state = SIGHT_MISSING;
	SAYS(doctor_leader, "there is no Secret k: while versions");
	dr_put(&dr.f.plan_keys, "{'data':{}}");
	SAYS(doctor_leader, "the leader has put no key into it");
	dr_put(&dr.f.plan_keys, "{'data':{'1':''}}");
	SAYS(doctor_leader, "all is well");
	dr.f.plan_keys.state = SIGHT_FORBIDDEN;
	SAYS(doctor_leader, "all is well");
	lease("", 0);
	SAYS(doctor_leader, "nobody leads: claims are taken");
	dr_put(&dr.f.lease, "{'spec':{'holderIdentity':'a_0'}}");
	SAYS(doctor_leader, "does not say when");
	dr_put(&dr.f.lease, "{}");
	SAYS(doctor_leader, "nobody leads");
	lease("a_0", 0);
	dr.f.replicas.sight.state = SIGHT_FORBIDDEN;
	SAYS(doctor_leader, "not checked  test: may not read pods");
}

/* ---- replicas, versions ---- */

TEST(test_clients)
{
	SAYS(doctor_clients, "not checked  test: the clients' images");
	dr_put(&dr.f.clients[CLIENTS_SIDECAR], "{'data':{'catalogue.yaml':'a: b','sidecar.yaml':'- "
					       "image: registry.example/c:1'}}");
	dr_put(&dr.f.clients[CLIENTS_LAUNCHERS],
		"{'data':{'juice.yaml':'- {image: images.invalid/juice, name: x}'}}");
	SAYS(doctor_clients,
		"ok           test: juice.yaml names images.invalid/juice: pods that choose this");
	SAYS(doctor_clients, "ok           test: it names images that can be there");
	assert_int_equal(doctor_count(&dr.r, DOCTOR_WRONG), 0);
	dr_put(&dr.f.clients[CLIENTS_SIDECAR],
		"{'data':{'sidecar.yaml':'- image: a/b\\n- image: images.invalid/c:1\\n'}}");
	SAYS(doctor_clients,
		"wrong        test: sidecar.yaml in it names images.invalid/c:1, which stands for "
		"your client's image: pods are refused until you set it; mend it: kubectl apply");
}

/* A rollout is done before the last replica of before has gone, which answers on with the settings
 * of before. */
TEST(test_replicas_that_end)
{
	struct doctor_replica *p;

	dr_put(&dr.f.deployment,
		"{'spec':{'replicas':1},'status':{'readyReplicas':1,'updatedReplicas':1}}");
	dr.f.config.state = SIGHT_FORBIDDEN;
	p = doctor_more(&dr.f, &dr.f.replicas, sizeof(*p));
	*p = (struct doctor_replica){.name = "poolgate-new"};
	SAYS(doctor_replicas, "1 of 1 replicas are ready");
	p = doctor_more(&dr.f, &dr.f.replicas, sizeof(*p));
	*p = (struct doctor_replica){.name = "poolgate-old", .deleting = true};
	SAYS(doctor_replicas,
		"poolgate-old ends, and answers on with the settings of before; mend it: kubectl "
		"-n poolgate-system wait --for=delete pod/poolgate-old --timeout=60s");
	assert_int_equal(doctor_count(&dr.r, DOCTOR_WRONG), 1);
}

TEST(test_replicas)
{
	static const char *const rows[][2] = {
		{"{'spec':{'replicas':2},'status':{'readyReplicas':2,'updatedReplicas':2}}",
			"2 of 2 replicas are ready"},
		{"{'spec':{},'status':{'readyReplicas':1,'updatedReplicas':1}}",
			"1 of 1 replicas are ready"},
		{"{'spec':{'replicas':0}}", "scaled to 0"},
		{"{'spec':{'replicas':2}}", "none of 2 replicas is ready"},
		{"{'spec':{'replicas':2},'status':{'readyReplicas':1,'updatedReplicas':2}}",
			"wrong        test: 1 of 2"},
		{"{'spec':{'replicas':2},'status':{'readyReplicas':2,'updatedReplicas':1}}",
			"a rollout has not ended: 1 of 2"},
	};

	dr.f.settings_known = true;
	for (size_t i = 0; i < COUNT(rows); i++) {
		dr_put(&dr.f.deployment, rows[i][0]);
		SAYS(doctor_replicas, rows[i][1]);
	}
	dr_put(&dr.f.deployment, rows[0][0]);
	dr.f.config = (struct sight){
		.state = SIGHT_THERE, .what = "ConfigMap c", .why = "poolgate.yaml:1: no"};
	dr.f.settings_known = false;
	SAYS(doctor_replicas,
		"the settings cannot be read: poolgate.yaml:1: no; mend it: kubectl -n "
		"poolgate-system rollout undo");
	dr.f.config =
		(struct sight){.state = SIGHT_FAILED, .what = "ConfigMap c", .why = "GET c: 500"};
	SAYS(doctor_replicas, "not checked  test: cannot read ConfigMap c: GET c: 500");
	dr.f.config.state = SIGHT_MISSING;
	SAYS(doctor_replicas, "there is no ConfigMap c");
	dr.f.config.state = SIGHT_FORBIDDEN;
	SAYS(doctor_replicas, "the settings: may not read ConfigMap c");
	/* nothing was asked for, so nothing was denied */
	dr.f.config.state = SIGHT_NOT_ASKED;
	SAYS(doctor_replicas,
		"the settings: the Deployment has no volume \"config\" with a ConfigMap");
	dr.f.deployment.state = SIGHT_MISSING;
	SAYS(doctor_replicas, "there is no it: nobody answers reviews");
}

TEST(test_versions)
{
	struct doctor_replica *p;

	replica("a", "image:1", true);
	replica("b", "image:1", true);
	SAYS(doctor_versions, "every replica runs image:1");
	p = dr.f.replicas.at;
	p[0].image_id = "sha256:1";
	p[1].image_id = "sha256:2";
	SAYS(doctor_versions, "a has image:1, b has image:1 of another digest");
	p[1].deleting = true;
	SAYS(doctor_versions, "all is well");
	p[1] = p[0];
	p[1].image = "image:2\x1b[31m";
	SAYS(doctor_versions,
		"has image:2?[31m; mend it: kubectl -n poolgate-system rollout restart");
}

/* ---- rights ---- */

static const struct doctor_right *right(const char *verb, const char *resource, const char *name)
{
	DOCTOR_EACH(struct doctor_right, &dr.f.rights, r)
	if (strcmp(r->verb, verb) == 0 && strcmp(r->resource, resource) == 0 &&
		strcmp(r->name, name) == 0)
		return r;
	return NULL;
}

TEST(test_rights)
{
	struct doctor_right *r;
	size_t base;

	doctor_list_rights(&dr.f, SHIPPED_RIGHTS);
	base = dr.f.rights.n;
	assert_in_range(base, 15, 60);
	assert_string_equal(right("update", "gpuservers", "")->subresource, "status");
	assert_string_equal(right("update", "gpuservers", "")->group, "poolgate.io");
	assert_string_equal(
		right("update", "leases", "poolgate-leader")->namespace, "poolgate-system");
	assert_string_equal(right("list", "pods", "")->namespace, "");
	assert_non_null(right("patch", "validatingwebhookconfigurations", "poolgate"));
	assert_non_null(right("update", "secrets", "poolgate-tls"));
	dr.f.rights.sight.state = SIGHT_THERE;
	r = dr.f.rights.at;
	for (size_t i = 0; i < base; i++)
		r[i].asked = r[i].allowed = true;
	SAYS(doctor_rights, "has its ");
	for (size_t i = 0; i < 7; i++)
		r[i].allowed = false;
	SAYS(doctor_rights, "and 2 more rights are missing");
	assert_int_equal(doctor_count(&dr.r, DOCTOR_WRONG), 6);
	assert_non_null(strstr(
		dr.out.data, "may not get gpuservers; mend it: kubectl apply -k manifests/base"));
	dr.f.rights.sight = (struct sight){.state = SIGHT_FORBIDDEN, .what = "rights"};
	for (size_t i = 0; i < base; i++)
		r[i].asked = false;
	SAYS(doctor_rights, "not checked  test: may not read rights");
	/* as the settings name things; cert-manager has the certificates */
	dr.f.rights.n = 0;
	dr.f.namespace = "mine";
	dr.f.settings.cluster.tls_manage = false;
	dr.f.settings.cluster.lease = "lead";
	dr.f.settings.cluster.secrets_source = "vault/tokens";
	doctor_list_rights(&dr.f, SHIPPED_RIGHTS);
	assert_true(dr.f.rights.n < base);
	assert_null(right("patch", "validatingwebhookconfigurations", "poolgate"));
	assert_string_equal(right("get", "leases", "lead")->namespace, "mine");
	doctor_list_rights(&dr.f, SHIPPED_SECRET_RIGHTS);
	assert_string_equal(right("get", "secrets", "tokens")->namespace, "vault");
	assert_null(right("create", "pods", ""));
	doctor_list_rights(&dr.f, SHIPPED_EVICTION_RIGHTS);
	assert_string_equal(right("create", "pods", "")->subresource, "eviction");
	doctor_list_rights(&dr.f, SHIPPED_USAGE_RIGHTS);
	assert_non_null(right("create", "gpuusages", ""));
	assert_string_equal(right("get", "jobs", "")->group, "batch");
	/* what is bound namespace by namespace is not asked for everywhere */
	assert_null(right("delete", "secrets", "bitfusion-client-secret-ca.crt"));
}

TEST(test_crd)
{
	const struct sight *s;
	struct slice raw;
	struct buf b;

	dr.f.crd.state = SIGHT_MISSING;
	dr.f.crd.what = "CRD";
	SAYS(doctor_crd, "there is no CRD");
	s = &dr.f.shipped[SHIPPED_CRD];
	raw = json_raw(&s->json, shipped_doc(s, "CustomResourceDefinition", NULL));
	buf_init(&b, 1 << 20);
	buf_add(&b, raw.at, raw.len - 1);
	buf_str(&b,
		",\"status\":{\"conditions\":[{\"type\":\"Established\",\"status\":\"True\"}]}}");
	sight_release(&dr.f.crd);
	assert_int_equal(
		json_read_copy(&dr.f.crd.json, b.data, b.len, 100000, &dr.f.crd.text, NULL), 0);
	dr.f.crd.state = SIGHT_THERE;
	SAYS(doctor_crd, "all is well");
	dr_put(&dr.f.crd, "{'spec':{'versions':[{'name':'v1alpha1','served':false}]}}");
	SAYS(doctor_crd, "is not served in v1alpha1");
	dr_put(&dr.f.crd, "{'spec':{'versions':[{'name':'v1alpha1','served':true}]}}");
	SAYS(doctor_crd, "has not established it");
#define ESTABLISHED "},'status':{'conditions':[{'type':'Established','status':'True'}]}}"
	dr_put(&dr.f.crd, "{'spec':{'versions':[{'name':'v1alpha1','served':true}]" ESTABLISHED);
	SAYS(doctor_crd, "has no status of its own");
	dr_put(&dr.f.crd, "{'spec':{'versions':[{'name':'v1alpha1','served':true,'subresources':{'"
			  "status':{}},'schema':{}}]" ESTABLISHED);
	SAYS(doctor_crd, "another than this version's, at /openAPIV3Schema");
	buf_release(&b);
}

/* ---- reading ---- */

static int broken(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx;
	if (strcmp(req->path, "/version") == 0)
		api_text(reply, 200, "{\"major\":\"1\",\"minor\":\"30+\"}");
	else
		api_status(reply, 500, "InternalError", "etcd is away");
	return 0;
}

/* A Deployment whose settings come from elsewhere. */
static int other_volumes(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	if (!strstr(req->path, "/deployments/"))
		return broken(ctx, req, reply);
	api_text(reply, 200,
		"{\"spec\":{\"replicas\":1,\"template\":{\"spec\":{\"volumes\":[{\"name\":\"tls\","
		"\"configMap\":{\"name\":\"other\"}},{\"name\":\"config\",\"secret\":{"
		"\"secretName\":\"s\"}}]}}},\"status\":{\"readyReplicas\":1,"
		"\"updatedReplicas\":1}}");
	return 0;
}

/* The facts that it tells. The caller frees its client. */
static struct kube *read_from(const struct api *api)
{
	static struct kube_config config;
	struct kube *kube = NULL;
	struct err err = {0};

	doctor_facts_release(&dr.f);
	api_config(api, &config);
	assert_int_equal(kube_new(&config, &kube, &err), 0);
	assert_int_equal(doctor_read(kube, "poolgate-system", &dr.f, &err), 0);
	return kube;
}

TEST(test_settings_from_elsewhere)
{
	struct api *api = api_start(other_volumes, NULL);
	struct kube *kube = read_from(api);

	SAYS(doctor_replicas, "1 of 1 replicas are ready");
	SAYS(doctor_replicas, "has no volume \"config\" with a ConfigMap");
	assert_null(strstr(dr.out.data, "may not"));
	kube_free(kube);
	api_stop(api);
}

/* An API server that fails is no cluster in which everything is missing. */
TEST(test_an_api_server_that_fails)
{
	struct api *api = api_start(broken, NULL);
	struct kube *kube = read_from(api);
	struct err err = {0};

	assert_int_equal(dr.f.api_minor, 30);
	doctor_judge_all(&dr.f, &dr.r);
	doctor_print(&dr.r, false, &dr.out);
	if (doctor_count(&dr.r, DOCTOR_WRONG) != 0)
		fail_msg("%s", dr.out.data);
	assert_non_null(strstr(dr.out.data,
		"not checked  crd: cannot read CustomResourceDefinition gpuservers.poolgate.io: "));
	assert_non_null(strstr(dr.out.data, "etcd is away"));
	/* nothing but questions */
	for (size_t i = 0; i < api_seen_count(api); i++) {
		const struct api_request *r = api_seen(api, i);

		assert_true(strcmp(r->method, "GET") == 0 || strstr(r->path, "reviews"));
	}
	doctor_facts_release(&dr.f);
	api_expect(
		api, "GET", "/version", 401, "{\"kind\":\"Status\",\"message\":\"Unauthorized\"}");
	assert_int_equal(doctor_read(kube, "poolgate-system", &dr.f, &err), ERR_REFUSED);
	kube_free(kube);
	api_stop(api);
}

TESTS_BETWEEN(dr_begin, dr_end, test_report, test_sights, test_shipped, test_apply, test_same,
	test_webhooks, test_webhooks_without_conditions, test_certificates, test_leader,
	test_replicas, test_replicas_that_end, test_clients, test_versions, test_rights, test_crd,
	test_an_api_server_that_fails, test_settings_from_elsewhere)
