/* SPDX-License-Identifier: Apache-2.0 */
/* core: find the parts of a pod. */
#include "webhook/core/pod/pod.h"

#include <stdio.h>

#include "base/text.h"
#include "webhook/core/pod/plan.h"

static const struct json_node *member(
	const struct json *j, const struct json_node *obj, const char *key, enum json_type type)
{
	const struct json_node *v = json_get(j, obj, slice_of(key));

	return json_is(v, type) ? v : NULL;
}

void pod_glance(const struct json *j, const struct json_node *root, struct pod *ret)
{
	const struct json_node *meta = member(j, root, "metadata", JSON_OBJECT);

	*ret = (struct pod){.j = j, .root = root};
	ret->annotations = member(j, meta, "annotations", JSON_OBJECT);
	ret->labels = member(j, meta, "labels", JSON_OBJECT);
	ret->spec = member(j, root, "spec", JSON_OBJECT);
}

/* The array of containers under spec, or NULL when absent. */
static int find_array(const struct pod *p, const char *key, bool required,
	const struct json_node **ret, struct err *err)
{
	const struct json_node *v = json_get(p->j, p->spec, slice_of(key));

	*ret = NULL;
	if (json_absent(v) && !required)
		return 0;
	if (!json_is(v, JSON_ARRAY)) {
		err_set(err, ERR_INVALID, "found %s, expected an array of containers",
			json_type_name(v));
		return err_in(err, "spec/%s", key);
	}
	*ret = v;
	return 0;
}

char *pod_path(struct arena *a, const char *path, const char *below)
{
	size_t n = path ? strlen(path) : 0, m = strlen(below);
	char *out = path ? arena_alloc(a, n + m + 1) : NULL;

	if (!out)
		return NULL;
	memcpy(out, path, n);
	memcpy(out + n, below, m + 1);
	return out;
}

char *pod_path_at(struct arena *a, const char *path, size_t index)
{
	char digits[24], *at = digits + sizeof(digits) - 1;

	*at = '\0';
	do {
		*--at = (char)('0' + index % 10);
		index /= 10;
	} while (index);
	*--at = '/';
	return pod_path(a, path, at);
}

static int add_containers(struct pod *p, const struct json_node *array, const char *key, bool init,
	struct arena *a, struct err *err)
{
	const char *path = init ? "/spec/initContainers" : "/spec/containers";
	size_t i = 0;

	JSON_EACH(p->j, array, c)
	{
		struct pod_container *pc = &p->containers[p->n_containers];
		const struct json_node *name = json_get(p->j, c, SLICE("name"));

		if (!json_is(c, JSON_OBJECT) || !json_is(name, JSON_STRING)) {
			err_set(err, ERR_INVALID, "found %s, expected a container with a name",
				json_is(c, JSON_OBJECT) ? "an object without a name"
							: json_type_name(c));
			return err_in(err, "spec/%s/%zu", key, i);
		}
		pc->node = c;
		pc->name = json_str(p->j, name, a);
		if (pod_container(p, pc->name)) {
			err_set(err, ERR_INVALID,
				"found \"%.*s\" a second time, expected each container's name "
				"once",
				(int)(pc->name.len > 80 ? 80 : pc->name.len), pc->name.at);
			return err_in(err, "spec/%s/%zu/name", key, i);
		}
		pc->index = i;
		pc->kind = CONTAINER_APP;
		if (init)
			pc->kind = json_is_str(p->j, json_get(p->j, c, SLICE("restartPolicy")),
					   SLICE("Always"))
					   ? CONTAINER_RESTARTABLE
					   : CONTAINER_INIT;
		pc->path = pod_path_at(a, path, i);
		if (!pc->path || !pc->name.at)
			return err_set(err, ERR_NOMEM, "out of memory");
		p->n_containers++;
		i++;
	}
	return 0;
}

int pod_read(const struct json *j, const struct json_node *root, struct arena *a, struct pod *ret,
	struct err *err)
{
	const struct json_node *inits, *apps;
	struct pod p;
	size_t n;

	pod_glance(j, root, &p);
	if (!p.spec) {
		err_set(err, ERR_INVALID, "found %s, expected the pod's spec",
			json_type_name(json_get(j, root, SLICE("spec"))));
		return err_in(err, "spec");
	}
	if (find_array(&p, "initContainers", false, &inits, err) < 0 ||
		find_array(&p, "containers", true, &apps, err) < 0)
		return err->code;
	p.has_inits = inits != NULL;
	p.volumes = member(j, p.spec, "volumes", JSON_ARRAY);
	n = (size_t)apps->count + (inits ? inits->count : 0);
	if (n > POD_CONTAINERS_MAX) {
		err_set(err, ERR_TOOBIG, "found %zu containers, expected at most %d", n,
			POD_CONTAINERS_MAX);
		return err_in(err, "spec/containers");
	}
	p.containers = arena_array(a, n, sizeof(*p.containers));
	if (!p.containers)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (add_containers(&p, inits, "initContainers", true, a, err) < 0 ||
		add_containers(&p, apps, "containers", false, a, err) < 0)
		return err->code;
	*ret = p;
	return 0;
}

