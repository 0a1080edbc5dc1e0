/* SPDX-License-Identifier: Apache-2.0 */
/* edge/image/image_look: what is kept of images, for whom and for how long, and who may wait. */
#include "webhook/edge/image/image_look.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/edge/image/registry_client.h"

static struct fixture fix;
static struct pod pod;
static struct image_look *look;
static struct slice host = SLICE("r.x");
static struct registry registry;
static int64_t now_ms;
static struct pull_login login; /* that the pod has; without a user: none */
static bool forbidden;          /* its Secret cannot be read */
static atomic_uint asked;
static int answer; /* 0, or the error that the registry is answered with */
static atomic_bool held, inside;

static int64_t fake_now(void)
{
	return now_ms;
}

/* The word tells whose answer it is. */
static int ask(const struct registry_question *q, struct arena *a, struct image_start *ret,
	struct err *err)
{
	unsigned n = atomic_fetch_add(&asked, 1) + 1;
	struct slice *word = arena_array(a, 1, sizeof(*word));

	atomic_store(&inside, true);
	while (atomic_load(&held))
		(void)usleep(1000);
	if (answer != 0)
		return err_set(err, (enum err_code)answer, "answer %u", n);
	*word = slice_of(arena_fmt(a, "%u", n));
	*ret = (struct image_start){
		.digest = SLICE("sha256:x"), .entrypoint = word, .n_entrypoint = 1};
	assert_ptr_equal(q->registry, &registry);
	return 0;
}

static int find_login(void *ctx, const struct image_ask *image, const struct image_name *name,
	int64_t deadline_ms, struct arena *a, struct pull_logins *ret, struct err *why)
{
	(void)ctx, (void)image, (void)name, (void)deadline_ms;
	if (forbidden)
		(void)err_set(why, ERR_REFUSED, "the Secret is closed");
	if (login.user.at) {
		ret->list[ret->n] = login;
		ret->list[ret->n].user = arena_slice(a, login.user);
		ret->list[ret->n++].password = arena_slice(a, login.password);
	}
	return 0;
}

static void make(unsigned at_once, int64_t (*now)(void))
{
	struct err err = {0};

	image_look_free(look);
	look = image_look_new(&(struct image_look_config){.logins = {NULL, find_login},
				      .at_once = at_once,
				      .ask = ask,
				      .now_ms = now},
		&err);
	assert_non_null(look);
}

FIXTURE(set_up)
{
	struct err err = {0};

	fixture_init(&fix);
	assert_int_equal(
		pod_read(&fix.json,
			fixture_pod(&fix, "{'metadata':{},'spec':{'containers':[{'name':'a'}]}}"),
			&fix.scratch, &pod, &err),
		0);
	registry = (struct registry){.host = host};
	now_ms = 1000;
	login = (struct pull_login){0};
	forbidden = false;
	answer = 0;
	atomic_store(&asked, 0);
	atomic_store(&held, false);
	atomic_store(&inside, false);
	make(4, fake_now);
	return 0;
}

FIXTURE(tear_down)
{
	image_look_free(look);
	look = NULL;
	fixture_release(&fix);
	return 0;
}

/* Which answer this image gets, counted from 1, of who has so much time; the negative error. */
static int word_within(const char *image, int64_t ms, struct err *err)
{
	struct image_ask what = {.image = slice_of(image), .namespace = SLICE("ns"), .pod = &pod};
	struct image_start start = {0};
	struct arena a;
	int rc;

	arena_init(&a, 1 << 20);
	rc = image_look_find(look, &registry, 1, &what, now_ms + ms, &a, &start, err);
	if (rc == 0)
		rc = atoi(start.entrypoint[0].at);
	arena_release(&a);
	return rc;
}

static int word_of(const char *image, struct err *err)
{
	return word_within(image, 5000, err);
}

static int word(const char *image)
{
	struct err err = {0};

	return word_of(image, &err);
}

