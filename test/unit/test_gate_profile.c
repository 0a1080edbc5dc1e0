/* SPDX-License-Identifier: Apache-2.0 */
/* gate/server_profile, gate/picture: ServerProfiles, the words that they give, and the claims that
 * fill them. */
#include "gate/server_profile.h"
#include "test/unit/test.h"

#define HEAD                                                                                       \
	"apiVersion: poolgate.io/v1alpha1\nkind: ServerProfile\nmetadata: {name: lupine}\n"        \
	"spec:\n"
#define LEAST "  argv: [/bin/server]\n  port: 14833\n"

/* What was read last, and the words that it gave. */
static struct server_profile profile;
static struct err err;
static char **words, **env;

ARENA_FIXTURES(4u << 20)

static int read_it(const char *text)
{
	return server_profile_read("p.yaml", slice_of(text), &arena, &profile, &err);
}

static int words_at(const struct server_profile_place *at)
{
	return server_profile_words(&profile, at, &arena, &words, &env, &err);
}

TEST(test_least)
{
	assert_int_equal(read_it(HEAD LEAST), 0);
	assert_string_equal(profile.name, "lupine");
	assert_int_equal(profile.port, 14833);
	assert_false(profile.inherits);
	assert_int_equal(profile.mode, GATE_MODE_TOKEN);
	assert_null(profile.user);
	assert_int_equal(profile.readiness_ms, 30000);
	assert_int_equal(profile.linger_ms, -1);
	assert_int_equal(profile.grace_ms, 1000);
	assert_int_equal(profile.usage.context_bytes, UINT64_C(600) << 20);
	assert_false(profile.says_context);
	assert_int_equal(profile.usage.margin_percent, 5);
	assert_false(profile.ends_over);
	assert_int_equal(profile.n_accounts, 0);
}

TEST(test_mode)
{
	assert_int_equal(read_it(HEAD LEAST "  mode: address\n"), 0);
	assert_int_equal(profile.mode, GATE_MODE_ADDRESS);
	assert_null(profile.session);
	assert_int_equal(read_it(HEAD LEAST "  mode: address\n  session: {header: x-s}\n"), 0);
	assert_string_equal(profile.session, "x-s");
	assert_int_equal(read_it(HEAD LEAST "  mode: token\n"), 0);
	assert_int_equal(profile.mode, GATE_MODE_TOKEN);
}

TEST(test_usage)
{
	assert_int_equal(read_it(HEAD LEAST "  usage: {context: 0, margin: 0, overShare: end, "
					    "accounts: [nvidia-mps, \"0\"]}\n"),
		0);
	assert_int_equal(profile.usage.context_bytes, 0);
	assert_true(profile.says_context);
	assert_int_equal(profile.usage.margin_percent, 0);
	assert_true(profile.ends_over);
	assert_int_equal(profile.n_accounts, 2);
	assert_true(slice_is(profile.accounts[1], "0"));
}

TEST(test_mps)
{
	assert_int_equal(read_it(HEAD LEAST), 0);
	assert_null(profile.mps_control);
	assert_int_equal(read_it(HEAD LEAST "  mps: {control: /usr/bin/c}\n"), 0);
	assert_string_equal(profile.mps_control, "/usr/bin/c");
	assert_null(profile.mps_pipe);
	assert_int_equal(read_it(HEAD LEAST "  mps: {control: /c, pipeDirectory: /run/mps}\n"), 0);
	assert_string_equal(profile.mps_pipe, "/run/mps");
}

