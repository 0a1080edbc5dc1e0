/* SPDX-License-Identifier: Apache-2.0 */
/* test: documents that people, probes and replicas write, member by member: what is of another kind
 * is refused, what nobody knows is refused, or passed over, and what must be there is missed. */
#include "base/buf.h"
#include "base/yaml/yaml.h"
#include "test/unit/core_fixture.h"
#include "test/unit/document_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod_policy.h"
#include "webhook/core/pod/queue_read.h"
#include "webhook/core/pod/unplaced.h"
#include "webhook/core/server/probe_inventory.h"

#define API "{'apiVersion':'poolgate.io/v1alpha1','kind':"
#define NAMED "'metadata':{'name':'x','labels':{'a':'b'}},"

static int read_inventory(const struct json *j, struct arena *a, struct err *err)
{
	struct probe_inventory inv;

	return probe_inventory_read(j, a, &inv, err);
}

static int inventory(struct slice text, struct arena *a, struct err *err)
{
	return document_of_json(text, a, err, read_inventory);
}

static int plan(struct slice text, struct arena *a, struct err *err)
{
	struct plan p;

	return plan_read(text, a, &p, err);
}

static const struct row {
	document_reader *read;
	const char *text;
	/* Pointers, each between blanks; those that end in a star: of all that begins so. */
	const char *needed; /* must be there */
	const char *free;   /* may be a text (=x), a list (=[) or an object (={), too */
	const char *open;   /* may have any members */
} rows[] = {
	{document_settings,
		API "'Config','listen':'127.0.0.1:1','listenPlain':'[::1]:2','listenAdmin':'off',"
		    "'tls':{'cert':'c','key':'k','clientCA':'a','clientNames':['api']},"
		    "'clientCatalogue':'c','sidecarConfig':'s','clientShell':'sh','launchers':['l']"
		    ",'defaultLauncher':'d','pool':'p','policies':'p','claimTtl':'24h',"
		    "'totalGpuMemory':'16G','nodeResource':true,'secretWithoutClaim':false,"
		    "'drainDelay':'1s','log':{'format':'json','level':'debug'},'workers':4,"
		    "'maxConnections':100,'reloadInterval':'1m','registries':[{'host':'ghcr.io',"
		    "'tokens':['a.x'],'manifests':['m.x'],'storage':['s.x'],'addresses':["
		    "'10.0.0.0/8'],'ca':'ca.pem'}],'cluster':{'kubeconfig':'k','namespace':'n',"
		    "'service':'s','lease':'l','webhooks':'w','tls':{'secret':'s','caSecret':'c',"
		    "'manage':true,'caValidity':'1000h','validity':'90h','publishWait':'1m',"
		    "'dropWait':'2m'},'secrets':{'sync':true,'source':'a/b'},'probe':{'interval':"
		    "'10s'},'waiting':{'enabled':true,'whenFull':'wait','reserveAfter':'5m',"
		    "'priorityClasses':['high']},'eviction':{'enabled':true,'after':'10m'},"
		    "'policies':{'enabled':true,'required':true},'usage':{'enabled':true,"
		    "'listen':':9443'},'pendingShare':25,'maxGracePeriod':'1h'}}",
		" /apiVersion /kind /registries/0/host ", "", ""},
	{document_launcher,
		API "'LauncherProfile'," NAMED
		    "'spec':{'kind':'wrap','argv':['{client.bin}',{'if':'fraction','words':['-p',"
		    "'{fraction}']},{'each':'filter','words':['-f','{filter}']}],'separator':'--',"
		    "'shell':'/bin/bash','options':{'amount':['-n'],'fraction':['-p'],'memoryMB':["
		    "'-m']},'env':[{'name':'A','prepend':'/x','separator':';'},{'name':'B','value'"
		    ":'{memory_mb}','if':'memory'},{'name':'C','secret':{'name':'s','key':'k'}},"
		    "{'name':'D','field':'metadata.uid'}],'initContainers':[{'name':'i','image':"
		    "'i','command':['{client.bin}'],'args':['a'],'env':[{'name':'E','value':'e'}],"
		    "'resources':{'limits':{'cpu':'1','memory':'1Gi','x/y':1},'requests':{'cpu':1}}"
		    ",'volumeMounts':[{'name':'v','mountPath':'/v'}]}],'volumes':[{'name':'v',"
		    "'emptyDir':{}},{'name':'w','secret':{'secretName':'s'}},{'name':'p',"
		    "'projected':{'sources':[{'secret':{'name':'t'}}]}}],'volumeMounts':[{'name':"
		    "'v','mountPath':'/v','readOnly':true}],'secrets':['u'],'can':{'fraction':"
		    "'bookkeeping','memory':'no','maxAmount':4},'clients':[{'os':'o','version':'1',"
		    "'arch':'amd64','values':{'bin':'/b'}}]}}",
		" /apiVersion /kind /metadata /metadata/name /spec /spec/kind /spec/argv "
		"/spec/argv/1/if /spec/argv/1/words /spec/argv/2/each /spec/argv/2/words "
		"/spec/env/0/name /spec/env/0/prepend /spec/env/1/name /spec/env/1/value "
		"/spec/env/1/if /spec/env/2/name /spec/env/2/secret /spec/env/2/secret/name "
		"/spec/env/2/secret/key /spec/env/3/name /spec/env/3/field "
		"/spec/initContainers/0/name /spec/initContainers/0/image "
		"/spec/initContainers/0/volumeMounts/0/name "
		"/spec/initContainers/0/volumeMounts/0/mountPath /spec/volumes "
		"/spec/volumes/0/name /spec/volumes/1/name /spec/volumes/2/name "
		"/spec/volumeMounts/0/name /spec/volumeMounts/0/mountPath /spec/clients "
		"/spec/clients/0/os /spec/clients/0/version /spec/clients/0/values "
		"/spec/clients/0/values/bin ",
		" /spec/argv/1=x /spec/argv/2=x /spec/volumes/2/projected=x "
		"/spec/volumes/2/projected=[ /spec/volumes/2/projected/sources=x "
		"/spec/volumes/2/projected/sources={ /spec/volumes/2/projected/sources/0=x "
		"/spec/volumes/2/projected/sources/0=[ "
		"/spec/volumes/2/projected/sources/0/secret=x "
		"/spec/volumes/2/projected/sources/0/secret=[ /metadata/labels* "
		"/spec/volumes/0/emptyDir* /spec/volumes/1/secret=* "
		"/spec/initContainers/0/env/0/name* /spec/volumeMounts/0/readOnly* ",
		" /metadata/labels /spec/initContainers/0 /spec/initContainers/0/env/0 "
		"/spec/initContainers/0/resources/limits "
		"/spec/initContainers/0/resources/requests "
		"/spec/initContainers/0/volumeMounts/0 /spec/volumes/0 /spec/volumes/0/emptyDir "
		"/spec/volumes/1 /spec/volumes/1/secret /spec/volumes/2 "
		"/spec/volumes/2/projected /spec/volumes/2/projected/sources/0 "
		"/spec/volumes/2/projected/sources/0/secret /spec/volumeMounts/0 "
		"/spec/clients/0/values "},
	{document_launcher,
		API "'LauncherProfile'," NAMED
		    "'spec':{'kind':'libpath','env':[{'name':'A','value':'{servers}'}],'placement':"
		    "'servers','granularity':'gpu','addressFamilies':['IPv4','IPv6'],'can':{"
		    "'fraction':'gate','memory':'gate'},'gate':{'image':'i','pullSecret':'p','ca':"
		    "'-----BEGIN CERTIFICATE-----','port':14833,'resources':{'limits':{'cpu':1}}}}"
		    "}",
		" /apiVersion /kind /metadata /metadata/name /spec /spec/kind /spec/env "
		"/spec/env/0/name /spec/env/0/value /spec/placement /spec/gate /spec/gate/image "
		"/spec/gate/ca ",
		" /metadata/labels* /spec/gate/resources/limits* ",
		" /metadata/labels /spec/gate/resources/limits "},
	{document_pool,
		API "'GPUServer'," NAMED
		    "'spec':{'address':'a:1','drain':true,'launchers':['l'],'gate':{'profile':'p',"
		    "'url':'https://a:1','caSecret':'c','tokenSecret':'t','strangers':'tell'},"
		    "'gpus':[{'model':'m','memory':'1Gi','count':2}]}}",
		" /apiVersion /kind /metadata /metadata/name /spec /spec/address "
		"/spec/gate/profile /spec/gate/url /spec/gate/tokenSecret /spec/gpus "
		"/spec/gpus/0/model /spec/gpus/0/memory ",
		"", " /metadata /metadata/labels "},
	{document_pool,
		API "'GPUServer'," NAMED
		    "'spec':{'address':'a:1','probe':{'url':'https://a:1','caSecret':'c',"
		    "'tokenSecret':'t','clientSecret':'s'}}}",
		" /apiVersion /kind /metadata /metadata/name /spec /spec/address /spec/probe "
		"/spec/probe/url ",
		"", " /metadata /metadata/labels "},
	{document_server_profile,
		API "'ServerProfile'," NAMED
		    "'spec':{'argv':['/x','{port}'],'env':{'A':'b'},'port':1,'user':'u',"
		    "'readiness':'1s','linger':'1s','grace':'1s','usage':{'context':'1Gi','margin':"
		    "1,'overShare':'end','accounts':['a']},'mps':{'control':'/m','pipeDirectory':"
		    "'/p'}}}",
		" /apiVersion /kind /metadata /metadata/name /spec /spec/argv /spec/port "
		"/spec/mps/control ",
		" /metadata/labels* ", " /metadata/labels /spec/env "},
	{document_policy,
		API "'GPUPolicy','metadata':{'name':'x'},'spec':{'inject':true,'share':20,"
		    "'defaults':{'launcher':'l','os':'o','version':'1','whenFull':'wait','percent':"
		    "25,'priority':1},'accepts':['nvidia.com/gpu'],'ties':'remove','onOutage':"
		    "'refuse','allow':{'servers':{'a':'b'},'launchers':['l'],'models':['m'],'gpus':"
		    "4,'memory':'6G','waiting':9}}}",
		" /apiVersion /kind /metadata /metadata/name /spec /spec/allow/servers/a ", "",
		" /* "},
	{document_server_object,
		API
		"'GPUServer','metadata':{'name':'g','uid':'u','resourceVersion':'7','generation':3,"
		"'creationTimestamp':'2026-11-21T09:30:00Z','labels':{'a':'b'},'finalizers':["
		"'poolgate.io/claims']},'spec':{'address':'a:1','gpus':[{'model':'m','memory':"
		"'16G','count':2}]},'status':{'version':2,'observedGeneration':3,'gpus':[{'id':"
		"'gpu-0','model':'m','memory':16000000000,'fit':true,'reason':'r','missing':"
		"false}],'claims':[{'uid':'a','namespace':'n','name':'w','state':'bound','plan'"
		":'00000000000000ab','since':'2026-11-21T09:30:00Z','take':'fedcba9876543210',"
		"'servers':['g'],'gpus':[{'id':'gpu-0','bytes':8}]}],'conditions':[{'type':"
		"'Fresh','status':'True','observedGeneration':3,'lastTransitionTime':"
		"'2026-11-21T09:30:00Z','reason':'Listed','message':'m'}],'summary':{'gpus':1},"
		"'usage':''}}",
		" /apiVersion /kind /metadata /metadata/name /metadata/uid "
		"/metadata/resourceVersion /spec /spec/address /spec/gpus /spec/gpus/0/model "
		"/spec/gpus/0/memory /status/gpus/0/id /status/gpus/0/memory "
		"/status/claims/0/uid /status/claims/0/state /status/claims/0/gpus "
		"/status/claims/0/gpus/0/id /status/claims/0/gpus/0/bytes "
		"/status/conditions/0/type /status/conditions/0/status ",
		" /status/summary/gpus* ", " /* "},
	{inventory,
		"{'schema':'gpuprobe.inventory/"
		"1','age_s':3,'stale_after_s':30,'state':'ready','host':{"
		"'name':'h'},'reasons':[],'gpus':[{'uuid':'a','parent_uuid':'','name':'H200',"
		"'memory_total_bytes':150000000000,'memory_free_bytes':7,'fit':false,'reasons':['r'"
		"]}]}",
		" /schema /age_s /stale_after_s /state /gpus /gpus/0/uuid /gpus/0/name "
		"/gpus/0/memory_total_bytes /gpus/0/fit /gpus/0/reasons ",
		" /host=x /host=[ /host/name={ /host/name=[ /reasons=x /reasons={ "
		"/gpus/0/memory_free_bytes={ /gpus/0/memory_free_bytes=[ ",
		" /* "},
	{plan,
		"{'v':1,'profile':'p','hash':'ffffffffffffffff','client':{'os':'o','version':'v'},"
		"'mode':'full','totalMB':1,'nodeResource':false,'filters':['a=b'],'servers':[{'"
		"name':"
		"'s','address':'h:1'}],'containers':[{'name':'b','kind':'init','amount':1,'percent'"
		":5,"
		"'units':5,'command':'shell','argv':8,'askedLimits':{'x':1},'askedRequests':{},'"
		"env':["
		"{'name':'A','was':'x'},{'name':'D','moved':'E'}],'mounts':['/"
		"m'],'made':['limits']}],"
		"'initContainers':['i'],'volumes':['v'],'made':['labels'],'statusWas':'','ties':{"
		"'nodeSelector':{'a':'b'},'nodeAffinity':{'x':[]},'runtimeClassName':'n','overhead'"
		":{"
		"'cpu':'1'},'tolerations':[{'at':0,'was':{}}]}}",
		" /v /profile /hash /client/os /client/version /mode /servers/0/name "
		"/servers/0/address /containers /containers/0/name /containers/0/kind "
		"/containers/0/amount /containers/0/percent /containers/0/units "
		"/containers/0/command /containers/0/env/0/name /containers/0/env/1/name "
		"/ties/tolerations/0/at /ties/tolerations/0/was ",
		" /containers/0/askedLimits/x* /ties/nodeSelector/a* /ties/overhead/cpu* "
		"/ties/nodeAffinity/x* ",
		" /* "},
};

