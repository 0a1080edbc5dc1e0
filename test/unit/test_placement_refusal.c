/* SPDX-License-Identifier: Apache-2.0 */
/* test: whole sentences of refusals, word for word: one and many, what is cut, which part stands
 * beside which. */
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"

enum reach { BOTH, ONLY_IPV4, ONLY_IPV6 };

static const struct {
	const char *pool, *demand, *filters;
	bool whole;
	enum reach reach;
	const char *says;
} rows[] = {
	/* addresses that the launcher cannot use */
	{"a at=[fd00::1]:1 t4:8", "app c 1 1%", NULL, false, ONLY_IPV4,
		"asked 1 GPU with 1 %; the launcher cannot use the IPv6 address of 1 server: ask "
		"the operator for an address that it can"},
	{"a at=[fd00::1]:1 t4:8; b at=[fd00::2]:1 t4:8", "app c 1 1%", NULL, false, ONLY_IPV4,
		"asked 1 GPU with 1 %; the launcher cannot use the IPv6 address of 2 servers: ask "
		"the operator for an address that it can"},
	{"a at=10.0.0.1:1 t4:8; b at=[fd00::2]:1 t4:8", "app c 1 1%", "gpu.model=k80", false,
		ONLY_IPV6,
		"asked 1 GPU with 1 % (filter gpu.model=k80); the launcher cannot use the IPv4 "
		"address of 1 server: ask the operator for an address that it can; no GPU of the "
		"pool matches gpu.model=k80 (gpu.model has t4); change the annotation "
		"bitfusion-client/filter"},
	/* who asks: three containers are named, all others are a number */
	{"a t4:8/8", "app a 1 1%", NULL, false, BOTH,
		"asked 1 GPU with 1 %; of 1 GPU that can be used, none has that much free (best: "
		"a/gpu-0 0 of 8 MB); create the pod again when others have ended"},
	{"a t4:8/8", "app a 2 3; init b 1 1%", NULL, false, BOTH,
		"asked 2 GPUs with 3 MB each for a, 1 GPU with 1 % for b; the pool has 1 GPU that "
		"can be used; ask for at most 1"},
	{"a t4:8/8", "app a 1 1%; app b 1 1%; app c 1 1%", NULL, false, BOTH,
		"asked 1 GPU with 1 % for a, 1 GPU with 1 % for b, 1 GPU with 1 % for c; of 1 GPU "
		"that can be used, none has that much free for a beside its pod's other containers "
		"(best: a/gpu-0 0 of 8 MB); create the pod again when others have ended"},
	{"a t4:8/8", "app a 1 1%; app b 1 1%; app c 1 1%; app d 1 1%", NULL, false, BOTH,
		"asked 1 GPU with 1 % for a, 1 GPU with 1 % for b, 1 GPU with 1 % for c and more "
		"for 1 other; of 1 GPU that can be used, none has that much free for a beside its "
		"pod's other containers (best: a/gpu-0 0 of 8 MB); create the pod again when "
		"others have ended"},
	{"a t4:8/8", "app a 1 1%; app b 1 1%; app c 1 1%; app d 1 1%; app e 0 1%; app f 1 1%", NULL,
		false, BOTH,
		"asked 1 GPU with 1 % for a, 1 GPU with 1 % for b, 1 GPU with 1 % for c and more "
		"for 2 others; of 1 GPU that can be used, none has that much free for a beside its "
		"pod's other containers (best: a/gpu-0 0 of 8 MB); create the pod again when "
		"others have ended"},
	{"a t4:8/8",
		"app aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1 1%; app bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb 1 "
		"1%; app c 1 1%",
		NULL, false, BOTH,
		"asked 1 GPU with 1 % for aaaaaaaaaaaaaaaa..., 1 GPU with 1 % for "
		"bbbbbbbbbbbbbbbb... and more for 1 other; of 1 GPU that can be used, none has "
		"that much free for aaaaaaaaaaaaaaaa... beside its pod's other containers (best: "
		"a/gpu-0 0 of 8 MB); create the pod again when others have ended"},
	/* the filter: two tokens stand there, a value with blanks in quotes */
	{"a x=1 y=2 z=3 Tesla_T4:8/8", "app a 1 1%", "gpu.model=\"Tesla T4\"", false, BOTH,
		"asked 1 GPU with 1 % (filter gpu.model=\"Tesla); no GPU of the pool matches "
		"gpu.model=\"Tesla (gpu.model has \"Tesla T4\"); change the annotation "
		"bitfusion-client/filter"},
	{"a x=1 y=2 z=3 t4:8/8", "app a 1 1%", "x=1 y=2", false, BOTH,
		"asked 1 GPU with 1 % (filter x=1 y=2); of 1 GPU that matches, none has that much "
		"free (best: a/gpu-0 0 of 8 MB); create the pod again when others have ended"},
	{"a x=1 y=2 z=3 t4:8/8", "app a 1 1%", "x=1 y=2 z=3", false, BOTH,
		"asked 1 GPU with 1 % (filter x=1 y=2 ...); of 1 GPU that matches, none has that "
		"much free (best: a/gpu-0 0 of 8 MB); create the pod again when others have ended"},
	/* what exists of what was asked for: three values, each once */
	{"a t4:8", "app a 1 1%", "server.addr=x y=1", false, BOTH,
		"asked 1 GPU with 1 % (filter server.addr=x); no GPU of the pool matches "
		"server.addr=x (server.addr has a:56001); change the annotation "
		"bitfusion-client/filter"},
	{"a x=1 t4:8; b x=1 t4:8; c x=2 t4:8; d x=3 t4:8", "app a 1 1%", "x=0 gpu.model=k80", false,
		BOTH,
		"asked 1 GPU with 1 % (filter x=0 gpu.model=k80); no GPU of the pool matches x=0 "
		"(x has 1, 2, 3) nor gpu.model=k80 (gpu.model has t4); change the annotation "
		"bitfusion-client/filter"},
	{"a x=1 t4:8; b x=2 t4:8; c x=3 t4:8; d x=4 t4:8", "app a 1 1%", "x=0", false, BOTH,
		"asked 1 GPU with 1 % (filter x=0); no GPU of the pool matches x=0 (x has 1, 2, 3, "
		"...); change the annotation bitfusion-client/filter"},
	{"a x=1 t4:8; b x=2 k80:8", "app a 1 1%", "x=1 gpu.model=k80", false, BOTH,
		"asked 1 GPU with 1 % (filter x=1 gpu.model=k80); no GPU of the pool matches all "
		"of these together; change the annotation bitfusion-client/filter"},
	{"a x=1 t4:8", "app a 1 1%", "x=0 server.name=0 gpu.model=0", false, BOTH,
		"asked 1 GPU with 1 % (filter x=0 server.name=0 ...); no GPU of the pool matches "
		"x=0 (x has 1) nor server.name=0 (server.name has a); change the annotation "
		"bitfusion-client/filter"},
	/* GPUs that are out of use */
	{"a t4:8u", "app a 1 1%", NULL, false, BOTH,
		"asked 1 GPU with 1 %; the only GPU that is there cannot be used: 1 unfit "
		"(a/gpu-0: ECC errors); create the pod again when they are back"},
	{"a t4:8wu", "app a 1 1%", NULL, false, BOTH,
		"asked 1 GPU with 1 %; the only GPU that is there cannot be used: 1 unfit "
		"(a/gpu-0); create the pod again when they are back"},
	{"a t4:8s", "app a 1 1%", "gpu.model=t4", false, BOTH,
		"asked 1 GPU with 1 % (filter gpu.model=t4); the only GPU that matches cannot be "
		"used: 1 not reported lately (a/gpu-0: no report); create the pod again when they "
		"are back"},
	{"a t4:8m; b drain t4:8", "app a 1 1%", "gpu.model=t4", false, BOTH,
		"asked 1 GPU with 1 % (filter gpu.model=t4); of 2 GPUs that match none can be "
		"used: 1 on draining servers, 1 gone; create the pod again when they are back"},
	{"a t4:8m t4:8m", "app a 1 1%", NULL, false, BOTH,
		"asked 1 GPU with 1 %; of 2 GPUs that there are none can be used: 2 gone; create "
		"the pod again when they are back"},
	/* more than there is */
	{"a t4:8", "app a 1 9", NULL, false, BOTH,
		"asked 1 GPU with 9 MB; no GPU has 9 MB; the largest has 8 MB: ask for at most "
		"that"},
	{"a t4:8 k80:9", "app a 1 9", "gpu.model=t4", false, BOTH,
		"asked 1 GPU with 9 MB (filter gpu.model=t4); no GPU has 9 MB; the largest that "
		"matches has 8 MB: ask for at most that"},
	{"a t4:8", "app a 2 1%", NULL, false, BOTH,
		"asked 2 GPUs with 1 % each; the pool has 1 GPU that can be used; ask for at most "
		"1"},
	{"a t4:8 t4:8 t4:8m t4:8u", "app a 3 1%", NULL, false, BOTH,
		"asked 3 GPUs with 1 % each; the pool has 2 GPUs that can be used, beside 2 that "
		"cannot: 1 unfit, 1 gone (a/gpu-3: ECC errors); ask for at most 2"},
	{"a t4:8 k80:9", "app a 2 1%", "gpu.model=t4", false, BOTH,
		"asked 2 GPUs with 1 % each (filter gpu.model=t4); the pool has 1 GPU that can be "
		"used and matches the filter; ask for at most 1"},
	{"a t4:8 t4:8 k80:9", "app a 3 1%", "gpu.model=t4", false, BOTH,
		"asked 3 GPUs with 1 % each (filter gpu.model=t4); the pool has 2 GPUs that can be "
		"used and match the filter; ask for at most 2"},
	/* full now */
	{"a t4:8/8", "app a 1 1%", "gpu.model=t4", false, BOTH,
		"asked 1 GPU with 1 % (filter gpu.model=t4); of 1 GPU that matches, none has that "
		"much free (best: a/gpu-0 0 of 8 MB); create the pod again when others have ended"},
	{"a t4:100/99", "app a 1 100%", NULL, false, BOTH,
		"asked 1 GPU with 100 %; of 1 GPU that can be used, none has that much free "
		"(best: a/gpu-0 1 of 100 MB); now would fit: 1 GPU with 1 %; ask for less or "
		"create the pod again when others have ended"},
	{"a t4:8/8 t4:8/8", "app a 2 1%", "gpu.model=t4", false, BOTH,
		"asked 2 GPUs with 1 % each (filter gpu.model=t4); of 2 GPUs that match, none has "
		"that much free (best: a/gpu-0 0 of 8 MB, a/gpu-1 0 of 8 MB); create the pod again "
		"when others have ended"},
	{"a t4:8/7 t4:8/8", "app a 1 2", NULL, false, BOTH,
		"asked 1 GPU with 2 MB; of 2 GPUs that can be used, none has that much free (best: "
		"a/gpu-0 1 of 8 MB, a/gpu-1 0 of 8 MB); now would fit: 1 GPU with 1 MB; ask for "
		"less or create the pod again when others have ended"},
	{"a t4:8/4 t4:8/4 t4:8/4", "app a 3 5", NULL, false, BOTH,
		"asked 3 GPUs with 5 MB each; of 3 GPUs that can be used, none has that much free "
		"(best: a/gpu-0 4 of 8 MB, a/gpu-1 4 of 8 MB, a/gpu-2 4 of 8 MB); now would fit: 3 "
		"GPUs with 4 MB each; ask for less or create the pod again when others have ended"},
	{"a t4:8/4 t4:8 t4:8", "app a 3 5", NULL, false, BOTH,
		"asked 3 GPUs with 5 MB each; of 3 GPUs that can be used, 2 have that much free "
		"(best: a/gpu-1 8 of 8 MB, a/gpu-2 8 of 8 MB, a/gpu-0 4 of 8 MB); now would fit: 2 "
		"GPUs with 5 MB each, or 3 GPUs with 4 MB each; ask for less or create the pod "
		"again when others have ended"},
	{"a t4:8/4 t4:8/4 t4:8", "app a 3 100%", NULL, false, BOTH,
		"asked 3 GPUs with 100 % each; of 3 GPUs that can be used, 1 has that much free "
		"(best: a/gpu-2 8 of 8 MB, a/gpu-0 4 of 8 MB, a/gpu-1 4 of 8 MB); now would fit: 1 "
		"GPU with 100 %, or 3 GPUs with 50 % each; ask for less or create the pod again "
		"when others have ended"},
	{"a t4:8/7p t4:8/8p t4:8/1", "app a 3 4", NULL, false, BOTH,
		"asked 3 GPUs with 4 MB each; of 3 GPUs that can be used, 1 has that much free "
		"(best: a/gpu-2 7 of 8 MB, a/gpu-0 1 of 8 MB, a/gpu-1 0 of 8 MB); 15 MB are held "
		"by pods that have not started; now would fit: 1 GPU with 4 MB; ask for less or "
		"create the pod again when others have ended"},
	{"a t4:8/8; b t4:8/7; c t4:8/6; d t4:8/5", "app a 1 100%", NULL, false, BOTH,
		"asked 1 GPU with 100 %; of 4 GPUs that can be used, none has that much free "
		"(best: d/gpu-0 3 of 8 MB, c/gpu-0 2 of 8 MB, b/gpu-0 1 of 8 MB); now would fit: 1 "
		"GPU with 37 %; ask for less or create the pod again when others have ended"},
	{"a t4:8/1", "app a 1 9%", NULL, true, BOTH,
		"asked 1 GPU with 9 % on whole servers; of 1 GPU that can be used, none has that "
		"much free on a server that nobody uses (best: a/gpu-0 7 of 8 MB); create the pod "
		"again when others have ended"},
	{"a claims=256 t4:8; b claims=256 t4:8", "app a 1 1%", NULL, false, BOTH,
		"asked 1 GPU with 1 %; of 2 GPUs that can be used, none has that much free (best: "
		"a/gpu-0 8 of 8 MB, b/gpu-0 8 of 8 MB); server a takes no more: it has 256 claims; "
		"create the pod again when others have ended"},
	{"a t4:8/4", "init i 1 5; app a 1 2", NULL, false, BOTH,
		"asked 1 GPU with 5 MB for i, 1 GPU with 2 MB for a; of 1 GPU that can be used, "
		"none has that much free (best: a/gpu-0 4 of 8 MB); now would fit: 1 GPU with 4 "
		"MB; ask for less or create the pod again when others have ended"},
	{"a t4:8/4", "side i 1 2; app a 1 3", NULL, false, BOTH,
		"asked 1 GPU with 2 MB for i, 1 GPU with 3 MB for a; of 1 GPU that can be used, "
		"none has that much free for i beside its pod's other containers (best: a/gpu-0 4 "
		"of 8 MB); now would fit: 1 GPU with 1 MB; ask for less or create the pod again "
		"when others have ended"},
	{"a t4:8/4", "init i 1 5; init j 1 1; app a 1 2", NULL, false, BOTH,
		"asked 1 GPU with 5 MB for i, 1 GPU with 1 MB for j, 1 GPU with 2 MB for a; of 1 "
		"GPU that can be used, none has that much free for i beside its pod's other "
		"containers (best: a/gpu-0 4 of 8 MB); now would fit: 1 GPU with 4 MB; ask for "
		"less or create the pod again when others have ended"},
};

