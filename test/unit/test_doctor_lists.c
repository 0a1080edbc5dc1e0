/* SPDX-License-Identifier: Apache-2.0 */
/* cli/doctor/doctor: what of the cluster's lists is kept, and how it is judged: pods, nodes,
 * servers, Secrets, others' hooks. */
#include "test/unit/api_fixture.h"
#include "test/unit/doctor_fixture.h"
#include "test/unit/test.h"

/* ---- lists ---- */

#define META(name) "'metadata':{'name':'" name "','namespace':'ml','uid':'u-" name "'"

TEST(test_pods_that_are_kept)
{
	const struct doctor_pod *p;

	dr_take(doctor_take_pod, &dr.f.pods, "{" META("plain") "},'status':{'phase':'Running'}}");
	dr_take(doctor_take_pod, &dr.f.pods,
		"{" META("off") ",'annotations':{'auto-management/status':'no'}}}");
	assert_int_equal(dr.f.pods.n, 0);
	dr_take(doctor_take_pod, &dr.f.pods,
		"{" META("origin") ",'annotations':{'auto-management/"
				   "status':'Injected'}},'status':{'phase':'Pending'}}");
	dr_take(doctor_take_pod, &dr.f.pods,
		"{" META("ours") ",'labels':{'poolgate.io/"
				 "injected':'true'},'annotations':{'poolgate.io/"
				 "plan':'{}'}},'spec':{"
				 "'volumes':[{'secret':{'secretName':'bitfusion-client-secret-ca."
				 "crt'}},{'secret':{"
				 "'secretName':'bitfusion-client-secret-x','optional':true}},{'"
				 "secret':{'secretName':'mine'}},"
				 "{'emptyDir':{}}]},'status':{'phase':'Succeeded'}}");
	p = dr.f.pods.at;
	assert_int_equal(dr.f.pods.n, 2);
	assert_false(p[0].planned || p[0].finished || p[0].running);
	assert_string_equal(p[1].uid, "u-ours");
	assert_true(p[1].planned && p[1].finished);
	assert_int_equal(p[1].n_secrets, 1);
	assert_string_equal(p[1].secrets[0], "bitfusion-client-secret-ca.crt");
}

/* a node's metadata and status; what is said once it is there, too */
static const char *const nodes[][3] = {
	{"'labels':{}", "'cpu':'1'",
		"no node offers bitfusion.io/gpu: injected pods stay Pending; install the device "
		"plugin"},
	{"'labels':{'poolgate.io/gpu-client':''}", "'cpu':'1'",
		"though 1 have the label poolgate.io/gpu-client"},
	{"'labels':{}", "'bitfusion.io/gpu':'0'",
		"1 of 3 nodes know bitfusion.io/gpu, and offer 0 of it"},
	{"'labels':{'poolgate.io/gpu-client':''}", "'bitfusion.io/gpu':'2k'",
		"1 of 2 nodes with the label poolgate.io/gpu-client do not offer bitfusion.io/gpu, "
		"n is one"},
};

/* By whose name kube-scheduler would give out what is ours. */
TEST(test_device_classes)
{
	dr_take(doctor_take_class, &dr.f.classes,
		"{'metadata':{'name':'gpus'},'spec':{'extendedResourceName':'bitfusion.io/gpus'}}");
	dr_take(doctor_take_class, &dr.f.classes,
		"{'metadata':{'name':'none'},'spec':{'selectors':[]}}");
	assert_int_equal(dr.f.classes.n, 0);
	dr_take(doctor_take_class, &dr.f.classes,
		"{'metadata':{'name':'ours'},'spec':{'extendedResourceName':'bitfusion.io/gpu'}}");
	SAYS(doctor_nodes,
		"wrong        test: DeviceClass ours has extendedResourceName bitfusion.io/gpu: a "
		"pod "
		"that asks for more than 32 units then finds no node");
	SAYS(doctor_nodes, "mend it: kubectl edit deviceclass ours\n");
}