TEST(test_words)
{
	static struct picture_gpu gpus[] = {{"GPU-1", UINT64_C(5) << 30, UINT64_C(16) << 30},
		{"MIG-2", (UINT64_C(4) << 30) + 7, UINT64_C(4) << 30}};
	const struct picture_claim claim = {.uid = "u", .gpu = gpus, .n_gpus = 2};
	const struct server_profile_place at = {&claim, "127.91.0.1", "/d/u"};

	assert_int_equal(
		read_it(HEAD
			"  argv: [/bin/server, \"{address}:{port}\", \"{{{percent}}}\"]\n"
			"  port: 1\n  socket: inherited\n  user: nobody\n  linger: 5m\n"
			"  grace: 200ms\n"
			"  env: {A: \"0={memory_mb}M\", B: \"{memory_limits}\", PATH: \"/x\"}\n"),
		0);
	assert_true(profile.inherits);
	assert_string_equal(profile.user, "nobody");
	assert_int_equal(profile.linger_ms, 300000);
	assert_int_equal(profile.grace_ms, 200);
	assert_int_equal(words_at(&at), 0);
	assert_string_equal(words[0], "/bin/server");
	assert_string_equal(words[1], "127.91.0.1:1");
	assert_string_equal(words[2], "{31}");
	assert_null(words[3]);
	assert_string_equal(env[0], "A=0=4096M");
	assert_string_equal(env[1], "B=0=5120M,1=4096M");
	assert_string_equal(env[2], "PATH=/x");
	assert_string_equal(env[3], "CUDA_VISIBLE_DEVICES=GPU-1,MIG-2");
	assert_string_equal(env[4], "HOME=/d/u");
	assert_null(env[5]);
	/* As a server's spec lists them. */
	gpus[0].id = "gpu-0";
	assert_int_equal(words_at(&at), ERR_INVALID);
	gpus[0].id = "GPU-1,GPU-9";
	assert_int_equal(words_at(&at), ERR_INVALID);
}

TEST(test_small_share)
{
	static struct picture_gpu gpu = {"GPU-1", 1, UINT64_C(80) << 30};
	const struct picture_claim claim = {.uid = "u", .gpu = &gpu, .n_gpus = 1};
	const struct server_profile_place at = {&claim, "127.91.0.1", "/d/u"};

	assert_int_equal(
		read_it(HEAD "  argv: [/s, \"{percent}\", \"{memory_mb}\"]\n  port: 1\n"), 0);
	assert_int_equal(words_at(&at), 0);
	assert_string_equal(words[1], "1");
	assert_string_equal(words[2], "1");
}

/* A claim of no GPU gets what is least, and no limiter takes that for all there is. */
TEST(test_no_gpu)
{
	const struct picture_claim claim = {.uid = "u"};
	const struct server_profile_place at = {&claim, "127.91.0.1", "/d/u"};

	assert_int_equal(
		read_it(HEAD "  argv: [/s, \"{memory_mb}\", \"{memory_limits}\"]\n  port: 1\n"), 0);
	assert_int_equal(words_at(&at), 0);
	assert_string_equal(words[1], "1");
	assert_string_equal(words[2], "");
	assert_string_equal(env[0], "CUDA_VISIBLE_DEVICES=");
}

/* What was asked by per cent is told as it was asked, whatever the GPU's size makes of it in bytes.
 */
TEST(test_percent_is_as_it_was_asked)
{
	static const uint64_t sizes[] = {
		UINT64_C(16000000000), UINT64_C(16160) << 20, UINT64_C(85899345919), 1000003};
	struct picture_gpu gpu = {.id = "GPU-1"};
	const struct picture_claim claim = {.uid = "u", .gpu = &gpu, .n_gpus = 1};
	const struct server_profile_place at = {&claim, "127.91.0.1", "/d/u"};
	char want[8];

	assert_int_equal(read_it(HEAD "  argv: [/s, \"{percent}\"]\n  port: 1\n"), 0);
	for (size_t i = 0; i < COUNT(sizes); i++)
		for (unsigned percent = 1; percent <= 100; percent++) {
			gpu.of_bytes = sizes[i];
			/* as a claim has it */
			gpu.bytes = sizes[i] / 100 * percent + sizes[i] % 100 * percent / 100;
			assert_int_equal(words_at(&at), 0);
			snprintf(want, sizeof(want), "%u", percent);
			assert_string_equal(words[1], want);
		}
	/* and two bytes less are less */
	gpu.bytes -= 2;
	assert_int_equal(words_at(&at), 0);
	assert_string_equal(words[1], "99");
}

TEST(test_names)
{
	static const struct {
		const char *name;
		bool good;
	} cases[] = {{"a", true}, {"lupine-2", true}, {"7", true}, {"a.b", false}, {"A", false},
		{"-a", false}, {"a-", false}, {"a/b", false}, {"..", false}, {"a b", false},
		{"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz0123456789a", true},
		{"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz0123456789ab", false}};
	char text[300];

	for (size_t i = 0; i < COUNT(cases); i++) {
		(void)snprintf(text, sizeof(text),
			"apiVersion: poolgate.io/v1alpha1\nkind: ServerProfile\n"
			"metadata: {name: \"%s\"}\nspec:\n" LEAST,
			cases[i].name);
		err = (struct err){0};
		assert_int_equal(read_it(text), cases[i].good ? 0 : ERR_INVALID);
		(void)snprintf(text, sizeof(text), "found \"%.30s", cases[i].name);
		if (!cases[i].good)
			assert_non_null(strstr(err.msg, text));
	}
}

