/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/secrets/pull_secrets: which of a pod's Secrets are read, and what is made of them. */
#include "webhook/cluster/secrets/pull_secrets.h"

#include "base/clock.h"
#include "test/unit/api_fixture.h"
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"

#define SECRETS "/api/v1/namespaces/lab/secrets/"
#define CONFIG(type, key, base64)                                                                  \
	"{\"kind\":\"Secret\",\"metadata\":{\"name\":\"s\"},\"type\":\"" type                      \
	"\",\"data\":{\"" key "\":\"" base64 "\"}}"
/* {"auths":{"r.x":{"auth":"dTpw"}}}: u, p */
#define AUTHS "eyJhdXRocyI6eyJyLngiOnsiYXV0aCI6ImRUcHcifX19"
/* {"r.x":{"auth":"djp3"}}: v, w */
#define PLAIN "eyJyLngiOnsiYXV0aCI6ImRqcDMifX0="
/* {"auths":{"other.x":{"auth":"dTpw"}}} */
#define OTHERS "eyJhdXRocyI6eyJvdGhlci54Ijp7ImF1dGgiOiJkVHB3In19fQ=="

static struct fixture fix;
static struct api *api;
static struct kube_config config;
static struct kube *kube;
static struct pull_logins got;
static struct err why;
static struct arena arena;

FIXTURE(set_up)
{
	struct err err = {0};

	fixture_init(&fix);
	api = api_start(NULL, NULL);
	api_config(api, &config);
	assert_int_equal(kube_new(&config, &kube, &err), 0);
	arena_init(&arena, 1 << 20);
	return 0;
}

FIXTURE(tear_down)
{
	kube_free(kube);
	api_stop(api);
	arena_release(&arena);
	fixture_release(&fix);
	return 0;
}

/* names: of imagePullSecrets, as JSON with single quotes. */
static int find(const char *names)
{
	const struct image_name name = {.host = SLICE("r.x"), .repository = SLICE("a")};
	struct image_ask ask = {.namespace = SLICE("lab")};
	char text[4000];
	struct pod pod;
	struct err err = {0};

	(void)snprintf(text, sizeof(text),
		"{'metadata':{},'spec':{'containers':[{'name':'a'}],'imagePullSecrets':[%s]}}",
		names);
	assert_int_equal(pod_read(&fix.json, fixture_pod(&fix, text), &fix.scratch, &pod, &err), 0);
	ask.pod = &pod;
	got = (struct pull_logins){0};
	why = (struct err){0};
	return pull_secrets_find(kube, &ask, &name, clock_ms() + 5000, &arena, &got, &why);
}

TEST(both_types_are_read)
{
	api_expect(api, "GET", SECRETS "one", 200,
		CONFIG("kubernetes.io/dockerconfigjson", ".dockerconfigjson", AUTHS));
	api_expect(api, "GET", SECRETS "two", 200,
		CONFIG("kubernetes.io/dockercfg", ".dockercfg", PLAIN));
	assert_int_equal(find("{'name':'one'},{'name':'two'}"), 0);
	assert_int_equal(got.n, 2);
	assert_true(slice_is(got.list[0].user, "u") && slice_is(got.list[0].password, "p"));
	assert_true(slice_is(got.list[1].user, "v") && slice_is(got.list[1].password, "w"));
	assert_int_equal(why.code, ERR_NONE);
}

/* A Secret of another type may hold what looks like one: a namespace that opened all of its Secrets
 * did not mean that. */
TEST(what_is_none_is_passed_over)
{
	static const char *const answers[] = {CONFIG("Opaque", ".dockerconfigjson", AUTHS),
		CONFIG("kubernetes.io/dockerconfigjson", ".dockercfg", AUTHS),
		CONFIG("kubernetes.io/dockerconfigjson", ".dockerconfigjson", "e30="),
		CONFIG("kubernetes.io/dockerconfigjson", ".dockerconfigjson", "!"),
		CONFIG("kubernetes.io/dockerconfigjson", ".dockerconfigjson", "e3s="),
		CONFIG("kubernetes.io/dockerconfigjson", ".dockerconfigjson", OTHERS), "{}"};

	for (size_t i = 0; i < COUNT(answers); i++) {
		api_expect(api, "GET", SECRETS "s", 200, answers[i]);
		assert_int_equal(find("{'name':'s'}"), 0);
		assert_int_equal(got.n, 0);
		assert_int_equal(why.code, ERR_NONE);
	}
	assert_int_equal(find("{'name':'gone'}"), 0);
	assert_int_equal(got.n, 0);
}

TEST(what_may_not_be_read_is_told)
{
	struct api_reply no = {0};

	api_status(&no, 403, "Forbidden", "no");
	api_expect_reply(api, "GET", SECRETS "closed", &no);
	api_expect(api, "GET", SECRETS "open", 200,
		CONFIG("kubernetes.io/dockerconfigjson", ".dockerconfigjson", AUTHS));
	assert_int_equal(find("{'name':'closed'},{'name':'open'}"), 0);
	assert_int_equal(got.n, 1);
	assert_int_equal(why.code, ERR_REFUSED);
	assert_non_null(strstr(why.msg, "closed is not read: its namespace has not let poolgate"));
}

/* Names go into a path; nobody is asked for what no object can be called, nor for any number. */
TEST(names_are_held_to_what_names_are)
{
	assert_int_equal(find("{'name':'../x'},{'name':''},{'name':7},{},7,{'name':'A'}"), 0);
	assert_int_equal(api_seen_count(api), 0);
	assert_int_equal(
		find("{'name':'a'},{'name':'a'},{'name':'a'},{'name':'a'},{'name':'a'},{'name':"
		     "'a'},{'name':'a'},{'name':'a'},{'name':'a'},{'name':'a'}"),
		0);
	assert_int_equal(api_seen_count(api), PULL_SECRETS_MAX);
}

TESTS_BETWEEN(set_up, tear_down, both_types_are_read, what_is_none_is_passed_over,
	what_may_not_be_read_is_told, names_are_held_to_what_names_are)