TEST(test_nodes)
{
	struct doctor_node *n;
	char text[400];

	dr.f.nodes.sight.state = SIGHT_THERE;
	SAYS(doctor_nodes, "the cluster has no nodes");
	for (size_t i = 0; i < COUNT(nodes); i++) {
		(void)snprintf(text, sizeof(text),
			"{'metadata':{'name':'n',%s},'status':{'allocatable':{%s}}}", nodes[i][0],
			nodes[i][1]);
		dr_take(doctor_take_node, &dr.f.nodes, text);
		SAYS(doctor_nodes, nodes[i][2]);
	}
	n = dr.f.nodes.at;
	assert_int_equal(n[3].units, 2000);
	n[1].labelled = false;
	SAYS(doctor_nodes, "1 of 4 nodes offer bitfusion.io/gpu");
	dr.f.settings_known = true;
	SAYS(doctor_nodes, "nodes are asked for nothing: nodeResource is false");
}

TEST(test_others)
{
#define RULE(resource) "'rules':[{'operations':['CREATE'],'resources':['" resource "']}]"

	dr_take(doctor_take_other, &dr.f.others,
		"{'metadata':{'name':'poolgate'},'webhooks':[{" RULE("pods") "}]}");
	dr_take(doctor_take_other, &dr.f.others,
		"{'metadata':{'name':'zz'},'webhooks':[{" RULE("services") "}]}");
	assert_int_equal(dr.f.others.n, 0);
	dr_take(doctor_take_other, &dr.f.others,
		"{'metadata':{'name':'a'},'webhooks':[{" RULE("*") "}]}");
	dr_hooks(HOOKS_MUTATING, NULL, NULL);
	dr_hooks(HOOKS_VALIDATING, NULL, NULL);
	SAYS(doctor_webhooks, "1 other configurations change pods, all before ours");
	dr_take(doctor_take_other, &dr.f.others,
		"{'metadata':{'name':'q'},'webhooks':[{" RULE("pods") "}]}");
	SAYS(doctor_webhooks, "1 of them after ours (q): ours is called again");
}

#define SERVER(name, spec, status)                                                                 \
	"{'apiVersion':'poolgate.io/v1alpha1','kind':'GPUServer','metadata':{'name':'" name        \
	"','uid':'1','resourceVersion':'1','finalizers':['poolgate.io/"                            \
	"claims']},'spec':{'address':'a:1'" spec "},'status':{" status "}}"
#define LISTED ",'gpus':[{'model':'m','memory':'16G'}]"
#define PROBED ",'probe':{'url':'https://host.lab:9443'}"
#define SECRETS                                                                                    \
	",'probe':{'url':'https://host.lab:9443','caSecret':'two','tokenSecret':'one',"            \
	"'clientSecret':'two'}"
#define GATED                                                                                      \
	",'launchers':['lupine'],'gate':{'profile':'lupine','url':'https://host.lab:9447',"        \
	"'tokenSecret':'t'}"
#define GATED_AS(mode)                                                                             \
	",'gate':{'profile':'lupine','url':'https://"                                              \
	"host.lab:9447','tokenSecret':'t','mode':'" mode "'}"
#define PROFILE(name, gate)                                                                        \
	"---\\napiVersion: poolgate.io/v1alpha1\\nkind: LauncherProfile\\nmetadata: {name: " name  \
	"}\\nspec: {kind: env, placement: servers, env: [{name: A, value: "                        \
	"\\u0022{servers}\\u0022}], "                                                              \
	"gate: {" gate "}}\\n"
#define GUARD(status, why, more)                                                                   \
	",'conditions':[{'type':'Fresh','status':'True','reason':'ListedByHand','message':''},"    \
	"{'type':'Ready','status':'True','reason':'TakesClaims','message':''},"                    \
	"{'type':'Guarded','status':'" status "','reason':'" why "','message':'so it is'}" more    \
	"]"