struct slice pod_annotation(const struct pod *p, const char *key, struct arena *a)
{
	return json_str(p->j, json_get(p->j, p->annotations, slice_of(key)), a);
}

const struct json_node *pod_pull_secrets(const struct pod *p)
{
	return member(p->j, p->spec, "imagePullSecrets", JSON_ARRAY);
}

bool pod_pulls_with(const struct pod *p, struct slice secret)
{
	size_t at;

	return json_find(p->j, pod_pull_secrets(p), "name", secret, false, &at) != NULL;
}

const struct json_node *pod_controller(const struct pod *p)
{
	JSON_EACH(p->j, json_path(p->j, p->root, "metadata", "ownerReferences", NULL), owner)
	{
		if (json_is(json_get(p->j, owner, SLICE("controller")), JSON_TRUE))
			return owner;
	}
	return NULL;
}

enum pod_switch pod_switch_of(const struct pod *p, struct arena *a)
{
	static const char *const full[] = {"all", "on", "true", "y", "yes"};
	struct slice v = pod_annotation(p, ANN_SWITCH, a);

	if (!v.at)
		return SWITCH_OFF;
	for (size_t i = 0; i < sizeof(full) / sizeof(full[0]); i++)
		if (text_ieq(v, slice_of(full[i])))
			return SWITCH_FULL;
	return text_ieq(v, SLICE("injection")) ? SWITCH_INJECTION : SWITCH_OFF;
}

bool pod_is_exempt(const struct pod *p, struct slice namespace)
{
	return slice_is(namespace, "kube-system") || slice_is(namespace, "kube-public") ||
	       json_get(p->j, p->annotations, SLICE("kubernetes.io/config.mirror")) != NULL;
}

bool pod_is_windows(const struct pod *p, const char **ret_path)
{
	const struct json_node *os = json_path(p->j, p->spec, "os", "name", NULL);
	const struct json_node *sel =
		json_path(p->j, p->spec, "nodeSelector", "kubernetes.io/os", NULL);
	bool by_os = json_is_str(p->j, os, SLICE("windows"));

	*ret_path = by_os ? "spec/os" : "spec/nodeSelector/kubernetes.io~1os";
	return by_os || json_is_str(p->j, sel, SLICE("windows"));
}

#define ARCH SLICE("kubernetes.io/arch")

/* Does a term of a node selector leave this architecture in? Its expressions must all hold. */
static bool term_allows(const struct json *j, const struct json_node *term, struct slice arch)
{
	JSON_EACH(j, json_get(j, term, SLICE("matchExpressions")), e)
	{
		const struct json_node *operator= json_get(j, e, SLICE("operator"));
		bool in = json_is_str(j, operator, SLICE("In")), listed = false;

		if (!json_is_str(j, json_get(j, e, SLICE("key")), ARCH) ||
			(!in && !json_is_str(j, operator, SLICE("NotIn"))))
			continue;
		JSON_EACH(j, json_get(j, e, SLICE("values")), v)
		listed |= json_is_str(j, v, arch);
		if (listed != in)
			return false;
	}
	return true;
}

bool pod_allows_arch(const struct pod *p, struct slice arch, const char **ret_path)
{
	const struct json_node *sel = json_path(p->j, p->spec, "nodeSelector", NULL);
	const struct json_node *own = json_get(p->j, sel, ARCH);
	const struct json_node *terms = json_path(p->j, p->spec, "affinity", "nodeAffinity",
		"requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", NULL);
	bool any = !json_is(terms, JSON_ARRAY);
	size_t n = 0;

	*ret_path = "spec/nodeSelector/kubernetes.io~1arch";
	if (own && !json_is_str(p->j, own, arch))
		return false;
	*ret_path = "spec/affinity/nodeAffinity";
	JSON_EACH(p->j, terms, term)
	{
		any = any || term_allows(p->j, term, arch);
		n++;
	}
	return any || n == 0;
}

/* A member that is a number of seconds, at most INT32_MAX as in Kubernetes; otherwise where it is
 * none. */
static uint32_t seconds(const struct json *j, const struct json_node *v, uint32_t otherwise)
{
	int64_t n;

	if (!json_is(v, JSON_NUMBER) || !json_int(j, v, &n))
		return otherwise;
	return n < 0 ? 0 : n > INT32_MAX ? INT32_MAX : (uint32_t)n;
}

