/* SPDX-License-Identifier: Apache-2.0 */
/* cli/doctor/doctor_nodes: what Kueue's settings mean for pods that wait. */
#include "test/unit/doctor_fixture.h"
#include "test/unit/test.h"

#define MAP(text) "{'data':{'controller_manager_config.yaml':'" text "'}}"
#define V2 "apiVersion: config.kueue.x-k8s.io/v1beta2\\nkind: Configuration\\n"
#define V1 "apiVersion: config.kueue.x-k8s.io/v1beta1\\nkind: Configuration\\n"

static const struct {
	const char *what, *map, *says;
} rows[] = {
	{"as shipped", MAP(V2 "#waitForPodsReady:\\n#  timeout: 5m\\n"),
		"ok           test: it takes back nobody who waits for GPUs"},
	{"on", MAP(V2 "waitForPodsReady:\\n  timeout: 10m\\n"),
		"wrong        test: its waitForPodsReady takes back who is not ready within 10m, "
		"as "
		"nobody is who waits for GPUs: take it out, or make its timeout longer than "
		"anybody "
		"waits; mend it: kubectl -n kueue-system edit configmap kueue-manager-config\n"},
	{"on, and says no time", MAP(V2 "waitForPodsReady: {blockAdmission: true}\\n"),
		"within 5m,"},
	{"null", MAP(V2 "waitForPodsReady:\\n"), "waitForPodsReady is off"},
	{"the older one's switch", MAP(V1 "waitForPodsReady:\\n  enable: true\\n"), "within 5m,"},
	{"off", MAP(V1 "waitForPodsReady:\\n  enable: false\\n"), "waitForPodsReady is off"},
	{"not on", MAP(V1 "waitForPodsReady:\\n  timeout: 5m\\n"), "waitForPodsReady is off"},
	{"no settings", "{'data':{}}",
		"not checked  test: it has no controller_manager_config.yaml"},
	{"none that can be read", MAP("a: b: c"), "not checked  test: cannot read it: "},
	{"nothing in them", MAP(""), "waitForPodsReady is off"},
};

TEST(kueues_settings)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		print_message("%s\n", rows[i].what);
		dr_anew();
		dr_put(&dr.f.kueue, rows[i].map);
		SAYS(doctor_kueue, rows[i].says);
	}
}

TEST(where_there_is_no_kueue)
{
	dr.f.kueue.what = "it";
	/* nobody waits here; it is not there; who may not look cannot know */
	SAYS(doctor_kueue, "all is well\n");
	dr.f.kueue.state = SIGHT_MISSING;
	SAYS(doctor_kueue, "all is well\n");
	dr.f.kueue.state = SIGHT_FORBIDDEN;
	SAYS(doctor_kueue, "all is well\n");
	/* but that its webhooks are */
	dr_take(doctor_take_other, &dr.f.others,
		"{'metadata':{'name':'kueue-mutating-webhook-configuration'},'webhooks':[{'rules':"
		"[{'resources':['pods'],'operations':['CREATE']}]}]}");
	SAYS(doctor_kueue, "not checked  test: may not read it\n");
}

TESTS_BETWEEN(dr_begin, dr_end, kueues_settings, where_there_is_no_kueue)
