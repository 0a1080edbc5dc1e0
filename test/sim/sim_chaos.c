/* SPDX-License-Identifier: Apache-2.0 */
/* sim: what goes wrong with machines, networks and what people do to GPUServers; each seed draws
 * its own mix and strength. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "test/sim/sim_view.h"
#include "webhook/core/pool/queue.h"

#define SERVERS_MAX 4
/* A name that is to be given again is waited for no longer. */
#define AGAIN_US (10 * SECOND)
/* The Secret with what gates are shown. */
#define GATE_TOKEN "sim-gate"

static struct {
	unsigned restore, kill, trap, stop, freeze, partition, compact, clock, drain, shrink,
		remove, rename, edit, lease, config, probe;
	int64_t every_us;
} odds;
static int servers;
static bool gated; /* servers have gates, which tell what is used */
static bool back;  /* a machine that gets a second name gets its first again, beside it */
static int64_t calm;

int64_t chaos_calm(void)
{
	return calm;
}

/* ---- servers ---- */

/* machine: whose address it has. */
static cJSON *server_doc(int machine, unsigned gpus, unsigned gb)
{
	char text[440], inventory[100], gate[140] = "";

	if (odds.probe && machine % 2 == 0)
		(void)snprintf(inventory, sizeof(inventory),
			"\"probe\":{\"url\":\"https://10.0.0.%d:9443\"}", machine);
	else
		(void)snprintf(inventory, sizeof(inventory),
			"\"gpus\":[{\"model\":\"Tesla V100\",\"memory\":\"%uG\",\"count\":%u}]", gb,
			gpus);
	if (gated)
		(void)snprintf(gate, sizeof(gate),
			",\"gate\":{\"profile\":\"sim\",\"url\":\"https://10.0.0.%d:9447\","
			"\"tokenSecret\":\"" GATE_TOKEN "\"}",
			machine);
	/* Some were written by a later version (R11). */
	(void)snprintf(text, sizeof(text), "{\"spec\":{\"address\":\"10.0.0.%d:56001\",%s%s}%s}",
		machine, inventory, gate,
		sim_chance(300000) ? ",\"status\":{\"version\":2,\"future\":{\"a\":[1]}}" : "");
	return cJSON_Parse(text);
}

static const char *name_of(int machine, bool other)
{
	static char name[24];

	(void)snprintf(name, sizeof(name), "gpu-%d%d", other, machine);
	return name;
}

static void make_server(int machine, bool other)
{
	const char *name = name_of(machine, other);

	probes_forget(machine);
	if (!store_find(SERVERS, "", name))
		(void)store_add(SERVERS, "", name, NULL,
			server_doc(machine, habits.wide ? 1 : 1 + (unsigned)sim_below(4), 16),
			"admin");
}

static struct object *any_server(void)
{
	int machine = (int)sim_below((uint64_t)servers);

	return store_find(SERVERS, "", name_of(machine, odds.rename && sim_chance(500000)));
}

static void spec_changed(struct object *o)
{
	o->generation++;
	store_changed(o, "admin");
}

static void drain(struct object *o, bool yes)
{
	cJSON *spec = store_at(o->doc, "spec", NULL);

	cJSON_DeleteItemFromObjectCaseSensitive(spec, "drain");
	if (yes)
		cJSON_AddTrueToObject(spec, "drain");
	spec_changed(o);
}

/* Fewer or more GPUs, smaller or larger. */
static void reshape(struct object *o)
{
	cJSON *doc = server_doc(1, 1 + (unsigned)sim_below(3), 8 + (unsigned)sim_below(2) * 8);

	cJSON_ReplaceItemInObjectCaseSensitive(store_at(o->doc, "spec", NULL), "gpus",
		cJSON_DetachItemFromObjectCaseSensitive(store_at(doc, "spec", NULL), "gpus"));
	cJSON_Delete(doc);
	spec_changed(o);
}

/* Its first name is given again as soon as that is free, beside the second. */
static void name_again(void *arg)
{
	int machine = (int)(intptr_t)arg;
	int64_t end = sim_now() + AGAIN_US;

	while (store_find(SERVERS, "", name_of(machine, false)) && sim_now() < end)
		sim_sleep(SECOND / 10);
	make_server(machine, false);
}

