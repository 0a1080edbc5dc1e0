/* SPDX-License-Identifier: Apache-2.0 */
/* core: a GPUServer object is read: its metadata and its spec. The CRD's schema has checked both; what would do harm all the same
 * (types, what goes into paths, addresses and sums) is checked again. */
#include "webhook/core/server_object_impl.h"

#include "base/text.h"

/* As in GPUServer documents that are read from files. */
#define MEMORY_MIN 1000000
#define MEMORY_MAX ((int64_t)1 << 50)
/* 128 characters of up to four bytes */
#define MODEL_MAX 512
#define NAME_MAX_BYTES 253
#define URL_MAX 2048
#define FOUND_MAX 60

static int no_memory(struct server_reader *r)
{
	return err_set(r->err, ERR_NOMEM, "out of memory while reading a GPUServer");
}

int server_bad(
	struct server_reader *r, const struct json_node *v, const char *key, const char *expected)
{
	struct slice raw = json_raw(r->j, v);
	size_t n = raw.at ? text_utf8_cut(raw, FOUND_MAX) : 0;

	err_set(r->err, ERR_INVALID, "found %.*s%s, expected %s", raw.at ? (int)n : 7,
		raw.at ? raw.at : "nothing", n < raw.len ? "…" : "", expected);
	return err_in(r->err, "%s", key);
}

int server_get_str(struct server_reader *r, const struct json_node *obj, const char *key,
	bool required, const char **ret)
{
	const struct json_node *v = json_get(r->j, obj, slice_of(key));
	struct slice s;

	if (json_absent(v) && !required)
		return 0;
	if (!json_is(v, JSON_STRING) || (required && v->len == 2))
		return server_bad(r, v, key, required ? "a string that is not empty" : "a string");
	s = json_str(r->j, v, r->a);
	/* decoded, it is in the arena already, but as a slice */
	s.at = s.at ? arena_strdup(r->a, s) : NULL;
	if (!s.at)
		return no_memory(r);
	*ret = s.at;
	return 0;
}

int server_get_uint(struct server_reader *r, const struct json_node *obj, const char *key,
	bool required, uint64_t *ret)
{
	const struct json_node *v = json_get(r->j, obj, slice_of(key));
	int64_t n;

	if (json_absent(v) && !required)
		return 0;
	if (!json_int(r->j, v, &n) || n < 0)
		return server_bad(r, v, key, "a whole number that is not negative");
	*ret = (uint64_t)n;
	return 0;
}

int server_get_int(
	struct server_reader *r, const struct json_node *obj, const char *key, int64_t *ret)
{
	uint64_t n = (uint64_t)*ret;
	int rc = server_get_uint(r, obj, key, false, &n);

	*ret = (int64_t)n;
	return rc;
}

int server_get_bool(
	struct server_reader *r, const struct json_node *obj, const char *key, bool *ret)
{
	const struct json_node *v = json_get(r->j, obj, slice_of(key));

	if (json_absent(v))
		return 0;
	if (!json_is(v, JSON_TRUE) && !json_is(v, JSON_FALSE))
		return server_bad(r, v, key, "true or false");
	*ret = json_is(v, JSON_TRUE);
	return 0;
}

int server_get_list(struct server_reader *r, const struct json_node *obj, const char *key,
	const struct json_node **ret, size_t *ret_n)
{
	const struct json_node *v = json_get(r->j, obj, slice_of(key));

	*ret = NULL;
	*ret_n = 0;
	if (json_absent(v))
		return 0;
	if (!json_is(v, JSON_ARRAY))
		return server_bad(r, v, key, "a list");
	*ret = v;
	*ret_n = v->count;
	return 0;
}

void *server_room(struct server_reader *r, size_t n, size_t size)
{
	void *room = arena_array(r->a, n, size);

	if (!room)
		no_memory(r);
	return room;
}

/* A DNS-1123 subdomain, which can stand in the path of a request. */
static bool is_object_name(const char *s)
{
	size_t len = strlen(s);

	if (len == 0 || len > NAME_MAX_BYTES)
		return false;
	for (size_t i = 0; i < len; i++) {
		bool alnum = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= '0' && s[i] <= '9');
		bool edge = i == 0 || i + 1 == len || s[i - 1] == '.' || s[i + 1] == '.';

		if (!alnum && (edge || (s[i] != '-' && s[i] != '.')))
			return false;
	}
	return true;
}

/* One word that is safe in an environment, an argv and a URL. */
static bool is_word(const char *s, size_t max)
{
	size_t len = s ? strlen(s) : 0;

	for (size_t i = 0; i < len; i++)
		if (s[i] <= ' ' || s[i] > '~')
			return false;
	return len > 0 && len <= max;
}

