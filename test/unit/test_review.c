/* SPDX-License-Identifier: Apache-2.0 */
/* core/review/review: what a review must hold, and how an answer is written. */
#include "base/text.h"
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/review/review.h"

#define REVIEW(request) "{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview'," request "}"
#define REQUEST(more)                                                                              \
	REVIEW("'request':{'uid':'u','kind':{'group':'','version':'v1','kind':'Pod'},"             \
	       "'operation':'CREATE'" more "}")

/* a review; path and a piece of the message */
static const struct {
	const char *text, *path, *says;
} unreadable[] = {
	{"7", "", "found number, expected an AdmissionReview object"},
	{"[]", "", "found array"},
	{"null", "", "found null"},
	{"{}", "/kind", "found nothing"},
	{"{'kind':'Pod'}", "/kind", "found \"Pod\", expected kind \"AdmissionReview\""},
	{"{'kind':'0123456789012345678901234567890123456789012345678901234567890123456789'}",
		"/kind",
		"found \"01234567890123456789012345678901234567890123456789012345678, expected"},
	{"{'kind':7}", "/kind", "found number"},
	{"{'kind':'AdmissionReview'}", "/apiVersion",
		"found nothing, expected admission.k8s.io/v1"},
	{"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/v2'}", "/apiVersion",
		"found \"admission.k8s.io/v2\""},
	{"{'Kind':'AdmissionReview','apiVersion':'admission.k8s.io/v1'}", "/kind", "found nothing"},
	{"{'kind':'AdmissionReview','apiVersion':1}", "/apiVersion", "found 1"},
	{REVIEW("'response':{}"), "/request", "found nothing"},
	{REVIEW("'request':null"), "/request", "found null"},
	{REVIEW("'request':[]"), "/request", "found array"},
	{REVIEW("'request':{}"), "/request/uid", "found nothing, expected the request's uid"},
	{REVIEW("'request':{'uid':''}"), "/request/uid", "found nothing"},
	{REVIEW("'request':{'uid':null}"), "/request/uid", "found nothing"},
	{REVIEW("'request':{'uid':7}"), "/request/uid", "found number, expected a string"},
	{REVIEW("'request':{'uid':'u'}"), "/request/kind", "found nothing"},
	{REVIEW("'request':{'uid':'u','kind':'Pod'}"), "/request/kind", "found string"},
	{REVIEW("'request':{'uid':'u','kind':{'group':7}}"), "/request/kind/group", "found number"},
	{REVIEW("'request':{'uid':'u','kind':{'version':[]}}"), "/request/kind/version",
		"found array"},
	{REVIEW("'request':{'uid':'u','kind':{'kind':{}}}"), "/request/kind/kind", "found object"},
	{REQUEST(",'resource':'pods'"), "/request/resource", "found string"},
	{REQUEST(",'resource':{'resource':7}"), "/request/resource/resource", "found number"},
	{REQUEST(",'subResource':7"), "/request/subResource", "found number"},
	{REQUEST(",'name':7"), "/request/name", "found number"},
	{REQUEST(",'namespace':true"), "/request/namespace", "found true"},
	{REQUEST(",'object':[]"), "/request/object", "found array, expected an object or null"},
	{REQUEST(",'oldObject':'x'"), "/request/oldObject", "found string"},
	{REQUEST(",'dryRun':'true'"), "/request/dryRun", "found string, expected true or false"},
	{REQUEST(",'dryRun':1"), "/request/dryRun", "found number"},
	{REVIEW("'request':{'uid':'u','kind':{},'operation':'create'}"), "/request/operation",
		"found \"create\""},
	{REVIEW("'request':{'uid':'u','kind':{}}"), "/request/operation", "found \"\""},
	/* quoted up to the fortieth byte */
	{REVIEW("'request':{'uid':'u','kind':{},'operation':'"
		"CREATExxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'}"),
		"/request/operation", "found \"CREATExxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\","},
	{REVIEW("'request':{'uid':'u','kind':{},'operation':'"
		"CREATExxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'}"),
		"/request/operation", "found \"CREATExxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\","},
	{REVIEW("'request':{'uid':'u','kind':{},'operation':7}"), "/request/operation",
		"found number"},
};

static int decode(struct fixture *f, const char *text, struct review *r)
{
	fixture_pod(f, text);
	return review_read(&f->json, &f->scratch, r, &f->err);
}

static struct fixture fix;

FIXTURES(fixture_init, fixture_release)

