/* SPDX-License-Identifier: Apache-2.0 */
/* unit: where pods live in manifests, and what inject does with places and patches. */
#include "test/unit/test.h"
#include "webhook/cli/inject/inject.h"
#include "webhook/cli/inject/manifest.h"

/* what makes a map with `spec` before it a pod template */
#define C "{containers: [{name: c}]}"

ARENA_FIXTURES(YAML_ARENA_MAX)

static struct manifest_pods pods_of(const char *text)
{
	struct manifest_pods pods = {0};
	struct yaml_stream docs;
	struct err err = {0};

	if (yaml_parse(&arena, "t.yaml", slice_of(text), YAML_ANY, &docs, &err) != 0 ||
		manifest_pods(docs.first, &pods, &err) != 0)
		fail_msg("%s", err.msg);
	return pods;
}

/* "POINTER KIND/NAME NAMESPACE", one word group for each pod */
static const char *described(const char *text)
{
	struct manifest_pods pods = pods_of(text);
	struct buf out;
	const char *copy;

	buf_init(&out, 10000);
	for (size_t i = 0; i < pods.n; i++)
		buf_fmt(&out, "%s%.*s %.*s/%.*s %.*s%s", i ? "; " : "", (int)pods.at[i].pointer.len,
			pods.at[i].pointer.at, (int)pods.at[i].kind.len, pods.at[i].kind.at,
			(int)pods.at[i].name.len, pods.at[i].name.at, (int)pods.at[i].namespace.len,
			pods.at[i].namespace.at ? pods.at[i].namespace.at : "",
			pods.at[i].via ? " (via)" : "");
	copy = arena_strdup(&arena, buf_as_slice(&out));
	buf_release(&out);
	return copy;
}