#define MISSING(message)                                                                           \
	",'conditions':[{'type':'Fresh','status':'False','reason':'SecretMissing','message':"      \
	"'" message "'},{'type':'Ready','status':'False','reason':'NotFresh','message':'no'}]"
#define GPU "'gpus':[{'id':'gpu-0','model':'m','memory':16000000000,'fit':true}]"
#define COND(ready, why, fresh, reason)                                                            \
	",'conditions':[{'type':'Fresh','status':'" fresh "','reason':'" reason                    \
	"','message':'so it is'},{'type':'Ready',"                                                 \
	"'status':'" ready "','reason':'" why "','message':'it is " why "'}]"
#define CLAIM(uid, state, bytes)                                                                   \
	"{'uid':'" uid "','namespace':'ml','name':'p-" uid "','state':'" state                     \
	"','since':'2026-01-01T00:00:00Z','gpus':[{"                                               \
	"'id':'gpu-0','bytes':" bytes "}]}"

static const struct {
	const char *server, *says;
} servers[] = {
	{SERVER("a", LISTED, GPU COND("True", "TakesClaims", "True", "ListedByHand")),
		"all is well"},
	{SERVER("a", LISTED ",'drain':true", GPU COND("False", "Draining", "True", "ListedByHand")),
		"drained: a"},
	{SERVER("a", LISTED ",'launchers':['bitfusion','lupine']",
		 GPU COND("True", "TakesClaims", "True", "ListedByHand")),
		"all is well"},
	{SERVER("a", LISTED ",'launchers':['lupine','lupin']",
		 GPU COND("True", "TakesClaims", "True", "ListedByHand")),
		"a is for pods of the launcher lupin, which it does not have; "
		"mend it: kubectl edit gpuserver a"},
	{SERVER("a", LISTED, GPU COND("False", "LooksForClaims", "True", "ListedByHand")),
		"a is new"},
	{SERVER("a", PROBED, GPU COND("False", "NotFresh", "False", "NoAnswer")),
		"its probe is stale: so it is; mend it: ssh host.lab systemctl restart gpuprobe"},
	{SERVER("a", SECRETS, GPU MISSING("Secret poolgate-system/two is missing")),
		"a takes no claims: Secret poolgate-system/two is missing; mend it: kubectl -n "
		"poolgate-system create secret generic two --from-file=ca.crt --from-file=tls.crt "
		"--from-file=tls.key --dry-run=client -o yaml | kubectl apply -f -"},
	{SERVER("a", SECRETS, GPU MISSING("Secret poolgate-system/one: key token is missing")),
		"mend it: kubectl -n poolgate-system create secret generic one --from-file=token "
		"--dry-run"},
	{SERVER("a", SECRETS, GPU MISSING("something else")), "mend it: kubectl edit gpuserver a"},
	{SERVER("a", PROBED, GPU COND("False", "NotFresh", "False", "TokenNotSent")),
		"mend it: kubectl edit gpuserver a"},
	{SERVER("a", PROBED, GPU COND("False", "NoneFit", "True", "ProbeAnswered")),
		"a takes no claims: it is NoneFit; mend it: ssh host.lab gpuprobe verify"},
	{SERVER("a", LISTED, GPU COND("False", "NoGPUs", "True", "ListedByHand")),
		"it is NoGPUs; mend it: kubectl edit"},
	{SERVER("a", LISTED,
		 "'gpus':[{'id':'gpu-0','model':'m','memory':16000000000,'fit':true}],'conditions':"
		 "[{"
		 "'type':'Unique','status':'False','reason':'HeldByAnOlderServer','message':'b has "
		 "it'},{'type':'Fresh','status':'True','reason':'ListedByHand','message':''},{"
		 "'type':'Ready','status':'False','reason':'NotUnique','message':'b has it'}]"),
		"a is a machine that the pool has already: b has it; it takes claims on what is "
		"its alone: delete one of both\n"},
	{SERVER("a", LISTED GATED, GPU GUARD("True", "SharesHeld", "")), "all is well"},
	{SERVER("a", LISTED GATED, GPU GUARD("Unknown", "SharesUnknown", "")), "all is well"},
	{SERVER("a", LISTED GATED, GPU GUARD("Unknown", "NoAnswer", "")),
		"a is not guarded: so it is; mend it: ssh host.lab journalctl -u gpugate"},
	{SERVER("a", LISTED GATED, GPU GUARD("False", "OtherProfile", "")),
		"a is not guarded: so it is; mend it: kubectl edit gpuserver a"},
	{SERVER("a", LISTED GATED,
		 GPU GUARD("True", "SharesHeld",
			 ",{'type':'Strangers','status':'True','reason':'NoClaim','message':'they "
			 "compute'}")),
		"a: they compute; mend it: kubectl describe gpuserver a"},
	{SERVER("a", LISTED, GPU GUARD("False", "NoGate", "")), "all is well"},
	{SERVER("a", LISTED GATED_AS("token") ",'launchers':['near']",
		 GPU GUARD("True", "SharesHeld", "")),
		"a is for pods of the launcher near, which goes to gates by the mode address, and "
		"its own gate by the mode token: none of them is placed there; mend it: kubectl "
		"edit gpuserver a"},
	{SERVER("a", LISTED GATED_AS("token"), GPU GUARD("True", "SharesHeld", "")), "all is well"},
	{SERVER("a", LISTED GATED_AS("address") ",'launchers':['near']",
		 GPU GUARD("True", "SharesHeld", "")),
		"all is well"},
	{SERVER("a", LISTED GATED_AS("address"), GPU GUARD("True", "SharesHeld", "")),
		"all is well"},
	{SERVER("a", LISTED GATED_AS("address") ",'launchers':['far']",
		 GPU GUARD("True", "SharesHeld", "")),
		"launcher far, which goes to gates by the mode token, and its own gate by the mode "
		"address: none of them is placed there"},
	{SERVER("a", LISTED, GPU), "no leader has looked at a yet"},
	{SERVER("a", LISTED, "'gpus':7"), "a cannot be read and takes no claims: /status/gpus"},
	{SERVER("a", "", "'gpus':[]"), "mend it: kubectl edit gpuserver a\n"},
	{SERVER("a", LISTED,
		 "'gpus':[{'id':'gpu-0','model':'m','memory':16000000000,'fit':true},{'id':'gpu-1',"
		 "'model':'m','memory':1,"
		 "'fit':false,'reason':'ECC'}]" COND(
			 "True", "TakesClaims", "True", "ListedByHand")),
		"1 of 2 GPUs of a cannot be used: gpu-1: ECC"},
	{SERVER("a", LISTED,
		 GPU ",'claims':[" CLAIM("1", "bound", "9000000000") "," CLAIM(
			 "2", "adopted", "9000000000") "," CLAIM("3", "bound", "1") "]" COND("True",
			 "TakesClaims", "True", "ListedByHand")),
		"gpu-0 of a is promised twice: 18000 MB are held of its 16000 MB, by ml/p-1 9000 "
		"MB "
		"since 2026-01-01T00:00:00Z, ml/p-2 9000 MB since 2026-01-01T00:00:00Z, ml/p-3 0 "
		"MB "
		"since 2026-01-01T00:00:00Z; it takes nothing new until its sum fits: wait until "
		"one of them has ended, or have its owner delete one\n"},
};

