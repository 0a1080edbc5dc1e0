/* SPDX-License-Identifier: Apache-2.0 */
/* kube/lease_record: what is read, decided and written. */
#include <time.h>

#include "kube/lease_record.h"
#include "test/unit/test.h"

ARENA_FIXTURES(1u << 20)

static int read_text(const char *text, struct lease_record *ret, struct err *err)
{
	struct json j = {0};
	char *copy;
	int rc;

	assert_int_equal(json_read_copy(&j, text, strlen(text), 1000, &copy, err), 0);
	rc = lease_record_read(&j, json_root(&j), &arena, ret, err);
	/* Nothing may point into the text. */
	memset(copy, '#', strlen(copy));
	free(copy);
	json_release(&j);
	return rc;
}

#define WHOLE                                                                                      \
	"{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/"                                \
	"v1\",\"metadata\":{\"name\":\"l\","                                                       \
	"\"namespace\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"41\",\"labels\":{\"a\":\"b\"}},"  \
	"\"spec\":{\"holderIdentity\":\"pod_\\u0031\",\"leaseDurationSeconds\":15,"                \
	"\"acquireTime\":\"2026-11-21T09:30:00.000001Z\","                                         \
	"\"renewTime\":\"2026-11-21T09:31:00.000000Z\",\"leaseTransitions\":7,"                    \
	"\"strategy\":\"OldestEmulationVersion\",\"preferredHolder\":\"x\"}}"

TEST(read_whole)
{
	struct lease_record r;
	struct err err = {0};

	assert_int_equal(read_text(WHOLE, &r, &err), 0);
	assert_string_equal(r.holder, "pod_1");
	assert_int_equal(r.duration_s, 15);
	assert_int_equal(r.transitions, 7);
	assert_string_equal(r.acquired, "2026-11-21T09:30:00.000001Z");
	assert_string_equal(r.renewed, "2026-11-21T09:31:00.000000Z");
	assert_true(slice_is(r.metadata,
		"{\"name\":\"l\",\"namespace\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"41\","
		"\"labels\":{\"a\":\"b\"}}"));
	assert_true(slice_is(
		r.rest, "\"strategy\":\"OldestEmulationVersion\",\"preferredHolder\":\"x\""));
}

TEST(read_bare)
{
	static const char *const bare[] = {
		"{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":\"1\"}}",
		"{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":{}}",
		"{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":null}",
		"{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":{"
		"\"holderIdentity\":null,\"acquireTime\":null,\"leaseTransitions\":null}}",
	};
	struct err err = {0};

	for (size_t i = 0; i < COUNT(bare); i++) {
		struct lease_record r;

		assert_int_equal(read_text(bare[i], &r, &err), 0);
		assert_string_equal(r.holder, "");
		assert_string_equal(r.acquired, "");
		assert_string_equal(r.renewed, "");
		assert_int_equal(r.duration_s, 0);
		assert_int_equal(r.transitions, 0);
		assert_null(r.rest.at);
	}
}

TEST(read_refused)
{
#define LEASE(spec)                                                                                \
	"{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":" spec "}"
	static const struct {
		const char *text;
		enum err_code code;
		const char *path;
	} cases[] = {
		{"[]", ERR_SYNTAX, ""},
		{"{}", ERR_SYNTAX, ""},
		{"{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"1\"}}", ERR_SYNTAX, ""},
		{"{\"kind\":\"Lease\"}", ERR_INVALID, "/metadata"},
		{"{\"kind\":\"Lease\",\"metadata\":{\"name\":\"a\"}}", ERR_INVALID, "/metadata"},
		{LEASE("[]"), ERR_INVALID, "/spec"},
		{LEASE("{\"holderIdentity\":1}"), ERR_INVALID, "/spec/holderIdentity"},
		{LEASE("{\"renewTime\":1}"), ERR_INVALID, "/spec/renewTime"},
		{LEASE("{\"acquireTime\":{}}"), ERR_INVALID, "/spec/acquireTime"},
		{LEASE("{\"leaseDurationSeconds\":\"15\"}"), ERR_INVALID,
			"/spec/leaseDurationSeconds"},
		{LEASE("{\"leaseDurationSeconds\":-1}"), ERR_INVALID, "/spec/leaseDurationSeconds"},
		{LEASE("{\"leaseTransitions\":1.5}"), ERR_INVALID, "/spec/leaseTransitions"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct lease_record r;
		struct err err = {0};

		assert_int_equal(read_text(cases[i].text, &r, &err), cases[i].code);
		assert_string_equal(err.path, cases[i].path);
		assert_string_not_equal(err.msg, "");
	}
}

