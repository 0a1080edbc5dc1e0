/* SPDX-License-Identifier: Apache-2.0 */
/* edge: one GPUServer document: what is accepted, and what is said about the rest. */
#include "webhook/edge/pool/gpu_servers_impl.h"

#include "base/list.h"
#include "base/text.h"
#include "base/yaml/yaml_config.h"
#include "webhook/core/server/server_object.h"

#define LIST_KIND GPU_SERVERS_KIND "List"
/* Less than a megabyte is a number whose unit was forgotten; more than a pebibyte is a slip, too.
 */
#define MEMORY_MIN 1000000
#define MEMORY_MAX ((int64_t)1 << 50)
#define MODEL_MAX 128

static int no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory while reading GPU servers");
}

/* A required string, copied into the loader's arena. */
static int need_str(struct loader *l, const struct yaml_node *map, const char *key,
	struct yaml_node **ret_node, const char **ret, struct err *err)
{
	const char *in_tree;
	int rc = yaml_need(map, key, ret_node, err);

	if (rc == 0)
		rc = yaml_as_cstr(*ret_node, &in_tree, err);
	if (rc != 0)
		return rc;
	*ret = arena_strdup(l->arena, slice_of(in_tree));
	return *ret ? 0 : no_memory(err);
}

/* Letters, digits and what addresses are made of: it goes into containers' environments and argv.
 */
static bool is_host(struct slice s)
{
	bool v6 = s.len > 2 && s.at[0] == '[' && s.at[s.len - 1] == ']';

	if (v6)
		s = (struct slice){s.at + 1, s.len - 2};
	if (s.len == 0 || s.len > 253)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];

		if (!(text_is_alnum(c) || c == '.' || c == '-' ||
			    (v6 ? c == ':' || c == '%' : c == '_')))
			return false;
	}
	return true;
}

/* HOST:PORT, [V6]:PORT */
static bool is_address(const char *s)
{
	const char *colon = strrchr(s, ':');
	uint64_t port;

	return colon && is_host((struct slice){s, (size_t)(colon - s)}) &&
	       text_u64(slice_of(colon + 1), 65535, &port) && port > 0;
}

static int read_labels(
	struct loader *l, const struct yaml_node *metadata, struct gpu_server *s, struct err *err)
{
	struct yaml_node *labels = NULL;
	int rc = yaml_get_map(metadata, "labels", &labels, err);

	if (rc != 0 || !labels)
		return rc;
	s->labels = arena_array(l->arena, labels->count, sizeof(*s->labels));
	if (!s->labels)
		return no_memory(err);
	YAML_MEMBERS(labels, k)
	{
		const char *key, *value;

		rc = yaml_as_cstr(k, &key, err);
		if (rc == 0)
			rc = yaml_as_cstr(k->next, &value, err);
		if (rc != 0)
			return rc;
		s->labels[s->n_labels].key = arena_strdup(l->arena, slice_of(key));
		s->labels[s->n_labels].value = arena_strdup(l->arena, slice_of(value));
		s->n_labels++;
	}
	return l->arena->failed ? no_memory(err) : 0;
}

static int read_memory(const struct yaml_node *gpu, uint64_t *ret, struct err *err)
{
	static const char expected[] =
		"the GPU's memory as a quantity from 1M to 1Pi, such as 16160Mi";
	struct yaml_node *node;
	struct quantity q;
	int rc = yaml_need(gpu, "memory", &node, err);

	if (rc == 0)
		rc = yaml_as_quantity(node, &q, err);
	if (rc != 0)
		return rc;
	if (!quantity_integral(q) || quantity_ceil(q) < MEMORY_MIN || quantity_ceil(q) > MEMORY_MAX)
		return yaml_unexpected(node, err, expected);
	*ret = (uint64_t)quantity_ceil(q);
	return 0;
}

/* What one entry of spec.gpus says; ids come later. */
static int read_gpu(struct loader *l, const struct yaml_node *node, struct gpu *ret, int64_t *count,
	struct err *err)
{
	struct yaml_node *model;
	int rc = yaml_as_map(node, err);

