/* SPDX-License-Identifier: Apache-2.0 */
/* edge/admin/reload: when files are read again, what of them is put in force, and what stays. */
#include <fcntl.h>

#include "base/buf.h"
#include "base/files.h"
#include "test/unit/make_pair.h"
#include "test/unit/scratch.h"
#include "test/unit/test.h"
#include "webhook/edge/admin/reload.h"
#include "webhook/edge/pool/ledger_memory.h"

#define HEAD(kind, name)                                                                           \
	"---\napiVersion: poolgate.io/v1alpha1\nkind: " kind "\nmetadata: {name: " name "}\nspec:" \
	" "
#define PROFILE(name, value, secrets)                                                              \
	HEAD("LauncherProfile", name)                                                              \
	"{kind: env, env: [{name: A, value: " value "}], secrets: [" secrets "]}\n"
#define LATE(name, place)                                                                          \
	HEAD("LauncherProfile", name)                                                              \
	"{kind: env, env: [{name: A, value: \"" place "\"}], placement: servers}\n"
#define SERVER(name)                                                                               \
	HEAD("GPUServer", name) "{address: \"" name ":1\", gpus: [{model: T4, memory: 8Gi}]}\n"
#define BROKEN "kind: [\n"

static const char config[] =
	"apiVersion: poolgate.io/v1alpha1\nkind: Config\ntls: {cert: tls.crt, key: tls.key}\n"
	"launchers: [profiles.yaml]\ndefaultLauncher: a\npool: pool.yaml\n";

struct fixture {
	struct reload r;
	struct config_store store;
	struct log log;
	struct err err;
	/* Secrets that are heard of, blanks around each. */
	const char *heard;
	uint64_t version;
	unsigned pairs;
};

static struct fixture fix;

static uint64_t version(void *ctx)
{
	return ((struct fixture *)ctx)->version;
}

static bool covers(void *ctx, struct slice secret)
{
	char word[64];

	(void)snprintf(word, sizeof(word), " %.*s ", (int)secret.len, secret.at);
	return strstr(((struct fixture *)ctx)->heard, word) != NULL;
}

/* Each pair's files have other sizes than the one's before. */
static void write_pair(void)
{
	static struct made_pair pair;
	size_t len;

	make_pair(&pair, MADE_P256, -60, 3600, 1);
	len = strlen(pair.cert);
	memset(pair.cert + len, '\n', fix.pairs);
	pair.cert[len + fix.pairs++] = '\0';
	scratch_file("tls.crt", pair.cert);
	scratch_file("tls.key", pair.key);
}