/* The machine gets a second name before the first is gone (R15). */
static void rename_server(struct object *o)
{
	int machine = o->name[5] - '0';
	bool first = o->name[4] == '0';

	make_server(machine, first);
	if (!sim_chance(700000))
		return;
	store_delete(o, "admin");
	if (back && first)
		sim_spawn(WORLD, "name again", name_again, (void *)(intptr_t)machine);
}

/* ---- replicas ---- */

static void restart(void *arg)
{
	int owner = (int)(intptr_t)arg;

	sim_sleep((int64_t)sim_below(10 * SECOND));
	while (replica_runs(owner))
		sim_sleep(SECOND / 10);
	if (sim_chance(odds.config))
		replica_configure(owner, (int)sim_below(CONFIGS));
	replica_start(owner);
}

static void start_again(int owner)
{
	sim_spawn(WORLD, "restart", restart, (void *)(intptr_t)owner);
}

/* Called in the midst of a replica's own work. */
void chaos_kill(int owner)
{
	start_again(owner);
	replica_kill(owner);
}

static void stand_still(int owner)
{
	int64_t us = (int64_t)sim_below(sim_chance(300000) ? 60 * SECOND : 3 * SECOND);

	sim_trace(21, "r%d stands still for %.3f s", owner, (double)us / 1e6);
	sim_freeze(owner, us);
}

int __real_queue_decide(const struct queue_world *w, const struct queue_pod *pods, size_t n,
	bool words, struct arena *a, struct queue_round *ret, struct err *err);
int __wrap_queue_decide(const struct queue_world *w, const struct queue_pod *pods, size_t n,
	bool words, struct arena *a, struct queue_round *ret, struct err *err);

/* A leader stands still between what it decides and what it writes of it, for so long that another
 * leads meanwhile. */
int __wrap_queue_decide(const struct queue_world *w, const struct queue_pod *pods, size_t n,
	bool words, struct arena *a, struct queue_round *ret, struct err *err)
{
	int rc = __real_queue_decide(w, pods, n, words, a, ret, err);
	int64_t us = 30 * SECOND;

	if (rc != 0 || ret->n_start == 0 || !sim_chance(habits.stall))
		return rc;
	us += (int64_t)sim_below(30 * SECOND);
	sim_trace(21, "r%d stands still for %.3f s", sim_owner(), (double)us / 1e6);
	sim_freeze(sim_owner(), us);
	return rc;
}

static void open_way(void *arg)
{
	int owner = (int)(intptr_t)arg;

	sim_sleep((int64_t)sim_below(sim_chance(300000) ? 40 * SECOND : 4 * SECOND));
	way[owner] = 0;
	sim_trace(22, "the way of r%d is open", owner);
}

/* ---- one thing ---- */

static void one_replica(int owner)
{
	if (!replica_runs(owner))
		return;
	if (sim_chance(odds.config))
		replica_configure(owner, (int)sim_below(CONFIGS));
	if (sim_chance(odds.kill)) {
		chaos_kill(owner);
	} else if (sim_chance(odds.trap)) {
		sim_trap(owner, 1 + sim_below(2000), sim_chance(500000) ? chaos_kill : stand_still);
	} else if (sim_chance(odds.stop)) {
		replica_stop(owner);
		start_again(owner);
	} else if (sim_chance(odds.freeze)) {
		stand_still(owner);
	} else if (way[owner] == 0 && sim_chance(odds.partition)) {
		way[owner] = 1 + (int)sim_below(3);
		sim_trace(23, "the way of r%d is %s", owner,
			way[owner] == 1   ? "closed"
			: way[owner] == 2 ? "silent"
					  : "a proxy without backends");
		sim_spawn(WORLD, "way", open_way, (void *)(intptr_t)owner);
	} else if (sim_chance(odds.clock)) {
		sim_clock(
			owner, (int64_t)sim_below(2001) - 1000, (int64_t)sim_below(7200) * SECOND);
	}
}

static void add_ghost(cJSON *claims, const cJSON *like)
{
	struct attempt *ghost = laws_attempt(&shapes[0], "ghost");
	cJSON *one = cJSON_Duplicate(like, true);

	laws_dead(ghost);
	cJSON_ReplaceItemInObjectCaseSensitive(one, "uid", cJSON_CreateString(ghost->uid));
	cJSON_ReplaceItemInObjectCaseSensitive(one, "name", cJSON_CreateString(ghost->name));
	cJSON_AddItemToArray(claims, one);
}

