/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: what the plugin's state and its methods share. */
#ifndef DEVICEPLUGIN_PLUGIN_IMPL_H
#define DEVICEPLUGIN_PLUGIN_IMPL_H

#include <deviceplugin.pb-c.h>
#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "deviceplugin/grpc_server.h"
#include "deviceplugin/plugin.h"

struct plugin {
	char socket[SOCKET_PATH_MAX + 1];
	const struct log *log;
	uint32_t fixed_units; /* 0: by the pool */
	/* What was shown last; changed before it is shown. */
	uint32_t units;
	bool healthy;
	bool owed; /* the streams have not got it, for want of memory */
	/* The pool as it was told last. */
	bool known;
	uint64_t pool_units;
	bool withdrawn;
	bool said; /* the log has a line about it */
	/* What Allocate answers for each container: points into argv. */
	V1beta1__ContainerAllocateResponse gives;
	V1beta1__ContainerAllocateResponse__EnvsEntry *env;
	V1beta1__ContainerAllocateResponse__EnvsEntry **envs;
	V1beta1__Mount *mount;
	V1beta1__Mount **mounts;
	char **words; /* copies that env and mount point into */
	size_t n_words;
	/* Open ListAndWatch calls. */
	struct grpc_stream **stream;
	size_t n_streams, cap_streams;
	struct plugin_facts counts; /* registered, refused, allocated, lists */
};

/* "u17" for device 17. */
#define DEVICE_ID_MAX 12
size_t device_id(uint32_t device, char ret[static DEVICE_ID_MAX]);
/* The device that an id of ours names; false for any other text. */
bool device_of(struct slice id, uint32_t units, uint32_t *ret);

/* The list as a ListAndWatchResponse, appended. ERR_NOMEM, ERR_TOOBIG (out's maximum). */
int plugin_list(const struct plugin *p, struct buf *out, struct err *err);

#endif
