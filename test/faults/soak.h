/* SPDX-License-Identifier: Apache-2.0 */
/* soak: what the load generator's files share. */
#ifndef TEST_FAULTS_SOAK_H
#define TEST_FAULTS_SOAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gnutls/gnutls.h>

/* Stand in the documents for the number of a review and of a pod, twelve digits each. */
#define MARK_REVIEW "5eed0000a001"
#define MARK_POD "5eed0000a002"
#define MARK_LEN 12
#define MARKS_MAX 24
#define REPLY_MAX (256u * 1024)

/* Text with numbers to be put in. */
struct marked {
	char *text; /* NUL behind it */
	size_t len;
	size_t review[MARKS_MAX], pod[MARKS_MAX];
	size_t n_review, n_pod;
	size_t hole; /* of a reply: a GPU's digit, which may be another one; 0: none */
};

/* A request and the answers that are right. */
struct document {
	enum { DOC_EXACT, DOC_CREATE, DOC_DELETE } kind;
	unsigned worker;       /* of create and delete: whose GPUs */
	bool validate;         /* the path */
	unsigned status;       /* HTTP's */
	struct marked request; /* head and body */
	size_t body_at;
	struct marked reply[2];
	unsigned n_replies;
	uint64_t seen[2]; /* relaxed: how often each came */
};

/* Read the documents of a file. NULL: said why on stderr. */
struct document *documents_read(const char *path, size_t *ret_n);

/* Write the numbers into the text. */
void marked_fill(struct marked *m, char *text, uint64_t review, uint64_t pod);

/* One connection. */
struct client {
	gnutls_certificate_credentials_t trust;
	uint16_t port;
	int fd; /* < 0: none */
	gnutls_session_t tls;
	int64_t budget; /* bytes that may still be sent before the wire is cut; < 0: any number */
};

enum answer {
	ANSWERED,
	CUT,   /* by us, as the budget wanted */
	BROKEN /* by the other side, or no answer that can be read */
};

struct reply {
	unsigned status;
	char *body; /* REPLY_MAX bytes of room */
	size_t len;
	const char *why; /* of BROKEN */
};

/* Connect and shake hands, unless that was done. */
enum answer client_open(struct client *c, struct reply *reply);
/* Send and, if read is set, read the whole answer. */
enum answer client_ask(
	struct client *c, const char *text, size_t len, bool read, struct reply *reply);
/* Away at once, with an RST. */
void client_kill(struct client *c);
/* As polite clients go. */
void client_close(struct client *c);

/* How long requests took. */
#define TIMES 2048
size_t times_bucket(uint64_t us);
/* The time within which so many of 10 000 were answered. */
double times_ms(const uint64_t histogram[TIMES], uint64_t of_10000);

#endif