TEST(test_unreadable)
{
	struct review r;

	for (size_t i = 0; i < COUNT(unreadable); i++) {
		int rc = decode(&fix, unreadable[i].text, &r);

		if (rc != ERR_SYNTAX)
			fail_msg("row %zu gives %d", i, rc);
		if (strcmp(fix.err.path, unreadable[i].path) != 0)
			fail_msg("row %zu: path %s", i, fix.err.path);
		if (!strstr(fix.err.msg, unreadable[i].says))
			fail_msg("row %zu says %s", i, fix.err.msg);
	}
}

TEST(test_what_is_read)
{
	struct review r;

	assert_int_equal(
		decode(&fix,
			REQUEST(",'resource':{'resource':'pods'},'subResource':'status','name':'n',"
				"'namespace':'\\u006eS','object':{},'oldObject':{'x':1},'dryRun':"
				"true,'options':{'gracePeriodSeconds':0}"),
			&r),
		0);
	assert_false(r.v1beta1);
	assert_true(slice_is(r.uid, "u"));
	assert_true(slice_is(r.group, ""));
	assert_true(slice_is(r.version, "v1"));
	assert_true(slice_is(r.kind, "Pod"));
	assert_true(slice_is(r.resource, "pods"));
	assert_true(slice_is(r.subresource, "status"));
	assert_true(slice_is(r.name, "n"));
	assert_true(slice_is(r.namespace, "nS"));
	assert_int_equal(r.operation, OP_CREATE);
	assert_true(r.dry_run);
	assert_true(r.graceless);
	assert_non_null(r.object);
	assert_int_equal(r.old_object->count, 1);
	assert_true(review_is_pod(&r, "status"));
	assert_false(review_is_pod(&r, ""));
}

TEST(test_what_may_be_absent)
{
	static const char *const operations[] = {"CREATE", "UPDATE", "DELETE", "CONNECT"};
	struct review r;
	char text[400];

	for (size_t i = 0; i < 4; i++) {
		snprintf(text, sizeof(text),
			"{'apiVersion':'admission.k8s.io/v1beta1','kind':'AdmissionReview','"
			"request':{'uid':'u','kind':{'kind':'Pod'},'operation':'%s','object':null,"
			"'name':null,'dryRun':null,'resource':null,'options':null}}",
			operations[i]);
		assert_int_equal(decode(&fix, text, &r), 0);
		assert_true(r.v1beta1);
		assert_int_equal(r.operation, i);
		assert_null(r.object);
		assert_null(r.old_object);
		assert_false(r.dry_run);
		assert_false(r.graceless);
		assert_int_equal(r.namespace.len, 0);
		assert_true(review_is_pod(&r, ""));
	}
}

/* request members; the namespace that counts */
static const char *const namespaces[][2] = {
	{",'namespace':'a','object':{'metadata':{'namespace':'b'}}", "a"},
	{",'object':{'metadata':{'namespace':'\\u0062'}}", "b"},
	{",'namespace':'','object':{'metadata':{'namespace':'b'}}", "b"},
	{",'object':null,'oldObject':{'metadata':{'namespace':'c'}}", "c"},
	{",'object':{'metadata':{'namespace':7}}", ""},
	{",'object':{'metadata':null}", ""},
};

TEST(test_namespaces)
{
	struct review r;
	char text[400];

	for (size_t i = 0; i < COUNT(namespaces); i++) {
		snprintf(text, sizeof(text), REQUEST("%s"), namespaces[i][0]);
		assert_int_equal(decode(&fix, text, &r), 0);
		if (!slice_eq(r.namespace, slice_of(namespaces[i][1])))
			fail_msg("row %zu: %.*s", i, (int)r.namespace.len, r.namespace.at);
	}
}

TEST(test_grace)
{
	static const struct {
		const char *options;
		bool graceless;
	} rows[] = {{"{}", false}, {"{'gracePeriodSeconds':0}", true},
		{"{'gracePeriodSeconds':30}", false}, {"{'gracePeriodSeconds':'0'}", false},
		{"{'gracePeriodSeconds':null}", false}, {"[0]", false}};
	struct review r;
	char text[400];

	for (size_t i = 0; i < COUNT(rows); i++) {
		snprintf(text, sizeof(text), REQUEST(",'options':%s"), rows[i].options);
		assert_int_equal(decode(&fix, text, &r), 0);
		assert_int_equal(r.graceless, rows[i].graceless);
	}
}