TEST(test_refused)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"", "found 0 documents"},
		{HEAD LEAST "---\n" HEAD LEAST, "2 documents"},
		{"apiVersion: v1\n", "expected poolgate.io/v1alpha1"},
		{HEAD "  port: 1\n", "argv"},
		{HEAD "  argv: []\n  port: 1\n", "found 0 words"},
		{HEAD LEAST "  mode: none\n", "found \"none\""},
		{HEAD LEAST "  mode: [address]\n", "found a sequence"},
		{HEAD LEAST "  session: {header: x}\n", "goes with mode: address alone"},
		{HEAD LEAST "  mode: address\n  session: {}\n", "header"},
		{HEAD LEAST "  mode: address\n  session: {header: X-A}\n", "found \"X-A\""},
		{HEAD LEAST "  mode: address\n  session: {header: x, a: 1}\n", "\"a\""},
		{HEAD "  argv: [server]\n  port: 1\n", "absolute path"},
		{HEAD "  argv: [/s, \"{nothing}\"]\n  port: 1\n", "{gpu_uuids}"},
		{HEAD "  argv: [/s, \"{port\"]\n  port: 1\n", "{gpu_uuids}"},
		{HEAD "  argv: [/s, \"port}\"]\n  port: 1\n", "{gpu_uuids}"},
		{HEAD "  argv: [/s]\n  port: 0\n", "/spec/port"},
		{HEAD "  argv: [/s]\n  port: 65536\n", "/spec/port"},
		{HEAD "  argv: [/s]\n", "port"},
		{HEAD LEAST "  socket: given\n", "/spec/socket"},
		{HEAD LEAST "  grace: 2s\n", "/spec/grace"},
		{HEAD LEAST "  readiness: 1ms\n", "/spec/readiness"},
		{HEAD LEAST "  env: {CUDA_VISIBLE_DEVICES: all}\n", "which is the claim's"},
		{HEAD LEAST "  env: {\"A=B\": x}\n", "a variable's name"},
		{HEAD LEAST "  env: {A: 1}\n", "/spec/env/A"},
		{HEAD LEAST "  gpus: 1\n", "unknown key"},
		{HEAD LEAST "  usage: {contexts: 1Gi}\n", "did you mean \"context\""},
		{HEAD LEAST "  usage: {context: -1}\n", "/spec/usage/context"},
		{HEAD LEAST "  usage: {context: 2Ti}\n", "/spec/usage/context"},
		{HEAD LEAST "  usage: {margin: 101}\n", "/spec/usage/margin"},
		{HEAD LEAST "  usage: {overShare: kill}\n", "/spec/usage/overShare"},
		{HEAD LEAST "  usage: {accounts: [0]}\n", "/spec/usage/accounts/0"},
		{HEAD LEAST "  usage: {accounts: [a,b,c,d,e,f,g,h,i,j,k,l,m,nn,o,p,q]}\n",
			"found 17 accounts"},
		{HEAD LEAST "  mps: {}\n", "control"},
		{HEAD LEAST "  mps: {control: nvidia-cuda-mps-control}\n", "/spec/mps/control"},
		{HEAD LEAST "  mps: {control: /c, pipeDirectory: x}\n", "/spec/mps/pipeDirectory"},
		{HEAD LEAST "  mps: {control: /c, pipe: /x}\n", "pipeDirectory"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_not_equal(read_it(cases[i].text), 0);
		if (!strstr(err.msg, cases[i].says))
			fail_msg("case %zu: %s", i, err.msg);
		assert_non_null(strstr(err.msg, "p.yaml"));
	}
}

/* ---- the claims ---- */

#define OBJECT_WITH(spec, status)                                                                  \
	"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUServer\",\"metadata\":{\"name\":"  \
	"\"g\",\"uid\":\"u\",\"resourceVersion\":\"1\"},\"spec\":{\"address\":\"a:1\",\"probe\":"  \
	"{\"url\":\"https://a:2\"}" spec "},\"status\":" status "}"