TEST(test_servers)
{
	dr.f.servers.sight.state = SIGHT_THERE;
	dr_put(&dr.f.clients[CLIENTS_LAUNCHERS],
		"{'data':{'a.yaml':'metadata:\\n  name: "
		"lupine\\n','b':'metadata: {name: juice}','c':'" PROFILE("near", "mode: address")
			PROFILE("far",
				"image: i, ca: \\u0022-----BEGIN CERTIFICATE-----\\u0022") "'}}");
	SAYS(doctor_servers, "there is no GPUServer: every GPU pod is refused");
	for (size_t i = 0; i < COUNT(servers); i++) {
		dr.f.servers.n = 0;
		dr_take(doctor_take_server, &dr.f.servers, servers[i].server);
		SAYS(doctor_servers, servers[i].says);
	}
	sight_release(&dr.f.clients[CLIENTS_LAUNCHERS]);
	dr.f.servers.sight.state = SIGHT_MISSING;
	SAYS(doctor_servers, "the API server does not know GPUServers");
}

TEST(test_pods)
{
	dr_take(doctor_take_server, &dr.f.servers,
		SERVER("a", LISTED, GPU ",'claims':[" CLAIM("u-held", "bound", "1") "]"));
	dr_take(doctor_take_pod, &dr.f.pods,
		"{" META("held") ",'annotations':{'poolgate.io/plan':'{}'}}}");
	SAYS(doctor_pods, "1 injected pods live, each has its claim");
	dr_take(doctor_take_pod, &dr.f.pods,
		"{" META("loose") ",'annotations':{'poolgate.io/plan':'{}'}}}");
	SAYS(doctor_pods, "wrong        test: ml/loose was injected and lives, and has no claim");
	((struct doctor_pod *)dr.f.pods.at)[1].finished = true;
	SAYS(doctor_pods, "all is well");
	/* who waits has none yet, and is told of */
	dr_take(doctor_take_pod, &dr.f.pods,
		"{" META("waits") ",'annotations':{'poolgate.io/plan':'{}'}},'spec':{"
				  "'schedulingGates':[{'name':'poolgate.io/capacity'}]}}");
	SAYS(doctor_pods, "1 injected pods live, each has its claim");
	SAYS(doctor_pods, "1 pods wait behind the scheduling gate poolgate.io/capacity");
	((struct doctor_pod *)dr.f.pods.at)[2].finished = true;
	((struct doctor_pod *)dr.f.pods.at)[0].finished = true;
	SAYS(doctor_pods, "a still holds a claim of ml/p-u-held, which has ended");
	/* it may still run */
	((struct doctor_server *)dr.f.servers.at)[0].object.status.claims[0].lingers_ms =
		dr.f.now_ms + 1000;
	SAYS(doctor_pods, "all is well");
	dr.f.now_ms = 0;
	SAYS(doctor_pods, "all is well");
	for (int i = 0; i < 7; i++)
		dr_take(doctor_take_pod, &dr.f.pods,
			"{" META("old") ",'annotations':{'auto-management/status':'injected'}}}");
	SAYS(doctor_pods, "ml/old was injected by the origin");
	assert_int_equal(doctor_count(&dr.r, DOCTOR_WRONG), 6);
	dr.f.servers.sight = (struct sight){.state = SIGHT_FORBIDDEN, .what = "servers"};
	SAYS(doctor_pods, "not checked  test: may not read servers");
}

