/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what gpuprobe-serve is made of, and what it looks at. */
#ifndef PROBE_SERVE_SERVE_WATCH_H
#define PROBE_SERVE_SERVE_WATCH_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "probe/result/thresholds.h"
#include "probe/serve/serve_options.h"
#include "probe/serve/serve_routes.h"

struct serving {
	struct serve_options options;
	struct thresholds thresholds;
	struct serve_shared shared; /* what handlers see, too */
	struct tls_identity *identity;
	struct tls_trust *clients; /* NULL: no certificate is asked for */
	struct http_server *server;
	struct log log;
	struct log_pipe log_pipe;
	const char *root;
	char program[4096]; /* gpuprobe: what workers are made of */
	sigset_t signals;
	int stop_fd; /* for the verifier: readable when it is to end */
	int term_fd; /* for looks: readable while SIGTERM or SIGINT waits */
	pthread_t verifier;
	bool verifying;       /* the thread exists */
	atomic_bool verified; /* and has done its work */
	atomic_bool open;     /* some GPUs were busy, so nothing was found out of them */
	double next_look, next_list, next_verify, next_certificate;
};

/* One look of NVML, in a process of its own. Not answered: nothing changes but shared.nvml. Blocks
 * for seconds at most, or until term_fd is readable. */
void serve_look(struct serving *s);

/* The list of GPUs by CUDA; with their free memory where NVML does not tell it. Blocks as
 * serve_look(). */
void serve_list(struct serving *s);

/* Verify idle GPUs in a thread of its own, since a hung GPU takes its time, and the others are
 * looked at meanwhile. Nothing while one runs. */
void serve_verify(struct serving *s);

/* Wait for that thread, if there is one; a readable stop_fd ends it early. */
void serve_join(struct serving *s);

#endif
