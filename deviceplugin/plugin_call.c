/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: the kubelet's messages, read and written. */
#include "deviceplugin/plugin_call.h"

#include <stdlib.h>

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

void plugin_call_init(struct plugin_call *c)
{
	*c = (struct plugin_call){.allocator = {take, give_back, &c->arena}};
	arena_init_small(&c->arena, READ_MAX, 4096);
}

enum grpc_status plugin_call_end(struct plugin_call *c, enum grpc_status status)
{
	free(c->seen);
	arena_release(&c->arena);
	return status;
}

enum grpc_status plugin_no_memory(struct err *err)
{
	err_set(err, ERR_NOMEM, "out of memory");
	return GRPC_RESOURCE_EXHAUSTED;
}

void *plugin_call_unpack(struct plugin_call *c, const ProtobufCMessageDescriptor *type,
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

enum grpc_status plugin_call_pack(const ProtobufCMessage *m, struct buf *reply, struct err *err)
{
	size_t n = protobuf_c_message_get_packed_size(m);

	if (!buf_reserve(reply, n + 1))
		return plugin_no_memory(err);
	reply->len += protobuf_c_message_pack(m, (uint8_t *)reply->data + reply->len);
	reply->data[reply->len] = '\0';
	return GRPC_OK;
}