/* The pod has a second claim, on this server. */
static void add_second(struct object *o, const cJSON *like)
{
	cJSON *claims = store_at(o->doc, "status", "claims"), *one, *parts, *servers_of,
	      *gpu = cJSON_GetArrayItem(store_at(o->doc, "status", "gpus"), 0);
	const char *uid = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(like, "uid"));

	if (!claims || !gpu || !view_of(o)->opened || claim_of(view_of(o), number_of(uid)))
		return;
	one = cJSON_Duplicate(like, true);
	parts = cJSON_CreateArray();
	cJSON_AddItemToArray(parts,
		cJSON_Duplicate(
			cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(like, "gpus"), 0),
			true));
	cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetArrayItem(parts, 0), "id",
		cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(gpu, "id"), true));
	cJSON_ReplaceItemInObjectCaseSensitive(one, "gpus", parts);
	servers_of = cJSON_CreateArray();
	cJSON_AddItemToArray(servers_of, cJSON_CreateString(o->name));
	cJSON_ReplaceItemInObjectCaseSensitive(one, "servers", servers_of);
	cJSON_AddItemToArray(claims, one);
	laws_claim_lost(uid);
	store_changed(o, "admin");
}

/* Somebody edits a status by hand: a claim is taken out, or one more is there, of a pod that never
 * was or has one already. */
static void edit_by_hand(struct object *o)
{
	cJSON *claims = store_at(o->doc, "status", "claims"), *one;
	int n = cJSON_GetArraySize(claims), i = (int)sim_below((uint64_t)n + (n == 0));
	uint64_t what = sim_below(3);
	struct object *other = any_server();

	if (n == 0)
		return;
	one = cJSON_GetArrayItem(claims, i);
	if (what == 0) {
		laws_claim_lost(cJSON_GetStringValue(store_at(one, "uid", NULL)));
		cJSON_DeleteItemFromArray(claims, i);
	} else if (what == 1) {
		add_ghost(claims, one);
	} else {
		add_second(other ? other : o, one);
		return;
	}
	store_changed(o, "admin");
}

static void one_server(void)
{
	struct object *o = any_server();

	if (!o)
		make_server((int)sim_below((uint64_t)servers), odds.rename && sim_chance(500000));
	else if (sim_chance(odds.drain))
		drain(o, !cJSON_IsTrue(store_at(o->doc, "spec", "drain")));
	else if (sim_chance(odds.shrink) && store_at(o->doc, "spec", "gpus"))
		reshape(o);
	else if (sim_chance(odds.remove))
		store_delete(o, "admin");
	else if (sim_chance(odds.edit))
		edit_by_hand(o);
	else if (sim_chance(odds.rename))
		rename_server(o);
}

/* First the backup, then the restore; once in a run. */
static void one_restore(void)
{
	static bool backed_up;

	if (!backed_up) {
		backed_up = true;
		store_backup(sim_chance(500000));
		sim_trace(25, "etcd is backed up");
	} else if (store_restore()) {
		sim_trace(26, "etcd is restored");
	}
}

static void mend(void)
{
	lean_end();
	memset(&odds, 0, sizeof(odds));
	weather = (struct weather){.lag_us = 1000, .page = 500};
	habits.stall = 0;
	probes_mend();
	for (int i = 1; i <= replicas; i++) {
		way[i] = 0;
		sim_freeze(i, 0);
		sim_trap(i, 0, NULL);
		if (!replica_runs(i))
			start_again(i);
	}
	for (struct object *o = store_first(SERVERS); o; o = store_next(o))
		if (cJSON_IsTrue(store_at(o->doc, "spec", "drain")))
			drain(o, false);
	sim_trace(24, "everything is mended");
}