#define DIGEST "r.x/a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(who_is_allowed)
{
	assert_true(image_look_allows(&registry, 1, SLICE("r.x/a")));
	assert_false(image_look_allows(&registry, 1, SLICE("r.x.y/a")));
	assert_false(image_look_allows(&registry, 1, SLICE("a")));
	assert_false(image_look_allows(&registry, 0, SLICE("r.x/a")));
	assert_false(image_look_allows(&registry, 1, SLICE("r.x/A")));
	assert_int_equal(word("other.x/a"), ERR_REFUSED);
	assert_int_equal(word("%"), ERR_REFUSED);
	assert_int_equal(atomic_load(&asked), 0);
}

TEST(a_tag_is_kept_for_minutes_a_digest_for_longer)
{
	assert_int_equal(word("r.x/a:1"), 1);
	assert_int_equal(word("r.x/a:1"), 1);
	assert_int_equal(word("r.x/a:2"), 2);
	assert_int_equal(word(DIGEST), 3);
	now_ms += IMAGE_LOOK_TAG_MS - 1;
	assert_int_equal(word("r.x/a:1"), 1);
	now_ms++;
	assert_int_equal(word("r.x/a:1"), 4);
	assert_int_equal(word(DIGEST), 3);
	now_ms += IMAGE_LOOK_DIGEST_MS;
	assert_int_equal(word(DIGEST), 5);
}

TEST(a_failure_is_kept_for_seconds)
{
	struct err err = {0};

	answer = ERR_REFUSED;
	assert_int_equal(word_of("r.x/a", &err), ERR_REFUSED);
	assert_string_equal(err.msg, "answer 1");
	answer = 0;
	now_ms += IMAGE_LOOK_FAILED_MS - 1;
	assert_int_equal(word_of("r.x/a", &err), ERR_REFUSED);
	assert_string_equal(err.msg, "answer 1");
	now_ms++;
	assert_int_equal(word("r.x/a"), 2);
}

/* A pod that came with hardly any time left does not speak for those that have some. */
TEST(want_of_time_is_ones_own)
{
	struct err err = {0};

	answer = ERR_TIMEOUT;
	assert_int_equal(word_within("r.x/a", 1000, &err), ERR_REFUSED);
	assert_int_equal(err.code, ERR_REFUSED);
	answer = 0;
	assert_int_equal(word_within("r.x/a", 1999, &err), ERR_REFUSED);
	assert_string_equal(err.msg, "answer 1");
	assert_int_equal(word_within("r.x/a", 2000, &err), 2);
	assert_int_equal(word_within("r.x/a", 1, &err), 2);
	answer = ERR_TIMEOUT;
	assert_int_equal(word_within("r.x/b", 0, &err), ERR_REFUSED);
	answer = 0;
	assert_int_equal(word_within("r.x/b", 1, &err), 4);
	/* what a registry has said holds for whoever waits longer, too */
	answer = ERR_REFUSED;
	assert_int_equal(word_within("r.x/c", 1, &err), ERR_REFUSED);
	answer = 0;
	assert_int_equal(word_within("r.x/c", 100000, &err), ERR_REFUSED);
}

/* What was believed while others were trusted is not believed now. */
TEST(settings_that_change_ask_anew)
{
	struct slice name = SLICE("t.x"), net = SLICE("10.0.0.0/8");

	assert_int_equal(word(DIGEST), 1);
	registry.ca = "other.pem";
	assert_int_equal(word(DIGEST), 2);
	registry.tokens = &name;
	registry.n_tokens = 1;
	assert_int_equal(word(DIGEST), 3);
	registry.tokens = NULL;
	registry.n_tokens = 0;
	registry.manifests = &name;
	registry.n_manifests = 1;
	assert_int_equal(word(DIGEST), 4);
	registry.storage = &name;
	registry.n_storage = 1;
	assert_int_equal(word(DIGEST), 5);
	registry.addresses = &net;
	registry.n_addresses = 1;
	assert_int_equal(word(DIGEST), 6);
	registry = (struct registry){.host = host};
	assert_int_equal(word(DIGEST), 1);
}

TEST(want_of_memory_is_not_kept)
{
	answer = ERR_NOMEM;
	assert_int_equal(word("r.x/a"), ERR_NOMEM);
	answer = 0;
	assert_int_equal(word("r.x/a"), 2);
}