/* Is the pointer one of these? */
static bool is_one_of(const char *list, const char *pointer)
{
	for (const char *at = list; *(at += strspn(at, " "));) {
		size_t n = strcspn(at, " ");
		bool all = at[n - 1] == '*';

		if (strncmp(at, pointer, n - all) == 0 && (all || strlen(pointer) == n))
			return true;
		at += n;
	}
	return false;
}

/* What comes of the text with other bytes from one place to another. */
static int with(const struct row *r, struct slice text, size_t from, size_t to, const char *other)
{
	struct err err = {0};
	struct arena a;
	struct buf b;
	int rc;

	arena_init(&a, 64u << 20);
	buf_init(&b, 1 << 20);
	buf_slice(&b, (struct slice){text.at, from});
	buf_str(&b, other);
	buf_slice(&b, (struct slice){text.at + to, text.len - to});
	rc = r->read(buf_as_slice(&b), &a, &err);
	assert_true(rc == 0 || ((rc == ERR_INVALID || rc == ERR_SYNTAX) && err.msg[0]));
	buf_release(&b);
	arena_release(&a);
	return rc;
}

static void other_kinds(
	const struct row *r, struct slice text, const struct yaml_node *node, const char *at)
{
	static const char *const others[][2] = {[YAML_MAP] = {"\"x\"", "[]"},
		[YAML_SEQ] = {"\"x\"", "{}"},
		[YAML_SCALAR] = {"{}", "[]"}};

	for (size_t i = 0; i < 2; i++) {
		const char *other = others[node->kind][i];
		char what[256];

		(void)snprintf(what, sizeof(what), "%s=%c", at, other[0] == '"' ? 'x' : other[0]);
		if ((with(r, text, node->from, node->to, other) == 0) != is_one_of(r->free, what))
			fail_msg("%s, %s", what, is_one_of(r->free, what) ? "refused" : "taken");
	}
}

