/* SPDX-License-Identifier: Apache-2.0 */
/* core: write the plan into an annotation. plan_read.c reads it back. */
#include "webhook/core/pod/plan.h"

#include "webhook/core/pod/plan_ties.h"

static const char *const command_names[] = {"none", "wrapped", "shell", "own"};

const char *command_mode_name(enum command_mode m)
{
	return command_names[m];
}

struct plan_late plan_late_of(const struct profile *p)
{
	return (struct plan_late){.values = p->values,
		.whole_servers = p->whole_servers,
		.one_server = p->one_server,
		.no_ipv4 = p->no_ipv4,
		.no_ipv6 = p->no_ipv6};
}

bool plan_late_same(const struct plan_late *a, const struct plan_late *b)
{
	return a->values == b->values && a->whole_servers == b->whole_servers &&
	       a->one_server == b->one_server && a->no_ipv4 == b->no_ipv4 &&
	       a->no_ipv6 == b->no_ipv6;
}

static void write_number(struct buf *out, const char *before, uint64_t n)
{
	buf_str(out, before);
	buf_u64(out, n);
}

static void write_list(struct buf *out, const char *key, const struct slice *items, size_t n)
{
	if (n == 0)
		return;
	buf_str(out, ",\"");
	buf_str(out, key);
	buf_str(out, "\":[");
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			buf_char(out, ',');
		buf_json_str(out, items[i]);
	}
	buf_char(out, ']');
}

/* "made": the parents that did not exist before. */
static void write_made(struct buf *out, const char *const *names, const bool *made, size_t n)
{
	const char *sep = ",\"made\":[";

	for (size_t i = 0; i < n; i++) {
		if (!made[i])
			continue;
		buf_str(out, sep);
		buf_char(out, '"');
		buf_str(out, names[i]);
		buf_char(out, '"');
		sep = ",";
	}
	if (sep[1] == '\0')
		buf_char(out, ']');
}

static void write_env(struct buf *out, const struct plan_container *c)
{
	if (c->n_env == 0)
		return;
	buf_str(out, ",\"env\":[");
	for (size_t i = 0; i < c->n_env; i++) {
		buf_str(out, i > 0 ? ",{\"name\":" : "{\"name\":");
		buf_json_str(out, c->env[i].name);
		if (c->env[i].had && c->env[i].was.at) {
			buf_str(out, ",\"was\":\"");
			buf_slice(out, c->env[i].was);
			buf_char(out, '"');
		} else if (c->env[i].had) {
			buf_str(out, ",\"was\":null");
		}
		if (c->env[i].moved.at) {
			buf_str(out, ",\"moved\":");
			buf_json_str(out, c->env[i].moved);
		}
		buf_char(out, '}');
	}
	buf_char(out, ']');
}

static const char *kind_name(enum container_kind k)
{
	static const char *const names[] = {"app", "init", "restartable"};

	return names[k];
}

static void write_container(struct buf *out, const struct plan_container *c)
{
	static const char *const made_names[] = {"limits", "requests", "env", "volumeMounts"};
	const bool made[] = {c->made_limits, c->made_requests, c->made_env, c->made_mounts};

	buf_str(out, "{\"name\":");
	buf_json_str(out, c->name);
	buf_str(out, ",\"kind\":\"");
	buf_str(out, kind_name(c->kind));
	write_number(out, "\",\"amount\":", c->amount);
	if (c->percent)
		write_number(out, ",\"percent\":", c->percent);
	else
		write_number(out, ",\"memoryMB\":", c->memory_mb);
	write_number(out, ",\"units\":", c->units);
	buf_str(out, ",\"command\":\"");
	buf_str(out, command_names[c->command]);
	buf_char(out, '"');
	if (c->argv)
		write_number(out, ",\"argv\":", c->argv);
	if (c->image.at) {
		buf_str(out, ",\"image\":{\"digest\":");
		buf_json_str(out, c->image);
		write_number(out, ",\"words\":", c->image_words);
		buf_char(out, '}');
	}
	if (c->slot)
		write_number(out, ",\"slot\":", c->slot);
	if (c->asked_limits.at) {
		buf_str(out, ",\"askedLimits\":");
		buf_slice(out, c->asked_limits);
	}
	if (c->asked_requests.at) {
		buf_str(out, ",\"askedRequests\":");
		buf_slice(out, c->asked_requests);
	}
	write_env(out, c);
	write_list(out, "mounts", c->mounts, c->n_mounts);
	write_list(out, "kept", c->kept, c->n_kept);
	write_made(out, made_names, made, 4);
	buf_char(out, '}');
}

static void write_servers(struct buf *out, const struct plan *p)
{
	if (p->n_servers == 0)
		return;
	buf_str(out, ",\"servers\":[");
	for (size_t i = 0; i < p->n_servers; i++) {
		buf_str(out, i > 0 ? ",{\"name\":" : "{\"name\":");
		buf_json_str(out, p->servers[i]);
		buf_str(out, ",\"address\":");
		buf_json_str(out, p->addresses[i]);
		buf_char(out, '}');
	}
	buf_char(out, ']');
}