TEST(read_without_memory)
{
	struct lease_record r;
	struct err err = {0};

	arena_release(&arena);
	arena_init(&arena, 16);
	assert_int_equal(read_text(WHOLE, &r, &err), ERR_NOMEM);
}

TEST(same)
{
	const struct lease_record a = {.holder = "x",
		.duration_s = 15,
		.transitions = 2,
		.acquired = "A",
		.renewed = "R",
		.metadata = SLICE("{\"resourceVersion\":\"1\"}")};
	struct lease_record b = a;

	assert_true(lease_record_same(&a, &b));
	b.metadata = SLICE("{\"resourceVersion\":\"2\",\"labels\":{}}");
	assert_true(lease_record_same(&a, &b));
	b.holder = "y";
	assert_false(lease_record_same(&a, &b));
	b = a, b.duration_s = 1;
	assert_false(lease_record_same(&a, &b));
	b = a, b.transitions = 3;
	assert_false(lease_record_same(&a, &b));
	b = a, b.acquired = "B";
	assert_false(lease_record_same(&a, &b));
	b = a, b.renewed = "S";
	assert_false(lease_record_same(&a, &b));
	b = a, b.rest = SLICE("\"a\":1");
	assert_false(lease_record_same(&a, &b));
}

/* Changed at 100,000 ms; our own duration is 15 s. */
TEST(decided)
{
	static const struct {
		const char *what;
		const char *holder; /* NULL: never seen */
		int64_t duration_s;
		bool there;
		int64_t now;
		enum lease_step step;
		int64_t until;
	} cases[] = {
		{"never seen", NULL, 0, false, 5, LEASE_CREATE, 5},
		{"ours", "me", 15, true, 100000, LEASE_RENEW, 100000},
		{"ours, long ago", "me", 15, true, 900000, LEASE_RENEW, 900000},
		{"ours, deleted", "me", 15, false, 100001, LEASE_CREATE, 100001},
		{"released", "", 1, true, 100000, LEASE_ACQUIRE, 100000},
		{"released, then deleted", "", 1, false, 100000, LEASE_CREATE, 100000},
		{"another's, fresh", "you", 15, true, 100000, LEASE_WAIT, 115000},
		{"its last moment", "you", 15, true, 114999, LEASE_WAIT, 115000},
		{"its end", "you", 15, true, 115000, LEASE_ACQUIRE, 115000},
		{"its time is what it says: longer", "you", 60, true, 115000, LEASE_WAIT, 160000},
		{"shorter", "you", 1, true, 101000, LEASE_ACQUIRE, 101000},
		{"it says none: ours", "you", 0, true, 114999, LEASE_WAIT, 115000},
		{"and its end", "you", 0, true, 115000, LEASE_ACQUIRE, 115000},
		{"absurdly long: an hour", "you", INT64_C(1) << 52, true, 100000, LEASE_WAIT,
			3700000},
		{"deleted under its holder", "you", 15, false, 114999, LEASE_WAIT, 115000},
		{"and silent since", "you", 15, false, 115000, LEASE_CREATE, 115000},
		{"a name that begins like ours", "me2", 15, true, 100000, LEASE_WAIT, 115000},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct lease_record r = {.holder = cases[i].holder,
			.duration_s = cases[i].duration_s,
			/* Far away from any clock of ours: nobody looks at it. */
			.acquired = "2999-01-01T00:00:00.000000Z",
			.renewed = i % 2 ? "1999-01-01T00:00:00.000000Z"
					 : "2999-01-01T00:00:00.000000Z"};
		struct lease_sight s = {.record = cases[i].holder ? &r : NULL,
			.there = cases[i].there,
			.changed_ms = cases[i].holder ? 100000 : 0};
		int64_t until = -1;
		enum lease_step step = lease_decide(&s, "me", 15000, cases[i].now, &until);

		if (step != cases[i].step || until != cases[i].until)
			fail_msg("%s: step %d until %lld", cases[i].what, (int)step,
				(long long)until);
	}
}

static const char *written(const struct lease_record *r)
{
	static char text[2048];
	struct buf b;
	struct json j = {0};
	struct err err = {0};
	char *copy;

	buf_init(&b, sizeof(text) - 1);
	lease_record_write(r, "ns", "na\"me", &b);
	assert_false(b.failed);
	memcpy(text, b.data, b.len + 1);
	buf_release(&b);
	assert_int_equal(json_read_copy(&j, text, strlen(text), 1000, &copy, &err), 0);
	free(copy);
	json_release(&j);
	return text;
}

#define HEAD "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":"
#define META                                                                                       \
	"{\"name\":\"l\",\"namespace\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"41\","            \
	"\"labels\":{\"a\":\"b\"}}"
#define REST "\"strategy\":\"OldestEmulationVersion\",\"preferredHolder\":\"x\""

