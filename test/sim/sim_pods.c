/* SPDX-License-Identifier: Apache-2.0 */
/* sim: users who create pods through the API server, with our replicas as its last hook, and what
 * becomes of the pods. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/sim_world.h"

/* Of our webhook, as the manifests have it; of a create in all; how often a generated name is tried
 * anew. */
#define TIMEOUT_US (5 * SECOND)
#define CREATE_US (34 * SECOND)
#define RETRIES 4
/* Of the shapes the one that asks for a part of four GPUs. */
#define FOUR 7

struct habits habits;
int replicas;
static unsigned open_now;

unsigned pods_open(void)
{
	return open_now;
}

enum outcome { STORED, REFUSED, EXISTS };

/* ---- a pod that is there ---- */

struct object *pod_of(const struct attempt *a)
{
	struct object *o = store_find(PODS, a->namespace, a->name);

	return o && strcmp(o->uid, a->uid) == 0 ? o : NULL;
}

static void set_phase(struct object *o, const char *phase)
{
	cJSON *status = cJSON_CreateObject();

	cJSON_AddStringToObject(status, "phase", phase);
	cJSON_DeleteItemFromObjectCaseSensitive(o->doc, "status");
	cJSON_AddItemToObject(o->doc, "status", status);
	store_changed(o, "kubelet");
}

static void end(struct attempt *a)
{
	if (!a->ended_at)
		a->ended_at = sim_now();
	laws_dead(a);
}

/* Where a hook is still asked about deletes (ours are not any more). False: another one refuses it.
 */
static bool may_delete(const struct attempt *a, const struct object *o)
{
	static const char head[] =
		"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{"
		"\"uid\":\"d\",\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"},"
		"\"resource\":{\"group\":\"\",\"version\":\"v1\",\"resource\":\"pods\"},"
		"\"namespace\":\"ml\",\"operation\":\"DELETE\",\"dryRun\":false,\"object\":null,"
		"\"options\":{\"gracePeriodSeconds\":0},";
	size_t size = sizeof(head) + strlen(o->text) + 100;
	char *text = malloc(size), *answer;

	(void)snprintf(text, size, "%s\"name\":\"%s\",\"oldObject\":%s}}", head, a->name, o->text);
	answer = replica_answer(1 + (int)sim_below((uint64_t)replicas), "/validate", text);
	/* Who has no memory says so, by an error. */
	if (answer && !strstr(answer, "\"allowed\":true") && !lean_on)
		sim_fail("delete", "%s may not be deleted: %s", a->name, answer);
	free(answer);
	free(text);
	return sim_chance(500000);
}

/* ---- on a node ---- */

static bool has_node(const struct object *o)
{
	return store_at(o->doc, "spec", "nodeName") != NULL;
}

static int64_t seconds(const struct object *o, const char *of, const char *member)
{
	return (int64_t)cJSON_GetNumberValue(store_at(o->doc, of, member)) * SECOND;
}

/* With its own grace period, or a longer one. */
static void ask_to_end(struct object *o)
{
	cJSON *meta = store_at(o->doc, "metadata", NULL);

	cJSON_AddStringToObject(meta, "deletionTimestamp", "2027-01-15T08:00:00Z");
	if (habits.nodes)
		cJSON_AddNumberToObject(
			meta, "deletionGracePeriodSeconds", sim_chance(500000) ? 40 : 5);
	o->deleting = true;
	store_changed(o, "user");
}

/* Deleted by force: its node hears of it, and its processes have their grace period. What its
 * delete had named before counts where the leader has surely heard of that. */
static void vanish(struct attempt *a, struct object *o, int64_t asked_at)
{
	int64_t grace = seconds(o, "spec", "terminationGracePeriodSeconds"),
		asked = asked_at ? seconds(o, "metadata", "deletionGracePeriodSeconds") : 0;

	if (sky == FAIR && asked > grace)
		grace = asked;
	if (!laws_vanish(a))
		a->ended_at = sim_now();
	store_remove(o, "user");
	sim_sleep(grace);
	end(a);
}

/* Its kubelet has ended it, says so, and lets it go. */
static void end_on_node(struct attempt *a)
{
	struct object *o = pod_of(a);

	end(a);
	set_phase(o, sim_chance(500000) ? "Failed" : "Succeeded");
	sim_sleep((int64_t)sim_below(SECOND));
	o = pod_of(a);
	if (o)
		store_remove(o, "kubelet");
}