static void write_late(struct buf *out, const struct plan_late *l)
{
	struct slice list[LATE_VALUES];
	size_t n = 0;

	if (!l->values)
		return;
	for (size_t v = 0; v < LATE_VALUES; v++)
		if (l->values & 1u << v)
			list[n++] = slice_of(late_value_name((enum late_value)v));
	buf_str(out, ",\"late\":{\"granularity\":");
	buf_str(out, l->whole_servers ? "\"server\"" : "\"gpu\"");
	if (l->one_server)
		buf_str(out, ",\"oneServer\":true");
	if (l->no_ipv4)
		buf_str(out, ",\"noIPv4\":true");
	if (l->no_ipv6)
		buf_str(out, ",\"noIPv6\":true");
	write_list(out, "values", list, n);
	buf_char(out, '}');
}

static void write_hash(struct buf *out, uint64_t hash)
{
	char digits[16];

	for (size_t i = sizeof(digits); i-- > 0; hash >>= 4)
		digits[i] = "0123456789abcdef"[hash & 15];
	buf_str(out, ",\"hash\":\"");
	buf_add(out, digits, sizeof(digits));
	buf_char(out, '"');
}

static const struct slice gate_keys[] = {
	{ANN_GATE_CA, sizeof(ANN_GATE_CA) - 1}, {ANN_GATE_SERVERS, sizeof(ANN_GATE_SERVERS) - 1}};

void plan_write(const struct plan *p, struct buf *out)
{
	static const char *const made_names[] = {"labels", "initContainers", "volumes",
		"schedulingGates", "annotations", "metadata", "imagePullSecrets"};
	const bool made[] = {p->made_labels, p->made_inits, p->made_volumes, p->made_gates,
		p->made_annotations, p->made_metadata, p->made_pull_secrets};

	write_number(out, "{\"v\":", p->version);
	buf_str(out, ",\"profile\":");
	buf_json_str(out, p->profile);
	write_hash(out, p->hash);
	if (p->os.at) {
		buf_str(out, ",\"client\":{\"os\":");
		buf_json_str(out, p->os);
		buf_str(out, ",\"version\":");
		buf_json_str(out, p->version_of_client);
		buf_char(out, '}');
	}
	buf_str(out, p->full ? ",\"mode\":\"full\"" : ",\"mode\":\"injection\"");
	if (p->total_mb)
		write_number(out, ",\"totalMB\":", p->total_mb);
	if (p->node_resource_off)
		buf_str(out, ",\"nodeResource\":false");
	write_list(out, "filters", p->filters, p->n_filters);
	write_servers(out, p);
	write_late(out, &p->late);
	if (p->gate_port)
		write_number(out, ",\"gate\":", p->gate_port);
	if (p->pull_secret.at) {
		buf_str(out, ",\"pullSecret\":");
		buf_json_str(out, p->pull_secret);
	}
	if (p->by_address)
		buf_str(out, ",\"byAddress\":true");
	if (p->guarded)
		buf_str(out, ",\"guarded\":true");
	if (p->waits)
		buf_str(out, ",\"waits\":true");
	if (p->gang.at) {
		buf_str(out, ",\"gang\":");
		buf_json_str(out, p->gang);
		if (p->gang_size)
			write_number(out, ",\"gangSize\":", p->gang_size);
	}
	buf_str(out, ",\"containers\":[");
	for (size_t i = 0; i < p->n_containers; i++) {
		if (i > 0)
			buf_char(out, ',');
		write_container(out, &p->containers[i]);
	}
	buf_char(out, ']');
	write_list(out, "initContainers", p->inits, p->n_inits);
	write_list(out, "volumes", p->volumes, p->n_volumes);
	write_made(out, made_names, made, 7);
	plan_ties_write(&p->ties, out);
	/* replicas of before take these keys from a proven plan alone */
	if (p->gate_port)
		write_list(out, "keys", gate_keys, 2);
	if (p->status_was.at) {
		buf_str(out, ",\"statusWas\":");
		buf_json_str(out, p->status_was);
	}
	buf_char(out, '}');
}

const struct plan_container *plan_container(const struct plan *p, struct slice name)
{
	for (size_t i = 0; i < p->n_containers; i++)
		if (slice_eq(p->containers[i].name, name))
			return &p->containers[i];
	return NULL;
}

int plan_demand(const struct plan *p, bool whole_servers, struct arena *a, struct demand *ret,
	struct err *err)
{
	struct demand d = {.n_containers = p->n_containers,
		.servers = p->servers,
		.n_servers = p->n_servers,
		.whole_servers = whole_servers || p->late.whole_servers,
		.one_server = p->late.one_server,
		.no_ipv4 = p->late.no_ipv4,
		.no_ipv6 = p->late.no_ipv6,
		.guarded = p->guarded,
		.gate_by = p->gate_port    ? GATE_BY_TOKEN
			   : p->by_address ? GATE_BY_ADDRESS
					   : GATE_BY_ANY,
		.launcher = p->profile};

	d.containers = arena_array(a, p->n_containers, sizeof(*d.containers));
	d.filters = arena_array(a, p->n_filters, sizeof(*d.filters));
	if (!d.containers || !d.filters)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct plan_container *c = &p->containers[i];

		d.containers[i] = (struct demand_container){.name = c->name,
			.kind = c->kind,
			.amount = c->amount,
			.percent = c->percent,
			.memory_mb = c->memory_mb};
	}
	d.n_filters = p->n_filters;
	for (size_t i = 0; i < p->n_filters; i++)
		d.filters[i] = filter_of(p->filters[i]);
	*ret = d;
	return 0;
}