TEST(created)
{
	struct lease_record r = lease_record_next(NULL, LEASE_CREATE, "me", 15, "T");

	assert_string_equal(written(&r),
		HEAD "{\"name\":\"na\\\"me\",\"namespace\":\"ns\"},\"spec\":{\"holderIdentity\":"
		     "\"me\",\"leaseDurationSeconds\":15,\"acquireTime\":\"T\",\"renewTime\":\"T\","
		     "\"leaseTransitions\":0}}");
}

/* The API server takes no duration but a positive one. */
TEST(written_without_a_duration)
{
	const struct lease_record r = {.holder = "me", .renewed = "T", .acquired = "T"};

	assert_null(strstr(written(&r), "leaseDurationSeconds"));
}

TEST(made_anew_without_the_old_metadata)
{
	struct lease_record old, r;
	struct err err = {0};

	assert_int_equal(read_text(WHOLE, &old, &err), 0);
	r = lease_record_next(&old, LEASE_CREATE, "me", 15, "T");
	assert_null(r.metadata.at);
	assert_null(r.rest.at);
	assert_int_equal(r.transitions, 0);
}

TEST(acquired)
{
	struct lease_record old, r;
	struct err err = {0};

	assert_int_equal(read_text(WHOLE, &old, &err), 0);
	r = lease_record_next(&old, LEASE_ACQUIRE, "me", 20, "T");
	assert_string_equal(written(&r), HEAD META
		",\"spec\":{\"holderIdentity\":\"me\",\"leaseDurationSeconds\":20,"
		"\"acquireTime\":\"T\",\"renewTime\":\"T\",\"leaseTransitions\":8," REST "}}");
}

TEST(renewed)
{
	struct lease_record old, r;
	struct err err = {0};

	assert_int_equal(read_text(WHOLE, &old, &err), 0);
	r = lease_record_next(&old, LEASE_RENEW, "pod_1", 15, "T");
	assert_string_equal(written(&r),
		HEAD META ",\"spec\":{\"holderIdentity\":\"pod_1\",\"leaseDurationSeconds\":15,"
			  "\"acquireTime\":\"2026-11-21T09:30:00.000001Z\",\"renewTime\":\"T\","
			  "\"leaseTransitions\":7," REST "}}");
	old.acquired = "";
	r = lease_record_next(&old, LEASE_RENEW, "pod_1", 15, "T");
	assert_string_equal(r.acquired, "T");
}

TEST(released)
{
	struct lease_record old, r;
	struct err err = {0};

	assert_int_equal(read_text(WHOLE, &old, &err), 0);
	r = lease_record_released(&old, "T");
	assert_string_equal(written(&r), HEAD META
		",\"spec\":{\"holderIdentity\":\"\",\"leaseDurationSeconds\":1,"
		"\"acquireTime\":\"T\",\"renewTime\":\"T\",\"leaseTransitions\":7," REST "}}");
}

TEST(times)
{
	static const struct {
		int64_t us;
		const char *text;
	} cases[] = {
		{0, "1970-01-01T00:00:00.000000Z"},
		{-1, "1970-01-01T00:00:00.000000Z"},
		{INT64_C(951782399999999), "2000-02-28T23:59:59.999999Z"},
		{INT64_C(951782400000000), "2000-02-29T00:00:00.000000Z"},
		{INT64_C(951868800000001), "2000-03-01T00:00:00.000001Z"},
		{INT64_C(4107542400000000), "2100-03-01T00:00:00.000000Z"},
		{INT64_C(1795253400123456), "2026-11-21T09:30:00.123456Z"},
		{INT64_MAX, "9999-12-31T23:59:59.775807Z"},
	};
	char text[LEASE_TIME_SIZE];

	for (size_t i = 0; i < COUNT(cases); i++) {
		lease_time_write(cases[i].us, text);
		assert_string_equal(text, cases[i].text);
	}
	/* Every day for 400 years as the C library counts them. */
	for (int64_t day = 0; day < 146097; day++) {
		time_t t = (time_t)(day * 86400 + day % 86400);
		struct tm tm;
		char want[64];

		assert_non_null(gmtime_r(&t, &tm));
		assert_int_not_equal(strftime(want, sizeof(want), "%Y-%m-%dT%H:%M:%S", &tm), 0);
		(void)snprintf(want + 19, sizeof(want) - 19, ".%06dZ", (int)day);
		lease_time_write((int64_t)t * 1000000 + day, text);
		assert_string_equal(text, want);
	}
}

TESTS_BETWEEN(set_up, tear_down, read_whole, read_bare, read_refused, read_without_memory, same,
	decided, created, written_without_a_duration, made_anew_without_the_old_metadata, acquired,
	renewed, released, times)