	*ret = (struct gpu){.fit = true, .fresh = true, .why = ""};
	*count = 1;
	if (rc == 0)
		rc = yaml_known(node, err, "model", "memory", "count", NULL);
	if (rc == 0)
		rc = need_str(l, node, "model", &model, &ret->model, err);
	if (rc == 0 && (!*ret->model || strlen(ret->model) > MODEL_MAX))
		rc = yaml_unexpected(model, err,
			"the GPU's model in 1 to 128 bytes, such as Tesla V100-PCIE-16GB");
	if (rc == 0)
		rc = read_memory(node, &ret->bytes, err);
	if (rc == 0)
		rc = yaml_get_int(node, "count", 1, GPU_SERVERS_COUNT_MAX, count, err);
	return rc;
}

static int read_gpus(
	struct loader *l, const struct yaml_node *list, struct gpu_server *s, struct err *err)
{
	struct gpu gpus[GPU_SERVERS_GPUS_MAX];

	if (yaml_as_seq(list, err) != 0)
		return ERR_INVALID;
	if (list->count == 0)
		return yaml_err(list, err, ERR_INVALID,
			"found an empty list, expected at least one {model: …, memory: …}");
	if (list->count > GPU_SERVERS_GPUS_MAX)
		return yaml_err(list, err, ERR_TOOBIG, "found %u entries, accepted are at most %d",
			(unsigned)list->count, GPU_SERVERS_GPUS_MAX);
	YAML_EACH(list, node)
	{
		struct gpu g;
		int64_t count;
		int rc = read_gpu(l, node, &g, &count, err);

		if (rc != 0)
			return rc;
		if (s->n_gpus + (size_t)count > GPU_SERVERS_GPUS_MAX)
			return yaml_err(node, err, ERR_TOOBIG,
				"this makes more than %d GPUs on one server", GPU_SERVERS_GPUS_MAX);
		for (; count > 0; count--) {
			g.id = arena_fmt(l->arena, "gpu-%zu", s->n_gpus);
			gpus[s->n_gpus++] = g;
		}
	}
	s->gpus = arena_copy(l->arena, gpus, s->n_gpus, sizeof(*s->gpus));
	return l->arena->failed ? no_memory(err) : 0;
}

/* Checked as the cluster does, and then of no use here: who writes documents for a cluster may try
 * them in a file. */
static int read_secret_name(const struct yaml_node *probe, const char *key, struct err *err)
{
	struct yaml_node *node = yaml_get(probe, key);
	const char *name;
	int rc = yaml_absent(node) ? 0 : yaml_as_cstr(node, &name, err);

	if (rc == 0 && !yaml_absent(node) && !text_dns_subdomain(slice_of(name)))
		rc = yaml_unexpected(node, err, "the name of a Secret, such as gpu-01-probe");
	return rc;
}

/* What a probe and a gate have in common, but for that a gate has a token always. */
static int read_end(struct loader *l, const struct yaml_node *map, const char *expected,
	bool needs_token, const char **ret_url, struct err *err)
{
	struct yaml_node *url, *token = yaml_get(map, "tokenSecret");
	int rc = read_secret_name(map, "caSecret", err);

	if (rc == 0)
		rc = read_secret_name(map, "tokenSecret", err);
	if (rc == 0)
		rc = need_str(l, map, "url", &url, ret_url, err);
	if (rc == 0 && !server_object_url(*ret_url, false))
		rc = yaml_unexpected(url, err, "%s", expected);
	if (rc == 0 && needs_token)
		rc = yaml_need(map, "tokenSecret", &token, err);
	if (rc == 0 && !yaml_absent(token) && !server_object_url(*ret_url, true))
		rc = yaml_unexpected(url, err,
			"an https URL beside tokenSecret: a token would cross the network in the "
			"clear");
	return rc;
}

static int read_probe(
	struct loader *l, const struct yaml_node *probe, struct gpu_server *s, struct err *err)
{
	int rc = yaml_as_map(probe, err);