TEST(test_secrets)
{
	struct doctor_place *p;

	dr.f.pods.sight.state = SIGHT_THERE;
	SAYS(doctor_secrets, "poolgate copies none");
	p = doctor_more(&dr.f, &dr.f.places, sizeof(*p));
	*p = (struct doctor_place){.namespace = "ml", .secrets = SIGHT_THERE, .lacks = "s"};
	SAYS(doctor_secrets,
		"pods in ml wait for Secret s, which is not there; mend it: kubectl apply -k "
		"manifests/overlays/secrets");
	dr.f.settings.cluster.secrets_sync = true;
	dr.f.source = (struct sight){.state = SIGHT_THERE, .what = "Secret t"};
	SAYS(doctor_secrets, "Secret t has none of the keys");
	dr.f.source_whole = true;
	SAYS(doctor_secrets, "all-pods | grep ml");
	p->asked = true;
	SAYS(doctor_secrets,
		"namespace ml has GPU pods and is not open for the client's Secrets; mend it: "
		"kubectl -n ml create");
	*p = (struct doctor_place){
		.namespace = "ml", .secrets = SIGHT_FORBIDDEN, .asked = true, .open = true};
	SAYS(doctor_secrets, "not checked  test: may not read Secrets in ml");
	p->secrets = SIGHT_FAILED;
	SAYS(doctor_secrets, "not checked  test: cannot read Secrets in ml");
	p->secrets = SIGHT_THERE;
	SAYS(doctor_secrets, "Secret t is there, 1 namespaces with GPU pods are open");
	p->asked = p->open = false;
	SAYS(doctor_secrets, "not checked  test: no answer whether namespace ml is open");
	assert_int_equal(doctor_count(&dr.r, DOCTOR_OK) + doctor_count(&dr.r, DOCTOR_WRONG), 0);
	dr.f.source.state = SIGHT_MISSING;
	SAYS(doctor_secrets, "there is no Secret t");
}