static int first(const char *profiles, const char *heard)
{
	static char flag[] = "--config", path[128];
	static char *argv[] = {flag, path, NULL};
	struct reload *r = &fix.r;

	(void)snprintf(path, sizeof(path), "%s", scratch_file("poolgate.yaml", config));
	scratch_file("profiles.yaml", profiles);
	scratch_file("pool.yaml", SERVER("one"));
	write_pair();
	log_init(&fix.log, open(scratch("log"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
	config_store_init(&fix.store);
	fix.heard = heard;
	*r = (struct reload){.argc = 2,
		.argv = argv,
		.store = &fix.store,
		.ledger = ledger_memory_new(0),
		.identity = tls_identity_new(),
		.metrics = metrics_new(metric_table, M_COUNT),
		.log = &fix.log};
	if (heard)
		r->heard = (struct secrets_heard){&fix, version, covers};
	assert_int_equal(settings_load(r->argc, r->argv, NULL, &r->settings, &fix.err), 0);
	return reload_first(r, &fix.err);
}

static void begin(const char *profiles, const char *heard)
{
	if (first(profiles, heard) != 0)
		fail_msg("%s", fix.err.msg);
}

static void end(void)
{
	reload_release(&fix.r);
	config_store_release(&fix.store);
	ledger_memory_free(fix.r.ledger);
	tls_identity_free(fix.r.identity);
	metrics_free(fix.r.metrics);
	(void)close(fix.log.fd);
	fix = (struct fixture){0};
}

/* The names of the profiles in force, in their order. */
static void profiles_are(const char *want)
{
	const struct config *c = config_store_acquire(&fix.store);
	char names[128] = "";

	for (size_t i = 0; i < c->n_profiles; i++) {
		size_t len = strlen(names);

		(void)snprintf(names + len, sizeof(names) - len, "%s%.*s", i ? " " : "",
			(int)c->profiles[i].name.len, c->profiles[i].name.at);
	}
	config_store_give_back(&fix.store, c);
	assert_string_equal(names, want);
}

static size_t logged(const char *words)
{
	struct buf text;
	size_t n = 0;

	buf_init(&text, 1u << 20);
	assert_int_equal(files_read(scratch("log"), &text, &fix.err), 0);
	buf_char(&text, '\0');
	for (const char *at = text.data; (at = strstr(at, words)); at++)
		n++;
	buf_release(&text);
	return n;
}

/* Profiles, what is heard of (NULL: nobody asks), those in force, and how many are left out. */
static const struct {
	const char *profiles, *heard, *kept;
	unsigned left_out;
} secrets[] = {
	{PROFILE("a", "short", "one") PROFILE("b", "short", "two"), NULL, "a b", 0},
	{PROFILE("a", "short", ""), " ", "a", 0},
	{PROFILE("a", "short", "one"), " one ", "a", 0},
	{PROFILE("a", "short", "one"), " two ", "", 1},
	{PROFILE("a", "short", "one, two"), " one two ", "a", 0},
	{PROFILE("a", "short", "one, two"), " one ", "", 1},
	{PROFILE("a", "short", "one, two"), " two ", "", 1},
	{PROFILE("a", "short", "one") PROFILE("b", "short", "two"), " two ", "b", 1},
	{PROFILE("a", "short", "") PROFILE("b", "short", "two") PROFILE("c", "short", "one"),
		" two ", "a b", 1},
	/* places that are known late alone, where no place comes late */
	{LATE("a", "{servers}") LATE("b", "{gpus}") LATE("c", "{gpu_indexes}"), NULL, "a", 2},
	{LATE("a", "{gpus}"), " ", "", 1},
};

TEST(test_profiles_that_are_left_out)
{
	for (size_t i = 0; i < COUNT(secrets); i++) {
		begin(secrets[i].profiles, secrets[i].heard);
		profiles_are(secrets[i].kept);
		assert_int_equal(metric_value(fix.r.metrics, M_PROFILES_LEFT_OUT, 0, 0),
			secrets[i].left_out);
		assert_int_equal(logged("a launcher profile is left out"), secrets[i].left_out);
		end();
	}
}

/* The word that the hook hears of a Secret comes, and goes again. */
TEST(test_another_secret_is_heard_of)
{
	begin(PROFILE("a", "short", "") PROFILE("b", "short", "one"), " ");
	profiles_are("a");
	for (int i = 0; i < 2; i++) {
		fix.heard = i ? " " : " one ";
		fix.version++;
		reload_poll(&fix.r);
		profiles_are(i ? "a b" : "a");
		reload_poll(&fix.r);
		profiles_are(i ? "a" : "a b");
		assert_int_equal(metric_value(fix.r.metrics, M_PROFILES_LEFT_OUT, 0, 0), i);
	}
	end();
}

/* ---- the three parts ---- */

/* Which version of a part is in force; any number that changes with it. */
static uint64_t config_now(void)
{
	/* nobody but the store has it */
	assert_int_equal(fix.store.now->refs, 1);
	return fix.store.now->hash;
}

static uint64_t pool_now(void)
{
	return fix.r.n_servers;
}

static uint64_t pair_now(void)
{
	struct tls_info info;

	assert_true(tls_identity_info(fix.r.identity, &info));
	return info.generation;
}

static void spoil_pair(void)
{
	scratch_file("tls.crt", BROKEN);
}

static void write_config(void)
{
	scratch_file("profiles.yaml", PROFILE("a", "longer", ""));
}

static void spoil_config(void)
{
	scratch_file("profiles.yaml", BROKEN);
}

static void write_pool(void)
{
	scratch_file("pool.yaml", SERVER("one") SERVER("two"));
}

static void spoil_pool(void)
{
	scratch_file("pool.yaml", BROKEN);
}

static const struct {
	uint64_t (*now)(void);
	void (*renew)(void), (*spoil)(void);
} parts[RELOAD_PARTS] = {[WHAT_CONFIG] = {config_now, write_config, spoil_config},
	[WHAT_POOL] = {pool_now, write_pool, spoil_pool},
	[WHAT_CERTIFICATE] = {pair_now, write_pair, spoil_pair}};

static void states_are(size_t what, int64_t ok, int64_t errors)
{
	for (size_t i = 0; i < RELOAD_PARTS; i++) {
		assert_int_equal(
			metric_value(fix.r.metrics, M_RELOAD_OK, i, 0), i == what ? ok : 1);
		assert_int_equal(
			metric_value(fix.r.metrics, M_RELOAD_ERRORS, i, 0), i == what ? errors : 0);
	}
}

/* What has changed is read at the second look that finds it the same, and nothing else is. */
TEST(test_looks)
{
	for (size_t what = 0; what < RELOAD_PARTS; what++) {
		uint64_t was[RELOAD_PARTS], now;

		begin(PROFILE("a", "short", ""), NULL);
		for (size_t i = 0; i < RELOAD_PARTS; i++)
			was[i] = parts[i].now();
		for (int i = 0; i < 3; i++)
			reload_poll(&fix.r);
		parts[what].spoil();
		reload_poll(&fix.r);
		parts[what].renew(); /* it was still being written */
		reload_poll(&fix.r);
		for (size_t i = 0; i < RELOAD_PARTS; i++)
			assert_true(parts[i].now() == was[i]);
		reload_poll(&fix.r);
		now = parts[what].now();
		for (size_t i = 0; i < RELOAD_PARTS; i++)
			assert_int_equal(parts[i].now() == was[i], i != what);
		for (int i = 0; i < 3; i++)
			reload_poll(&fix.r);
		assert_true(parts[what].now() == now);
		states_are(what, 1, 0);
		end();
	}
}

/* What is broken leaves the old in force, is said once, and the next good one is taken. */
TEST(test_what_is_broken)
{
	for (size_t what = 0; what < RELOAD_PARTS; what++) {
		uint64_t was;

		begin(PROFILE("a", "short", ""), NULL);
		was = parts[what].now();
		states_are(what, 1, 0);
		parts[what].spoil();
		for (int i = 0; i < 4; i++)
			reload_poll(&fix.r);
		assert_true(parts[what].now() == was);
		states_are(what, 0, 1);
		assert_int_equal(logged("reload failed, the old version stays in force"), 1);
		reload_now(&fix.r);
		states_are(what, 0, 2);
		assert_true(parts[what].now() == was);
		parts[what].renew();
		reload_now(&fix.r);
		assert_true(parts[what].now() != was);
		states_are(what, 1, 2);
		end();
	}
}

/* ---- what serving does without, and who is asked for a certificate ---- */

static const char bare[] = "apiVersion: poolgate.io/v1alpha1\nkind: Config\n"
			   "launchers: [profiles.yaml]\ndefaultLauncher: a\n";

/* Read these settings in place of those that are in force, as a start does. */
static void settings_are(const char *text)
{
	scratch_file("poolgate.yaml", text);
	settings_release(&fix.r.settings);
	if (settings_load(fix.r.argc, fix.r.argv, NULL, &fix.r.settings, &fix.err) != 0 ||
		reload_first(&fix.r, &fix.err) != 0)
		fail_msg("%s", fix.err.msg);
}

/* Without TLS no pair is read, and in a cluster no pool, whatever lies there. */
TEST(test_parts_that_are_not_there)
{
	struct ledger *ledger;
	uint64_t pair, servers;

	begin(PROFILE("a", "short", ""), NULL);
	pair = pair_now();
	servers = pool_now();
	ledger = fix.r.ledger;
	fix.r.ledger = NULL;
	spoil_pool();
	settings_are(config);
	write_pool();
	spoil_pair();
	settings_are(bare);
	reload_now(&fix.r);
	assert_int_equal(pool_now(), servers);
	assert_int_equal(pair_now(), pair);
	assert_int_equal(logged("pool in force"), 1);
	assert_int_equal(logged("certificate in force"), 1);
	fix.r.ledger = ledger;
	end();
}

/* What of a pool holds nothing is said when it comes into force, a line each. */
TEST(test_warnings_of_a_pool)
{
	static const char lines[] = HEAD("GPUServer",
		"two") "{address: \"two:1\", probe: {url: \"http://two:2/\"}}\n" HEAD("GPUServer",
		"three") "{address: \"three:1\", probe: {url: \"http://three:2/\"}}\n";

	begin(PROFILE("a", "short", ""), NULL);
	assert_int_equal(logged("level=warn"), 0);
	assert_int_equal(logged("holds nothing"), 0);
	scratch_file("pool.yaml", lines);
	reload_now(&fix.r);
	assert_int_equal(logged("holds nothing"), 2);
	assert_int_equal(logged("two holds nothing: without a cluster"), 1);
	assert_int_equal(logged("three holds nothing: without a cluster"), 1);
	end();
}

static const char asks[] =
	"apiVersion: poolgate.io/v1alpha1\nkind: Config\n"
	"tls: {cert: tls.crt, key: tls.key, clientCA: ca.crt, clientNames: [one, two]}\n"
	"launchers: [profiles.yaml]\ndefaultLauncher: a\npool: pool.yaml\n";

static uint64_t trusted(void)
{
	struct tls_trust_info info;

	(void)tls_trust_info(fix.r.clients, &info);
	return info.generation;
}

/* CAs are in force from the start, said once, and read again when their file or the names are
 * others; what cannot be read leaves the old ones, also beside a pair that is torn. */
TEST(test_cas_of_clients)
{
	static struct made_pair ca;

	begin(PROFILE("a", "short", ""), NULL);
	assert_int_equal(client_ca_load(NULL, &fix.r.settings, &fix.log, &fix.err), 0);
	fix.r.clients = tls_trust_new();
	assert_int_equal(client_ca_load(fix.r.clients, &fix.r.settings, &fix.log, &fix.err), 0);
	assert_int_equal(trusted(), 0);
	make_ca(&ca, "of clients", -60, 3600);
	scratch_file("ca.crt", ca.cert);
	settings_are(asks);
	assert_int_equal(trusted(), 1);
	assert_int_equal(logged("client CA in force"), 1);
	reload_now(&fix.r);
	assert_int_equal(client_ca_load(fix.r.clients, &fix.r.settings, &fix.log, &fix.err), 0);
	assert_int_equal(trusted(), 1);
	assert_int_equal(logged("client CA in force"), 1);
	assert_int_equal(logged("certificates=1 names=2"), 1);
	make_ca(&ca, "another of clients", -60, 3600);
	scratch_file("ca.crt", ca.cert);
	spoil_pair();
	reload_poll(&fix.r);
	assert_int_equal(trusted(), 1);
	reload_poll(&fix.r);
	assert_int_equal(trusted(), 2);
	assert_int_equal(logged("client CA in force"), 2);
	assert_int_equal(logged("reload failed"), 1);
	write_pair();
	scratch_file("ca.crt", BROKEN);
	reload_poll(&fix.r);
	reload_poll(&fix.r);
	assert_int_equal(trusted(), 2);
	assert_int_equal(logged("reload failed"), 2);
	assert_int_equal(logged("ca.crt"), 3);
	states_are(WHAT_CERTIFICATE, 0, 2);
	tls_trust_free(fix.r.clients);
	end();
}

/* Other names are other CAs to the next looks, at the same file. */
TEST(test_names_of_clients)
{
	static struct made_pair ca;
	char other[sizeof(asks)];

	make_ca(&ca, "of clients", -60, 3600);
	scratch_file("ca.crt", ca.cert);
	begin(PROFILE("a", "short", ""), NULL);
	fix.r.clients = tls_trust_new();
	settings_are(asks);
	memcpy(other, asks, sizeof(other));
	memcpy(strstr(other, "one, two"), "six, two", 8);
	scratch_file("poolgate.yaml", other);
	reload_poll(&fix.r); /* the config changes, and with it the names */
	reload_poll(&fix.r);
	assert_string_equal(fix.r.settings.client_names[0], "six");
	reload_poll(&fix.r);
	reload_poll(&fix.r);
	assert_int_equal(trusted(), 2);
	tls_trust_free(fix.r.clients);
	end();
}

/* Of the first load the first error is handed back. */
TEST(test_first)
{
	assert_int_equal(first(BROKEN, NULL), ERR_SYNTAX);
	assert_non_null(strstr(fix.err.msg, "profiles.yaml"));
	assert_int_equal(metric_value(fix.r.metrics, M_RELOAD_ERRORS, WHAT_CONFIG, 0), 1);
	assert_false(tls_identity_info(fix.r.identity, &(struct tls_info){0}));
	end();
}

TESTS_WITHIN(scratch_begin, scratch_end, test_profiles_that_are_left_out,
	test_another_secret_is_heard_of, test_looks, test_what_is_broken,
	test_parts_that_are_not_there, test_warnings_of_a_pool, test_cas_of_clients,
	test_names_of_clients, test_first)
