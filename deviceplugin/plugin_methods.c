/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: what the kubelet asks, read and answered: pluginregistration.Registration, by
 * which it learns who is there and says whether it wants it, and v1beta1.DevicePlugin. */
#include <registration.pb-c.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/text.h"
#include "deviceplugin/plugin_impl.h"

/* ---- calls ---- */

/* One call: what is read lives in its arena, which bounds what a stranger's bytes can become. */
struct plugin_call {
	struct arena arena;
	ProtobufCAllocator allocator;
	uint8_t *seen; /* a bit for each device that was named; NULL: none yet */
};

/* A request of GRPC_REQUEST_MAX bytes with the ids of PLUGIN_UNITS_MAX devices, twice, takes less
 * when it is read. */
#define READ_MAX (24u * 1024 * 1024)

static void *take(void *ctx, size_t size)
{
	return arena_alloc(ctx, size);
}

/* The arena goes as a whole. */
static void give_back(void *ctx, void *at)
{
	(void)ctx;
	(void)at;
}

static void plugin_call_init(struct plugin_call *c)
{
	*c = (struct plugin_call){.allocator = {take, give_back, &c->arena}};
	arena_init_small(&c->arena, READ_MAX, 4096);
}

/* Forget what was read; returns the status. */
static enum grpc_status plugin_call_end(struct plugin_call *c, enum grpc_status status)
{
	free(c->seen);
	arena_release(&c->arena);
	return status;
}

/* GRPC_RESOURCE_EXHAUSTED, and err says it. */
static enum grpc_status plugin_no_memory(struct err *err)
{
	err_set(err, ERR_NOMEM, "out of memory");
	return GRPC_RESOURCE_EXHAUSTED;
}

/* The request as a message of that type, which lives until the call's end. NULL: *ret_status and
 * err say why: GRPC_INVALID_ARGUMENT, GRPC_RESOURCE_EXHAUSTED. */
static void *plugin_call_unpack(struct plugin_call *c, const ProtobufCMessageDescriptor *type,
	struct slice request, enum grpc_status *ret_status, struct err *err)
{
	static const uint8_t nothing[1];
	void *m = protobuf_c_message_unpack(type, &c->allocator, request.len,
		request.len ? (const uint8_t *)request.at : nothing);

	if (m)
		return m;
	*ret_status = GRPC_INVALID_ARGUMENT;
	if (c->arena.failed)
		*ret_status = plugin_no_memory(err);
	else
		err_set(err, ERR_SYNTAX, "the request is no %s", type->name);
	return NULL;
}

/* Append a message to the reply. GRPC_RESOURCE_EXHAUSTED. */
static enum grpc_status plugin_call_pack(
	const ProtobufCMessage *m, struct buf *reply, struct err *err)
{
	size_t n = protobuf_c_message_get_packed_size(m);

	if (!buf_reserve(reply, n + 1))
		return plugin_no_memory(err);
	reply->len += protobuf_c_message_pack(m, (uint8_t *)reply->data + reply->len);
	reply->data[reply->len] = '\0';
	return GRPC_OK;
}

/* ---- registration with the kubelet ---- */

/* Of the kubelet's words in a log line. */
#define WORDS_MAX 512

static enum grpc_status plugin_get_info(
	void *ctx, struct slice request, struct buf *reply, struct err *err)
{
	static char type[] = "DevicePlugin", name[] = PLUGIN_RESOURCE, version[] = "v1beta1";
	char *versions[] = {version};
	Pluginregistration__PluginInfo info;
	struct plugin *p = ctx;
	enum grpc_status status = GRPC_OK;
	struct plugin_call c;

	pluginregistration__plugin_info__init(&info);
	info.type = type;
	info.name = name;
	info.endpoint = p->socket;
	info.supported_versions = versions;
	info.n_supported_versions = 1;
	plugin_call_init(&c);
	if (plugin_call_unpack(
		    &c, &pluginregistration__info_request__descriptor, request, &status, err))
		status = plugin_call_pack((const ProtobufCMessage *)&info, reply, err);
	return plugin_call_end(&c, status);
}