/* ---- many namespaces ---- */

static int all_open(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx;
	if (!strstr(req->path, "subjectaccessreviews"))
		return -1;
	api_text(reply, 201, "{\"status\":{\"allowed\":true}}");
	return 0;
}

static void put_pods(size_t places)
{
	for (size_t i = 0; i < 2 * places; i++) {
		char text[400];

		(void)snprintf(text, sizeof(text),
			"{'metadata':{'name':'p','namespace':'ml-%zu','uid':'u-%zu','annotations':{"
			"'poolgate.io/plan':'{}'}},'spec':{'volumes':[{'secret':{'secretName':"
			"'bitfusion-client-secret-ca.crt'}}]},'status':{'phase':'Running'}}",
			i % places, i);
		dr_take(doctor_take_pod, &dr.f.pods, text);
	}
}

/* Of more namespaces than are looked at, the others are counted, and no word says that they are
 * well. */
TEST(test_more_namespaces_than_are_looked_at)
{
	struct api *api = api_start(all_open, NULL);
	struct kube_config config;
	struct kube *kube = NULL;
	struct err err = {0};
	struct doctor_place *p;

	dr.f.settings.cluster.secrets_sync = true;
	dr.f.source = (struct sight){.state = SIGHT_THERE, .what = "Secret t"};
	dr.f.source_whole = true;
	api_config(api, &config);
	assert_int_equal(kube_new(&config, &kube, &err), 0);
	put_pods(DOCTOR_PLACES_MAX);
	doctor_read_places(kube, &dr.f);
	SAYS(doctor_secrets, "Secret t is there, 500 namespaces with GPU pods are open");
	dr.f.places.n = dr.f.pods.n = 0;
	put_pods(DOCTOR_PLACES_MAX + 2);
	doctor_read_places(kube, &dr.f);
	assert_int_equal(api_seen_count(api), 2 * DOCTOR_PLACES_MAX);
	SAYS(doctor_secrets,
		"not checked  test: 2 of 502 namespaces with GPU pods: at most 500 are looked at");
	assert_non_null(strstr(dr.out.data, "nothing wrong was found, 1 not checked"));
	/* a line for each as long as somebody reads them */
	p = dr.f.places.at;
	for (size_t i = 0; i < 60; i++)
		p[i].open = false;
	SAYS(doctor_secrets, "and 10 more namespaces with GPU pods are not open");
	assert_int_equal(doctor_count(&dr.r, DOCTOR_WRONG), 51);
	for (size_t i = 0; i < 60; i++)
		p[i].asked = false;
	SAYS(doctor_secrets, "nor 10 more namespaces");
	assert_int_equal(doctor_count(&dr.r, DOCTOR_UNCHECKED), 52);
	kube_free(kube);
	api_stop(api);
}

TESTS_BETWEEN(dr_begin, dr_end, test_pods_that_are_kept, test_device_classes, test_nodes,
	test_others, test_servers, test_pods, test_secrets, test_more_namespaces_than_are_looked_at)
