/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the files of the picture of pods share: the watch, and who asks (pods.c), the table
 * (pods_table.c), and what one state of a pod says (pods_read.c). */
#ifndef WEBHOOK_CLUSTER_CLAIMS_PODS_IMPL_H
#define WEBHOOK_CLUSTER_CLAIMS_PODS_IMPL_H

#include "webhook/cluster/claims/pods.h"

/* What pods_see_waiting was told. */
struct pods_sight {
	bool (*waits)(const struct json *j, const struct json_node *object); /* NULL: none does */
	struct queue_classes classes;
};

/* What one state of a pod says. */
struct pod_told {
	enum pod_seen seen;
	uint64_t plan_hash;
	uint32_t grace_s;
	bool placed, waits;
	bool missed;                 /* there was no memory for what waits */
	struct pod_waiting *waiting; /* becomes the table's */
	char why[POD_WHY_SIZE];
	char ips[POD_IPS_SIZE];
};

/* there: it is shown, not the last state of one that is gone. Out of memory its plan counts as
 * none, what waits of it is NULL, and missed is set. */
struct pod_told pod_told_of(const struct pods_sight *s, const struct json *j,
	const struct json_node *object, bool there);

/* One user less; the last one frees it. NULL-safe. By whoever holds the table's lock, or alone has
 * it. */
void pod_waiting_release(struct pod_waiting *w);

/* ---- pods_table.c ---- */

/* There are as many as claims: members stand by their size. */
struct pods_entry {
	struct pods_entry *next;
	uint64_t plan_hash;
	int64_t since_ms, lost_ms, waits_ms;
	struct pod_waiting *waiting; /* NULL: not for its turn, and no gang wants to know of it */
	char *why;                   /* malloc'ed; NULL: it runs, or has */
	char *ips;                   /* malloc'ed; NULL: it has no address */
	uint32_t hash;               /* of the uid, as much as finds a bucket */
	uint32_t list;               /* number of the list that showed it last */
	uint32_t grace_s;            /* the longest that a delete of it has named (R13) */
	uint16_t namespace_at, name_at, uid_len; /* into text, where the uid stands first */
	uint8_t seen;                            /* enum pod_seen */
	bool ended;                              /* the last that was told of it: it has finished */
	bool waits;                              /* to be told its place */
	bool unplaced;                           /* its delete was told, and it had no node then */
	char text[];
};

/* Has no lock: whoever calls any of these holds that of its pods, or alone has it. */
struct pods_table {
	struct pods_entry **bucket;
	size_t n_buckets; /* a power of two */
	size_t n, n_lost; /* entries; of these, lost ones */
	size_t n_waiting; /* of these, with `waiting` */
	uint32_t list;    /* counts lists */
	bool missed;      /* since the last list was begun one was left out for want of memory */
};

/* Empty. False: out of memory. */
bool pods_table_init(struct pods_table *t);
void pods_table_release(struct pods_table *t);
/* The entry of that uid, or NULL. */
struct pods_entry *pods_table_find(const struct pods_table *t, struct slice uid);
/* This pod is there, and says this; told->waiting becomes the table's. True: what the table shows
 * has changed. Out of memory it is `missed`; one that has waited before, and whose new state could
 * not be read, waits on as it was. */
bool pods_table_put(struct pods_table *t, const struct kube_meta *m, struct pod_told *told);
/* It is gone, and has said this last: from now on it is one that was lost. True as above. */
bool pods_table_remove(struct pods_table *t, struct slice uid, const struct pod_told *last);
/* Whom no put shows between these two has been lost. */
void pods_table_begin_list(struct pods_table *t);
void pods_table_end_list(struct pods_table *t);

#endif