static void without(
	const struct row *r, struct slice text, const struct yaml_node *key, const char *at)
{
	const struct yaml_node *next = key->next->next;
	size_t from = key->from, to = next ? next->from : key->next->to;

	if (!next && text.at[from - 1] == ',')
		from--;
	if ((with(r, text, from, to, "") != 0) != is_one_of(r->needed, at))
		fail_msg("%s is %s", at, is_one_of(r->needed, at) ? "not needed" : "needed");
}

static void each_member(const struct row *r, struct slice text, const struct yaml_node *node)
{
	struct buf at;

	buf_init(&at, 1 << 12);
	yaml_pointer(node, &at);
	other_kinds(r, text, node, at.len ? at.data : "/");
	if (node->kind == YAML_MAP && (with(r, text, node->from + 1, node->from + 1,
					       node->count ? "\"zzz\":\"1\"," : "\"zzz\":\"1\"") ==
					      0) != is_one_of(r->open, at.len ? at.data : "/"))
		fail_msg("%s takes anything, or does not", at.len ? at.data : "/");
	YAML_EACH(node, element)
	each_member(r, text, element);
	YAML_MEMBERS(node, key)
	{
		buf_clear(&at);
		yaml_pointer(key->next, &at);
		without(r, text, key, at.data);
		each_member(r, text, key->next);
	}
	buf_release(&at);
}