#define OBJECT(status) OBJECT_WITH("", status)
#define GATED                                                                                      \
	",\"launchers\":[\"l\"],\"gate\":{\"profile\":\"l\",\"url\":\"https://a:3\",\"caSecret\":" \
	"\"c\",\"mode\":\"token\",\"tokenSecret\":\"t\"}"
#define GPU1 "{\"id\":\"GPU-1\",\"memory\":100,\"fit\":true}"
#define CLAIM(uid, rest)                                                                           \
	"{\"uid\":\"" uid "\",\"namespace\":\"n\",\"name\":\"p\",\"state\":\"bound\"" rest         \
	",\"gpus\":[{\"id\":\"GPU-1\",\"bytes\":30},{\"id\":\"GPU-1\",\"bytes\":10},"              \
	"{\"id\":\"GPU-9\",\"bytes\":5}]}"

static int picture_of(const char *text, struct picture *p, struct err *e)
{
	struct json j = {0};
	char *copy;
	int rc = json_read_copy(&j, text, strlen(text), 1000, &copy, e);

	assert_int_equal(rc, 0);
	rc = picture_read(p, &j, json_root(&j), e);
	json_release(&j);
	free(copy);
	return rc;
}

TEST(test_claims)
{
	struct picture p = {0};
	const struct picture_claim *c;
	struct err e;

	assert_int_equal(
		picture_of(OBJECT("{\"gpus\":[" GPU1 "],\"claims\":[" CLAIM("a", "") "," CLAIM(
				   "b", ",\"lingers\":\"2027-08-01T10:00:00Z\"") "," CLAIM("c",
				   ",\"open\":true") "]}"),
			&p, &e),
		0);
	assert_int_equal(p.n_claims, 1);
	assert_int_equal(p.shut_out, 2);
	c = picture_claim(&p, "a");
	assert_non_null(c);
	assert_int_equal(c->n_gpus, 2);
	assert_string_equal(c->gpu[0].id, "GPU-1");
	assert_int_equal(c->gpu[0].bytes, 40);
	assert_int_equal(c->gpu[0].of_bytes, 100);
	/* One that its server does not have any more: nobody knows how much it has. */
	assert_int_equal(c->gpu[1].of_bytes, 5);
	assert_null(picture_claim(&p, "b"));
	/* What cannot be read changes nothing. */
	assert_int_equal(picture_of(OBJECT("{\"gpus\":7}"), &p, &e), ERR_INVALID);
	assert_non_null(picture_claim(&p, "a"));
	assert_int_equal(picture_of(OBJECT("{}"), &p, &e), 0);
	assert_int_equal(p.n_claims, 0);
	assert_false(p.gated);
	if (picture_of(OBJECT_WITH(GATED, "{}"), &p, &e) != 0)
		fail_msg("%s", e.msg);
	assert_true(p.gated);
	picture_release(&p);
	picture_release(&p);
}

/* The GPU on which shares are tried: fit, there, open, nobody's, of a UUID, the first of the
 * largest.
 */
TEST(test_a_spare_gpu)
{
#define GPU(id, memory, more) "{\"id\":\"" id "\",\"memory\":" memory more "}"
#define FIT ",\"fit\":true"
#define SMALL GPU("GPU-small", "50", FIT)
	static const struct {
		const char *gpus, *spare;
	} cases[] = {{"", NULL}, {SMALL, "GPU-small"}, {GPU("GPU-2", "90", FIT) "," SMALL, "GPU-2"},
		{SMALL "," GPU("GPU-2", "90", FIT) "," GPU("GPU-3", "90", FIT), "GPU-2"},
		{SMALL "," GPU("MIG-2", "90", FIT), "MIG-2"},
		{SMALL "," GPU("gpu-2", "90", FIT), "GPU-small"},
		{SMALL "," GPU("MIG2", "90", FIT), "GPU-small"},
		{SMALL "," GPU("GPU-2", "90", ",\"fit\":false"), "GPU-small"},
		{SMALL "," GPU("GPU-2", "90", FIT ",\"missing\":true"), "GPU-small"},
		{SMALL "," GPU("GPU-2", "90", FIT ",\"closed\":\"unfit\""), "GPU-small"},
		{SMALL "," GPU("GPU-1", "90", FIT), "GPU-small"}, {GPU("GPU-1", "90", FIT), NULL}};
	struct picture p = {0};
	struct err e = {0};
	char text[2000];

	for (size_t i = 0; i < COUNT(cases); i++) {
		(void)snprintf(text, sizeof(text), OBJECT("{\"gpus\":[%s],\"claims\":[%s]}"),
			cases[i].gpus, CLAIM("a", ""));
		if (picture_of(text, &p, &e) != 0)
			fail_msg("case %zu: %s", i, e.msg);
		if (!cases[i].spare)
			assert_null(p.spare.id);
		else
			assert_string_equal(p.spare.id, cases[i].spare);
		assert_true(p.spare.bytes == p.spare.of_bytes);
	}
	picture_release(&p);
}