void chaos(void *until)
{
	while (sim_now() < *(const int64_t *)until) {
		sim_sleep((int64_t)sim_below((uint64_t)odds.every_us));
		one_replica(1 + (int)sim_below((uint64_t)replicas));
		if (sim_chance(300000))
			one_server();
		if (sim_chance(odds.probe))
			probes_change((int)sim_below((uint64_t)servers));
		if (sim_chance(odds.compact))
			store_compact();
		if (habits.caps && sim_chance(50000))
			caps_change();
		if (sim_chance(odds.restore))
			one_restore();
		if (sim_chance(odds.lease) && store_first(LEASES))
			store_remove(store_first(LEASES), "admin");
	}
	mend();
	/* Replicas that are to come, ways that were about to open, creates that are on their way.
	 */
	sim_sleep(45 * SECOND);
	for (int i = 1; i <= replicas; i++)
		way[i] = 0;
	calm = sim_now();
}

/* ---- what this run has ---- */

/* Half of the faults are not there at all in a run, the others up to this strength. */
static unsigned upto(unsigned most)
{
	return sim_chance(500000) ? (unsigned)sim_below(most + 1) : 0;
}

/* In some runs machines and networks do as they should, so that more can be asked of the replicas.
 */
static void draw_sky(void)
{
	uint64_t drawn = sim_below(100);

	/* Where pods wait: every other is fair, and none has bad lists. */
	if (habits.waits)
		drawn = sim_result->seed / 11 % 2 ? 99 : 0;

	sky = drawn < 10 ? FAIR : drawn < 20 ? BAD_LISTS : STORM;
	if (sky == STORM)
		return;
	odds.kill = odds.trap = odds.stop = odds.freeze = odds.partition = odds.compact = 0;
	odds.clock = odds.lease = odds.restore = 0;
	weather = (struct weather){.lag_us = 1000, .page = weather.page};
	habits.lost_create = habits.late = habits.twice = 0;
	if (sky == FAIR) {
		habits.clash = 500000;
		habits.life_us = 3 * SECOND;
		return;
	}
	odds.drain = odds.shrink = odds.remove = 0;
	weather.bad_list = 900000;
	habits.every_us = 4 * SECOND;
	habits.life_us = 6 * SECOND;
	servers = 1;
}

/* What a smaller run may do without. */
static const struct {
	const char *name;
	unsigned *odds;
} faults[] = {{"kill", &odds.kill}, {"trap", &odds.trap}, {"stop", &odds.stop},
	{"freeze", &odds.freeze}, {"partition", &odds.partition}, {"compact", &odds.compact},
	{"clock", &odds.clock}, {"drain", &odds.drain}, {"shrink", &odds.shrink},
	{"remove", &odds.remove}, {"rename", &odds.rename}, {"edit", &odds.edit},
	{"lease", &odds.lease}, {"restore", &odds.restore}, {"lost-before", &weather.lost_before},
	{"lost-after", &weather.lost_after}, {"slow", &weather.slow},
	{"very-slow", &weather.very_slow}, {"busy", &weather.busy}, {"broken", &weather.broken},
	{"late-504", &weather.late_504}, {"sent-twice", &weather.twice},
	{"foreign-404", &weather.foreign_404}, {"cut-watch", &weather.cut_watch},
	{"bad-list", &weather.bad_list}, {"second-hook", &habits.second_hook},
	{"quota", &habits.quota}, {"lost-create", &habits.lost_create},
	{"late-create", &habits.late}, {"twins", &habits.twice}, {"clash", &habits.clash},
	{"force", &habits.force}, {"config", &odds.config}, {"probe", &odds.probe},
	{"delete-review", &habits.delete_review}, {"give-up", &habits.give_up},
	{"foreign-gate", &habits.foreign}, {"stall", &habits.stall}};

const char *chaos_fault(size_t i)
{
	return i < sizeof(faults) / sizeof(faults[0]) ? faults[i].name : NULL;
}

static void leave_out(void)
{
	for (size_t i = 0; chaos_fault(i); i++) {
		if (sim_cut.without & UINT64_C(1) << i)
			*faults[i].odds = 0;
		sim_result->faults |= (uint64_t)(*faults[i].odds > 0) << i;
	}
	if (sim_cut.salt)
		sim_salt(sim_cut.salt);
}

static void make_secret(const char *name, const char *member, const char *text)
{
	cJSON *secret = cJSON_CreateObject(), *data = cJSON_AddObjectToObject(secret, "data");
	struct buf key;

	buf_init(&key, 64);
	buf_base64(&key, text, strlen(text));
	cJSON_AddStringToObject(secret, "type", "Opaque");
	cJSON_AddStringToObject(data, member, key.data);
	(void)store_add(SECRETS, "poolgate", name, NULL, secret, "admin");
	buf_release(&key);
}