static const struct {
	const char *pool, *demand, *filters, *launcher, *says;
} closed[] = {
	{"a for=x t4:8; b for=y t4:8", "app a 1 100%", NULL, "z",
		"asked 1 GPU with 100 %; 2 servers are not for the launcher z: choose another one, "
		"or ask the operator"},
	{"a for=x t4:8/8; b for=y for=x t4:8; c for=y t4:8/8", "app a 2 100%", NULL, "x",
		"asked 2 GPUs with 100 % each; of 2 GPUs that can be used, 1 has that much free "
		"(best: b/gpu-0 8 of 8 MB, a/gpu-0 0 of 8 MB); 1 server is not for the launcher x; "
		"now would fit: 1 GPU with 100 %; ask for less or create the pod again when others "
		"have ended"},
	{"a for=x t4:8; b t4:8", "app a 2 100%", NULL, "y",
		"asked 2 GPUs with 100 % each; the pool has 1 GPU that can be used; 1 server is "
		"not for the launcher y; ask for at most 1"},
	{"a for=x t4:8u; b for=y t4:8", "app a 1 100%", NULL, "x",
		"asked 1 GPU with 100 %; the only GPU that is there cannot be used: 1 unfit "
		"(a/gpu-0: ECC errors); 1 server is not for the launcher x; create the pod again "
		"when they are back"},
	{"a for=x t4:8; b for=y k80:8", "app a 1 100%", "gpu.model=k80", "x",
		"asked 1 GPU with 100 % (filter gpu.model=k80); 1 server is not for the launcher "
		"x; no GPU of the pool matches all of these together; change the annotation "
		"bitfusion-client/filter"},
};