/* What one credential was shown is for nobody with another, nor with none; a borrowed word must not
 * make two of them one. */
TEST(each_credential_for_itself)
{
	assert_int_equal(word("r.x/a"), 1);
	login = (struct pull_login){.user = SLICE("u"), .password = SLICE("p")};
	assert_int_equal(word("r.x/a"), 2);
	login.password = SLICE("q");
	assert_int_equal(word("r.x/a"), 3);
	login = (struct pull_login){.user = SLICE("up"), .password = SLICE("")};
	assert_int_equal(word("r.x/a"), 4);
	login = (struct pull_login){.user = SLICE("u"), .password = SLICE("p")};
	assert_int_equal(word("r.x/a"), 2);
}

TEST(each_set_of_platforms_for_itself)
{
	struct err err = {0};

	assert_int_equal(word("r.x/a"), 1);
	assert_int_equal(
		pod_read(&fix.json,
			fixture_pod(&fix, "{'metadata':{},'spec':{'containers':[{'name':'a'}],"
					  "'nodeSelector':{'kubernetes.io/arch':'amd64'}}}"),
			&fix.scratch, &pod, &err),
		0);
	assert_int_equal(word("r.x/a"), 2);
}

TEST(a_secret_that_is_closed_is_told_where_it_mattered)
{
	struct err err = {0};

	forbidden = true;
	assert_int_equal(word("r.x/a"), 1);
	answer = ERR_REFUSED;
	assert_int_equal(word_of("r.x/b", &err), ERR_REFUSED);
	assert_string_equal(err.msg, "answer 2; the Secret is closed");
}

/* The one whose time ends first goes. */
TEST(no_more_are_kept_than_there_is_room_for)
{
	char name[32];

	for (int i = 0; i <= IMAGE_LOOK_KEPT; i++) {
		(void)snprintf(name, sizeof(name), "r.x/a:%d", i);
		now_ms++;
		assert_int_equal(word(name), i + 1);
	}
	assert_int_equal(word("r.x/a:1"), 2);
	assert_int_equal(word("r.x/a:0"), IMAGE_LOOK_KEPT + 2);
}

static void *other(void *arg)
{
	*(int *)arg = word("r.x/a");
	return NULL;
}

/* Two at one time ask once; a third finds no room, and does not wait. */
TEST(who_waits_is_counted)
{
	pthread_t threads[2];
	struct err err = {0};
	int got[2] = {0};

	now_ms = clock_ms();
	make(2, NULL);
	atomic_store(&held, true);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, other, &got[i]), 0);
	while (!atomic_load(&inside))
		(void)usleep(1000);
	(void)usleep(100000);
	assert_int_equal(word_of("r.x/b", &err), ERR_REFUSED);
	assert_non_null(strstr(err.msg, "too many images"));
	atomic_store(&held, false);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(got[0], 1);
	assert_int_equal(got[1], 1);
	assert_int_equal(atomic_load(&asked), 1);
	assert_int_equal(word("r.x/b"), 2);
}

/* Who waits for another's answer waits no longer than its own time. */
TEST(the_deadline_is_each_ones_own)
{
	pthread_t thread;
	struct err err = {0};
	int got = 0;

	now_ms = clock_ms();
	make(2, NULL);
	atomic_store(&held, true);
	assert_int_equal(pthread_create(&thread, NULL, other, &got), 0);
	while (!atomic_load(&inside))
		(void)usleep(1000);
	now_ms -= 4900;
	assert_int_equal(word_of("r.x/a", &err), ERR_REFUSED);
	assert_non_null(strstr(err.msg, "in time"));
	atomic_store(&held, false);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(got, 1);
}

TESTS_BETWEEN(set_up, tear_down, who_is_allowed, a_tag_is_kept_for_minutes_a_digest_for_longer,
	a_failure_is_kept_for_seconds, want_of_time_is_ones_own, settings_that_change_ask_anew,
	want_of_memory_is_not_kept, each_credential_for_itself, each_set_of_platforms_for_itself,
	a_secret_that_is_closed_is_told_where_it_mattered, no_more_are_kept_than_there_is_room_for,
	who_waits_is_counted, the_deadline_is_each_ones_own)