/* In some of these the leader, whom nothing else keeps, hears of the pods first, and late of their
 * claims, or is still writing what a restore that comes early takes back (R16). */
static void draw_restored(void)
{
	odds.kill = odds.trap = odds.stop = odds.freeze = odds.partition = 0;
	odds.compact = odds.lease = odds.edit = 0;
	odds.drain = odds.shrink = odds.remove = odds.rename = 0;
	odds.restore = sim_chance(300000) ? 500000 : 100000;
	odds.every_us = 2 * SECOND;
	weather.lost_before = weather.lost_after = weather.broken = weather.busy = 0;
	weather.cut_watch = weather.foreign_404 = weather.very_slow = 0;
	weather.lag_us = 0;
	weather.bad_list = 700000;
	weather.slow = 100000;
	weather.slow_us = 4 * SECOND;
	habits.turns_us = SECOND;
	habits.give_up = habits.foreign = 0;
	habits.names = 20;
	habits.life_us = 20 * SECOND;
	servers = SERVERS_MAX;
}

/* In some, leaders stand still between what they decide and what they write of it for so long that
 * the next one leads, and keeps what they were about to give (W6). Nothing else goes wrong,
 * whatever other kinds of runs the seed belongs to. */
static void draw_stalled(void)
{
	odds.kill = odds.trap = odds.stop = odds.freeze = odds.partition = odds.restore = 0;
	odds.compact = odds.lease = odds.edit = odds.config = 0;
	odds.drain = odds.shrink = odds.remove = odds.rename = 0;
	weather.lost_before = weather.lost_after = weather.broken = weather.busy = 0;
	weather.late_504 = weather.foreign_404 = weather.very_slow = weather.cut_watch = 0;
	weather.lag_us = 0;
	habits.stall = 800000;
	back = sim_naps = habits.company = false;
	at_once = 0;
	habits.turns_us = 2 * SECOND;
	habits.give_up = habits.foreign = habits.lost_create = habits.late = habits.quota = 0;
	habits.names = 20;
	reserve_us = 20 * SECOND;
	habits.life_us = 20 * SECOND;
	replicas = 2;
	servers = 2;
}

/* So that more is asked for than there is. Ages are seconds of the API server's clock, which
 * replicas' clocks are near. */
static void draw_waiting(void)
{
	servers = 1 + (servers - 1) % 2;
	habits.turns_us = SECOND << (1 + sim_below(2));
	habits.give_up = upto(400000);
	habits.foreign = upto(400000);
	habits.life_us = 10 * SECOND << sim_below(3);
	reserve_us = 5 * SECOND << 2 * sim_below(3);
	odds.clock = 0;
	habits.patience_us = 60 * SECOND;
	/* In some, owners have little patience, and the leader's patches are slow: there is another
	 * pod of the name by then. */
	if (sky == STORM && sim_result->seed / 22 % 2) {
		habits.patience_us = SECOND;
		habits.give_up = 700000;
		habits.force = 500000;
		weather.late_504 = weather.slow = 200000;
	}
	/* In some, etcd is restored to where who was let go stands behind his gate. */
	if (sky == STORM && sim_result->seed / 22 % 4 == 0) {
		odds.restore = 300000;
		if (sim_result->seed / 88 % 4 == 0)
			draw_restored();
		if (sim_result->seed / 88 % 2 == 1)
			draw_stalled();
	}
	orderly = sky == FAIR && sim_result->seed / 22 % 2 == 0;
	/* In some, shares alone decide. */
	if (orderly && sim_result->seed / 44 % 2)
		reserve_us = 600 * SECOND;
	else
		habits.crowd = orderly && sim_result->seed / 88 % 2;
	/* Nothing is drawn for it. What is restored or edited by hand may tear what was whole. */
	habits.gangs = !orderly && sim_result->seed / 22 % 4 >= 2;
	if (habits.gangs)
		odds.restore = odds.edit = 0;
	if (orderly)
		odds.drain = odds.shrink = odds.remove = odds.rename = odds.probe = 0;
}

/* In half of the runs in which names change hands replicas hear so late of it, and of nothing else,
 * that one list shows them two new names of a machine; and whoever lets the lock go between the two
 * is kept from going on. */
