/* SPDX-License-Identifier: Apache-2.0 */
/* sim: versions of the configuration, as a rollout brings them, and the pods that the product
 * injects under each. */
#include <stdio.h>
#include <string.h>

#include "test/sim/sim_world.h"
#include "test/unit/core_fixture.h"
#include "webhook/edge/admission/plan_keys.h"

struct shape shapes[] = {
	{"tenth", 1, 10, {{NULL}}, {NULL}},
	{"half", 1, 50, {{NULL}}, {NULL}},
	{"most", 1, 60, {{NULL}}, {NULL}},
	{"one", 1, 100, {{NULL}}, {NULL}},
	{"two", 2, 100, {{NULL}}, {NULL}},
	{"pair", 2, 50, {{NULL}}, {NULL}},
	{"three", 3, 40, {{NULL}}, {NULL}},
	{"four", 4, 20, {{NULL}}, {NULL}},
	{"five", 5, 30, {{NULL}}, {NULL}},
};
const int n_shapes = sizeof(shapes) / sizeof(shapes[0]);

/* The first pod's first init container has it (core_fixture.c). */
#define STRANGERS_KEY "12345678901234567890123456789012"
#define WAITS "'poolgate.io/when-full':'wait',"
#define INJECTED_IMAGE "client:400"

static struct fixture fixture;
static struct config versions[CONFIGS];
static struct profile later[3];
static const struct config *only;

/* The client's libraries lie elsewhere from now on: what is written into pods is another text. */
static void change_client(struct profile *p)
{
	static struct profile_value values[8];
	static struct profile_client client;

	client = p->clients[0];
	memcpy(values, client.values, client.n_values * sizeof(*values));
	values[1].value = SLICE("/other/lib");
	client.values = values;
	p->clients = &client;
	p->n_clients = 1;
	p->hash++;
}

/* Who has the key that the replicas share, and who has another. */
static struct plan_keys *keys(uint64_t number, const char *bytes)
{
	struct plan_keys *k = plan_keys_new(NULL);
	struct plan_key key = {.number = number};

	if (!k)
		sim_fail("simulator", "no keys can be made");
	memcpy(key.bytes, bytes, sizeof(key.bytes));
	plan_keys_share(k, &key, 1, 0);
	return k;
}

/* Another image in the place of one that was injected, of the same length. */
static void change_image(char *pod)
{
	char *image = strstr(pod, INJECTED_IMAGE);

	if (!image)
		sim_fail("simulator", "no image was injected");
	image[strlen(INJECTED_IMAGE) - 1] = '1';
}

static char *injected(const struct shape *s, int version, const char *annotation)
{
	char pod[1000];

	fixture.config = versions[version];
	(void)snprintf(pod, sizeof(pod),
		"{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p','namespace':'ml','"
		"annotations':{"
		"%s'auto-management/bitfusion':'all','bitfusion-client/"
		"os':'ubuntu18','bitfusion-client/version':'400'}},"
		"'spec':{'terminationGracePeriodSeconds':%d,'containers':[{'name':'c','image':'i','"
		"command':['python','train."
		"py'],'resources':"
		"{'limits':{'bitfusion.io/gpu-amount':'%u','bitfusion.io/"
		"gpu-percent':'%u'}}}]}}",
		annotation, 5 + 5 * (int)((s - shapes) % 6), s->amount, s->percent);
	return fixture_inject(&fixture, pod);
}

static void inject_all(enum writer w)
{
	for (int i = 0; i < n_shapes; i++)
		for (int k = 0; k < CONFIGS_INJECT; k++) {
			shapes[i].pods[w][k] = injected(&shapes[i], k, "");
			if (w == WRITER_NOBODY)
				shapes[i].waiting[k] = injected(&shapes[i], k, WAITS);
			if (w == WRITER_CHANGED)
				change_image(shapes[i].pods[w][k]);
		}
}

void configs_prepare(void)
{
	fixture_init(&fixture);
	fixture.config.late_place = true;
	for (int i = 0; i < CONFIGS; i++)
		versions[i] = fixture.config;
	memcpy(later, fixture.profiles, sizeof(later));
	change_client(&later[0]);
	versions[CONFIG_LATER].profiles = later;
	versions[CONFIG_LATER].default_profile = later;
	/* The first is the one that pods are injected by. */
	versions[CONFIG_WITHOUT].profiles = later + 1;
	versions[CONFIG_WITHOUT].n_profiles--;
	versions[CONFIG_WITHOUT].default_profile = later + 1;
	for (int v = 0; v < CONFIGS; v++)
		for (size_t i = 0; i < versions[v].n_profiles; i++)
			if (profile_prepare_proof(&versions[v].profiles[i], mac_digest,
				    &fixture.arena, NULL) != 0)
				sim_fail("simulator", "no proofs can be made");
	for (enum writer w = 0; w < WRITERS; w++) {
		fixture.world.signer =
			w == WRITER_NOBODY
				? NULL
				: plan_keys_signer(keys(
					  1, w == WRITER_STRANGER ? STRANGERS_KEY : SHARED_KEY));
		inject_all(w);
	}
}

const struct config *config_of(int version)
{
	return only ? only : &versions[version];
}

void replicas_use(const struct config *c)
{
	only = c;
}