/* Methods of pluginregistration.Registration: GetInfo, NotifyRegistrationStatus. */
static enum grpc_status plugin_notify(
	void *ctx, struct slice request, struct buf *reply, struct err *err)
{
	Pluginregistration__RegistrationStatusResponse answer =
		PLUGINREGISTRATION__REGISTRATION_STATUS_RESPONSE__INIT;
	const Pluginregistration__RegistrationStatus *r;
	enum grpc_status status = GRPC_OK;
	struct plugin *p = ctx;
	struct plugin_call c;

	plugin_call_init(&c);
	r = plugin_call_unpack(
		&c, &pluginregistration__registration_status__descriptor, request, &status, err);
	if (r) {
		struct slice words = {(const char *)r->error.data, r->error.len};

		words.len = text_utf8_cut(words, WORDS_MAX);
		p->counts.registered = r->plugin_registered;
		if (r->plugin_registered)
			log_line(p->log, LOG_LEVEL_INFO, "registered",
				log_str("resource", PLUGIN_RESOURCE));
		else
			log_line(p->log, LOG_LEVEL_ERROR, "the kubelet refuses this plugin",
				log_str("socket", p->socket), log_slice("error", words));
		p->counts.refused += !r->plugin_registered;
		status = plugin_call_pack((const ProtobufCMessage *)&answer, reply, err);
	}
	return plugin_call_end(&c, status);
}

/* ---- devices in requests ---- */

/* Each id names a device of ours, none twice since the last clear. */
static enum grpc_status check_ids(struct plugin_call *c, const struct plugin *p,
	const ProtobufCBinaryData *ids, size_t n, struct err *err)
{
	uint32_t device;

	if (!c->seen && !(c->seen = calloc(p->units / 8 + 1, 1)))
		return plugin_no_memory(err);
	for (size_t i = 0; i < n; i++) {
		struct slice id = {(const char *)ids[i].data, ids[i].len};

		if (!device_of(id, p->units, &device)) {
			err_set(err, ERR_INVALID, "no device of ours: \"%.*s\"",
				(int)text_utf8_cut(id, 64), id.at ? id.at : "");
			return GRPC_INVALID_ARGUMENT;
		}
		if (c->seen[device / 8] & 1u << device % 8) {
			err_set(err, ERR_INVALID, "a device is named twice: u%u", (unsigned)device);
			return GRPC_INVALID_ARGUMENT;
		}
		c->seen[device / 8] |= (uint8_t)(1u << device % 8);
	}
	return GRPC_OK;
}

static enum grpc_status check_containers(size_t n, struct err *err)
{
	if (n > 0 && n <= PLUGIN_CONTAINERS_MAX)
		return GRPC_OK;
	err_set(err, ERR_INVALID, "expected 1 to %u containers, found %zu", PLUGIN_CONTAINERS_MAX,
		n);
	return GRPC_INVALID_ARGUMENT;
}

static enum grpc_status no_devices(struct err *err)
{
	err_set(err, ERR_INVALID, "a container that asks for no device");
	return GRPC_INVALID_ARGUMENT;
}

/* ---- v1beta1.DevicePlugin ---- */

static enum grpc_status get_options(
	void *ctx, struct slice request, struct buf *reply, struct err *err)
{
	/* Neither: any device is as good as another, and nothing has to be made ready. */
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
	enum grpc_status status = GRPC_OK;
	struct plugin_call c;

	(void)ctx;
	plugin_call_init(&c);
	if (plugin_call_unpack(&c, &v1beta1__empty__descriptor, request, &status, err))
		status = plugin_call_pack((const ProtobufCMessage *)&options, reply, err);
	return plugin_call_end(&c, status);
}

static enum grpc_status answer_allocate(struct plugin *p, struct plugin_call *c,
	const V1beta1__AllocateRequest *r, struct buf *reply, struct err *err)
{
	V1beta1__AllocateResponse answer = V1BETA1__ALLOCATE_RESPONSE__INIT;
	enum grpc_status status = check_containers(r->n_container_requests, err);

	for (size_t i = 0; i < r->n_container_requests && status == GRPC_OK; i++) {
		const V1beta1__ContainerAllocateRequest *one = r->container_requests[i];

		status = one->n_devices_ids
				 ? check_ids(c, p, one->devices_ids, one->n_devices_ids, err)
				 : no_devices(err);
	}
	if (status != GRPC_OK)
		return status;
	answer.n_container_responses = r->n_container_requests;
	answer.container_responses = arena_array(
		&c->arena, r->n_container_requests, sizeof(V1beta1__ContainerAllocateResponse *));
	if (!answer.container_responses)
		return plugin_no_memory(err);
	for (size_t i = 0; i < r->n_container_requests; i++)
		answer.container_responses[i] = &p->gives;
	status = plugin_call_pack((const ProtobufCMessage *)&answer, reply, err);
	if (status == GRPC_OK)
		p->counts.allocated += r->n_container_requests;
	return status;
}

