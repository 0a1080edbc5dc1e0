/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of webhook/core/inject/restricted: each rule of Pod Security `restricted` that an
 * injected container or volume can break. */

#include "test/unit/test.h"
#include "webhook/core/inject/restricted.h"

#define GOOD                                                                                       \
	"\"runAsNonRoot\":true,\"runAsUser\":65532,\"allowPrivilegeEscalation\":false,"            \
	"\"seccompProfile\":{\"type\":\"RuntimeDefault\"}"
#define DROP ",\"capabilities\":{\"drop\":[\"ALL\"]}"
#define CONTAINER(context) "{\"name\":\"a\",\"securityContext\":{" context "}}"

struct sample {
	const char *json, *complaint; /* "": none */
};

static void check_all(const struct sample *cases, size_t n,
	int (*check)(struct slice, struct buf *, struct err *))
{
	for (size_t i = 0; i < n; i++) {
		struct err err = {0};
		struct buf out;

		buf_init(&out, 4096);
		assert_int_equal(check(slice_of(cases[i].json), &out, &err), 0);
		if (strcmp(out.data ? out.data : "", cases[i].complaint) != 0)
			fail_msg("%s: \"%s\", expected \"%s\"", cases[i].json,
				out.data ? out.data : "", cases[i].complaint);
		buf_release(&out);
	}
}

TEST(test_container)
{
	static const struct sample cases[] = {
		{CONTAINER(GOOD DROP), ""},
		{CONTAINER("\"runAsNonRoot\":true,\"allowPrivilegeEscalation\":false,"
			   "\"seccompProfile\":{\"type\":\"Localhost\"}" DROP),
			""},
		{CONTAINER(GOOD ",\"capabilities\":{\"drop\":[\"KILL\",\"ALL\"],\"add\":["
				"\"NET_BIND_SERVICE\"]}"),
			""},
		{CONTAINER(GOOD), "capabilities.drop lacks ALL"},
		{CONTAINER(GOOD ",\"capabilities\":{\"drop\":[\"ALL\"],\"add\":[\"SYS_ADMIN\"]}"),
			"capabilities.add holds more than NET_BIND_SERVICE"},
		{CONTAINER(GOOD DROP ",\"privileged\":true"), "privileged is true"},
		{CONTAINER(
			 "\"runAsNonRoot\":true,\"runAsUser\":0,\"allowPrivilegeEscalation\":false,"
			 "\"seccompProfile\":{\"type\":\"Unconfined\"}" DROP),
			"runAsUser is 0, seccompProfile.type is neither RuntimeDefault nor "
			"Localhost"},
		{"{\"name\":\"a\",\"ports\":[{\"hostPort\":80}],\"securityContext\":{" GOOD DROP
		 "}}",
			"ports hold a hostPort"},
		{"{\"name\":\"a\"}",
			"runAsNonRoot is not true, allowPrivilegeEscalation is not false, "
			"capabilities.drop lacks ALL, seccompProfile.type is neither "
			"RuntimeDefault nor "
			"Localhost"},
	};

	check_all(cases, COUNT(cases), restricted_container);
}

TEST(test_volume)
{
	static const struct sample cases[] = {
		{"{\"name\":\"a\"}", ""},
		{"{\"name\":\"a\",\"emptyDir\":{}}", ""},
		{"{\"name\":\"a\",\"secret\":{\"secretName\":\"b\"}}", ""},
		{"{\"name\":\"a\",\"hostPath\":null}", ""},
		{"{\"name\":\"a\",\"hostPath\":{\"path\":\"/\"}}",
			"hostPath is not an allowed kind"},
		{"{\"name\":\"a\",\"nfs\":{},\"iscsi\":{}}",
			"nfs is not an allowed kind, iscsi is not an allowed kind"},
	};

	check_all(cases, COUNT(cases), restricted_volume);
}

TEST(test_errors)
{
	struct err err = {0};
	struct buf out;

	buf_init(&out, 4096);
	assert_int_equal(restricted_container(SLICE("{"), &out, &err), ERR_SYNTAX);
	buf_release(&out);
	buf_init(&out, 4);
	assert_int_equal(restricted_container(SLICE("{}"), &out, &err), ERR_NOMEM);
	buf_release(&out);
}

TESTS(test_container, test_volume, test_errors)
