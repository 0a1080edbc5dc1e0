/* SPDX-License-Identifier: Apache-2.0 */
/* cli/doctor/doctor_policies: policies that are wrong or missing, and what bounds keys that they
 * take out of pods. */
#include "test/unit/doctor_fixture.h"
#include "test/unit/test.h"

#define POLICY(name, spec)                                                                         \
	"{'apiVersion':'poolgate.io/v1alpha1','kind':'GPUPolicy','metadata':{'name':'" name        \
	"'},'spec':{" spec "}}"
#define NAMESPACE(name, policy)                                                                    \
	"{'metadata':{'name':'" name "','labels':{'poolgate.io/policy':'" policy "'}}}"
#define QUOTA(ns, hard) "{'metadata':{'name':'q','namespace':'" ns "'},'spec':{'hard':{" hard "}}}"
#define RANGE(ns, limits)                                                                          \
	"{'metadata':{'name':'r','namespace':'" ns                                                 \
	"'},'spec':{'limits':[{'type':'Container'," limits "}]}}"

FIXTURE(set_up)
{
	(void)dr_begin(NULL);
	dr_take(doctor_take_policy, &dr.f.policies,
		POLICY("research", "'accepts':['nvidia.com/gpu']"));
	dr_take(doctor_take_pick, &dr.f.picks, NAMESPACE("ml", "research"));
	dr_take(doctor_take_bound, &dr.f.quotas, QUOTA("free", "'requests.nvidia.com/gpu':1"));
	dr_take(doctor_take_bound, &dr.f.quotas,
		QUOTA("ml", "'requests.nvidia.com/gpumem':1,'cpu':1"));
	dr_take(doctor_take_bound, &dr.f.ranges, RANGE("ml", "'max':{'cpu':1}"));
	return 0;
}

TEST(nothing_is_asked_where_there_are_none)
{
	dr_anew();
	SAYS(doctor_policies, "all is well");
}

TEST(all_is_well)
{
	SAYS(doctor_policies, "1 namespaces pick one of 1 policies, and no quota");
}

TEST(bounds_that_count_nothing)
{
	static const struct {
		const char *quota, *range, *says, *mend;
	} rows[] = {
		{QUOTA("ml", "'requests.nvidia.com/gpu':4"), NULL,
			"the ResourceQuota q in ml is over nvidia.com/gpu, which the GPUPolicy "
			"research takes out of pods: it counts none of them",
			"kubectl -n ml edit resourcequota q"},
		{QUOTA("ml", "'limits.nvidia.com\\/gpu':4"), NULL, "the ResourceQuota q in ml", ""},
		{NULL, RANGE("ml", "'default':{'nvidia.com/gpu':1}"),
			"the LimitRange r in ml is over nvidia.com/gpu",
			"kubectl -n ml edit limitrange r"},
		{NULL, RANGE("ml", "'maxLimitRequestRatio':{'nvidia.com/gpu':1}"),
			"the LimitRange r in ml", ""},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		(void)dr_end(NULL);
		(void)set_up(NULL);
		if (rows[i].quota)
			dr_take(doctor_take_bound, &dr.f.quotas, rows[i].quota);
		else
			dr_take(doctor_take_bound, &dr.f.ranges, rows[i].range);
		SAYS(doctor_policies, rows[i].says);
		SAYS(doctor_policies, rows[i].mend);
	}
}

TEST(policies_that_are_wrong_or_missing)
{
	dr_take(doctor_take_policy, &dr.f.policies, POLICY("odd", "'share':1000"));
	SAYS(doctor_policies, "the GPUPolicy odd cannot be read");
	SAYS(doctor_policies, "/spec/share");
	dr_take(doctor_take_pick, &dr.f.picks, NAMESPACE("other", "gone"));
	SAYS(doctor_policies, "the namespace other picks the GPUPolicy gone, which does not exist");
	SAYS(doctor_policies, "kubectl label namespace other poolgate.io/policy-");
}

#define SERVER                                                                                     \
	"{'apiVersion':'poolgate.io/v1alpha1','kind':'GPUServer','metadata':{'name':'a','uid':"    \
	"'s','resourceVersion':'1','labels':{'team':'red'}},'spec':{'address':'a:1','gpus':[{"     \
	"'model':'T4','memory':'16G'}]},'status':{'version':1,'gpus':[{'id':'gpu-0','model':"      \
	"'T4','memory':16000000000,'fit':true}],'claims':[" CLAIM("1", "ml") "," CLAIM(            \
		"2", "free") "]}}"
#define CLAIM(uid, ns)                                                                             \
	"{'uid':'" uid "','namespace':'" ns "','name':'p','state':'bound','plan':"                 \
	"'0000000000000005','since':'2026-01-01T00:00:00Z','take':'00000000000000aa','servers':["  \
	"'a'],'gpus':[{'id':'gpu-0','bytes':5000000000}]}"

TEST(what_is_allowed_and_used)
{
	static const struct {
		const char *spec, *says;
	} rows[] = {
		{"'allow':{'gpus':2}", "the namespaces of the GPUPolicy small hold 1 of 2 GPUs and "
				       "5000 MB\n"},
		{"'allow':{'gpus':1,'memory':'9G'}",
			"hold 1 of 1 GPUs and 5000 of 9000 MB: their next pods are refused "
			"(PolicyFull), or wait\n"},
		{"'allow':{'memory':'5G'}", "hold 1 GPUs and 5000 of 5000 MB: their next pods"},
		{"'allow':{'models':['A100','T4'],'servers':{'team':'red'}}",
			"2 namespaces pick one of 2 policies"},
		{"'allow':{'models':['A100']}",
			"no server has a GPU that the GPUPolicy small allows "
			"(spec.allow.servers, spec.allow.models): the pods of its namespaces are "
			"refused; mend it: kubectl edit gpupolicy small"},
		{"'allow':{'servers':{'team':'blue'}}", "no server has a GPU that the GPUPolicy"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[400];

		dr_anew();
		(void)snprintf(text, sizeof(text), POLICY("small", "%s"), rows[i].spec);
		dr_take(doctor_take_policy, &dr.f.policies, text);
		dr_take(doctor_take_policy, &dr.f.policies, POLICY("open", ""));
		dr_take(doctor_take_pick, &dr.f.picks, NAMESPACE("ml", "small"));
		dr_take(doctor_take_pick, &dr.f.picks, NAMESPACE("free", "open"));
		dr_take(doctor_take_server, &dr.f.servers, SERVER);
		SAYS(doctor_policies, rows[i].says);
	}
	/* what cannot be read may have one */
	dr_take(doctor_take_server, &dr.f.servers, "{'metadata':{'name':'b'}}");
	SAYS(doctor_policies, "2 namespaces pick one of 2 policies");
}

TEST(what_cannot_be_read)
{
	dr.f.quotas.sight.state = SIGHT_FORBIDDEN;
	dr.f.quotas.sight.what = "the ResourceQuotas";
	SAYS(doctor_policies, "may not read the ResourceQuotas");
	dr.f.policies.sight.state = SIGHT_MISSING;
	dr.f.policies.sight.what = "the list of GPUPolicies";
	SAYS(doctor_policies, "the list of GPUPolicies is not served");
}

TESTS_BETWEEN(set_up, dr_end, nothing_is_asked_where_there_are_none, all_is_well,
	bounds_that_count_nothing, policies_that_are_wrong_or_missing, what_is_allowed_and_used,
	what_cannot_be_read)