/* HOST:PORT as far as it can do harm; the CRD says the rest. */
static bool is_address(const char *s)
{
	return s && is_word(s, URL_MAX) && strchr(s, ':');
}

static int read_name(
	struct server_reader *r, const struct json_node *obj, const char *key, const char **ret)
{
	int rc = server_get_str(r, obj, key, false, ret);

	if (rc == 0 && *ret && !is_object_name(*ret))
		rc = server_bad(r, json_get(r->j, obj, slice_of(key)), key,
			"an object name: at most 253 of a-z, 0-9, '-' and '.'");
	return rc;
}

static int read_labels(
	struct server_reader *r, const struct json_node *metadata, struct server_object *o)
{
	const struct json_node *labels = json_get(r->j, metadata, SLICE("labels"));

	if (json_absent(labels))
		return 0;
	if (!json_is(labels, JSON_OBJECT))
		return server_bad(r, labels, "labels", "an object");
	o->labels = server_room(r, labels->count, sizeof(*o->labels));
	if (!o->labels)
		return ERR_NOMEM;
	JSON_MEMBERS(r->j, labels, k)
	{
		struct label *l = &o->labels[o->n_labels++];

		if (!json_is(json_value(k), JSON_STRING))
			return server_bad(r, json_value(k), "labels", "strings");
		l->key = arena_strdup(r->a, json_str(r->j, k, r->a));
		l->value = arena_strdup(r->a, json_str(r->j, json_value(k), r->a));
	}
	return r->a->failed ? no_memory(r) : 0;
}

static int read_metadata(
	struct server_reader *r, const struct json_node *metadata, struct server_object *o)
{
	const struct json_node *list;
	const char *deleted = NULL;
	size_t n;
	int rc = read_name(r, metadata, "name", &o->name);

	if (rc == 0)
		rc = server_get_str(r, metadata, "name", true, &o->name);
	if (rc == 0)
		rc = server_get_str(r, metadata, "uid", true, &o->uid);
	if (rc == 0)
		rc = server_get_str(r, metadata, "resourceVersion", true, &o->version);
	if (rc == 0)
		rc = server_get_int(r, metadata, "generation", &o->generation);
	if (rc == 0)
		rc = server_get_str(r, metadata, "deletionTimestamp", false, &deleted);
	if (rc == 0)
		rc = server_get_list(r, metadata, "finalizers", &list, &n);
	if (rc != 0)
		return rc;
	o->deleting = deleted != NULL;
	JSON_EACH(r->j, list, v)
	{
		if (!json_is(v, JSON_STRING))
			return server_bad(r, v, "finalizers", "strings");
		o->finalizer = o->finalizer || json_is_str(r->j, v, SLICE(SERVER_FINALIZER));
	}
	return read_labels(r, metadata, o);
}

static int read_memory(struct server_reader *r, const struct json_node *gpu, uint64_t *ret)
{
	const struct json_node *v = json_get(r->j, gpu, SLICE("memory"));
	struct slice s = json_raw(r->j, v);
	struct quantity q;

	/* int-or-string, as quantities are everywhere in Kubernetes */
	if (json_is(v, JSON_STRING))
		s = json_str(r->j, v, r->a);
	if (r->a->failed)
		return no_memory(r);
	if ((!json_is(v, JSON_STRING) && !json_is(v, JSON_NUMBER)) ||
		quantity_parse(s, &q, NULL) != 0 || !quantity_integral(q) ||
		quantity_ceil(q) < MEMORY_MIN || quantity_ceil(q) > MEMORY_MAX)
		return server_bad(r, v, "memory",
			"the GPU's memory as a quantity from 1M to 1Pi, such as 16160Mi");
	*ret = (uint64_t)quantity_ceil(q);
	return 0;
}

static int read_declared(
	struct server_reader *r, const struct json_node *gpu, struct gpu_declared *ret)
{
	uint64_t count = 1;
	int rc = server_get_str(r, gpu, "model", true, &ret->model);

	if (rc == 0 && strlen(ret->model) > MODEL_MAX)
		rc = server_bad(r, json_get(r->j, gpu, SLICE("model")), "model",
			"the GPU's model in 1 to 128 characters, such as Tesla V100-PCIE-16GB");
	if (rc == 0)
		rc = read_memory(r, gpu, &ret->bytes);
	if (rc == 0)
		rc = server_get_uint(r, gpu, "count", false, &count);
	if (rc == 0 && (count == 0 || count > SERVER_GPUS_MAX))
		rc = server_bad(r, json_get(r->j, gpu, SLICE("count")), "count",
			"a whole number from 1 to 256");
	ret->count = (uint32_t)count;
	return rc;
}

