/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the command line of `gpuprobe serve`. */
#ifndef PROBE_SERVE_SERVE_OPTIONS_H
#define PROBE_SERVE_SERVE_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "net/tls_trust.h"
#include "probe/result/options.h"

/* Texts point into argv. */
struct serve_options {
	const char *listen;   /* ":9443" */
	const char *tls_cert; /* NULL: plain HTTP, which only a loopback address may have */
	const char *tls_key;
	const char *token_file;                        /* NULL: no token is asked for */
	const char *client_ca;                         /* NULL: no certificate is asked for */
	const char *client_names[TLS_TRUST_NAMES_MAX]; /* none: whomever the CA signed for */
	size_t n_client_names;
	const char *server; /* its name; NULL: the host's */
	double look_every_s, list_every_s, verify_every_s, stale_after_s;
	struct probe_options verify; /* of the verify that runs in between */
	char **rest;                 /* the words that were for verify; owned */
};

/* Read the command line, argv[0] being "serve". ERR_INVALID: what was found, and what would be
 * accepted; ERR_NOMEM. */
int serve_options_read(int argc, char **argv, struct serve_options *ret, struct err *err);
void serve_options_release(struct serve_options *o);

void serve_options_help(FILE *out);

#endif