static void delete_pod(struct attempt *a)
{
	struct object *o;
	int64_t asked_at = 0;
	bool forced;

	while ((o = pod_of(a)) && sim_chance(habits.delete_review) && !may_delete(a, o))
		sim_sleep((int64_t)sim_below(5 * SECOND));
	o = pod_of(a);
	if (!o)
		return;
	forced = sim_chance(habits.force);
	if (!forced) {
		ask_to_end(o);
		asked_at = sim_now();
		sim_sleep((int64_t)sim_below(3 * SECOND) + (habits.nodes ? SECOND : 0));
	}
	o = pod_of(a);
	if (o && habits.nodes && has_node(o) && !a->ended_at) {
		if (forced || sim_chance(habits.force))
			vanish(a, o, asked_at);
		else
			end_on_node(a);
		return;
	}
	if (o) {
		end(a);
		store_remove(o, "user");
	}
}

static enum outcome attempt(struct attempt *a);

static bool pod_named(const struct attempt *a)
{
	return store_find(PODS, a->namespace, a->name) != NULL;
}

static void live(void *arg)
{
	struct attempt *a = arg;
	struct object *o;

	if (a->waits && !waiting_ends(a)) {
		delete_pod(a);
		/* He tries once more, under the same name. */
		if (!chaos_calm() && !pod_named(a))
			(void)attempt(waiting_again(a));
		open_now--;
		return;
	}
	sim_sleep((int64_t)sim_below(2 * SECOND));
	o = pod_of(a);
	if (o && habits.nodes && !sim_chance(200000))
		cJSON_AddStringToObject(store_at(o->doc, "spec", NULL), "nodeName", "node-1");
	if (o && (!habits.nodes || has_node(o)))
		set_phase(o, "Running");
	sim_sleep((int64_t)sim_below((uint64_t)habits.life_us));
	o = pod_of(a);
	if (o && sim_chance(500000)) {
		end(a);
		set_phase(o, sim_chance(300000) ? "Failed" : "Succeeded");
		sim_sleep((int64_t)sim_below(20 * SECOND));
	}
	delete_pod(a);
	open_now--;
}

bool pods_has(const struct attempt *a)
{
	return pod_of(a) != NULL;
}

/* Its node does not know it any more. */
static void clean_up(void *arg)
{
	struct attempt *a = arg;
	struct object *o;

	sim_sleep((int64_t)sim_below(10 * SECOND));
	o = pod_of(a);
	if (o)
		store_remove(o, "node");
	open_now--;
}

void pods_is_back(struct attempt *a)
{
	if (!a->ended_at && !a->vanished_at)
		return;
	open_now++;
	sim_spawn(WORLD, "node", clean_up, a);
}

/* ---- a create ---- */

/* The answer of our hook: one replica is asked; where the connection breaks the transport may ask
 * another for the same. */
static enum verdict ask(struct attempt *a)
{
	int first = 1 + (int)sim_below((uint64_t)replicas),
	    second = 1 + (int)sim_below((uint64_t)replicas);
	enum verdict said = replica_review(first, a, TIMEOUT_US);

	if (said == VERDICT_NONE && sim_chance(habits.twice))
		said = replica_review(second, a, TIMEOUT_US);
	return said;
}

struct twin {
	struct attempt *a;
	enum verdict said;
	bool done;
};

static void ask_beside(void *arg)
{
	struct twin *t = arg;

	sim_sleep((int64_t)sim_below(1u << sim_below(22)));
	t->said = ask(t->a);
	t->done = true;
	sim_wake(t);
}

/* Two replicas are asked for one uid at the same time: the second answer counts. */
static enum verdict ask_twice(struct attempt *a)
{
	struct twin *t = calloc(1, sizeof(*t));
	enum verdict said;

	t->a = a;
	sim_spawn(WORLD, "twin", ask_beside, t);
	said = ask(a);
	while (!t->done)
		(void)sim_wait(t, FOREVER);
	if (t->said != VERDICT_NONE)
		said = t->said;
	free(t);
	return said;
}

static void store_pod(struct attempt *a)
{
	cJSON *doc = pod_made(a), *status = cJSON_AddObjectToObject(doc, "status");

	cJSON_AddStringToObject(status, "phase", "Pending");
	laws_stored(a);
	open_now++;
	(void)store_add(PODS, a->namespace, a->name, a->uid, doc, "create");
	sim_spawn(WORLD, "pod", live, a);
}