TEST(member_by_member)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		char *text = fixture_quotes(rows[i].text);
		struct yaml_stream docs;
		struct err err = {0};
		struct arena a;

		arena_init(&a, 64u << 20);
		if (yaml_parse(&a, "-", slice_of(text), YAML_ANY, &docs, &err) != 0 ||
			rows[i].read(slice_of(text), &a, &err) != 0)
			fail_msg("%s", err.msg);
		each_member(&rows[i], slice_of(text), docs.first->root);
		arena_release(&a);
		free(text);
	}
}

/* ---- what is only looked at ---- */

/* All that is known of a pod. */
static void tell_pod(const struct json *j, struct arena *a, struct buf *out)
{
	static const struct slice class = {"high", 4};
	const struct queue_classes classes = {&class, 1};
	struct queue_pod q = {0};
	struct unplaced u = {0};
	char why[POD_WHY_SIZE];
	const char *path;
	struct pod p;
	bool mark;

	pod_glance(j, json_root(j), &p);
	pod_waits(j, p.root, why);
	buf_fmt(out, "%s %u %u %d %d ", why, pod_grace(j, p.root), pod_delete_grace(j, p.root),
		pod_finished(j, p.root), pod_succeeded(j, p.root));
	buf_fmt(out, "%d%d%d%d", pod_allows_arch(&p, SLICE("amd64"), &path),
		pod_allows_arch(&p, SLICE("arm64"), &path), pod_is_windows(&p, &path),
		pod_is_exempt(&p, SLICE("n")));
	buf_fmt(out, "%d%d%d%d ", pod_pulls_with(&p, SLICE("s")), (int)pod_switch_of(&p, a),
		pod_policy_decides(&p, a), pod_policy_shares(&p, SLICE("n"), 50, a));
	assert_true(queue_read(j, p.root, &classes, a, &q, &mark));
	for (int i = 0; i < 5; i++)
		buf_slice(out, (struct slice[]){q.uid, q.namespace, q.name, q.gang, q.owner}[i]);
	buf_fmt(out, " %lld %d%d%d%d %lld %u ", (long long)q.priority, q.classed, q.foreign, mark,
		q.gang_job, (long long)q.since_ms, q.gang_size);
	buf_slice(out, queue_job_of(&p, a));
	if (!unplaced_read(j, p.root, a, &u))
		return;
	buf_fmt(out, " %d ", (int)u.owner);
	for (int i = 0; i < 4; i++)
		buf_slice(out,
			(struct slice[]){u.message, u.owner_kind, u.owner_name, u.owner_uid}[i]);
}