static void draw_names(void)
{
	back = sim_naps = true;
	replicas = 3;
	servers = SERVERS_MAX;
	odds.kill = odds.trap = odds.stop = odds.freeze = odds.partition = 0;
	odds.compact = odds.restore = 0;
	weather.cut_watch = 0;
	weather.lag_us = 60 * SECOND;
	habits.every_us = 8 * SECOND;
}

/* In half of those names stay, and small pods come several at once to a pool that is nearly full:
 * while a list comes in its replica takes what it shows, and there is room elsewhere, of which it
 * has not heard (R4). */
static void draw_rush(void)
{
	back = false;
	odds.rename = 0;
	servers = 2;
	habits.company = true;
	habits.names = 1000;
	habits.every_us = 2 * SECOND;
	habits.life_us = 6 * SECOND;
}

/* In some of the runs in which several come at once some claims are written so late that what was
 * counted ahead for them is over by then (P6): the cap is far, and nothing but slow calls keeps
 * anybody. */
static void draw_company(void)
{
	odds.kill = odds.trap = odds.stop = odds.freeze = odds.partition = 0;
	odds.config = odds.lease = odds.restore = odds.drain = odds.shrink = odds.remove = 0;
	weather.lost_before = weather.lost_after = weather.broken = weather.busy = 0;
	weather.late_504 = weather.foreign_404 = weather.very_slow = 0;
	weather.lag_us = SECOND;
	weather.slow = 100000;
	weather.slow_us = 4 * SECOND;
	habits.far = true;
	habits.second_hook = habits.late = 0;
	habits.life_us = 6 * SECOND;
	replicas = 1;
}

/* In some two replicas review most uids at once, whose claims are over all servers, and a call that
 * is slow lets the one take over what the other gives back (R19). */
static void draw_twins(void)
{
	odds.kill = odds.trap = odds.stop = odds.freeze = odds.partition = 0;
	odds.config = odds.restore = odds.drain = odds.shrink = odds.remove = odds.edit = 0;
	weather.lost_before = weather.lost_after = weather.broken = weather.busy = 0;
	weather.late_504 = weather.foreign_404 = weather.very_slow = weather.cut_watch = 0;
	weather.lag_us = 0;
	weather.slow = 80000;
	weather.slow_us = 4 * SECOND;
	habits.wide = true;
	habits.twice = 900000;
	habits.second_hook = habits.quota = habits.lost_create = habits.late = 0;
	habits.names = 20;
	habits.every_us = 4 * SECOND;
	habits.life_us = 3 * SECOND;
	pending_share = 100;
	replicas = 3;
	servers = SERVERS_MAX;
}

