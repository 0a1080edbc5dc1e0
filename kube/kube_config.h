/* SPDX-License-Identifier: Apache-2.0 */
/* kube: where the Kubernetes API is and who we are there: a pod's service account, or a kubeconfig
 * file. */
#ifndef KUBE_KUBE_CONFIG_H
#define KUBE_KUBE_CONFIG_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

/* Where a pod finds its service account. */
#define KUBE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* Strings live in the arena. */
struct kube_config {
	struct arena arena;
	const char *server;               /* "https://10.96.0.1:443", without a slash at its end */
	const char *ca_file;              /* PEM; NULL: the system's CAs */
	bool insecure;                    /* the file says to believe whoever answers */
	const char *cert_file, *key_file; /* client certificate; NULL: none */
	const char *token_file; /* read before each call, since kubelets renew it; NULL: none */
	const char *token;      /* when there is no token_file; NULL: none */
	const char *namespace;  /* ours; NULL when nobody says */
	/* Files in memory that hold what a kubeconfig has inline: closed on release. -1: none. */
	int ca_fd, cert_fd, key_fd;
};

/* As a pod: host and port out of KUBERNETES_SERVICE_HOST and _PORT as given (NULL: ERR_INVALID,
 * with what to do), the rest out of dir (KUBE_ACCOUNT_DIR). ERR_NOTFOUND, ERR_IO, ERR_NOMEM. ret is
 * inited here; release it in every case. */
int kube_config_in_cluster(const char *host, const char *port, const char *dir,
	struct kube_config *ret, struct err *err);

/* From a kubeconfig file: its current context; clusters' server, certificate-authority(-data),
 * users' token, tokenFile, client-certificate(-data), client-key(-data). Relative paths are
 * relative to the file. What we cannot do (exec, auth-provider, username, proxy-url) is refused by
 * name. ERR_INVALID, ERR_SYNTAX, ERR_NOTFOUND, ERR_IO, ERR_NOMEM with file, line and path. ret is
 * inited here; release it in every case. */
int kube_config_load(const char *path, struct kube_config *ret, struct err *err);

/* For programs that keep running: 0, or ERR_INVALID when the file says insecure-skip-tls-verify. A
 * person's own call may say so. */
int kube_config_verifies(const struct kube_config *c, struct err *err);

/* Close its files, free the rest. */
void kube_config_release(struct kube_config *c);

/* The token to present now, into ret, which is inited here and released by the caller in every
 * case. "" when there is none. ERR_IO, ERR_NOTFOUND, ERR_NOMEM. */
int kube_config_token(const struct kube_config *c, struct buf *ret, struct err *err);

#endif
