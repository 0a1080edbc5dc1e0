/* SPDX-License-Identifier: Apache-2.0 */
/* gate: the command lines. */
#ifndef GATE_GATE_OPTIONS_H
#define GATE_GATE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"

#define GATE_LISTEN "0.0.0.0:9446"
#define GATE_STATUS "127.0.0.1:9448"
#define GATE_STATE "/var/lib/gpugate"
#define GATE_TOKEN "/var/run/secrets/gpugate/token"
#define GATE_CA "/etc/gpugate/ca.crt"
/* The pod's first port; the next server's is one higher. */
#define GATE_PORT 14840
/* Of connect and check, where --servers is not given: a kubelet puts no value that comes from an
 * annotation into a probe's command. */
#define GATE_SERVERS_VARIABLE "POOLGATE_SERVERS"
/* Servers of one pod. */
#define GATE_SERVERS_MAX 16
#define GATE_CONNECTIONS_MAX 4096

enum gate_answer { GATE_RUN, GATE_HELP };

/* Texts point into argv. */
struct gate_serve_options {
	enum gate_answer answer;
	struct log *log;
	const char *server; /* our GPUServer's name */
	const char *listen, *status;
	const char *cert, *key;
	const char *profile, *state;
	const char *kubeconfig; /* NULL: the pod's service account */
	int64_t away_ms;
	unsigned tries; /* a minute and peer that may fail; 0: any */
	unsigned connections;
	const char *nvml; /* NULL: the driver's */
	int64_t look_ms;  /* 0: what is used is not looked at */
	const char *tell; /* where poolgate asks over TLS; NULL: nowhere */
	const char *tell_token;
};

struct gate_connect_options {
	enum gate_answer answer;
	struct log *log;
	const char *servers; /* "HOST:PORT,HOST:PORT"; of the environment, too */
	const char *ca, *token;
	const char *name; /* that the gates' certificates are for; NULL: what is dialled */
	uint16_t port;
	unsigned connections;
};

struct gate_gpus_options {
	enum gate_answer answer;
	struct log *log;
	const char *nvml; /* the library; NULL: the driver's */
	int64_t every_ms;
};

/* Read the words behind the subcommand; log gets its format and level. ERR_INVALID: what was found,
 * and what would be accepted. */
int gate_serve_options_read(
	int argc, char **argv, struct gate_serve_options *ret, struct log *log, struct err *err);
int gate_connect_options_read(
	int argc, char **argv, struct gate_connect_options *ret, struct log *log, struct err *err);
int gate_gpus_options_read(
	int argc, char **argv, struct gate_gpus_options *ret, struct log *log, struct err *err);

/* What --help prints, of all subcommands. */
void gate_help(FILE *out);

#endif
