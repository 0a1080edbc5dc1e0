/* SPDX-License-Identifier: Apache-2.0 */
/* core: the GPU servers of the pool as they are known at one moment, and which of their GPUs a
 * pod's filter selects. */
#ifndef WEBHOOK_CORE_POOL_INVENTORY_H
#define WEBHOOK_CORE_POOL_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

/* One physical GPU. Strings are NUL-terminated and live as long as the inventory. */
struct gpu {
	const char *id;     /* unique on its server: "gpu-0", or the UUID that a probe reports */
	const char *parent; /* of a MIG instance: the UUID of its GPU; NULL: it is none, or nobody
			       says */
	const char *model;  /* "Tesla V100-PCIE-16GB" */
	uint64_t bytes;     /* memory that can be promised */
	bool fit;           /* the probe's verdict; a hand-listed GPU is fit */
	bool fresh;         /* the verdict is recent; a hand-listed GPU is always fresh */
	bool missing; /* gone from spec or probe, kept because claims are on it (ledger rule R10) */
	const char *why;  /* why it is unfit or stale; "" when it is neither */
	const char *twin; /* rule R15: which older server has it, in a sentence; NULL: none, or not
			     judged */
};

struct label {
	const char *key;
	const char *value;
};

struct server_words;

/* By what a gate knows pods, and by what a pod's client makes itself known; of some nobody says. */
enum gate_by { GATE_BY_ANY, GATE_BY_TOKEN, GATE_BY_ADDRESS };

/* One GPUServer object. */
struct gpu_server {
	const char *name;
	const char *address;   /* host:port where launchers find it */
	const char *probe_url; /* NULL when its GPUs are listed by hand */
	struct label *labels;
	size_t n_labels;
	const char **launchers; /* names of the launcher profiles that may be placed here */
	size_t n_launchers;     /* 0: all of them */
	struct gpu *gpus;
	size_t n_gpus;
	size_t first_gpu; /* index of gpus[0] among all GPUs of the inventory */
	bool drain;       /* takes no new claims, keeps the old ones */
	bool guarded;     /* a gate in front of it holds claims to their shares, and has told so */
	enum gate_by gate_by;
	int64_t created_ms; /* since 1970; 0: not known */
	const char
		*twin; /* rule R15: the sentence of its first GPU that has one, or of its address */
};

/* Servers sorted by name (bytewise), each name once. Immutable once built; but for who keeps an
 * order beside it: there a server that comes or goes moves no other one, and arrays by server and
 * by GPU have gaps. */
struct inventory {
	struct gpu_server *servers;
	size_t n_servers;
	size_t n_gpus; /* over all servers: the length of every per-GPU array, if there is no order
			*/
	const uint32_t *order; /* indices of servers, by name; NULL: they are sorted themselves */
	const uint32_t *turn;  /* of each index its place in the order */
	size_t places, gpu_places; /* with an order: the lengths of arrays by server and by GPU */
	/* Of each index its kind (server_kinds.h), 0: it has none, and must be asked itself. NULL:
	 * nobody keeps kinds, and filters ask every server. */
	const uint32_t *kind;
	const struct gpu_server *kinds;   /* one of each, from 1 on */
	size_t n_kinds;                   /* the first, which is none, included */
	const struct server_words *words; /* of all that have a kind; with kinds alone */
};

static inline size_t inventory_places(const struct inventory *inv)
{
	return inv->order ? inv->places : inv->n_servers;
}

static inline size_t inventory_gpu_places(const struct inventory *inv)
{
	return inv->order ? inv->gpu_places : inv->n_gpus;
}

/* The index of the server whose name is the i-th, and back. */
static inline size_t inventory_nth(const struct inventory *inv, size_t i)
{
	return inv->order ? inv->order[i] : i;
}

/* Its kind, 0: it must be asked itself. */
static inline uint32_t inventory_kind(const struct inventory *inv, size_t server)
{
	return inv->kind ? inv->kind[server] : 0;
}

/* The server, or one of its kind: with other name, address (but of that family) and labels. */
static inline const struct gpu_server *inventory_seen(const struct inventory *inv, size_t server)
{
	uint32_t kind = inventory_kind(inv, server);

	return kind ? &inv->kinds[kind] : &inv->servers[server];
}

static inline size_t inventory_turn(const struct inventory *inv, size_t server)
{
	return inv->turn ? inv->turn[server] : server;
}

/* Which addresses a HOST:PORT stands for: a name may be one of either family. */
enum address_family { FAMILY_V4 = 1, FAMILY_V6 = 2, FAMILY_EITHER = 3 };
enum address_family inventory_family(const char *address);

/* One token of the annotation bitfusion-client/filter, as written. */
struct filter {
	struct slice token;
	struct slice key;   /* before the first '='; absent when there is none */
	struct slice value; /* behind it */
};

