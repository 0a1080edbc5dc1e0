/* SPDX-License-Identifier: Apache-2.0 */
/* gate: how one remote-GPU server is started, read from a document of the operator, and the words
 * of one claim's process. Pure but for the account's name, which is looked up by whoever starts it.
 *
 *     apiVersion: poolgate.io/v1alpha1
 *     kind: ServerProfile
 *     metadata: {name: lupine}
 *     spec:
 *       mode: address
 *       session: {header: x-lupine-session}
 *       argv: [/opt/lupine/bin/server]
 *       env: {LUPINE_PORT: "{port}"}
 *       port: 14833
 *       socket: own
 *       user: lupine
 *       readiness: 30s
 *       linger: 5m
 *       grace: 1s
 *       usage: {context: 600Mi, margin: 5, overShare: tell, accounts: [nvidia-mps]}
 *       mps: {control: /usr/bin/nvidia-cuda-mps-control, pipeDirectory: /tmp/nvidia-mps}
 */
#ifndef GATE_SERVER_PROFILE_H
#define GATE_SERVER_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "gate/usage.h"

#define SERVER_PROFILE_KIND "ServerProfile"
#define SERVER_PROFILE_WORDS_MAX 256
#define SERVER_PROFILE_READINESS_MS 30000
/* What a server has between TERM and KILL: with what it takes to see a claim's end and to sweep,
 * two seconds in all. */
#define SERVER_PROFILE_GRACE_MS 1000
#define SERVER_PROFILE_GRACE_MAX_MS 1500
/* What an empty context takes of the GPUs that were asked in 2026, at most, and what is forgiven
 * beside it. */
#define SERVER_PROFILE_CONTEXT_BYTES (UINT64_C(600) << 20)
#define SERVER_PROFILE_MARGIN_PERCENT 5
#define SERVER_PROFILE_ACCOUNTS_MAX 16

struct server_profile_env {
	const char *name;
	struct slice value; /* a template */
};

/* Strings live in the arena that it was read into. */
struct server_profile {
	const char *name;
	enum gate_mode mode;      /* by what pods are known */
	const char *session;      /* the header in which a pod's uid must come, too; NULL: none */
	const struct slice *argv; /* templates */
	size_t n_argv;
	const struct server_profile_env *env;
	size_t n_env;
	uint16_t port;
	bool inherits;    /* its listening socket, by systemd's protocol, instead of opening one */
	const char *user; /* an account, or FIRST-LAST; NULL: whom gpugate itself runs as */
	int64_t readiness_ms;
	int64_t linger_ms; /* without a connection; -1: until its claim ends */
	int64_t grace_ms;
	struct usage_rules usage;
	bool says_context;       /* usage.context_bytes is the operator's word, not ours */
	bool ends_over;          /* who has more than its share is ended, not only told of */
	const char *mps_control; /* MPS's control program, which ends its clients; NULL: no MPS */
	const char *mps_pipe;    /* the folder by which it finds its daemon; NULL: the usual one */
	struct slice *accounts;  /* whose processes may compute without a claim */
	size_t n_accounts;
	uint64_t hash; /* of the document: a process of another one is not kept */
};

/* Read a document: YAML or JSON; file is for messages. ERR_INVALID, ERR_SYNTAX, ERR_TOOBIG,
 * ERR_REFUSED with file, line, path, what was found and what is accepted; ERR_NOMEM. */
int server_profile_read(const char *file, struct slice text, struct arena *a,
	struct server_profile *ret, struct err *err);

/* Where one claim's process is. */
struct server_profile_place {
	const struct picture_claim *claim;
	const char *address, *claim_dir;
};

/* Its argv and its environment, both ended by a NULL: that of the profile, and
 * CUDA_VISIBLE_DEVICES, HOME and PATH where the profile does not set them. ERR_INVALID: a GPU of
 * the claim is not known by a UUID; ERR_NOMEM. */
int server_profile_words(const struct server_profile *p, const struct server_profile_place *at,
	struct arena *a, char ***ret_argv, char ***ret_env, struct err *err);

#endif
