/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: the list of devices, and who is shown it. */
#include "deviceplugin/plugin.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "deviceplugin/plugin_impl.h"

/* Devices for each unit of the pool: a node may be asked for more than its share, and requests are
 * rounded up. */
#define DEVICES_PER_UNIT 10

size_t device_id(uint32_t device, char ret[static DEVICE_ID_MAX])
{
	char digits[DEVICE_ID_MAX];
	size_t n = 0, len = 0;

	do {
		digits[n++] = (char)('0' + device % 10);
		device /= 10;
	} while (device > 0);
	ret[len++] = 'u';
	while (n > 0)
		ret[len++] = digits[--n];
	ret[len] = '\0';
	return len;
}

bool device_of(struct slice id, uint32_t units, uint32_t *ret)
{
	uint64_t n;

	if (units == 0 || id.len < 2 || id.at[0] != 'u' || (id.at[1] == '0' && id.len > 2) ||
		!text_u64((struct slice){id.at + 1, id.len - 1}, units - 1, &n))
		return false;
	*ret = (uint32_t)n;
	return true;
}

int plugin_list(const struct plugin *p, struct buf *out, struct err *err)
{
	V1beta1__Device device;
	char id[DEVICE_ID_MAX], health[sizeof("Unhealthy")];
	uint8_t packed[64];

	/* One device at a time, each as an element of ListAndWatchResponse's field 1: a tree of 150
	 * 000 would weigh 10 MB. */
	memcpy(health, p->healthy ? "Healthy" : "Unhealthy", p->healthy ? 8 : 10);
	v1beta1__device__init(&device);
	device.id = id;
	device.health = health;
	for (uint32_t i = 0; i < p->units && !out->failed; i++) {
		(void)device_id(i, id);
		size_t n = v1beta1__device__pack(&device, packed);

		buf_char(out, 1 << 3 | 2);
		buf_char(out, (char)n); /* below 128 */
		buf_add(out, packed, n);
	}
	if (out->failed)
		return err_set(err, out->full ? ERR_TOOBIG : ERR_NOMEM,
			"no room for a list of %u devices", (unsigned)p->units);
	return 0;
}

static int show(struct plugin *p, struct err *err)
{
	struct buf list;
	int rc = 0;

	p->owed = false;
	if (p->n_streams == 0)
		return 0;
	buf_init(&list, GRPC_MESSAGE_MAX);
	rc = plugin_list(p, &list, err);
	for (size_t i = 0; i < p->n_streams && rc == 0; i++)
		rc = grpc_stream_show(p->stream[i], buf_as_slice(&list), err);
	p->counts.lists += rc == 0;
	p->owed = rc != 0;
	buf_release(&list);
	return rc;
}

/* ---- what the pool makes of it ---- */

static const char *why_not(const struct plugin *p)
{
	if (p->withdrawn)
		return "the program ends";
	return p->known ? "no GPU of the pool takes claims" : "the pool is not known";
}

static void say(const struct plugin *p)
{
	if (p->healthy)
		log_line(p->log, LOG_LEVEL_INFO, "devices are offered",
			log_int("devices", p->units),
			log_int("pool_units", (int64_t)p->pool_units));
	else
		log_line(p->log, p->withdrawn ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
			"no device is offered", log_int("devices", p->units),
			log_str("reason", why_not(p)));
}

static uint32_t wanted_units(const struct plugin *p)
{
	uint64_t n = PLUGIN_UNITS_MIN;

	if (p->fixed_units)
		return p->fixed_units;
	if (p->known && p->pool_units > PLUGIN_UNITS_MAX / DEVICES_PER_UNIT)
		n = PLUGIN_UNITS_MAX;
	else if (p->known && p->pool_units * DEVICES_PER_UNIT > n)
		n = p->pool_units * DEVICES_PER_UNIT;
	return n > p->units ? (uint32_t)n : p->units;
}

static int update(struct plugin *p, struct err *err)
{
	bool healthy = !p->withdrawn && p->known && p->pool_units > 0;
	uint32_t units = wanted_units(p);

	bool same = healthy == p->healthy && units == p->units;

	if (same && p->said)
		return p->owed ? show(p, err) : 0;
	p->said = true;
	p->healthy = healthy;
	p->units = units;
	say(p);
	return same ? 0 : show(p, err);
}

int plugin_pool(struct plugin *p, bool known, uint64_t pool_units, struct err *err)
{
	p->known = known;
	p->pool_units = pool_units;
	return update(p, err);
}

void plugin_withdraw(struct plugin *p)
{
	struct err err = {0};

	p->withdrawn = true;
	if (update(p, &err) != 0)
		log_line(p->log, LOG_LEVEL_WARN, "the kubelet is not told",
			log_str("error", err.msg));
}

struct plugin_facts plugin_facts(const struct plugin *p)
{
	struct plugin_facts f = p->counts;

	f.units = p->units;
	f.healthy = p->healthy;
	f.streams = p->n_streams;
	return f;
}

/* ---- start and end ---- */

static bool env_name(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];

		if (!(text_is_letter(c) || c == '_' ||
			    (i > 0 && (text_is_digit(c) || c == '.' || c == '-'))))
			return false;
	}
	return s.len > 0;
}

/* A copy that plugin_free frees. */
static char *keep(struct plugin *p, struct slice s)
{
	char *copy = strndup(s.at, s.len);

	if (copy)
		p->words[p->n_words++] = copy;
	return copy;
}

static int no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory for the device plugin");
}