	if (rc == 0)
		rc = yaml_known(probe, err, "url", "caSecret", "tokenSecret", "clientSecret", NULL);
	if (rc == 0)
		rc = read_secret_name(probe, "clientSecret", err);
	return rc == 0 ? read_end(l, probe, "the probe's URL, such as https://10.117.32.177:9443",
				 false, &s->probe_url, err)
		       : rc;
}

/* Nobody asks it here, so no server of a file is guarded. */
static int read_gate(
	struct loader *l, const struct yaml_node *spec, struct gpu_server *s, struct err *err)
{
	static const char *const words[] = {"close", "tell"}, *const modes[] = {"token", "address"};
	const struct yaml_node *gate = yaml_get(spec, "gate");
	struct yaml_node *node;
	const char *profile, *url;
	size_t choice = 0, mode = 0;
	int rc;

	if (yaml_absent(gate))
		return 0;
	if ((rc = yaml_as_map(gate, err)) != 0 ||
		(rc = yaml_known(gate, err, "profile", "url", "caSecret", "tokenSecret",
			 "strangers", "mode", NULL)) != 0 ||
		(rc = yaml_get_choice(gate, "strangers", words, 2, &choice, err)) != 0 ||
		(rc = yaml_get_choice(gate, "mode", modes, 2, &mode, err)) != 0 ||
		(rc = need_str(l, gate, "profile", &node, &profile, err)) != 0)
		return rc;
	if (!text_dns_subdomain(slice_of(profile)))
		return yaml_unexpected(
			node, err, "the name of the gate's ServerProfile, such as lupine");
	s->gate_by = mode == 1 ? GATE_BY_ADDRESS : GATE_BY_TOKEN;
	return read_end(
		l, gate, "the gate's URL, such as https://gpu-01.lab:9447", true, &url, err);
}

/* None listed: all may be placed there. */
static int read_launchers(
	struct loader *l, const struct yaml_node *spec, struct gpu_server *s, struct err *err)
{
	const struct yaml_node *list = yaml_get(spec, "launchers");
	struct slice *names;
	size_t n;

	if (yaml_absent(list))
		return 0;
	if (yaml_as_strs(list, &names, &n, err) != 0)
		return err->code;
	if (n == 0 || n > GPU_SERVERS_LAUNCHERS_MAX)
		return yaml_unexpected(list, err, "1 to 64 names of launcher profiles");
	s->launchers = arena_array(l->arena, n, sizeof(*s->launchers));
	for (size_t i = 0; s->launchers && i < n; i++) {
		if (!text_dns_label(names[i]))
			return yaml_unexpected(yaml_at(list, i), err,
				"the name of a launcher profile, such as lupine");
		s->launchers[s->n_launchers++] = arena_strdup(l->arena, names[i]);
	}
	return l->arena->failed ? no_memory(err) : 0;
}

static int read_spec(
	struct loader *l, const struct yaml_node *spec, struct gpu_server *s, struct err *err)
{
	struct yaml_node *node, *gpus = yaml_get(spec, "gpus"), *probe = yaml_get(spec, "probe");
	int rc = yaml_as_map(spec, err);

	if (rc == 0)
		rc = yaml_known(
			spec, err, "address", "gpus", "probe", "drain", "launchers", "gate", NULL);
	if (rc == 0)
		rc = need_str(l, spec, "address", &node, &s->address, err);
	if (rc == 0 && !is_address(s->address))
		rc = yaml_unexpected(node, err,
			"HOST:PORT where launchers find the server, such as 10.117.32.177:56001");
	if (rc == 0)
		rc = yaml_get_bool(spec, "drain", &s->drain, err);
	if (rc == 0)
		rc = read_launchers(l, spec, s, err);
	if (rc == 0)
		rc = read_gate(l, spec, s, err);
	if (rc != 0)
		return rc;
	if (yaml_absent(gpus) == yaml_absent(probe))
		return yaml_err(spec, err, ERR_INVALID,
			"found %s, expected one of gpus (a list of {model, memory, count}) and "
			"probe ({url})",
			yaml_absent(gpus) ? "neither gpus nor probe" : "both gpus and probe");
	return yaml_absent(gpus) ? read_probe(l, probe, s, err) : read_gpus(l, gpus, s, err);
}