TEST(test_kinds)
{
	struct review r;

	assert_int_equal(decode(&fix, REQUEST(",'resource':{'resource':'nodes'}"), &r), 0);
	assert_false(review_is_pod(&r, ""));
	assert_int_equal(decode(&fix,
				 REVIEW("'request':{'uid':'u','operation':'CREATE','kind':{'group':"
					"'x','kind':'Pod'}}"),
				 &r),
		0);
	assert_false(review_is_pod(&r, ""));
}

/* ---- answers ---- */

static void encode(const struct review *r, const struct answer *ans, const char *want)
{
	char *quoted = fixture_quotes(want);
	struct buf out;
	struct json j = {0};
	char *copy;

	buf_init(&out, 1 << 20);
	review_write(r, ans, &out);
	assert_false(out.failed);
	assert_string_equal(out.data, quoted);
	assert_int_equal(json_read_copy(&j, out.data, out.len, 1000, &copy, NULL), 0);
	json_release(&j);
	free(copy);
	free(quoted);
	buf_release(&out);
}

TEST(test_answers)
{
	struct review r = {.uid = SLICE("7\"\n")}, beta = {.uid = SLICE("u"), .v1beta1 = true};
	struct warnings w = {{SLICE("one"), SLICE("t\"wo")}, 2, 0}, none = {0};
	struct answer ans = {.allowed = true};

	encode(&r, &ans,
		"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/v1','response':{'uid':'7"
		"\\\"\\n','allowed':true}}");
	ans.warnings = &none;
	encode(&beta, &ans,
		"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/v1beta1','response':{"
		"'uid':'u','allowed':true}}");
	ans.patch = SLICE("[]x");
	encode(&beta, &ans,
		"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/v1beta1','response':{"
		"'uid':'u','allowed':true,'patch':'W114','patchType':'JSONPatch'}}");
	ans.patch = SLICE("");
	ans.warnings = &w;
	encode(&beta, &ans,
		"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/v1beta1','response':{"
		"'uid':'u','allowed':true,'warnings':['one','t\\\"wo']}}");
	/* a refusal never carries a patch */
	ans = (struct answer){.code = 403,
		.reason = "Forbidden",
		.message = SLICE("no \\"),
		.patch = SLICE("[]")};
	encode(&beta, &ans,
		"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/v1beta1','response':{"
		"'uid':'u','allowed':false,'status':{'metadata':{},'status':'Failure','message':"
		"'no "
		"\\\\','reason':'Forbidden','code':403},'auditAnnotations':{'reason':'Forbidden'}}"
		"}");
}

