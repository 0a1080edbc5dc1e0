/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: the command line. */
#ifndef DEVICEPLUGIN_DEVICE_OPTIONS_H
#define DEVICEPLUGIN_DEVICE_OPTIONS_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "deviceplugin/plugin.h"

#define DEVICE_SOCKET "/var/lib/kubelet/plugins_registry/bitfusion.io-gpu.sock"
#define DEVICE_STATUS "127.0.0.1:9447"

enum device_answer { DEVICE_RUN, DEVICE_HELP, DEVICE_VERSION };

/* Texts point into argv. */
struct device_options {
	enum device_answer answer;
	const char *socket;
	uint32_t units; /* 0: by the pool */
	struct plugin_gives gives;
	const char *kubeconfig; /* NULL: the pod's service account */
	const char *status;     /* "ADDR:PORT"; NULL: not served */
	int64_t away_ms;
	const char **envs, **mounts; /* gives points here; owned */
	struct log *log;
};

/* Read the command line; log gets its format and level. ERR_INVALID: what was found, and what would
 * be accepted; ERR_NOMEM. Release it in every case. */
int device_options_read(
	int argc, char **argv, struct device_options *ret, struct log *log, struct err *err);
void device_options_release(struct device_options *o);

void device_options_help(FILE *out);

#endif