/* Whose an address is, or why it is nobody's. */
static const char *at(const struct picture *p, const char *address)
{
	bool several;
	const char *uid = picture_at(p, address, &several);

	assert_true(!uid || !several);
	return several ? "several" : uid ? uid : "nobody";
}

/* A pod is known by the address that one claim alone says it has, of a pod that is there. */
TEST(test_addresses)
{
	static const char *const none[] = {"10.0.0.9", "0.0.0.0", "::", "", "a", "10.0.0.1/32"};
	struct picture p = {0};
	struct err e;

	assert_int_equal(
		picture_of(OBJECT("{\"gpus\":[" GPU1 "],\"claims\":[" CLAIM(
				   "a", ",\"podIPs\":[\"10.0.0.1\",\"fd00::1\"]") "," CLAIM("b",
				   ",\"podIPs\":[\"10.0.0.2\",\"10.0.0.2\"]") "," CLAIM("c",
				   ",\"podIPs\":[\"10.0.0.3\"],\"open\":true") "," CLAIM("d",
				   ",\"podIPs\":[\"10.0.0.4\",\"10.0.0.5\"]") "," CLAIM("e",
				   ",\"podIPs\":[\"::ffff:10.0.0.5\"]") "," CLAIM("f",
				   ",\"podIPs\":[\"10.0.0.6\"]") "," CLAIM("g",
				   ",\"podIPs\":[\"10.0.0.6\"],"
				   "\"lingers\":\"2027-08-01T10:00:00Z\"") "," CLAIM("h",
				   ",\"podIPs\":[]") "," CLAIM("i", "") "]}"),
			&p, &e),
		0);
	assert_string_equal(at(&p, "10.0.0.1"), "a");
	assert_string_equal(at(&p, "::ffff:10.0.0.1"), "a");
	assert_string_equal(at(&p, "fd00:0:0::1"), "a");
	assert_string_equal(at(&p, "10.0.0.2"), "b");
	assert_string_equal(at(&p, "10.0.0.3"), "nobody");
	assert_string_equal(at(&p, "10.0.0.4"), "d");
	assert_string_equal(at(&p, "10.0.0.5"), "several");
	/* one of them may still run there */
	assert_string_equal(at(&p, "10.0.0.6"), "several");
	for (size_t i = 0; i < COUNT(none); i++)
		assert_string_equal(at(&p, none[i]), "nobody");
	picture_release(&p);
}

/* What cannot be read is nobody's. */
TEST(test_no_addresses)
{
	static const char *const objects[] = {
#define IPS(ips) OBJECT("{\"gpus\":[" GPU1 "],\"claims\":[" CLAIM("a", ",\"podIPs\":" ips) "]}")
		IPS("[\"10.0.0.1/32\"]"), IPS("[\" 10.0.0.1\"]"), IPS("[\"10.1\"]"),
		IPS("[{\"ip\":\"10.0.0.1\"}]"), IPS("[7,null,\"10.0.0.1\"]"), IPS("\"10.0.0.1\""),
		IPS("{\"10.0.0.1\":\"10.0.0.1\"}"), IPS("[\"10.0.0.1\",\"::\",\"::1\"]"),
		IPS("null"), IPS("[\"\"]")};

	for (size_t i = 0; i < COUNT(objects); i++) {
		struct picture p = {0};
		struct err e;

		(void)picture_of(objects[i], &p, &e);
		assert_string_equal(at(&p, "10.0.0.1"), "nobody");
		picture_release(&p);
	}
}

TESTS_BETWEEN(set_up, tear_down, test_least, test_mode, test_usage, test_mps, test_names,
	test_words, test_small_share, test_no_gpu, test_percent_is_as_it_was_asked, test_refused,
	test_claims, test_a_spare_gpu, test_addresses, test_no_addresses)
