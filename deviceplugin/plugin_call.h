/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: the kubelet's messages, read and written; for the plugin's methods alone. */
#ifndef DEVICEPLUGIN_PLUGIN_CALL_H
#define DEVICEPLUGIN_PLUGIN_CALL_H

#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "deviceplugin/grpc_server.h"

/* One call: what is read lives in its arena, which bounds what a stranger's bytes can become. */
struct plugin_call {
	struct arena arena;
	ProtobufCAllocator allocator;
	uint8_t *seen; /* a bit for each device that was named; NULL: none yet */
};

void plugin_call_init(struct plugin_call *c);
/* Forget what was read; returns the status. */
enum grpc_status plugin_call_end(struct plugin_call *c, enum grpc_status status);

/* The request as a message of that type, which lives until the call's end. NULL: *ret_status and
 * err say why: GRPC_INVALID_ARGUMENT, GRPC_RESOURCE_EXHAUSTED. */
void *plugin_call_unpack(struct plugin_call *c, const ProtobufCMessageDescriptor *type,
	struct slice request, enum grpc_status *ret_status, struct err *err);
/* Append a message to the reply. GRPC_RESOURCE_EXHAUSTED. */
enum grpc_status plugin_call_pack(const ProtobufCMessage *m, struct buf *reply, struct err *err);

/* GRPC_RESOURCE_EXHAUSTED, and err says it. */
enum grpc_status plugin_no_memory(struct err *err);

#endif