TEST(test_audit)
{
	struct review r = {.uid = SLICE("u")};
	struct answer ans = {.allowed = true};
	struct claim_part parts[200];
	struct claim_part odd = {"s\"1", "g", UINT64_MAX};
	struct arena a;
	char long_name[AUDIT_MAX];

	arena_init(&a, 1 << 16);
	answer_plan(&ans, 0xabc, &a);
	encode(&r, &ans,
		"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/"
		"v1','response':{'uid':'u',"
		"'allowed':true,'auditAnnotations':{'plan':'0000000000000abc'}}}");
	answer_claim(&ans, &odd, 1, &a);
	encode(&r, &ans,
		"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/"
		"v1','response':{'uid':'u',"
		"'allowed':true,'auditAnnotations':{'plan':'0000000000000abc','claim':'s\\\"1/g="
		"18446744073709551615'}}}");
	/* a refusal rests on a plan, and holds nothing */
	answer_refuse(
		&ans, &(struct err){.code = ERR_REFUSED, .reason = "NoRoom", .msg = "full"}, &a);
	encode(&r, &ans,
		"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/"
		"v1','response':{'uid':'u',"
		"'allowed':false,'status':{'metadata':{},'status':'Failure','message':'full',"
		"'reason':'NoRoom','code':403},'auditAnnotations':{'plan':'0000000000000abc',"
		"'reason':'NoRoom'}}}");
	/* many are counted */
	for (size_t i = 0; i < COUNT(parts); i++)
		parts[i] = (struct claim_part){"server", "gpu-1", 7};
	answer_claim(&ans, parts, COUNT(parts), &a);
	assert_true(ans.audit_claim.len <= AUDIT_MAX && ans.audit_claim.len > AUDIT_MAX - 60);
	assert_memory_equal(ans.audit_claim.at, "server/gpu-1=7 server/gpu-1=7 ", 30);
	assert_memory_equal(ans.audit_claim.at + ans.audit_claim.len - 5, " more", 5);
	memset(long_name, 'x', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	parts[0].server = long_name;
	answer_claim(&ans, parts, 1, &a);
	assert_true(slice_is(ans.audit_claim, "and 1 more"));
	arena_release(&a);
}

TEST(test_refusals)
{
	struct arena a;
	struct answer ans = {.patch = SLICE("[]")};
	struct err err = {0};

	arena_init(&a, 1 << 16);
	err_set(&err, ERR_INVALID, "found 7");
	err_in(&err, "spec");
	answer_refuse(&ans, &err, &a);
	assert_false(ans.allowed);
	assert_int_equal(ans.code, 422);
	assert_string_equal(ans.reason, "Invalid");
	assert_true(slice_is(ans.message, "/spec: found 7"));
	assert_int_equal(ans.patch.len, 0);
	err_set(&err, ERR_TOOBIG, "large");
	answer_refuse(&ans, &err, &a);
	assert_int_equal(ans.code, 403);
	assert_string_equal(ans.reason, "Forbidden");
	assert_true(slice_is(ans.message, "large"));
	err_reason(&err, ERR_REFUSED, "NoRoom", "full");
	answer_refuse(&ans, &err, &a);
	err_clear(&err);
	assert_int_equal(ans.code, 403);
	assert_string_equal(ans.reason, "NoRoom");
	assert_true(slice_is(ans.message, "full"));
	arena_release(&a);
	/* no memory is no reason to say nothing */
	arena_init(&a, 1);
	err_reason(&err, ERR_REFUSED, "NoRoom", "full");
	answer_refuse(&ans, &err, &a);
	assert_true(ans.message.len > 0 && ans.reason[0]);
	arena_release(&a);
}

TEST(test_warnings)
{
	struct arena a;
	struct warnings w = {0};
	char text[300];

	arena_init(&a, 1 << 16);
	warn_add(&w, &a, "one %d", 1);
	warn_add(&w, &a, "one %d", 1);
	assert_int_equal(w.n, 1);
	warn_add(&w, &a, "a\tb\nc\x7f");
	assert_true(slice_is(w.text[1], "a?b?c?"));
	/* C1 control characters, too, and what a cut has left of a character */
	warn_add(&w, &a, "x\xc2\x85y\xc2\xa0z %.*s|", 2, "\xe6\xbc\xa2");
	assert_true(slice_is(w.text[2], "x?y\xc2\xa0z ??|"));
	/* exactly at the limit, and one byte beyond it in the middle of a character */
	memset(text, 'x', sizeof(text));
	text[WARNING_MAX] = '\0';
	warn_add(&w, &a, "%s", text);
	assert_int_equal(w.text[3].len, WARNING_MAX);
	memcpy(text + WARNING_MAX - 4, "\xe6\xbc\xa2\xe6\xbc\xa2", 7);
	warn_add(&w, &a, "%s", text);
	assert_int_equal(w.text[4].len, WARNING_MAX - 4 + 3);
	assert_memory_equal(w.text[4].at + WARNING_MAX - 4, "...", 3);
	assert_true(text_utf8(w.text[4]));
	/* behind a word, not within a number */
	warn_add(&w, &a, "%.60s 12345678901234567890123456789012345678 %.60s", text, text);
	assert_int_equal(w.text[5].len, 60 + 1 + 38 + 3);
	assert_memory_equal(w.text[5].at + w.text[5].len - 6, "678...", 6);
	/* longer than any room */
	for (size_t i = 0; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xbc", 2);
	text[298] = '\0';
	warn_add(&w, &a, "%s%s%s", text, text, text);
	assert_true(text_utf8(w.text[6]) && w.text[6].len <= WARNING_MAX);
	while (w.n < WARNINGS_MAX)
		warn_add(&w, &a, "number %zu", w.n);
	warn_add(&w, &a, "one too many");
	assert_int_equal(w.n, WARNINGS_MAX);
	assert_int_equal(w.dropped, 1);
	arena_release(&a);
	arena_init(&a, 1);
	w = (struct warnings){0};
	warn_add(&w, &a, "no memory");
	assert_int_equal(w.n, 0);
	assert_int_equal(w.dropped, 1);
	arena_release(&a);
}

TESTS_BETWEEN(set_up, tear_down, test_unreadable, test_what_is_read, test_what_may_be_absent,
	test_namespaces, test_grace, test_kinds, test_answers, test_audit, test_refusals,
	test_warnings)