TEST(finds)
{
	static const struct {
		const char *text, *pods;
	} cases[] = {
		{"kind: Pod\napiVersion: v1\nmetadata: {name: a, namespace: ns}\nspec: {}\n",
			" Pod/a ns"},
		{"kind: Pod\n", " Pod/ "},
		{"kind: Pod\nmetadata: {generateName: g-}\n", " Pod/g- "},
		{"kind: Deployment\napiVersion: apps/v1\nmetadata: {name: d}\nspec: {template: "
		 "{spec: {containers: [{name: c}]}}}\n",
			"/spec/template Deployment/d "},
		{"kind: StatefulSet\nspec: {template: {spec: " C "}}\n",
			"/spec/template StatefulSet/ "},
		{"kind: DaemonSet\nspec: {template: {spec: " C "}}\n",
			"/spec/template DaemonSet/ "},
		{"kind: ReplicaSet\nspec: {template: {spec: " C "}}\n",
			"/spec/template ReplicaSet/ "},
		{"kind: ReplicationController\napiVersion: v1\nspec: {template: {spec: " C "}}\n",
			"/spec/template ReplicationController/ "},
		{"kind: Job\napiVersion: batch/v1\nspec: {template: {spec: " C "}}\n",
			"/spec/template Job/ "},
		{"kind: CronJob\napiVersion: batch/v1beta1\nspec: {jobTemplate: {spec: {template: "
		 "{spec: " C "}}}}\n",
			"/spec/jobTemplate/spec/template CronJob/ "},
		{"kind: PodTemplate\napiVersion: v1\ntemplate: {spec: " C "}\n",
			"/template PodTemplate/ "},
		{"{\"kind\": \"Pod\", \"metadata\": {\"name\": \"j\"}}", " Pod/j "},
		{"kind: List\napiVersion: v1\nitems:\n- kind: Pod\n  metadata: {name: a}\n- kind: "
		 "Service\n- kind: Job\n  spec: {template: {spec: " C "}}\n"
		 "- kind: List\n  items: [{kind: Pod}]\n- 5\n",
			"/items/0 Pod/a ; /items/2/spec/template Job/ ; /items/3/items/0 Pod/ "},
		/* not ours */
		{"kind: ConfigMap\ndata:\n  pod: |\n    kind: Pod\n", ""},
		/* any kind, any depth; not in each other */
		{"kind: MPIJob\napiVersion: kubeflow.org/v1\nspec: {mpiReplicaSpecs: {Worker: "
		 "{template: {spec: " C "}}}}\n",
			"/spec/mpiReplicaSpecs/Worker/template MPIJob/ "},
		{"kind: Job\napiVersion: batch.volcano.sh/v1alpha1\nspec: {tasks: [{}, {template: "
		 "{spec: " C "}}]}\n",
			"/spec/tasks/1/template Job/ "},
		{"kind: X\nspec: {a/~\"b: {spec: {containers: [{x: {spec: " C "}}]}}}\n",
			"/spec/a~1~0\\\"b X/ "},
		{"kind: ServingRuntime\nspec: " C "\n", ""}, /* no pod, though its like */
		{"kind: CustomResourceDefinition\nspec: {spec: {containers: {type: array}}}\n", ""},
		{"kind: X\na: {spec: {containers: []}}\nb: {spec: {containers: [5]}}\n", ""},
		{"kind: Pod\napiVersion: example.com/v1\n", ""},
		/* what an API server asks about a pod is no manifest of one */
		{"apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\n"
		 "request: {object: {kind: Pod, spec: " C "}}\n",
			""},
		{"apiVersion: example.com/v1\nkind: AdmissionReview\n"
		 "request: {object: {kind: Pod, spec: " C "}}\n",
			"/request/object AdmissionReview/ "},
		{"kind: pod\n", ""},
		{"kind: Deployment\nspec: {}\n", ""},
		{"kind: Deployment\nspec: {template: 5}\n", ""},
		{"kind: Deployment\n", ""},
		{"kind: List\n", ""},
		{"kind: List\nitems: {}\n", ""},
		{"5\n", ""},
		{"- kind: Pod\n", ""},
		{"~\n", ""},
		{"kind: 5\n", ""},
		/* through aliases and merge keys */
		{"x: &t {spec: " C "}\nkind: Job\nspec: {template: *t}\n",
			"/x Job/ ; /spec/template Job/  (via)"},
		{"x: &s {template: {spec: " C "}}\nkind: Job\nspec:\n  <<: *s\n",
			"/x/template Job/ ; /spec/template Job/  (via)"},
		{"x: &s {a: {spec: " C "}, b: 1}\nkind: Job\nspec:\n  <<: [{c: 1}, *s]\n  a: 2\n",
			"/x/a Job/ "},
		{"kind: List\nitems:\n- &p {kind: Pod}\n- *p\n",
			"/items/0 Pod/ ; /items/1 Pod/  (via)"},
		{"m: &m {name: a}\nkind: Pod\nmetadata: *m\n", " Pod/a "},
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		assert_string_equal(described(cases[i].text), cases[i].pods);
}

/* Objects without a pod, and those with a key of ours that no pod holds. */
TEST(others)
{
	static const struct {
		const char *text, *kind, *stray;
		uint32_t line;
	} cases[] = {
		{"kind: Service\nmetadata: {name: s}\n", "Service", NULL, 0},
		{"kind: Pod\nmetadata: {annotations: {auto-management/bitfusion: all}}\n", NULL,
			NULL, 0},
		{"kind: Job\nmetadata:\n  annotations:\n    poolgate.io/launcher: x\nspec: "
		 "{template: "
		 "{spec: " C "}}\n",
			"Job", "poolgate.io/launcher", 4},
		{"kind: Job\nspec: {template: {metadata: {annotations: {poolgate.io/launcher: x}}, "
		 "spec: " C "}}\n",
			NULL, NULL, 0},
		{"kind: Workflow\nspec: {templates: [{x: {bitfusion.io/gpu-amount: 1}}]}\n",
			"Workflow", "bitfusion.io/gpu-amount", 2},
		{"kind: ResourceQuota\nspec: {hard: {requests.bitfusion.io/gpu: 1}}\n",
			"ResourceQuota", NULL, 0},
		{"apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\n"
		 "request: {object: {metadata: {annotations: {poolgate.io/launcher: x}}}}\n",
			"AdmissionReview", NULL, 0},
		{"~\n", NULL, NULL, 0},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct manifest_pods found = pods_of(cases[i].text);

		assert_int_equal(found.n_others, cases[i].kind ? 1 : 0);
		if (!cases[i].kind)
			continue;
		assert_true(slice_is(found.others[0].kind, cases[i].kind));
		assert_int_equal(found.others[0].stray != NULL, cases[i].stray != NULL);
		if (cases[i].stray) {
			assert_true(slice_is(found.others[0].stray->text, cases[i].stray));
			assert_int_equal(found.others[0].stray->line, cases[i].line);
		}
	}
}

/* Aliases that stand for very many values, or very many levels, are not followed to the end. */
TEST(bombs)
{
	struct manifest_pods pods;
	struct yaml_stream docs;
	struct err err = {0};
	struct buf text;

	buf_init(&text, 1 << 20);
	buf_str(&text, "a0: &a0 [1, 1]\n");
	for (int i = 1; i < 40; i++)
		buf_fmt(&text, "a%d: &a%d [*a%d, *a%d]\n", i, i, i - 1, i - 1);
	assert_int_equal(yaml_parse(&arena, "t", buf_as_slice(&text), YAML_ANY, &docs, &err), 0);
	assert_int_equal(manifest_pods(docs.first, &pods, &err), ERR_TOOBIG);
	buf_clear(&text);
	buf_str(&text, "a0: &a0 {k: 1}\n");
	for (int i = 1; i < 40; i++)
		buf_fmt(&text, "a%d: &a%d {<<: [*a%d, *a%d]}\n", i, i, i - 1, i - 1);
	assert_int_equal(yaml_parse(&arena, "t", buf_as_slice(&text), YAML_ANY, &docs, &err), 0);
	assert_int_equal(manifest_pods(docs.first, &pods, &err), ERR_TOOBIG);
	buf_clear(&text);
	buf_str(&text, "a0: &a0 [1]\n");
	for (int i = 1; i < 100; i++)
		buf_fmt(&text, "a%d: &a%d [*a%d]\n", i, i, i - 1);
	assert_int_equal(yaml_parse(&arena, "t", buf_as_slice(&text), YAML_ANY, &docs, &err), 0);
	assert_int_equal(manifest_pods(docs.first, &pods, &err), ERR_TOOBIG);
	buf_release(&text);
}

TEST(limits)
{
	struct manifest_pods pods;
	struct yaml_stream docs;
	struct err err = {0};
	struct buf text;

	buf_init(&text, 1 << 20);
	buf_str(&text, "kind: List\nitems:\n");
	for (int i = 0; i < MANIFEST_PODS_MAX; i++)
		buf_str(&text, "- kind: Pod\n");
	assert_int_equal(yaml_parse(&arena, "t", buf_as_slice(&text), YAML_ANY, &docs, &err), 0);
	assert_int_equal(manifest_pods(docs.first, &pods, &err), 0);
	assert_int_equal(pods.n, MANIFEST_PODS_MAX);
	buf_str(&text, "- kind: Pod\n");
	assert_int_equal(yaml_parse(&arena, "t", buf_as_slice(&text), YAML_ANY, &docs, &err), 0);
	assert_int_equal(manifest_pods(docs.first, &pods, &err), ERR_TOOBIG);
	buf_clear(&text);
	for (int i = 0; i <= MANIFEST_LISTS_MAX; i++)
		buf_str(&text, "{kind: List, items: [");
	for (int i = 0; i <= MANIFEST_LISTS_MAX; i++)
		buf_str(&text, "]}");
	assert_int_equal(yaml_parse(&arena, "t", buf_as_slice(&text), YAML_ANY, &docs, &err), 0);
	assert_int_equal(manifest_pods(docs.first, &pods, &err), ERR_TOOBIG);
	buf_release(&text);
}

TEST(lines)
{
	struct manifest_pods pods = pods_of(
		"kind: Job\nspec:\n  template:\n    spec:\n      containers:\n      - name: a\n"
		"        command:\n        - x\n      - name: b\n        image: y\n");

	assert_int_equal(pods.n, 1);
	assert_int_equal(inject_line(&pods.at[0], SLICE("/spec/containers/1/image")), 10);
	assert_int_equal(inject_line(&pods.at[0], SLICE("/spec/containers/1/command/0")), 9);
	assert_int_equal(inject_line(&pods.at[0], SLICE("/spec/containers/0/command/0")), 8);
	assert_int_equal(inject_line(&pods.at[0], SLICE("/spec/containers/7")), 6);
	assert_int_equal(inject_line(&pods.at[0], SLICE("")), 4);
	assert_int_equal(inject_line(&pods.at[0], SLICE("/metadata")), 4);
}

TEST(prefixes)
{
	static const struct {
		const char *patch, *pointer, *out;
	} cases[] = {
		{"[]", "/x", ""},
		{"[{\"op\":\"add\",\"path\":\"/a~1b\",\"value\":{\"path\":\"/a\"}}]",
			"/spec/template",
			"{\"op\":\"add\",\"path\":\"/spec/template/a~1b\",\"value\":{\"path\":\"/"
			"a\"}}"},
		{"[{\"path\":\"\",\"op\":\"test\",\"value\":1.50},{\"op\":\"remove\",\"path\":\"/"
		 "b\"}]",
			"",
			"{\"path\":\"\",\"op\":\"test\",\"value\":1.50},{\"op\":\"remove\","
			"\"path\":\"/b\"}"},
	};
	struct err err = {0};
	struct buf out;

	buf_init(&out, 1000);
	for (size_t i = 0; i < COUNT(cases); i++) {
		buf_clear(&out);
		assert_int_equal(inject_prefix_patch(slice_of(cases[i].patch),
					 slice_of(cases[i].pointer), &out, &err),
			0);
		assert_string_equal(out.data ? out.data : "", cases[i].out);
	}
	assert_int_equal(inject_prefix_patch(SLICE("[{"), SLICE(""), &out, &err), ERR_SYNTAX);
	buf_release(&out);
}

TESTS_BETWEEN(set_up, tear_down, finds, others, bombs, limits, lines, prefixes)
