/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: what the node offers and how it answers the kubelet: the methods of
 * v1beta1.DevicePlugin and of pluginregistration.Registration (k8s.io/kubelet, pkg/apis). Pure but
 * for the streams it shows its list on: no clock, no files. */
#ifndef DEVICEPLUGIN_PLUGIN_H
#define DEVICEPLUGIN_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "deviceplugin/grpc_server.h"

#define PLUGIN_RESOURCE "bitfusion.io/gpu"
/* Of a socket's path: what sun_path takes. */
#define SOCKET_PATH_MAX 107
/* A list must stay below what grpc-go takes (4 MiB): about 180 000 devices with ids of ours. */
#define PLUGIN_UNITS_MAX 150000u
#define PLUGIN_UNITS_MIN 1000u
/* All that Allocate hands to a container, in bytes, and containers in one call: so that an answer
 * stays below that, too. */
#define PLUGIN_GIVES_MAX 32768u
#define PLUGIN_CONTAINERS_MAX 100u

struct plugin;

/* What Allocate hands to a container, each as "NAME=VALUE" or "HOST:CONTAINER[:ro]". Copied.
 * Nothing by default. */
struct plugin_gives {
	const char *const *envs;
	size_t n_envs;
	const char *const *mounts;
	size_t n_mounts;
};

/* socket: the absolute path that the kubelet is told (copied). units: 0 for "by the pool". Until
 * the first plugin_pool no device is healthy. log is borrowed. ERR_INVALID (units over
 * PLUGIN_UNITS_MAX, a path that is relative or too long, an env or a mount that is none, or that is
 * there twice, or too much of them), ERR_NOMEM. */
int plugin_new(const char *socket, uint32_t units, const struct plugin_gives *gives,
	const struct log *log, struct plugin **ret, struct err *err);
/* After the server that calls its methods. NULL-safe. */
void plugin_free(struct plugin *p);

/* For grpc_server_new, with the plugin as ctx. */
const struct grpc_method *plugin_methods(void);

/* The pool as it is now: known false when nobody can say (the API server has been away for too
 * long), pool_units 100 per GPU that takes claims. Devices are healthy exactly when it is known and
 * has units. Their number by the pool is max(PLUGIN_UNITS_MIN, 10 * pool_units), at most
 * PLUGIN_UNITS_MAX, and never less than it was, since pods hold some: it falls back when the
 * program starts anew. A change is shown on all streams and logged in one line; no change costs
 * nothing. ERR_NOMEM: what could not be shown is tried again by the next call. */
int plugin_pool(struct plugin *p, bool known, uint64_t pool_units, struct err *err);

/* All devices are unhealthy from now on, whatever the pool says: the program ends. */
void plugin_withdraw(struct plugin *p);

/* For metrics and health. */
struct plugin_facts {
	uint32_t units;   /* devices in the list */
	bool healthy;     /* they are offered */
	bool registered;  /* the kubelet has said so (NotifyRegistrationStatus), and listened since
			   */
	size_t streams;   /* open ListAndWatch calls: 1 when a kubelet listens */
	uint64_t refused; /* registrations that the kubelet refused */
	uint64_t allocated; /* containers that Allocate answered */
	uint64_t lists;     /* lists that were shown */
};
struct plugin_facts plugin_facts(const struct plugin *p);

#endif