/* The launcher x leaves shares to gates. */
static const struct {
	const char *pool, *says;
} unguarded[] = {
	{"a t4:8; b t4:8",
		"asked 1 GPU with 50 %; 2 servers are not guarded (condition Guarded), which the "
		"launcher x needs: choose another one, or ask the operator"},
	{"a guarded t4:8u; b t4:8",
		"asked 1 GPU with 50 %; the only GPU that is there cannot be used: 1 unfit "
		"(a/gpu-0: ECC errors); 1 server is not guarded (condition Guarded), which the "
		"launcher x needs; create the pod again when they are back"},
	{"a guarded t4:8/8; b t4:8",
		"asked 1 GPU with 50 %; of 1 GPU that can be used, none has that much free (best: "
		"a/gpu-0 0 of 8 MB); 1 server is not guarded (condition Guarded), which the "
		"launcher x needs; create the pod again when others have ended"},
};

/* The launcher x goes to gates by its token, or by its address. */
static const struct {
	enum gate_by by;
	const char *pool, *says;
} other_gates[] = {
	{GATE_BY_TOKEN, "a by-address t4:8; b by-address t4:8",
		"asked 1 GPU with 50 %; the gates of 2 servers go by addresses (spec.gate.mode), "
		"and the launcher x shows a token: choose another one, or ask the operator"},
	{GATE_BY_TOKEN, "a t4:8/8; b by-address t4:8; c by-token t4:8/8",
		"asked 1 GPU with 50 %; of 2 GPUs that can be used, none has that much free (best: "
		"a/gpu-0 0 of 8 MB, c/gpu-0 0 of 8 MB); the gate of 1 server goes by addresses "
		"(spec.gate.mode), and the launcher x shows a token; create the pod again when "
		"others have ended"},
	{GATE_BY_ADDRESS, "a by-token t4:8",
		"asked 1 GPU with 50 %; the gate of 1 server goes by tokens (spec.gate.mode), and "
		"the launcher x shows none: choose another one, or ask the operator"},
	{GATE_BY_ADDRESS, "a by-token t4:8; b by-token t4:8; c by-address t4:8u",
		"asked 1 GPU with 50 %; the only GPU that is there cannot be used: 1 unfit "
		"(c/gpu-0: ECC errors); the gates of 2 servers go by tokens (spec.gate.mode), and "
		"the launcher x shows none; create the pod again when they are back"},
};

