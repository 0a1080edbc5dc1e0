/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: what a gate reads beside its profile: its own GPUServer, and a look at the GPUs; and the
 * page that it writes, as the leader reads it. What is read gives claims that can be found, and a
 * page that is read again. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/usage.h"
#include "test/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct picture_gpu gpus[] = {{"GPU-1", UINT64_C(5) << 30, UINT64_C(16) << 30}};
static struct picture_claim claim = {
	.uid = "u", .namespace = "n", .name = "p", .gpu = gpus, .n_gpus = 1};

/* Who is at an address has a claim that lets in, and nobody else has one that names it. */
static void check_address(const struct picture *p, const struct picture_address *a)
{
	char text[INET6_ADDRSTRLEN];
	const char *uid;
	bool several;

	REQUIRE(inet_ntop(AF_INET6, a->at, text, sizeof(text)) != NULL);
	uid = picture_at(p, text, &several);
	REQUIRE(!uid || (!several && !a->shut_out && uid == a->uid && picture_claim(p, uid)));
	REQUIRE(uid || several || a->shut_out);
}

static void try_server(const struct json *j)
{
	struct picture p = {0};
	struct err err = {0};

	/* A uid that is no pod's is nobody's to show: gate/bearer takes none. */
	if (picture_read(&p, j, json_root(j), &err) == 0)
		for (size_t i = 0; i < p.n_claims; i++)
			REQUIRE(picture_claim(&p, p.claim[i].uid) != NULL);
	else
		REQUIRE(err.msg[0]);
	for (size_t i = 0; i < p.n_addresses; i++)
		check_address(&p, &p.address[i]);
	picture_release(&p);
}

static const char *claim_of(void *ctx, pid_t pid)
{
	(void)ctx;
	return pid % 3 == 0 ? "u" : pid % 3 == 1 ? "gone" : NULL;
}

static bool passes(void *ctx, pid_t pid)
{
	(void)ctx;
	return pid % 2 == 0;
}

/* What is written is read again, and says the same. */
static void check_page(const struct gate_page *p)
{
	struct gate_page again = {0};
	struct json j = {0};
	struct err err = {0};
	char *copy = NULL;
	struct arena a;
	struct buf out;

	arena_init(&a, 64u << 20);
	buf_init(&out, 64u << 20);
	gate_page_write(p, &out);
	REQUIRE(!out.failed && json_read_copy(&j, out.data, out.len, 1u << 24, &copy, NULL) == 0);
	if (p->n_claims <= 4096)
		REQUIRE(gate_page_read(&j, &a, &again, &err) == 0 &&
			again.n_claims == p->n_claims && again.n_strangers == p->n_strangers &&
			again.shares == p->shares && again.mode == p->mode &&
			again.known == p->known);
	json_release(&j);
	free(copy);
	buf_release(&out);
	arena_release(&a);
}

static void check_used(const struct gate_usage *u)
{
	struct gate_page p = {.version = GATE_PAGE_VERSION, .server = "s", .looked_ms = 1000};
	struct arena a;

	arena_init(&a, 64u << 20);
	REQUIRE(usage_page(u, u->looked_ms, &a, &p));
	check_page(&p);
	arena_release(&a);
}

/* What the leader reads. */
static void try_page(const struct json *j)
{
	struct gate_page p;
	struct err err = {0};
	struct arena a;

	arena_init(&a, 64u << 20);
	if (gate_page_read(j, &a, &p, &err) == 0)
		check_page(&p);
	else
		REQUIRE(err.msg[0]);
	arena_release(&a);
}

static void try_look(struct slice text)
{
	const struct picture p = {.claim = &claim, .n_claims = 1};
	const struct usage_rules rules = {.context_bytes = 100, .margin_percent = 5};
	const struct usage_who who = {NULL, claim_of, passes};
	struct gate_usage u = {0};
	struct usage_look look;
	struct err err = {0};
	struct arena a;

	arena_init(&a, 16u << 20);
	if (usage_look_read(text, &a, &look, &err) == 0) {
		for (int64_t now = 1000; now < 40000; now += 15000)
			REQUIRE(usage_judge(&u, &look, &p, &rules, &who, now, &err) == 0);
		for (size_t i = 0; i < u.n_claims; i++)
			REQUIRE(u.claims[i].over == (u.claims[i].since_ms != 0));
		check_used(&u);
	} else {
		REQUIRE(err.msg[0]);
	}
	usage_release(&u);
	arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json j = {0};
	char *copy = NULL, *exact = malloc(size ? size : 1);
	struct slice text = {exact, size};

	if (!exact)
		return 0;
	if (size)
		memcpy(exact, data, size);
	try_look(text);
	if (json_read_copy(&j, exact, size, 65536, &copy, NULL) == 0) {
		try_server(&j);
		try_page(&j);
	}
	json_release(&j);
	free(copy);
	free(exact);
	return 0;
}