static int add_env(struct plugin *p, const char *text, struct err *err)
{
	const char *eq = strchr(text, '=');
	struct slice name = {text, eq ? (size_t)(eq - text) : 0};
	size_t i = p->gives.n_envs;

	if (!env_name(name) || !text_utf8(slice_of(text)))
		return err_set(err, ERR_INVALID, "an env is NAME=VALUE, found \"%s\"", text);
	protobuf_c_message_init(
		&v1beta1__container_allocate_response__envs_entry__descriptor, &p->env[i]);
	p->env[i].key = keep(p, name);
	p->env[i].value = keep(p, slice_of(eq + 1));
	if (!p->env[i].key || !p->env[i].value)
		return no_memory(err);
	for (size_t k = 0; k < i; k++)
		if (strcmp(p->env[k].key, p->env[i].key) == 0)
			return err_set(
				err, ERR_INVALID, "the env %s is there twice", p->env[i].key);
	p->envs[p->gives.n_envs++] = &p->env[i];
	return 0;
}

/* An absolute path without "..". */
static bool plain_path(struct slice s)
{
	for (size_t i = 0; i + 2 < s.len; i++)
		if (memcmp(s.at + i, "/..", 3) == 0 && (i + 3 == s.len || s.at[i + 3] == '/'))
			return false;
	return s.len > 0 && s.at[0] == '/';
}

static int add_mount(struct plugin *p, const char *text, struct err *err)
{
	const char *colon = strchr(text, ':'), *last = colon ? strchr(colon + 1, ':') : NULL;
	struct slice from = {text, colon ? (size_t)(colon - text) : 0};
	struct slice to = slice_of(colon ? colon + 1 : "");
	size_t i = p->gives.n_mounts;

	if (last)
		to.len = (size_t)(last - to.at);
	if (!plain_path(from) || !plain_path(to) || (last && strcmp(last, ":ro") != 0) ||
		!text_utf8(slice_of(text)))
		return err_set(err, ERR_INVALID,
			"a mount is HOST:CONTAINER or HOST:CONTAINER:ro with absolute paths, found "
			"\"%s\"",
			text);
	v1beta1__mount__init(&p->mount[i]);
	p->mount[i].host_path = keep(p, from);
	p->mount[i].container_path = keep(p, to);
	p->mount[i].read_only = last != NULL;
	if (!p->mount[i].host_path || !p->mount[i].container_path)
		return no_memory(err);
	for (size_t k = 0; k < i; k++)
		if (strcmp(p->mount[k].container_path, p->mount[i].container_path) == 0)
			return err_set(err, ERR_INVALID, "two mounts go to %s",
				p->mount[i].container_path);
	p->mounts[p->gives.n_mounts++] = &p->mount[i];
	return 0;
}

static int take_gives(struct plugin *p, const struct plugin_gives *g, struct err *err)
{
	int rc = 0;

	v1beta1__container_allocate_response__init(&p->gives);
	p->env = calloc(g->n_envs + 1, sizeof(*p->env));
	p->envs = calloc(g->n_envs + 1, sizeof(V1beta1__ContainerAllocateResponse__EnvsEntry *));
	p->mount = calloc(g->n_mounts + 1, sizeof(*p->mount));
	p->mounts = calloc(g->n_mounts + 1, sizeof(V1beta1__Mount *));
	p->words = calloc(2 * (g->n_envs + g->n_mounts) + 1, sizeof(*p->words));
	if (!p->env || !p->envs || !p->mount || !p->mounts || !p->words)
		return no_memory(err);
	for (size_t i = 0; i < g->n_envs && rc == 0; i++)
		rc = add_env(p, g->envs[i], err);
	for (size_t i = 0; i < g->n_mounts && rc == 0; i++)
		rc = add_mount(p, g->mounts[i], err);
	p->gives.envs = p->envs;
	p->gives.mounts = p->mounts;
	if (rc == 0 &&
		v1beta1__container_allocate_response__get_packed_size(&p->gives) > PLUGIN_GIVES_MAX)
		rc = err_set(err, ERR_INVALID, "all envs and mounts together are over %u bytes",
			PLUGIN_GIVES_MAX);
	return rc;
}

int plugin_new(const char *socket, uint32_t units, const struct plugin_gives *gives,
	const struct log *log, struct plugin **ret, struct err *err)
{
	struct plugin *p;
	int rc;

	if (socket[0] != '/' || strlen(socket) > SOCKET_PATH_MAX || !text_utf8(slice_of(socket)))
		return err_set(err, ERR_INVALID,
			"the socket is an absolute path of at most %d bytes, found \"%s\"",
			SOCKET_PATH_MAX, socket);
	if (units > PLUGIN_UNITS_MAX)
		return err_set(err, ERR_INVALID,
			"%u units are more than a kubelet can be told: at most %u", (unsigned)units,
			PLUGIN_UNITS_MAX);
	p = calloc(1, sizeof(*p));
	if (!p)
		return no_memory(err);
	memcpy(p->socket, socket, strlen(socket));
	p->log = log;
	p->fixed_units = units;
	p->units = wanted_units(p);
	rc = take_gives(p, gives, err);
	if (rc != 0) {
		plugin_free(p);
		return rc;
	}
	*ret = p;
	return 0;
}

void plugin_free(struct plugin *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_words; i++)
		free(p->words[i]);
	free(p->words);
	free(p->env);
	free(p->envs);
	free(p->mount);
	free(p->mounts);
	free(p->stream);
	free(p);
}