/* how: what else of a demand decides. */
static void refuse(const char *pool_text, const char *demand, const char *filters,
	const struct demand *how, const char *says)
{
	struct placement p;
	struct pool pool;
	struct demand d;
	struct err err;

	pool_init(&pool, pool_text);
	demand_init(&d, &pool.arena, demand, filters, NULL, how->whole_servers);
	d.no_ipv4 = how->no_ipv4;
	d.no_ipv6 = how->no_ipv6;
	d.launcher = how->launcher;
	d.guarded = how->guarded;
	d.gate_by = how->gate_by;
	err_clear(&err);
	assert_int_equal(pool_place(&pool, &d, &p, &err), ERR_REFUSED);
	if (strcmp(err.msg, says) != 0)
		fail_msg("%s in %s says %s", demand, pool_text, err.msg);
	pool_release(&pool);
}

TEST(test_sentences)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		refuse(rows[i].pool, rows[i].demand, rows[i].filters,
			&(struct demand){.whole_servers = rows[i].whole,
				.no_ipv4 = rows[i].reach == ONLY_IPV6,
				.no_ipv6 = rows[i].reach == ONLY_IPV4},
			rows[i].says);
}

TEST(test_closed_sentences)
{
	for (size_t i = 0; i < COUNT(closed); i++)
		refuse(closed[i].pool, closed[i].demand, closed[i].filters,
			&(struct demand){.launcher = slice_of(closed[i].launcher)}, closed[i].says);
}