uint32_t pod_grace(const struct json *j, const struct json_node *object)
{
	uint32_t s = seconds(j, json_path(j, object, "spec", "terminationGracePeriodSeconds", NULL),
		POD_GRACE_S);

	return s ? s : 1;
}

uint32_t pod_delete_grace(const struct json *j, const struct json_node *object)
{
	return seconds(j, json_path(j, object, "metadata", "deletionGracePeriodSeconds", NULL), 0);
}

static bool has_phase(const struct json *j, const struct json_node *object, struct slice phase)
{
	return json_is_str(j, json_path(j, object, "status", "phase", NULL), phase);
}

bool pod_succeeded(const struct json *j, const struct json_node *object)
{
	return has_phase(j, object, SLICE("Succeeded"));
}

bool pod_finished(const struct json *j, const struct json_node *object)
{
	return pod_succeeded(j, object) || has_phase(j, object, SLICE("Failed"));
}

/* A reason of the API's is a word; what is none says nothing. */
static bool put_why(
	const struct json *j, const struct json_node *reason, char ret[static POD_WHY_SIZE])
{
	struct slice s = json_is(reason, JSON_STRING) ? json_inside(j, reason) : (struct slice){0};
	size_t n = s.len < POD_WHY_SIZE ? s.len : POD_WHY_SIZE - 1;

	for (size_t i = 0; i < n; i++)
		if (!text_is_letter(s.at[i]))
			return false;
	if (n == 0)
		return false;
	memcpy(ret, s.at, n);
	ret[n] = '\0';
	return true;
}

static bool container_waits(
	const struct json *j, const struct json_node *statuses, char ret[static POD_WHY_SIZE])
{
	JSON_EACH(j, statuses, c)
	{
		const struct json_node *why = json_path(j, c, "state", "waiting", "reason", NULL);

		/* As any does, for a while; or for another one. */
		if (!json_is_str(j, why, SLICE("ContainerCreating")) &&
			!json_is_str(j, why, SLICE("PodInitializing")) && put_why(j, why, ret))
			return true;
	}
	return false;
}

void pod_waits(const struct json *j, const struct json_node *object, char ret[static POD_WHY_SIZE])
{
	const struct json_node *status = json_get(j, object, SLICE("status"));

	ret[0] = '\0';
	if (!json_is_str(j, json_get(j, status, SLICE("phase")), SLICE("Pending")) ||
		container_waits(j, json_get(j, status, SLICE("initContainerStatuses")), ret) ||
		container_waits(j, json_get(j, status, SLICE("containerStatuses")), ret))
		return;
	JSON_EACH(j, json_get(j, status, SLICE("conditions")), c)
	if (json_is_str(j, json_get(j, c, SLICE("type")), SLICE("PodScheduled")) &&
		json_is_str(j, json_get(j, c, SLICE("status")), SLICE("False")) &&
		put_why(j, json_get(j, c, SLICE("reason")), ret))
		return;
	memcpy(ret, "Pending", sizeof("Pending"));
}

#define IPS_MAX 2

static void put_ip(
	const struct json *j, const struct json_node *ip, struct slice ret[IPS_MAX], size_t *n)
{
	struct slice s = json_is(ip, JSON_STRING) ? json_inside(j, ip) : (struct slice){0};
	unsigned char at[16];

	if (*n < IPS_MAX && text_ip(s, at))
		ret[(*n)++] = s;
}

void pod_ips(const struct json *j, const struct json_node *object, char ret[static POD_IPS_SIZE])
{
	const struct json_node *status = json_get(j, object, SLICE("status"));
	struct slice ip[IPS_MAX] = {SLICE(""), SLICE("")};
	size_t n = 0;

	ret[0] = '\0';
	if (json_is(json_path(j, object, "spec", "hostNetwork", NULL), JSON_TRUE))
		return;
	JSON_EACH(j, json_get(j, status, SLICE("podIPs")), one)
	put_ip(j, json_get(j, one, SLICE("ip")), ip, &n);
	if (n == 0)
		put_ip(j, json_get(j, status, SLICE("podIP")), ip, &n);
	(void)snprintf(ret, POD_IPS_SIZE, "%.*s%s%.*s", (int)ip[0].len, ip[0].at, n > 1 ? "," : "",
		(int)ip[1].len, ip[1].at);
}

const struct pod_container *pod_container(const struct pod *p, struct slice name)
{
	for (size_t i = 0; i < p->n_containers; i++)
		if (slice_eq(p->containers[i].name, name))
			return &p->containers[i];
	return NULL;
}