/* What comes between our yes and etcd. True: the create ends here. */
static bool ends_behind_us(int64_t until)
{
	if (sim_chance(habits.second_hook))
		sim_sleep((int64_t)sim_below((uint64_t)(until - sim_now())));
	else
		sim_sleep((int64_t)sim_below(20000));
	return sim_chance(habits.quota) || sim_chance(habits.lost_create) || sim_now() >= until;
}

/* Nothing is drawn for it. What is refused in any case leaves the runs alone that ask whether
 * everybody gets in. */
static enum writer writer_of(uint64_t n)
{
	static const enum writer writers[] = {WRITER_NOBODY, WRITER_OURS, WRITER_NOBODY,
		WRITER_OURS, WRITER_STRANGER, WRITER_OURS, WRITER_NOBODY, WRITER_CHANGED};
	enum writer w = writers[n % 8];

	return w == WRITER_CHANGED && (sky != STORM || sim_result->seed % 3) ? WRITER_OURS : w;
}

static enum outcome attempt(struct attempt *a)
{
	int writer = replica_config(1 + (int)(sim_result->pods % (uint64_t)replicas));
	int64_t until = sim_now() + CREATE_US;
	enum outcome out = REFUSED;
	enum verdict said;
	bool late = false;

	a->config = writer < CONFIGS_INJECT ? writer : CONFIG_NOW;
	a->writer = a->waits ? WRITER_NOBODY : writer_of(sim_result->pods);
	said = sim_chance(habits.twice) ? ask_twice(a) : ask(a);
	if (said == VERDICT_YES && !ends_behind_us(until)) {
		/* The API server's machine, or etcd, stands still for longer than any limit. */
		if (sim_chance(habits.late)) {
			late = true;
			sim_sleep((int64_t)sim_below(90 * SECOND));
		}
		out = store_find(PODS, a->namespace, a->name) ? EXISTS : STORED;
	}
	if (out != STORED) {
		a->dropped_at = sim_now();
		laws_dead(a);
		return out;
	}
	a->late = a->late || (late && sim_now() > until);
	store_pod(a);
	return STORED;
}

static void create(void *arg)
{
	const struct shape *shape =
		&shapes[habits.wide ? FOUR : sim_below((uint64_t)(habits.company ? 1 : n_shapes))];
	bool generated = sim_chance(300000);
	enum outcome out = EXISTS;
	char name[32];

	(void)arg;
	for (int i = 0; out == EXISTS && i < (generated ? RETRIES : 1); i++) {
		(void)snprintf(name, sizeof(name), "%s-%u", generated ? "job" : "web",
			(unsigned)sim_below(habits.names));
		/* Whoever makes pods of fixed names mostly waits for the one before; the others may
		 * clash. */
		if (!generated && store_find(PODS, "ml", name) && !sim_chance(habits.clash))
			break;
		out = attempt(laws_attempt(shape, name));
	}
	open_now--;
}

void users(void *until)
{
	for (uint64_t n = 0; sim_now() < *(const int64_t *)until; n++) {
		if (sim_cut.pods && n == sim_cut.pods)
			return;
		sim_sleep((int64_t)sim_below((uint64_t)habits.every_us));
		for (uint64_t i = habits.company ? sim_below(16) : 0; i > 0; i--) {
			open_now++;
			sim_spawn(WORLD, "create", create, NULL);
		}
		open_now++;
		sim_spawn(WORLD, "create", create, NULL);
	}
}

static void create_waiting(void *arg)
{
	struct attempt *a = arg ? arg : waiting_attempt(false);

	if (a)
		(void)attempt(a);
	open_now--;
}

static void create_small(void *unused)
{
	struct attempt *a = waiting_attempt(true);

	(void)unused;
	if (a)
		(void)attempt(a);
	open_now--;
}

static void create_gang(void)
{
	unsigned gang = gang_new();

	for (unsigned i = 0; gang > 0 && i < gang_size(gang); i++) {
		open_now++;
		sim_spawn(WORLD, "create", create_waiting, waiting_member(gang, i));
	}
}

static bool is_crowded(void)
{
	return habits.crowd && (!chaos_calm() || laws_waiting(chaos_calm()) > 0);
}

void waiters(void *until)
{
	bool small = false;

	for (uint64_t n = 0; !small || is_crowded(); n++) {
		if (sim_cut.pods && n == sim_cut.pods)
			return;
		sim_sleep((int64_t)sim_below((uint64_t)habits.turns_us));
		if (habits.gangs && n % 2 == 0)
			create_gang();
		open_now++;
		sim_spawn(WORLD, "create", small ? create_small : create_waiting, NULL);
		small = sim_now() >= *(const int64_t *)until;
	}
}
