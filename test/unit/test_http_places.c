/* SPDX-License-Identifier: Apache-2.0 */
/* test: which connection goes when there are too many. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "net/http_places.h"
#include "test/unit/test.h"

#define LIMIT 128 /* of which two are kept free */
#define MOST 126

static struct http_places places;
static struct http_place all[LIMIT];
static struct http_place *newest;

FIXTURE(reset)
{
	memset(all, 0, sizeof(all));
	http_places_init(&places, LIMIT, 1);
	return 0;
}

static void take(unsigned i, const char *address)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
		http_place_take(&places, &all[i], (const struct sockaddr *)&v4);
	else if (inet_pton(AF_INET6, address, &v6.sin6_addr) == 1)
		http_place_take(&places, &all[i], (const struct sockaddr *)&v6);
	else
		http_place_take(&places, &all[i], NULL);
	newest = &all[i];
}

static void fill(unsigned from, unsigned to, const char *address, enum http_stage stage)
{
	for (unsigned i = from; i < to; i++) {
		take(i, address);
		assert_null(http_places_spare(&places, newest));
		http_place_set(&places, &all[i], stage);
	}
}

static void expect(unsigned i)
{
	assert_ptr_equal(http_places_spare(&places, newest), &all[i]);
}

TEST(few_places)
{
	http_places_init(&places, 63, 1);
	fill(0, 100, "10.0.0.1", HTTP_STAGE_NEW);
	http_places_init(&places, 64, 1);
	memset(all, 0, sizeof(all));
	fill(0, 63, "10.0.0.1", HTTP_STAGE_NEW);
	take(63, "10.0.0.1");
	expect(0);
}

/* Who does something is the last of its stage, and the one behind it goes. */
TEST(somebody_stirs)
{
	fill(0, MOST, "10.0.0.1", HTTP_STAGE_IDLE);
	take(MOST, "10.0.0.1");
	expect(0);
	http_place_again(&places, &all[0]);
	expect(1);
	for (unsigned i = 1; i < MOST; i++) {
		expect(i);
		http_place_again(&places, &all[i]);
	}
	expect(0);
	http_place_free(&places, &all[0]);
	assert_int_equal(places.taken, MOST);
	assert_null(http_places_spare(&places, newest));
}

/* Of one address: where most of them are, then who is there for longest; whoever is being answered
 * stays. */
TEST(one_address)
{
	fill(0, 20, "10.0.0.1", HTTP_STAGE_RECEIVING);
	fill(20, 45, "10.0.0.1", HTTP_STAGE_IDLE);
	fill(45, 75, "10.0.0.1", HTTP_STAGE_UNUSED);
	fill(75, MOST, "10.0.0.1", HTTP_STAGE_BUSY);
	take(MOST, "10.0.0.1");
	expect(45);
	http_place_set(&places, &all[45], HTTP_STAGE_IDLE);
	expect(46); /* 29 are unused, 26 idle */
	for (unsigned i = 46; i < 50; i++)
		http_place_set(&places, &all[i], HTTP_STAGE_BUSY);
	expect(20); /* 25 are unused */
	http_place_set(&places, &all[20], HTTP_STAGE_RECEIVING);
	http_place_set(&places, &all[20], HTTP_STAGE_BUSY);
	http_place_set(&places, &all[20], HTTP_STAGE_IDLE);
	expect(21); /* it has just been answered */
	for (unsigned i = 20; i < 75; i++)
		http_place_set(&places, &all[i], HTTP_STAGE_BUSY);
	expect(0);
	for (unsigned i = 0; i < 20; i++)
		http_place_set(&places, &all[i], HTTP_STAGE_BUSY);
	assert_null(http_places_spare(&places, newest)); /* all are busy: clients wait outside */
	for (unsigned i = 30; i < 40; i++)
		http_place_set(&places, &all[i], HTTP_STAGE_SENDING);
	expect(30); /* answered, and does not read it */
}

/* An API server's connections stay, however many come from elsewhere and whatever these do. */
TEST(two_addresses)
{
	fill(0, 25, "10.0.0.1", HTTP_STAGE_IDLE);
	fill(25, MOST, "fd00::7", HTTP_STAGE_RECEIVING);
	take(MOST, "fd00::7");
	expect(25);
	http_place_set(&places, &all[25], HTTP_STAGE_LEAVING);
	assert_null(http_places_spare(&places, newest));
	take(MOST + 1, "10.0.0.1");
	expect(26);
	/* Who has most and nothing to spare displaces nobody. */
	for (unsigned i = 26; i < MOST; i++)
		http_place_set(&places, &all[i], HTTP_STAGE_BUSY);
	expect(MOST); /* it is no longer the newest */
	http_place_free(&places, &all[MOST]);
	http_place_set(&places, &all[MOST + 1], HTTP_STAGE_IDLE);
	assert_null(http_places_spare(&places, newest));
	take(MOST, "fd00::7");
	expect(MOST);
	/* Another still gets in: at the cost of whom has more than it. */
	http_place_free(&places, &all[MOST]);
	take(MOST, "10.0.0.2");
	expect(0);
}

/* With the last place taken the transport lets nobody in: then somebody has to go without a
 * newcomer. */
TEST(full)
{
	fill(0, MOST, "10.0.0.1", HTTP_STAGE_BUSY);
	take(MOST, "10.0.0.2");
	assert_null(http_places_spare(&places, newest));
	assert_false(http_places_full(&places));
	take(MOST + 1, "10.0.0.2");
	assert_true(http_places_full(&places));
	http_place_set(&places, &all[7], HTTP_STAGE_IDLE);
	assert_ptr_equal(http_places_spare(&places, NULL), &all[7]);
	http_place_set(&places, &all[7], HTTP_STAGE_LEAVING);
	assert_false(http_places_full(&places));
	http_places_init(&places, 63, 1);
	memset(all, 0, sizeof(all));
	for (unsigned i = 0; i < 63; i++)
		take(i, "10.0.0.1");
	assert_false(http_places_full(&places)); /* so few are not displaced: they wait outside */
}

/* One that leaves is counted no more, stays so, and closes once. */
TEST(leaving)
{
	fill(0, MOST, "10.0.0.1", HTTP_STAGE_NEW);
	take(MOST, "?");
	expect(0);
	http_place_set(&places, &all[0], HTTP_STAGE_LEAVING);
	assert_int_equal(places.taken, MOST);
	http_place_set(&places, &all[0], HTTP_STAGE_UNUSED);
	assert_int_equal(all[0].stage, HTTP_STAGE_LEAVING);
	http_place_free(&places, &all[0]);
	assert_int_equal(places.taken, MOST);
	for (unsigned i = 1; i <= MOST; i++)
		http_place_free(&places, &all[i]);
	assert_int_equal(places.taken, 0);
	assert_null(places.first);
	assert_null(places.last);
	for (unsigned i = 0; i < HTTP_PLACES_CLASSES; i++)
		assert_int_equal(places.held[i], 0);
	for (unsigned i = 0; i < HTTP_PLACES_CLASSES; i++)
		for (unsigned j = 0; j < HTTP_STAGE_LEAVING; j++)
			assert_int_equal(places.at[i][j], 0);
}

TESTS_BETWEEN(reset, NULL, few_places, one_address, somebody_stirs, two_addresses, full, leaving)