static void tell_job(const struct json *j, struct arena *a, struct buf *out)
{
	const struct json_node *pod = json_get(j, json_root(j), SLICE("pod"));

	buf_fmt(out, "%u %d", queue_job_size(j, json_root(j)),
		unplaced_job_ignores(j, json_root(j), j, pod, a));
}

static const struct look {
	void (*tell)(const struct json *j, struct arena *a, struct buf *out);
	const char *text;
	const char *says; /* pointers of what makes a difference */
	const char *odd;  /* and of what does so, whatever its kind */
} looks[] = {
	{tell_pod,
		"{'metadata':{'namespace':'n','name':'p','uid':'u','generateName':'g-',"
		"'creationTimestamp':'2026-11-21T09:30:00Z','deletionGracePeriodSeconds':7,'labels'"
		":{"
		"'kueue.x-k8s.io/queue-name':'q','x':'y'},'annotations':{'auto-management/"
		"bitfusion':"
		"'all','poolgate.io/gang':'g','poolgate.io/gang-size':'2','poolgate.io/"
		"queued-since':"
		"'2026-11-21T09:31:00Z','x':'y'},'ownerReferences':[{'apiVersion':'batch/"
		"v1','kind':"
		"'Job','name':'j','uid':'ju','controller':true,'x':'y'}]},'spec':{'"
		"priorityClassName':"
		"'high','priority':9,'terminationGracePeriodSeconds':60,'os':{'name':'windows'},"
		"'nodeSelector':{'kubernetes.io/arch':'amd64'},'imagePullSecrets':[{'name':'s'}],"
		"'schedulingGates':[{'name':'poolgate.io/capacity'}],'x':'y'},'status':{'phase':"
		"'Pending','conditions':[{'type':'PodScheduled','status':'False','reason':"
		"'Unschedulable','message':'m'}],'x':'y'}}",
		" /metadata /metadata/namespace /metadata/name /metadata/uid "
		"/metadata/deletionGracePeriodSeconds /metadata/labels "
		"/metadata/labels/kueue.x-k8s.io~1queue-name /metadata/annotations "
		"/metadata/annotations/auto-management~1bitfusion "
		"/metadata/annotations/poolgate.io~1gang "
		"/metadata/annotations/poolgate.io~1gang-size "
		"/metadata/annotations/poolgate.io~1queued-since /metadata/ownerReferences "
		"/metadata/ownerReferences/0/apiVersion /metadata/ownerReferences/0/kind "
		"/metadata/ownerReferences/0/name /metadata/ownerReferences/0/uid "
		"/metadata/ownerReferences/0/controller /spec /spec/priorityClassName "
		"/spec/priority /spec/terminationGracePeriodSeconds /spec/os /spec/os/name "
		"/spec/nodeSelector /spec/nodeSelector/kubernetes.io~1arch "
		"/spec/imagePullSecrets /spec/imagePullSecrets/0/name "
		"/spec/schedulingGates/0/name /status /status/phase /status/conditions "
		"/status/conditions/0/type /status/conditions/0/status "
		"/status/conditions/0/reason /status/conditions/0/message ",
		" /metadata/labels/kueue.x-k8s.io~1queue-name "
		"/spec/nodeSelector/kubernetes.io~1arch "},
	{tell_pod,
		"{'metadata':{'name':'p','generateName':'g-','annotations':{"
		"'kubernetes.io/config.mirror':'m'}},'spec':{'nodeName':'x','nodeSelector':{"
		"'kubernetes.io/os':'windows'},'affinity':{'nodeAffinity':{"
		"'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[{"
		"'matchExpressions':[{'key':'kubernetes.io/"
		"arch','operator':'In','values':['arm64']}]}"
		"]}}}},'status':{'phase':'Pending','initContainerStatuses':[{'name':'i','state':{"
		"'waiting':{'reason':'ImagePullBackOff'}}}]}}",
		" /metadata /metadata/name /metadata/generateName /metadata/annotations "
		"/metadata/annotations/kubernetes.io~1config.mirror /spec /spec/nodeSelector "
		"/spec/nodeSelector/kubernetes.io~1os /spec/affinity "
		"/spec/affinity/nodeAffinity "
		"/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution "
		"/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/"
		"nodeSelectorTerms "
		"/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/"
		"nodeSelectorTerms/0/matchExpressions "
		"/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/"
		"nodeSelectorTerms/0/matchExpressions/0/key "
		"/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/"
		"nodeSelectorTerms/0/matchExpressions/0/operator "
		"/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/"
		"nodeSelectorTerms/0/matchExpressions/0/values "
		"/status /status/phase /status/initContainerStatuses "
		"/status/initContainerStatuses/0/state "
		"/status/initContainerStatuses/0/state/waiting "
		"/status/initContainerStatuses/0/state/waiting/reason ",
		" /metadata/annotations/kubernetes.io~1config.mirror "},
	{tell_job,
		"{'spec':{'parallelism':4,'completions':3,'podFailurePolicy':{'rules':[{'action':"
		"'Ignore','onPodConditions':[{'type':'DisruptionTarget','status':'True'}]}]}},'pod'"
		":{"
		"'status':{'conditions':[]}}}",
		" /spec /spec/parallelism /spec/completions /spec/podFailurePolicy "
		"/spec/podFailurePolicy/rules /spec/podFailurePolicy/rules/0/action "
		"/spec/podFailurePolicy/rules/0/onPodConditions "
		"/spec/podFailurePolicy/rules/0/onPodConditions/0/type ",
		" /spec/podFailurePolicy/rules/0/onPodConditions/0/status "},
};

