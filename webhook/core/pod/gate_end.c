/* SPDX-License-Identifier: Apache-2.0 */
/* core: the pod around its end of a gate. */
#include "webhook/core/pod/gate_end.h"

/* A place of at most so many servers is written. */
#define SERVERS_BYTES_MAX (PROFILE_GATE_SERVERS * 512u)

bool gate_end_key(struct slice key)
{
	return slice_is(key, ANN_GATE_SERVERS) || slice_is(key, ANN_GATE_CA);
}

struct slice gate_end_servers(const struct slice *addresses, size_t n, struct arena *a)
{
	struct slice ret = {0};
	struct buf b;

	buf_init(&b, SERVERS_BYTES_MAX);
	for (size_t i = 0; i < n; i++) {
		buf_str(&b, i ? "," : "");
		buf_slice(&b, addresses[i]);
	}
	if (!b.failed)
		ret = arena_slice(a, b.len ? buf_as_slice(&b) : SLICE(""));
	a->failed = a->failed || b.failed;
	buf_release(&b);
	return ret;
}

/* A TCP port that the container opens, as far as it says so, and that is one of the end's. */
static int check_ports(
	const struct pod *p, const struct pod_container *c, uint16_t port, struct err *err)
{
	size_t i = 0;

	JSON_EACH(p->j, json_get(p->j, c->node, SLICE("ports")), one)
	{
		const struct json_node *protocol = json_get(p->j, one, SLICE("protocol"));
		int64_t n = 0;

		if (json_int(p->j, json_get(p->j, one, SLICE("containerPort")), &n) && n >= port &&
			n < port + PROFILE_GATE_SERVERS &&
			(json_absent(protocol) || json_is_str(p->j, protocol, SLICE("TCP")))) {
			err_set(err, ERR_INVALID,
				"found port %lld, and the ports %u to %u of the pod's own network "
				"are its way to its GPU servers; use another one",
				(long long)n, (unsigned)port,
				(unsigned)port + PROFILE_GATE_SERVERS - 1);
			err_in(err, "ports/%zu/containerPort", i);
			return err_in(err, "%s", c->path + 1);
		}
		i++;
	}
	return 0;
}

int gate_end_network(const struct pod *p, bool by_address, struct err *err)
{
	if (!json_is(json_get(p->j, p->spec, SLICE("hostNetwork")), JSON_TRUE))
		return 0;
	err_set(err, ERR_INVALID, "a pod on its node's network %s; leave hostNetwork out",
		by_address ? "has its node's address, by which the gates of its GPUs let nobody in"
			   : "would open its way to its GPUs to the whole node");
	return err_in(err, "spec/hostNetwork");
}

int gate_end_fits(const struct pod *p, uint16_t port, struct err *err)
{
	if (gate_end_network(p, false, err) < 0)
		return err->code;
	for (size_t i = 0; i < p->n_containers; i++)
		if (check_ports(p, &p->containers[i], port, err) < 0)
			return err->code;
	return 0;
}

static bool brings_key(const struct pod *p, struct arena *a)
{
	JSON_MEMBERS(p->j, p->annotations, k)
	if (gate_end_key(json_str(p->j, k, a)))
		return true;
	return false;
}

int gate_end_check_plain(const struct pod *p, struct arena *a, struct err *err)
{
	if (!brings_key(p, a))
		return a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
	err_set(err, ERR_INVALID,
		"the annotations " ANN_GATE_SERVERS " and " ANN_GATE_CA
		" are written by poolgate; leave them out");
	return err_in(err, "metadata/annotations");
}

static int mismatch(const char *what, struct err *err)
{
	err_reason(
		err, ERR_REFUSED, "PlanMismatch", "%s; create the pod from its own manifest", what);
	return err_in(err, "metadata/annotations");
}

int gate_end_check_create(
	const struct pod *p, const struct plan *plan, struct arena *a, struct err *err)
{
	struct slice servers = pod_annotation(p, ANN_GATE_SERVERS, a), want;

	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (plan->by_address && gate_end_network(p, true, err) < 0)
		return err->code;
	if (!plan->gate_port)
		return brings_key(p, a) ? mismatch("the plan knows of no gate, and annotations "
						   "for its end are there",
						  err)
					: 0;
	if (gate_end_fits(p, plan->gate_port, err) < 0)
		return err->code;
	if (!pod_annotation(p, ANN_GATE_CA, a).at)
		return mismatch("the annotation " ANN_GATE_CA " is missing", err);
	if (plan->late.values)
		return servers.at ? mismatch("the annotation " ANN_GATE_SERVERS
					     " is written by poolgate when it has chosen GPUs, "
					     "and was there before",
					    err)
				  : 0;
	if (plan->n_servers == 0 || plan->n_servers > PROFILE_GATE_SERVERS)
		return mismatch("the plan names no servers, or more than a pod has gates to", err);
	want = gate_end_servers(plan->addresses, plan->n_servers, a);
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	return servers.at && slice_eq(servers, want)
		       ? 0
		       : mismatch("the annotation " ANN_GATE_SERVERS
				  " does not name the servers of the plan",
				 err);
}

int gate_end_check_pull(
	const struct pod *p, const struct plan *plan, struct slice wanted, struct err *err)
{
	const char *what = NULL;

	if (plan->pull_secret.at && !(wanted.at && slice_eq(plan->pull_secret, wanted)))
		what = "the plan adds another image pull secret than the launcher's gate names";
	else if (wanted.at && !pod_pulls_with(p, wanted))
		what = "the image pull secret that the launcher's gate names is missing";
	if (!what)
		return 0;
	err_reason(
		err, ERR_REFUSED, "PlanMismatch", "%s; create the pod from its own manifest", what);
	return err_in(err, "spec/imagePullSecrets");
}
