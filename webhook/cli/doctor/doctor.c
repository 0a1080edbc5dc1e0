/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate doctor`: options, the cluster, the order of the groups, the exit code. */
#include "webhook/cli/doctor/doctor.h"

#include <signal.h>
#include <stdio.h>

#include "base/text.h"
#include "webhook/cli/doctor/doctor_read.h"
#include "webhook/cli/usage/find_cluster.h"
#include "webhook/cli/usage/usage.h"

#define REPORT_MAX (16u << 20)
#define NAMESPACE_FORM "a namespace's name"

struct options {
	const char *kubeconfig, *namespace;
	unsigned json;
};

static const char *const formats[] = {"table", "json", NULL};
static const struct opt options[] = {
	OPT_TEXT(options, kubeconfig, "--kubeconfig", "FILE",
		"the cluster, and who you are there; if not given: $KUBECONFIG, a\n"
		"pod's service account, ~/.kube/config"),
	OPT_TEXT(options, namespace, "--namespace", "NS",
		"where poolgate runs (" DOCTOR_NAMESPACE ")", .also = "-n", .form = NAMESPACE_FORM),
	USAGE_FORMAT(options, json, "table|json", formats),
	OPT_ANSWER(options, json, true, "--json", "the findings as one object"),
};
static const struct subcommand command = {"doctor",
	"usage: poolgate doctor [--kubeconfig FILE] [--namespace NS] [-o table|json]\n"
	"\n"
	"Looks whether everything is there that poolgate needs in its cluster, and as it should "
	"be:\n"
	"certificates, webhook configurations, rights, CustomResourceDefinition, leader, servers, "
	"Secrets\n"
	"of the client, registries, nodes, versions, pods. One line each: ok, or what is wrong and "
	"what\n"
	"mends it. Nothing is changed. What you may not read is neither right nor wrong: \"not "
	"checked\".\n"
	"\n",
	"\n"
	"Exit codes: 0 nothing is wrong, 1 something is, 2 usage, 3 the cluster does not answer.\n"
	"\n"
	"Examples:\n"
	"  poolgate doctor --kubeconfig ~/.kube/config\n"
	"  kubectl -n " DOCTOR_NAMESPACE
	" exec deployment/poolgate -- /usr/bin/poolgate doctor -o json\n",
	USAGE_OPTIONS(options)};

static const struct {
	const char *group;
	doctor_judge *judge;
} judges[] = {
	{"replicas", doctor_replicas},
	{"versions", doctor_versions},
	{"clients", doctor_clients},
	{"crd", doctor_crd},
	{"rights", doctor_rights},
	{"webhooks", doctor_webhooks},
	{"certificates", doctor_certificates},
	{"leader", doctor_leader},
	{"servers", doctor_servers},
	{"secrets", doctor_secrets},
	{"registries", doctor_registries},
	{"nodes", doctor_nodes},
	{"kueue", doctor_kueue},
	{"policies", doctor_policies},
	{"pods", doctor_pods},
};

void doctor_judge_all(const struct doctor_facts *f, struct doctor_report *r)
{
	for (size_t i = 0; i < sizeof(judges) / sizeof(judges[0]); i++) {
		r->group = judges[i].group;
		judges[i].judge(f, r);
	}
}

static int complain(const char *msg)
{
	(void)fprintf(stderr, "poolgate doctor: %s\n", msg);
	return DOCTOR_NO_ANSWER;
}

static int report(const struct doctor_facts *f, bool json)
{
	struct arena a;
	struct doctor_report r = {.arena = &a};
	struct buf out;
	int code;

	arena_init(&a, REPORT_MAX);
	buf_init(&out, REPORT_MAX);
	doctor_judge_all(f, &r);
	doctor_print(&r, json, &out);
	if (a.failed)
		code = complain("out of memory");
	else if (!usage_print("doctor", &out))
		code = DOCTOR_NO_ANSWER;
	else
		code = doctor_count(&r, DOCTOR_WRONG) ? DOCTOR_FOUND : DOCTOR_FINE;
	buf_release(&out);
	arena_release(&a);
	return code;
}

static int examine(const struct options *o)
{
	struct kube_config config;
	struct doctor_facts facts = {0};
	struct kube *kube = NULL;
	struct err err = {0};
	int code;

	if (find_cluster(o->kubeconfig, &config, &err) != 0 ||
		kube_new(&config, &kube, &err) != 0) {
		code = complain(err.msg);
	} else {
		code = doctor_read(kube, o->namespace, &facts, &err) == 0 ? report(&facts, o->json)
									  : complain(err.msg);
		doctor_facts_release(&facts);
	}
	kube_free(kube);
	kube_config_release(&config);
	return code;
}

int doctor_main(int argc, char **argv)
{
	struct options o = {.namespace = DOCTOR_NAMESPACE};
	int code = usage_read(&command, &o, argc, argv);

	if (code >= 0)
		return code;
	if (argv[optind])
		return usage_wrong("doctor", "unexpected word \"%s\"", argv[optind]);
	if (!text_dns_label(slice_of(o.namespace)))
		return usage_wrong("doctor", "--namespace takes " NAMESPACE_FORM ", found \"%s\"",
			o.namespace);
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	return examine(&o);
}