static int read_gpus(struct server_reader *r, const struct json_node *spec, struct server_object *o)
{
	const struct json_node *list;
	uint32_t sum = 0;
	size_t n;
	int rc = server_get_list(r, spec, "gpus", &list, &n);

	if (rc != 0)
		return rc;
	if (n == 0 || n > SERVER_GPUS_MAX)
		return server_bad(r, list, "gpus", "1 to 256 of {model, memory, count}");
	o->declared = server_room(r, n, sizeof(*o->declared));
	if (!o->declared)
		return ERR_NOMEM;
	JSON_EACH(r->j, list, gpu)
	{
		size_t i = o->n_declared++;

		if (!json_is(gpu, JSON_OBJECT))
			rc = server_bad(r, gpu, "", "an object {model, memory, count}");
		else
			rc = read_declared(r, gpu, &o->declared[i]);
		if (rc != 0)
			return err_in(r->err, "gpus/%zu", i);
		sum += o->declared[i].count;
	}
	return sum <= SERVER_GPUS_MAX
		       ? 0
		       : server_bad(r, list, "gpus", "at most 256 GPUs on one server");
}

static int read_probe(
	struct server_reader *r, const struct json_node *probe, struct server_object *o)
{
	struct slice url;
	int rc;

	if (!json_is(probe, JSON_OBJECT))
		return server_bad(r, probe, "probe", "an object {url}");
	rc = server_get_str(r, probe, "url", true, &o->probe_url);
	if (rc == 0) {
		url = slice_of(o->probe_url);
		if (!is_word(o->probe_url, URL_MAX) ||
			(!slice_starts(url, SLICE("https://")) &&
				!slice_starts(url, SLICE("http://"))))
			rc = server_bad(r, json_get(r->j, probe, SLICE("url")), "url",
				"the probe's URL, such as https://10.117.32.177:9443");
	}
	if (rc == 0)
		rc = read_name(r, probe, "caSecret", &o->probe_ca_secret);
	if (rc == 0)
		rc = read_name(r, probe, "tokenSecret", &o->probe_token_secret);
	if (rc == 0)
		rc = read_name(r, probe, "clientSecret", &o->probe_client_secret);
	return rc == ERR_INVALID ? err_in(r->err, "probe") : rc;
}

static int read_spec(struct server_reader *r, const struct json_node *spec, struct server_object *o)
{
	const struct json_node *gpus = json_get(r->j, spec, SLICE("gpus"));
	const struct json_node *probe = json_get(r->j, spec, SLICE("probe"));
	int rc = server_get_str(r, spec, "address", true, &o->address);

	if (rc == 0 && !is_address(o->address))
		rc = server_bad(r, json_get(r->j, spec, SLICE("address")), "address",
			"HOST:PORT where launchers find the server, such as 10.117.32.177:56001");
	if (rc == 0)
		rc = server_get_bool(r, spec, "drain", &o->drain);
	if (rc != 0)
		return rc;
	if (json_absent(gpus) == json_absent(probe))
		return err_set(r->err, ERR_INVALID,
			"found %s, expected one of gpus (a list of {model, memory, count}) and "
			"probe ({url})",
			json_absent(gpus) ? "neither gpus nor probe" : "both gpus and probe");
	return json_absent(probe) ? read_gpus(r, spec, o) : read_probe(r, probe, o);
}

int server_object_read(const struct json *j, const struct json_node *object, struct arena *a,
	struct server_object *ret, struct err *err)
{
	struct err own = {0};
	struct server_reader r = {j, a, err ? err : &own};
	struct server_object o = {0};
	const struct json_node *metadata = json_get(j, object, SLICE("metadata"));
	const struct json_node *spec = json_get(j, object, SLICE("spec"));
	int rc;

	if (!json_is_str(j, json_get(j, object, SLICE("kind")), SLICE(SERVER_KIND)) ||
		!json_is_str(j, json_get(j, object, SLICE("apiVersion")), SLICE(SERVER_API)))
		return err_set(r.err, ERR_SYNTAX, "this is no " SERVER_KIND " of " SERVER_API);
	if (!json_is(metadata, JSON_OBJECT))
		return server_bad(&r, metadata, "metadata", "an object");
	if (!json_is(spec, JSON_OBJECT))
		return server_bad(&r, spec, "spec", "an object");
	rc = read_metadata(&r, metadata, &o);
	if (rc != 0)
		return rc == ERR_INVALID ? err_in(r.err, "metadata") : rc;
	rc = read_spec(&r, spec, &o);
	if (rc != 0)
		return rc == ERR_INVALID ? err_in(r.err, "spec") : rc;
	rc = server_status_read(&r, json_get(j, object, SLICE("status")), o.name, &o.status);
	if (rc != 0)
		return rc == ERR_INVALID ? err_in(r.err, "status") : rc;
	*ret = o;
	return 0;
}