static char *told(
	const struct look *l, struct slice text, size_t from, size_t to, const char *other)
{
	struct json j = {0};
	struct arena a;
	struct buf b, out;
	char *copy;

	arena_init(&a, 1 << 20);
	buf_init(&b, 1 << 20);
	buf_init(&out, 1 << 20);
	buf_slice(&b, (struct slice){text.at, from});
	buf_str(&b, other);
	buf_slice(&b, (struct slice){text.at + to, text.len - to});
	assert_int_equal(json_read_copy(&j, b.data, b.len, 10000, &copy, NULL), 0);
	l->tell(&j, &a, &out);
	free(copy);
	json_release(&j);
	buf_release(&b);
	arena_release(&a);
	return buf_take(&out, NULL);
}

/* What is of another kind is as if it were not there; and it is looked at, or not. */
static void each_look(const struct look *l, struct slice text, const struct yaml_node *node)
{
	static const char *const others[] = {"7", "\"x\"", "[]", "{}", "true", "null"};
	char *whole = told(l, text, 0, 0, ""), *less, *more;
	struct buf at;

	buf_init(&at, 1 << 12);
	YAML_EACH(node, element)
	each_look(l, text, element);
	YAML_MEMBERS(node, key)
	{
		const struct yaml_node *next = key->next->next, *v = key->next;
		size_t from = key->from, to = next ? next->from : v->to;
		char first = text.at[v->from];

		buf_clear(&at);
		yaml_pointer(v, &at);
		from -= !next && text.at[from - 1] == ',';
		less = told(l, text, from, to, "");
		if ((strcmp(less, whole) != 0) != is_one_of(l->says, at.data))
			fail_msg("%s: %s, not %s", at.data, less, whole);
		for (size_t i = 0; i < COUNT(others) && !is_one_of(l->odd, at.data); i++) {
			char other = others[i][0];

			if (other == first || (other == '7' && first >= '0' && first <= '9'))
				continue;
			more = told(l, text, v->from, v->to, others[i]);
			if (strcmp(more, less) != 0)
				fail_msg("%s as %s: %s, not %s", at.data, others[i], more, less);
			free(more);
		}
		free(less);
		each_look(l, text, v);
	}
	buf_release(&at);
	free(whole);
}

TEST(what_is_odd_is_not_there)
{
	for (size_t i = 0; i < COUNT(looks); i++) {
		char *text = fixture_quotes(looks[i].text);
		struct yaml_stream docs;
		struct arena a;

		arena_init(&a, 1 << 20);
		assert_int_equal(yaml_parse(&a, "-", slice_of(text), YAML_ANY, &docs, NULL), 0);
		each_look(&looks[i], slice_of(text), docs.first->root);
		arena_release(&a);
		free(text);
	}
}

TESTS(member_by_member, what_is_odd_is_not_there)