void chaos_draw(void)
{
	bool near;

	sim_preempt(1u << sim_below(7));
	replicas = 1 + (int)sim_below(3);
	servers = 1 + (int)sim_below(SERVERS_MAX);
	weather = (struct weather){.lost_before = upto(50000),
		.lost_after = upto(50000),
		.slow = upto(100000),
		.slow_us = SECOND,
		.very_slow = upto(5000),
		.busy = upto(50000),
		.broken = upto(50000),
		.late_504 = upto(50000),
		.twice = upto(30000),
		.foreign_404 = upto(sim_chance(200000) ? 400000 : 50000),
		.cut_watch = upto(50000),
		.lag_us = (int64_t)upto(30) * SECOND,
		.page = sim_chance(500000) ? 500 : 1 + sim_below(3)};
	habits = (struct habits){.second_hook = upto(500000),
		.quota = upto(400000),
		.lost_create = upto(200000),
		.late = sim_chance(100000) ? 100000 : 0,
		.twice = upto(500000),
		.clash = upto(300000),
		.force = upto(500000),
		.names = 2 + (unsigned)sim_below(8),
		.every_us = SECOND << sim_below(5),
		.life_us = 3 * SECOND << sim_below(5)};
	/* In some, most uids are reviewed by two replicas, which hear late of each other. */
	if (sim_chance(150000)) {
		habits.twice = 700000;
		weather.lag_us = 20 * SECOND;
		replicas = 2 + (int)sim_below(2);
	}
	habits.waits = sim_result->seed % 11 == 9;
	habits.caps = sim_result->seed % 11 == 10;
	habits.waits = habits.waits || (habits.caps && sim_result->seed / 11 % 3 == 2);
	odds.every_us = SECOND << sim_below(4);
	odds.kill = upto(200000);
	odds.trap = upto(500000);
	odds.stop = upto(200000);
	odds.freeze = upto(300000);
	odds.partition = upto(300000);
	odds.clock = upto(200000);
	odds.compact = upto(200000);
	odds.drain = upto(300000);
	odds.shrink = upto(300000);
	odds.remove = upto(300000);
	odds.lease = upto(50000);
	odds.restore = sim_chance(100000) ? 200000 : 0;
	draw_sky();
	/* Nothing is drawn for it, so that the other seeds stay what they were. */
	odds.edit = sky == STORM && sim_result->seed % 5 == 0 ? 300000 : 0;
	/* So that some outlive the faults. */
	if (odds.edit)
		habits.life_us *= 4;
	odds.rename = sky != BAD_LISTS && sim_result->seed % 4 == 0 ? 300000 : 0;
	if (sky == STORM && !odds.rename && sim_result->seed % 3 == 0)
		odds.config = 200000;
	if (sky == STORM && !odds.rename && sim_result->seed % 3 == 1)
		habits.delete_review = 300000;
	habits.nodes = sim_result->seed % 3 == 2;
	odds.probe = sky == FAIR && sim_result->seed % 4 == 2 ? 300000 : 0;
	/* In some, names change hands while replicas hear late of it (R15). */
	if (odds.rename && sky == STORM && sim_result->seed % 8 == 4) {
		odds.remove = odds.drain = odds.shrink = 0;
		odds.rename = 700000;
		odds.every_us = SECOND;
		/* A server that holds nothing goes at once. */
		habits.every_us = 4 * SECOND;
		habits.life_us = 3 * SECOND;
		habits.quota = habits.lost_create = habits.second_hook = 0;
		weather.lag_us = 20 * SECOND;
		if (sim_result->seed % 16 == 12)
			draw_names();
		if (sim_result->seed % 32 == 28)
			draw_rush();
	}
	/* All pods have one namespace: where it is bounded they meet less often. */
	pending_share =
		sim_result->seed % (sky == FAIR ? 2 : 4) == 1 && sky != BAD_LISTS ? 25 : 100;
	at_once = sim_result->seed % 2 ? 0 : back ? SERVERS_MAX : 1 + sim_result->seed / 2 % 3;
	/* In some, what is used is counted, and midnight (UTC) comes while the replicas run. */
	usage_on = sim_result->seed % 7 < 3 && !habits.waits;
	gated = usage_on && sim_result->seed % 8 == 1;
	if (usage_on)
		sim_wall_shift((16 * 3600 - 300) * SECOND);
	if (habits.waits)
		draw_waiting();
	/* What is edited by hand, in a server's status, no account hears of. */
	if (habits.caps)
		odds.edit = 0;
	if (habits.caps && sim_result->seed / 11 % 3 == 1) {
		habits.company = true;
		habits.names = 1000;
		habits.every_us = 2 * SECOND;
		servers = SERVERS_MAX;
		if (sky == STORM && sim_result->seed / 33 % 4 == 1)
			draw_company();
	}
	if (sky == STORM && sim_result->seed % 32 == 13 && !habits.waits && !habits.caps)
		draw_twins();
	leave_out();
	/* Those that are a minute ahead and more all count as far as that. */
	near = usage_on && sim_result->seed % 2;
	for (int i = 1; i <= replicas; i++)
		sim_clock(i, (int64_t)sim_below(2001) - 1000,
			habits.waits ? (int64_t)sim_below(10 * SECOND) - sim_mono(i)
			: near       ? (int64_t)sim_below(50 * SECOND) - sim_mono(i)
				     : (int64_t)sim_below(600) * SECOND);
	/* In some a replica is three years ahead. */
	if (usage_on && sim_result->seed % 5 == 1)
		sim_clock(1, 0, INT64_C(3 * 365 * 86400) * SECOND);
	for (int i = 0; i < servers; i++)
		make_server(i, false);
	/* As the manifests ship it, and a leader of before has filled it. */
	make_secret("poolgate-plan-keys", "1", SHARED_KEY);
	make_secret(GATE_TOKEN, "token", "0123456789abcdef");
	if (habits.caps)
		caps_make();
}