/* Split a token at its first '='. The slices borrow from it. */
static inline struct filter filter_of(struct slice token)
{
	struct filter f = {.token = token};
	const char *eq = token.len ? memchr(token.at, '=', token.len) : NULL;

	if (eq) {
		size_t n = (size_t)(eq - token.at);

		f.key = (struct slice){token.at, n};
		f.value = (struct slice){eq + 1, token.len - n - 1};
	}
	return f;
}

/* Does the pool understand this token: server.name, server.addr, gpu.model, or a key that at least
 * one server carries as a label? Tokens it does not understand concern the launcher alone. */
bool inventory_knows_filter(const struct inventory *inv, const struct filter *f);

/* What this token asks for. */
enum filter_sort { FILTER_NAME, FILTER_ADDRESS, FILTER_MODEL, FILTER_LABEL };
enum filter_sort inventory_filter_sort(const struct filter *f);

/* One token that the pool understands: does it leave this server in (true for gpu.model), and this
 * GPU (true for every other key)? A GPU is selected when all known tokens say yes to both.
 * server.name, server.addr and labels compare exactly; gpu.model names a part of the model, in any
 * case: from the beginning of a word up to the end of a word or to a hyphen. */
bool inventory_server_matches(const struct gpu_server *s, const struct filter *f);
bool inventory_gpu_matches(const struct gpu *g, const struct filter *f);

/* Is any server for some launchers alone? Servers that have no kind beside those that have one are
 * not looked at: each is asked itself. */
bool inventory_is_closed(const struct inventory *inv);
/* May pods of this launcher profile (absent: nobody says which) be placed on the server? */
static inline bool inventory_admits(const struct gpu_server *s, struct slice launcher)
{
	for (size_t i = 0; i < s->n_launchers; i++)
		if (slice_is(launcher, s->launchers[i]))
			return true;
	return s->n_launchers == 0 || !launcher.at;
}

/* Does its gate know pods by something else than this? */
static inline bool inventory_other_gate(const struct gpu_server *s, enum gate_by by)
{
	return s->gate_by && by && s->gate_by != by;
}

/* What the policy of a pod's namespace leaves it of the pool. */
struct pool_bound {
	const char *policy;
	const struct label *servers; /* a server has all of these labels */
	size_t n_servers;
	const char *const *models; /* a GPU's model is one of these, as of the filter gpu.model */
	size_t n_models;           /* 0: all are */
};

/* NULL: there is none. */
bool inventory_server_within(const struct gpu_server *s, const struct pool_bound *b);
bool inventory_gpu_within(const struct gpu *g, const struct pool_bound *b);

/* Can this GPU take a new claim at all: fit, fresh, not missing, its server not draining? Inline:
 * asked for every GPU. */
static inline bool inventory_usable(const struct gpu_server *s, const struct gpu *g)
{
	return !s->drain && g->fit && g->fresh && !g->missing;
}

/* What claims of so many bytes leave of it: nothing where adopted ones are more than it has. */
static inline uint64_t gpu_left(const struct gpu *g, uint64_t claimed)
{
	return claimed < g->bytes ? g->bytes - claimed : 0;
}

/* The server of that name or NULL (binary search). */
const struct gpu_server *inventory_server(const struct inventory *inv, struct slice name);
/* The GPU of that id on the server or NULL. */
const struct gpu *inventory_gpu(const struct gpu_server *s, struct slice id);

/* Rule R15, one machine is one server: set `twin` of every server and GPU. A GPU has one when a
 * server that is older (by created_ms, then by name) has the same GPU: the same UUID, or another
 * MIG instance of it; or has its server's address: host and port, however written. Ids of GPUs that
 * are listed by hand ("gpu-0") tell nothing. Sentences live in `a`. Takes n log n over all GPUs, to
 * be called when servers or GPUs change. *ret_any: there is one. ERR_NOMEM: then not all is set. */
int inventory_find_twins(struct inventory *inv, struct arena *a, bool *ret_any, struct err *err);

/* Call fn with each key that no two servers may have: the server's address in one spelling, and the
 * UUIDs of its GPUs, one of instances that stand side by side. Two servers without a common key are
 * no twins. False: out of memory, not all were told. */
bool inventory_each_mark(
	const struct gpu_server *s, void (*fn)(void *ctx, struct slice key), void *ctx);

/* One server of it, first_gpu as it is. a->failed: out of memory. */
void inventory_copy_server(struct gpu_server *to, const struct gpu_server *from, struct arena *a);

/* A deep copy, strings included, into the arena; first_gpu and n_gpus are counted anew. ERR_NOMEM.
 */
int inventory_copy(
	const struct inventory *inv, struct arena *a, struct inventory *ret, struct err *err);

#endif