/* Room for one more in the list. */
static int grow(struct loader *l, const struct yaml_node *node, struct err *err)
{
	if (l->n == GPU_SERVERS_MAX)
		return yaml_err(
			node, err, ERR_TOOBIG, "this is more than %d GPU servers", GPU_SERVERS_MAX);
	return LIST_ROOM(l->list, l->n, l->cap) ? 0 : no_memory(err);
}

static int read_server(struct loader *l, const struct yaml_node *node, struct err *err)
{
	struct yaml_node *metadata, *name, *spec;
	struct declared d = {.line = node->line};
	int rc = yaml_known(node, err, "apiVersion", "kind", "metadata", "spec", "status", NULL);

	if (rc == 0)
		rc = yaml_need(node, "metadata", &metadata, err);
	if (rc == 0)
		rc = yaml_as_map(metadata, err);
	if (rc == 0)
		rc = need_str(l, metadata, "name", &name, &d.server.name, err);
	if (rc == 0 && !text_dns_subdomain(slice_of(d.server.name)))
		rc = yaml_unexpected(name, err,
			"an object name: at most 253 of a-z, 0-9, '-' and '.', such as gpu-01");
	if (rc == 0)
		rc = read_labels(l, metadata, &d.server, err);
	if (rc == 0)
		rc = yaml_need(node, "spec", &spec, err);
	if (rc == 0)
		rc = read_spec(l, spec, &d.server, err);
	if (rc == 0)
		rc = grow(l, node, err);
	if (rc != 0)
		return rc;
	d.file = arena_strdup(l->arena, slice_of(node->doc->file));
	if (!d.file)
		return no_memory(err);
	if (d.server.probe_url)
		gpu_servers_warn(l, &d,
			"%s holds nothing: without a cluster nobody asks its probe or reads "
			"Secrets for "
			"it; list its GPUs in spec.gpus",
			d.server.name);
	l->list[l->n++] = d;
	return 0;
}

/* An object with apiVersion and kind. in_list: a List inside a List is refused. */
static int read_object(
	struct loader *l, const struct yaml_node *node, bool in_list, struct err *err)
{
	struct yaml_node *version, *kind, *items;
	int rc = yaml_as_map(node, err);
	bool ours, core;

	if (rc == 0)
		rc = yaml_need_as(node, "kind", GPU_SERVERS_KIND, &kind, err);
	if (rc == 0)
		rc = yaml_need_as(node, "apiVersion", GPU_SERVERS_API, &version, err);
	if (rc != 0)
		return rc;
	ours = yaml_is_str(version, GPU_SERVERS_API);
	core = yaml_is_str(version, "v1");
	if (!in_list &&
		((core && yaml_is_str(kind, "List")) || (ours && yaml_is_str(kind, LIST_KIND)))) {
		rc = yaml_need_as(node, "items", "a sequence of GPUServers", &items, err);
		if (rc == 0)
			rc = yaml_as_seq(items, err);
		if (rc != 0)
			return rc;
		YAML_EACH(items, item)
		{
			rc = read_object(l, item, true, err);
			if (rc != 0)
				return rc;
		}
		return 0;
	}
	if (!yaml_is_str(kind, GPU_SERVERS_KIND))
		return yaml_unexpected(kind, err,
			"the kind GPUServer (a pool file holds GPUServers, or a List of them)");
	if (!ours)
		return yaml_unexpected(version, err, "the apiVersion " GPU_SERVERS_API);
	return read_server(l, node, err);
}

int gpu_servers_read(struct loader *l, struct yaml_doc *doc, struct err *err)
{
	return yaml_absent(doc->root) ? 0 : read_object(l, doc->root, false, err);
}