TEST(test_unguarded_sentences)
{
	for (size_t i = 0; i < COUNT(unguarded); i++)
		refuse(unguarded[i].pool, "app a 1 50%", NULL,
			&(struct demand){.launcher = SLICE("x"), .guarded = true},
			unguarded[i].says);
}

TEST(test_sentences_of_other_gates)
{
	for (size_t i = 0; i < COUNT(other_gates); i++)
		refuse(other_gates[i].pool, "app a 1 50%", NULL,
			&(struct demand){.launcher = SLICE("x"), .gate_by = other_gates[i].by},
			other_gates[i].says);
}

/* However little memory there is: the whole sentence, or the arena says that it ended. */
TEST(test_sentences_without_memory)
{
	struct pool pool;
	struct demand d;
	char want[sizeof(((struct err *)0)->msg)];
	struct arena a;
	bool whole = false;

	pool_init(&pool, "a x=1 t4:8/8 t4:8/8; b x=2 t4:8/8 t4:8");
	demand_init(&d, &pool.arena, "app a 2 100%; app b 1 100%", NULL, NULL, false);
	for (size_t max = 1u << 20, first = 1; !whole; max = first ? 0 : max + 16, first = 0) {
		struct placement p;
		struct err err = {0};
		int rc;

		arena_init(&a, max);
		rc = placement_find(&pool.inv, &pool.use, &d, &a, &p, &err);
		if (first) {
			assert_int_equal(rc, ERR_REFUSED);
			(void)snprintf(want, sizeof(want), "%s", err.msg);
		} else if (!a.failed) {
			assert_int_equal(rc, ERR_REFUSED);
			assert_string_equal(err.msg, want);
			whole = true;
		} else {
			assert_true(rc == ERR_NOMEM || rc == ERR_REFUSED);
		}
		arena_release(&a);
	}
	pool_release(&pool);
}

TESTS(test_sentences, test_closed_sentences, test_unguarded_sentences,
	test_sentences_of_other_gates, test_sentences_without_memory)