static enum grpc_status allocate(
	void *ctx, struct slice request, struct buf *reply, struct err *err)
{
	enum grpc_status status = GRPC_OK;
	const V1beta1__AllocateRequest *r;
	struct plugin_call c;

	plugin_call_init(&c);
	r = plugin_call_unpack(&c, &v1beta1__allocate_request__descriptor, request, &status, err);
	if (r)
		status = answer_allocate(ctx, &c, r, reply, err);
	return plugin_call_end(&c, status);
}

static enum grpc_status pre_start(
	void *ctx, struct slice request, struct buf *reply, struct err *err)
{
	V1beta1__PreStartContainerResponse answer = V1BETA1__PRE_START_CONTAINER_RESPONSE__INIT;
	const V1beta1__PreStartContainerRequest *r;
	enum grpc_status status = GRPC_OK;
	struct plugin_call c;

	plugin_call_init(&c);
	r = plugin_call_unpack(
		&c, &v1beta1__pre_start_container_request__descriptor, request, &status, err);
	if (r)
		status = r->n_devices_ids
				 ? check_ids(&c, ctx, r->devices_ids, r->n_devices_ids, err)
				 : no_devices(err);
	if (status == GRPC_OK)
		status = plugin_call_pack((const ProtobufCMessage *)&answer, reply, err);
	return plugin_call_end(&c, status);
}

static enum grpc_status list_and_watch(
	void *ctx, struct grpc_stream *stream, struct slice request, struct err *err)
{
	struct plugin *p = ctx;
	enum grpc_status status = GRPC_OK;
	struct buf list;
	struct plugin_call c;

	plugin_call_init(&c);
	(void)plugin_call_unpack(&c, &v1beta1__empty__descriptor, request, &status, err);
	(void)plugin_call_end(&c, status);
	if (status != GRPC_OK)
		return status;
	if (!LIST_ROOM(p->stream, p->n_streams, p->cap_streams))
		return plugin_no_memory(err);
	buf_init(&list, GRPC_MESSAGE_MAX);
	if (plugin_list(p, &list, err) != 0 ||
		grpc_stream_show(stream, buf_as_slice(&list), err) != 0) {
		buf_release(&list);
		return GRPC_RESOURCE_EXHAUSTED;
	}
	buf_release(&list);
	p->stream[p->n_streams++] = stream;
	p->counts.lists++;
	log_line(p->log, LOG_LEVEL_INFO, "the kubelet listens", log_int("devices", p->units),
		log_bool("healthy", p->healthy));
	return GRPC_OK;
}

static void stream_closed(void *ctx, struct grpc_stream *stream)
{
	struct plugin *p = ctx;
	size_t i = 0;

	while (i < p->n_streams && p->stream[i] != stream)
		i++;
	if (i == p->n_streams)
		return;
	p->stream[i] = p->stream[--p->n_streams];
	if (p->n_streams == 0)
		p->counts.registered = false;
	log_line(p->log, p->withdrawn ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
		"the kubelet listens no more", log_int("streams", (int64_t)p->n_streams));
}

const struct grpc_method *plugin_methods(void)
{
	static const struct grpc_method methods[] = {
		{.path = "/pluginregistration.Registration/GetInfo", .call = plugin_get_info},
		{.path = "/pluginregistration.Registration/NotifyRegistrationStatus",
			.call = plugin_notify},
		{.path = "/v1beta1.DevicePlugin/GetDevicePluginOptions", .call = get_options},
		{.path = "/v1beta1.DevicePlugin/ListAndWatch",
			.open = list_and_watch,
			.closed = stream_closed},
		{.path = "/v1beta1.DevicePlugin/Allocate", .call = allocate},
		{.path = "/v1beta1.DevicePlugin/PreStartContainer", .call = pre_start},
		{.path = NULL},
	};

	return methods;
}
