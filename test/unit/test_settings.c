/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of webhook/edge/settings/settings (with settings_file and settings_flags): precedence,
 * both dialects of the command line, and the sentence for every mistake. */

#include "test/unit/test.h"
#include "webhook/edge/settings/settings.h"
#include "webhook/edge/settings/settings_file.h"
#include "webhook/edge/settings/settings_table.h"

#define WORDS_MAX 24

static char dir[64];
static struct settings s; /* of the last load */

FIXTURE(make_dir)
{
	snprintf(dir, sizeof(dir), "/tmp/poolgate-settings-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

FIXTURE(remove_dir)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/poolgate.yaml", dir);
	(void)unlink(path);
	settings_release(&s);
	return rmdir(dir);
}

static const char *config_path(void)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/poolgate.yaml", dir);
	return path;
}

static void write_config(const char *text)
{
	FILE *f = fopen(config_path(), "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int load_words(int argc, char **argv, const char *env, struct err *err)
{
	settings_release(&s);
	memset(&s, 0xa5, sizeof(s)); /* whatever was in it */
	return settings_load(argc, argv, env, &s, err);
}

/* Words of a command line, split at blanks; CONFIG stands for the file's path. */
static int load(const char *line, const char *env, struct err *err)
{
	static char text[1024];
	char *argv[WORDS_MAX + 1], *at = text;
	int argc = 0;

	snprintf(text, sizeof(text), "%s", line);
	while (*(at += strspn(at, " "))) {
		char *end = at + strcspn(at, " ");

		assert_true(argc < WORDS_MAX);
		argv[argc++] = at;
		at = end + (*end == ' ');
		*end = '\0';
	}
	argv[argc] = NULL;
	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], "CONFIG") == 0)
			argv[i] = (char *)(uintptr_t)config_path();
	return load_words(argc, argv, env, err);
}

static void must_load(const char *line, const char *env)
{
	struct err err = {0};

	if (load(line, env, &err) != 0)
		fail_msg("%s: %s", line, err.msg);
}

#define HEAD "apiVersion: poolgate.io/v1alpha1\nkind: Config\n"
#define NEEDED "--client-catalogue c --sidecar-config s "

static const char all_keys[] = HEAD
	"listen: 127.0.0.1:1\nlistenPlain: \"[::1]:2\"\nlistenAdmin: off\n"
	"tls: {cert: tls/crt, key: /abs/key, clientCA: tls/ca, clientNames: [a, b c]}\n"
	"clientCatalogue: catalogue.yaml\nsidecarConfig: sidecar.yaml\n"
	"clientShell: /bin/bash\n"
	"launchers: [launchers, /abs/x.yaml]\ndefaultLauncher: lupine\npool: pool\n"
	"claimTtl: 24h\ntotalGpuMemory: 16G\nnodeResource: false\nsecretWithoutClaim: "
	"false\ndrainDelay: 250ms\n"
	"log: {format: json, level: debug}\nworkers: 4\nmaxConnections: 100\nreloadInterval: 1m\n";

TEST(test_defaults)
{
	must_load(NEEDED, NULL);
	assert_null(s.config);
	assert_string_equal(s.listen, ":8443");
	assert_string_equal(s.listen_plain, ":8080");
	assert_string_equal(s.listen_admin, "127.0.0.1:8081");
	assert_string_equal(s.client_catalogue, "c");
	assert_null(s.client_shell);
	assert_null(s.pool);
	assert_int_equal(s.claim_ttl_ms, 0);
	assert_int_equal(s.total_gpu_mb, 0);
	assert_null(s.total_gpu_from);
	assert_true(s.node_resource);
	assert_true(s.secret_without_claim);
	assert_string_equal(s.log_format, "text");
	assert_string_equal(s.log_level, "info");
	assert_int_equal(s.workers, 2);
	assert_int_equal(s.max_connections, 512);
	assert_int_equal(s.drain_delay_ms, 5000);
	assert_int_equal(s.reload_interval_ms, 2000);
	assert_false(s.check);
	assert_int_equal(s.n_notes, 0);
}

static void expect_path(const char *got, const char *want)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", dir, want);
	assert_string_equal(got, path);
}

TEST(test_file)
{
	write_config(all_keys);
	must_load("--config CONFIG", NULL);
	assert_string_equal(s.listen, "127.0.0.1:1");
	assert_string_equal(s.listen_plain, "[::1]:2");
	assert_null(s.listen_admin);
	expect_path(s.tls_cert, "tls/crt");
	expect_path(s.client_ca, "tls/ca");
	assert_int_equal(s.n_client_names, 2);
	assert_string_equal(s.client_names[1], "b c");
	assert_string_equal(s.tls_key, "/abs/key");
	expect_path(s.client_catalogue, "catalogue.yaml");
	expect_path(s.sidecar_config, "sidecar.yaml");
	assert_string_equal(s.client_shell, "/bin/bash");
	assert_int_equal(s.n_launchers, 2);
	expect_path(s.launchers[0], "launchers");
	assert_string_equal(s.launchers[1], "/abs/x.yaml");
	assert_string_equal(s.default_launcher, "lupine");
	expect_path(s.pool, "pool");
	assert_int_equal(s.claim_ttl_ms, 86400000);
	assert_int_equal(s.total_gpu_mb, 16000);
	assert_string_equal(s.total_gpu_from, config_path());
	assert_false(s.node_resource);
	assert_false(s.secret_without_claim);
	assert_int_equal(s.drain_delay_ms, 250);
	assert_string_equal(s.log_format, "json");
	assert_string_equal(s.log_level, "debug");
	assert_int_equal(s.workers, 4);
	assert_int_equal(s.max_connections, 100);
	assert_int_equal(s.reload_interval_ms, 60000);
}

/* A flag wins over the environment, the environment over the file; wherever the flag stands. */
TEST(test_precedence)
{
	write_config(all_keys);
	must_load("--listen :9 --launchers a --launchers=b --total-gpu-memory 8000 --listen-admin "
		  "127.0.0.1:7 --secret-without-claim true --claim-ttl 0 --pool=p --config CONFIG "
		  "--tls-key k --client-ca ca --client-name x --log-level warn",
		"32G");
	assert_string_equal(s.listen, ":9");
	assert_string_equal(s.listen_admin, "127.0.0.1:7");
	assert_int_equal(s.n_launchers, 2);
	assert_string_equal(s.launchers[1], "b");
	assert_int_equal(s.total_gpu_mb, 8000);
	assert_string_equal(s.total_gpu_from, "the command line");
	assert_true(s.secret_without_claim);
	assert_int_equal(s.claim_ttl_ms, 0);
	assert_string_equal(s.pool, "p");
	assert_string_equal(s.tls_key, "k");
	assert_string_equal(s.client_ca, "ca");
	assert_int_equal(s.n_client_names, 1);
	assert_string_equal(s.client_names[0], "x");
	assert_string_equal(s.log_level, "warn");
	assert_string_equal(s.log_format, "json");

	must_load("--config CONFIG", "32G");
	assert_int_equal(s.total_gpu_mb, 32000);
	assert_string_equal(s.total_gpu_from, "the environment");

	must_load("--config CONFIG", "");
	assert_int_equal(s.total_gpu_mb, 16000);
}

/* The command line of the origin's manifests, in every spelling that Go's flag package takes. */
TEST(test_origin)
{
	static const char *const lines[] = {
		"-port 9443 -tlsCertFile c -tlsKeyFile k -sidecarCfgFile s -bitfusionClientConfig "
		"b",
		"-port=9443 -tlsCertFile=c -tlsKeyFile=k -sidecarCfgFile=s "
		"-bitfusionClientConfig=b",
		"--port 9443 --tlsCertFile c --tlsKeyFile k --sidecarCfgFile s "
		"--bitfusionClientConfig b",
		"-alsologtostderr -v=4 -port 9443 -tlsCertFile c -tlsKeyFile k -sidecarCfgFile s "
		"-bitfusionClientConfig b 2>&1",
		"-logtostderr=true -v 4 -stderrthreshold INFO -port 9443 -tlsCertFile c "
		"-tlsKeyFile k "
		"-sidecarCfgFile s -bitfusionClientConfig b",
	};

	for (size_t i = 0; i < COUNT(lines); i++) {
		struct err err = {0};

		must_load(lines[i], "16160");
		assert_string_equal(s.listen, ":9443");
		assert_string_equal(s.tls_cert, "c");
		assert_string_equal(s.tls_key, "k");
		assert_string_equal(s.sidecar_config, "s");
		assert_string_equal(s.client_catalogue, "b");
		assert_int_equal(s.total_gpu_mb, 16160);
		assert_int_equal(settings_check_serve(&s, &err), 0);
		assert_int_equal(s.n_notes, i < 3 ? 0 : 3);
	}
}

TEST(test_notes)
{
	must_load(NEEDED "2>&1 -v 3 --listen-admin 0.0.0.0:1", NULL);
	assert_int_equal(s.n_notes, 3);
	assert_non_null(strstr(s.notes[0], "2>&1 is shell syntax"));
	assert_non_null(strstr(s.notes[1], "flag -v has no effect"));
	assert_non_null(strstr(s.notes[2], "0.0.0.0:1 can be reached from other machines"));
	must_load(NEEDED "--listen-admin [::1]:1", NULL);
	assert_int_equal(s.n_notes, 0);
}

TEST(test_help)
{
	must_load("--help", NULL);
	assert_true(s.help);
	must_load("--config /nonexistent -h --wrong", "nonsense");
	assert_true(s.help);
}

TEST(test_wrong_flags)
{
	static const struct {
		const char *line, *complaint;
	} cases[] = {
		{"--listne :1", "unknown flag --listne, did you mean --listen?"},
		{"--listen-plan=:1", "unknown flag --listen-plan, did you mean --listen-plain?"},
		{"-tlscertfile c", "did you mean --tlsCertFile?"},
		{"--nonesuch", "unknown flag --nonesuch; `poolgate serve --help` lists them"},
		{"--averyveryverylongflagthatnobodyhaseverheardofandneverwill",
			"unknown flag --avery"},
		{"listen", "found \"listen\", expected a flag"},
		{"-", "found \"-\", expected a flag"},
		{"--", "found \"--\", expected a flag"},
		{"---listen", "found \"---listen\", expected a flag"},
		{"--listen", "flag --listen needs a value"},
		{"--check=true", "flag --check takes no value"},
		{"--listen nowhere", "flag --listen: found \"nowhere\", expected ADDR:PORT"},
		{"--listen off", "flag --listen: found \"off\""},
		{"--listen-plain x", "off for none"},
		{"--listen-admin :99999", "flag --listen-admin: found \":99999\""},
		{"--port 99999", "flag --port: found \"99999\", expected a port, 0 to 65535"},
		{"-port=", "flag -port: found \"\""},
		{"--tls-cert=", "flag --tls-cert: found \"\", expected a value"},
		{"--client-name=", "flag --client-name: found \"\", expected a common name"},
		{"--client-shell=", "flag --client-shell: found \"\", expected one word"},
		{"--claim-ttl 5",
			"flag --claim-ttl: found \"5\", did you mean 5s? expected a duration"},
		{"--claim-ttl -5s", "flag --claim-ttl: found \"-5s\""},
		{"--claim-ttl 200000h", "flag --claim-ttl"},
		{"--drain-delay 11m", "expected a duration from 0 to 10m"},
		{"--reload-interval 99ms", "expected a duration from 100ms to 1h, or 0"},
		{"--total-gpu-memory 0", "flag --total-gpu-memory: found \"0\""},
		{"--node-resource off", "found \"off\", expected true or false"},
		{"--secret-without-claim yes", "found \"yes\", expected true or false"},
		{"--workers -1", "expected a whole number from 0 to 64"},
		{"--workers 65", "expected a whole number from 0 to 64"},
		{"--max-connections 0", "expected a whole number from 1 to 65536"},
		{"--log-format xml", "expected text or json"},
		{"--namespace A", "flag --namespace: found \"A\", expected an object's name"},
		{"--log-level loud", "expected error, warn, info or debug"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err err = {0};
		int rc = load(cases[i].line, NULL, &err);

		if (rc != ERR_SYNTAX)
			fail_msg("%s: %d %s", cases[i].line, rc, err.msg);
		row_says(cases[i].line, err.msg, "", cases[i].complaint);
	}
}

/* A flag that stands one time too often is refused; as often as it may, it is not. */
static void so_often(const char *name, size_t most)
{
	char *argv[2 * SETTINGS_LAUNCHERS_MAX + 2], flag[32], value[] = "x";
	struct err err = {0};

	(void)snprintf(flag, sizeof(flag), "--%s", name);
	assert_true(2 * most + 2 <= COUNT(argv));
	for (size_t i = 0; i < COUNT(argv); i++)
		argv[i] = i % 2 ? value : flag;
	assert_int_equal(load_words(2 * (int)most + 2, argv, NULL, &err), ERR_SYNTAX);
	assert_non_null(strstr(err.msg, "more than"));
	err = (struct err){0};
	(void)load_words(2 * (int)most, argv, NULL, &err); /* names alone lack their CA */
	assert_null(strstr(err.msg, "more than"));
	assert_int_equal(s.n_launchers + s.n_client_names, most);
}

TEST(test_flags_that_stand_too_often)
{
	so_often("launchers", SETTINGS_LAUNCHERS_MAX);
	so_often("client-name", TLS_TRUST_NAMES_MAX);
}

/* More paths than are kept in mind: the others are read all the same, and the sentence about them
 * says less. */
TEST(test_many_paths)
{
	char *argv[2 * (SETTINGS_SOURCES_MAX + 3)], flag[] = "--pool", value[] = "x", last[] = "y";
	const int n = (int)COUNT(argv);
	struct err err = {0};

	for (int i = 0; i < n; i++)
		argv[i] = i % 2 ? value : flag;
	argv[n - 1] = last;
	(void)load_words(n, argv, NULL, &err); /* a launcher is missing */
	assert_string_equal(s.pool, "y");
	assert_int_equal(s.n_sources, SETTINGS_SOURCES_MAX);
	(void)err_set(&err, ERR_IO, "cannot open x: no");
	(void)settings_blame(&s, &err);
	assert_string_equal(err.msg, "flag --pool: cannot open x: no");
}

/* The least and the most of each number are taken, by flag and by file, and not what is beyond; 0
 * stands beside them. */
TEST(test_bounds)
{
	static const struct {
		const char *flag, *key, *good[3], *bad[2];
	} cases[] = {
		{"claim-ttl", "claimTtl", {"0s", "1ms", "87840h"}, {"87840h0m1s", "-1ms"}},
		{"drain-delay", "drainDelay", {"0s", "1ms", "10m"}, {"10m0s1ms", "-1ms"}},
		{"reload-interval", "reloadInterval", {"0s", "100ms", "1h"}, {"99ms", "1h0m0s1ms"}},
		{"workers", "workers", {"0", "1", "64"}, {"65", "-1"}},
		{"max-connections", "maxConnections", {"1", "2", "65536"}, {"0", "65537"}},
	};
	char text[160];

	for (size_t i = 0; i < COUNT(cases); i++)
		for (size_t j = 0; j < 5; j++) {
			const char *value = j < 3 ? cases[i].good[j] : cases[i].bad[j - 3];

			for (int by_file = 0; by_file < 2; by_file++) {
				struct err err = {0};

				(void)snprintf(
					text, sizeof(text), HEAD "%s: %s\n", cases[i].key, value);
				write_config(text);
				(void)snprintf(
					text, sizeof(text), NEEDED "--%s %s", cases[i].flag, value);
				if ((load(by_file ? NEEDED "--config CONFIG" : text, NULL, &err) ==
					    0) != (j < 3))
					fail_msg("%s: %s", text, err.msg);
			}
		}
	for (size_t len = 255; len <= 256; len++) {
		char name[257];

		memset(name, 'n', len);
		name[len] = '\0';
		assert_int_equal(settings_check_client_name(slice_of(name)), len == 255);
	}
	assert_false(settings_check_client_name((struct slice){"a\0b", 3}));
	assert_false(settings_check_client_name((struct slice){"", 0}));
}

TEST(test_wrong_whole)
{
	static const struct {
		const char *line, *env, *complaint;
	} cases[] = {
		{"", NULL, "found no launcher, expected --client-catalogue"},
		{"--client-catalogue c", NULL, "found c alone"},
		{"--sidecar-config s", NULL, "found s alone"},
		{"--launchers l --client-shell bash", NULL,
			"found the shell bash, which belongs to the Bitfusion profile"},
		{NEEDED, "0", "environment variable TOTAL_GPU_MEMORY: found \"0\""},
		{NEEDED, "16 G", "TOTAL_GPU_MEMORY: found \"16 G\""},
	};
	struct err err = {0};

	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(load(cases[i].line, cases[i].env, &err), ERR_INVALID);
		row_says(cases[i].line, err.msg, "", cases[i].complaint);
	}
	must_load(NEEDED "--tls-cert c", NULL);
	assert_int_equal(settings_check_serve(&s, &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, "found no TLS key"));
	must_load(NEEDED "--tls-key k", NULL);
	assert_int_equal(settings_check_serve(&s, &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, "found no TLS certificate"));
}

static const char cluster_keys[] =
	HEAD "cluster:\n  kubeconfig: sub/kube\n  namespace: ns\n  service: sv\n  lease: le\n"
	     "  webhooks: wh\n  pendingShare: 100\n  maxGracePeriod: 24h\n  probe: {interval: 1s}\n"
	     "  secrets: {sync: true, source: a-0.z/b.9}\n"
	     "  policies: {enabled: true, required: true}\n"
	     "  waiting: {whenFull: refuse, reserveAfter: 1m, priorityClasses: [urgent]}\n"
	     "  eviction: {enabled: true, after: 2m}\n  usage: {enabled: true, listen: \":8\"}\n"
	     "  tls: {secret: ts, caSecret: cs, manage: false, caValidity: 878400h, validity: 1s,\n"
	     "    publishWait: 720h, dropWait: 0s}\n";

TEST(test_cluster)
{
	const struct cluster_settings *c = &s.cluster;

	must_load(NEEDED, NULL);
	assert_false(c->on);
	write_config(HEAD "cluster: {}\n");
	must_load(NEEDED "--config CONFIG", NULL);
	assert_true(c->on);
	assert_null(c->kubeconfig);
	assert_null(c->namespace);
	assert_string_equal(c->service, "poolgate");
	assert_string_equal(c->lease, "poolgate-leader");
	assert_string_equal(c->webhooks, "poolgate");
	assert_string_equal(c->tls_secret, "poolgate-tls");
	assert_string_equal(c->ca_secret, "poolgate-ca");
	assert_string_equal(c->secrets_source, "kube-system/bitfusion-secret");
	assert_false(c->policies || c->policies_required);
	assert_true(c->tls_manage);
	assert_false(c->secrets_sync);
	assert_int_equal(c->ca_valid_ms, INT64_C(3650) * 86400000);
	assert_int_equal(c->serving_valid_ms, INT64_C(90) * 86400000);
	assert_int_equal(c->publish_wait_ms, 60000);
	assert_int_equal(c->drop_wait_ms, 60000);
	assert_int_equal(c->probe_every_ms, 10000);
	assert_int_equal(c->pending_share, 25);
	assert_int_equal(c->max_grace_ms, 3600000);
	assert_int_equal(c->when_full, WHEN_FULL_OWNED);
	assert_int_equal(c->reserve_ms, 600000);
	assert_false(c->eviction);
	assert_false(c->usage);
	assert_null(c->usage_listen);
	assert_int_equal(c->evict_after_ms, 600000);

	write_config(cluster_keys);
	must_load(NEEDED "--config CONFIG", NULL);
	expect_path(c->kubeconfig, "sub/kube");
	assert_true(c->policies && c->policies_required);
	assert_true(c->eviction);
	assert_true(c->usage);
	assert_string_equal(c->usage_listen, ":8");
	assert_int_equal(c->evict_after_ms, 120000);
	assert_string_equal(c->namespace, "ns");
	assert_string_equal(c->service, "sv");
	assert_string_equal(c->lease, "le");
	assert_string_equal(c->webhooks, "wh");
	assert_string_equal(c->tls_secret, "ts");
	assert_string_equal(c->ca_secret, "cs");
	assert_string_equal(c->secrets_source, "a-0.z/b.9");
	assert_false(c->tls_manage);
	assert_true(c->secrets_sync);
	assert_int_equal(c->ca_valid_ms, INT64_C(878400) * 3600000);
	assert_int_equal(c->serving_valid_ms, 1000);
	assert_int_equal(c->publish_wait_ms, INT64_C(720) * 3600000);
	assert_int_equal(c->drop_wait_ms, 0);
	assert_int_equal(c->probe_every_ms, 1000);
	assert_int_equal(c->pending_share, 100);
	assert_int_equal(c->max_grace_ms, 86400000);

	/* A cluster has a pool of its own, and needs somebody who waits for it. */
	static const char *const wrong[] = {"--pool p", "--claim-ttl 1h", "--workers 0"};
	for (size_t i = 0; i < COUNT(wrong); i++) {
		char line[128];
		struct err err = {0};

		(void)snprintf(line, sizeof(line), NEEDED "--cluster %s", wrong[i]);
		must_load(line, NULL);
		assert_int_equal(settings_check_serve(&s, &err), ERR_INVALID);
	}
	must_load(NEEDED "--cluster --workers 1", NULL);
	assert_int_equal(settings_check_serve(&s, NULL), 0);
}

/* One value under `cluster:`: is it taken? */
TEST(test_cluster_values)
{
	static const struct {
		const char *value;
		bool good;
	} cases[] = {
		{"{pendingShare: 1}", true},
		{"{pendingShare: 0}", false},
		{"{maxGracePeriod: 1s}", true},
		{"{maxGracePeriod: 999ms}", false},
		{"{maxGracePeriod: 24h0m0s1ms}", false},
		{"{probe: {interval: 24h}}", true},
		{"{probe: {interval: 999ms}}", false},
		{"{probe: {interval: 24h0m0s1ms}}", false},
		{"{probe: {every: 1s}}", false},
		{"{probe: x}", false},
		{"{waiting: {enabled: true, whenFull: owned}}", true},
		{"{waiting: {whenFull: wait, reserveAfter: 1s, priorityClasses: [a-b, c.d]}}",
			true},
		{"{waiting: {whenFull: refuse, priorityClasses: []}}", true},
		{"{eviction: {enabled: true}}", true},
		{"{eviction: {enabled: false, after: 1s}}", true},
		{"{eviction: {after: 999ms}}", false},
		{"{eviction: {after: 31d}}", false},
		{"{eviction: {enabled: 5m}}", false},
		{"{eviction: {every: 5m}}", false},
		{"{eviction: x}", false},
		{"{policies: {enabled: true}}", true},
		{"{policies: {enabled: maybe}}", false},
		{"{policies: {require: true}}", false},
		{"{policies: true}", false},
		{"{usage: {enabled: true}}", true},
		{"{usage: {enabled: 1d}}", false},
		{"{usage: {days: 1}}", false},
		{"{usage: {listen: off}}", true},
		{"{usage: {listen: somewhere}}", false},
		{"{usage: x}", false},
		{"{waiting: {whenFull: never}}", false},
		{"{waiting: {reserveAfter: 999ms}}", false},
		{"{waiting: {priorityClasses: [A]}}", false},
		{"{waiting: {priorityClasses: a}}", false},
		{"{waiting: {share: 1}}", false},
		{"{waiting: x}", false},
		{"{tls: {validity: 878400h}}", true},
		{"{tls: {validity: 999ms}}", false},
		{"{tls: {validity: 878400h0m1s}}", false},
		{"{tls: {caValidity: 1s}}", true},
		{"{tls: {caValidity: 999ms}}", false},
		{"{tls: {caValidity: 878400h0m1s}}", false},
		{"{tls: {publishWait: 0s}}", true},
		{"{tls: {publishWait: 720h0m1s}}", false},
		{"{tls: {dropWait: 720h}}", true},
		{"{tls: {dropWait: 720h0m1s}}", false},
		{"{tls: {manage: maybe}}", false},
		{"{tls: {cert: x}}", false},
		{"{tls: x}", false},
		{"{tls: {secret: a/b}}", false},
		{"{tls: {caSecret: a/b}}", false},
		{"{secrets: {sync: maybe}}", false},
		{"{secrets: {from: x}}", false},
		{"{secrets: x}", false},
		{"{secrets: {source: a}}", false},
		{"{secrets: {source: a/}}", false},
		{"{secrets: {source: /a}}", false},
		{"{secrets: {source: a/b/c}}", false},
		{"{secrets: {source: A/b}}", false},
		{"{secrets: {source: [a]}}", false},
		{"{service: azby-0189.x}", true},
		{"{service: a_b}", false},
		{"{service: \"a`\"}", false},
		{"{service: \"a{\"}", false},
		{"{service: \"a:\"}", false},
		{"{service: a/b}", false},
		{"{service: \"\"}", false},
		{"{lease: a b}", false},
		{"{webhooks: [x]}", false},
		{"{namespace: X}", false},
		{"{kubeconfig: \"\"}", false},
		{"{kubeconfig: \"a\\0b\"}", false},
		{"{kubeconfig: [x]}", false},
		{"{kubeconfig: k}", true},
		{"{pool: x}", false},
		{"x", false},
	};
	struct err err;

	for (size_t i = 0; i < COUNT(cases) + 2; i++) {
		char text[400], name[255];
		const char *value = i < COUNT(cases) ? cases[i].value : name;
		bool good = i < COUNT(cases) ? cases[i].good : i == COUNT(cases);

		/* The longest name, and one byte more. */
		memset(name, 'n', sizeof(name));
		name[253 + (i > COUNT(cases))] = '\0';
		(void)snprintf(text, sizeof(text), HEAD "cluster: %s%s%s\n",
			value == name ? "{lease: " : "", value, value == name ? "}" : "");
		write_config(text);
		err = (struct err){0};
		if ((load(NEEDED "--config CONFIG", NULL, &err) == 0) != good)
			fail_msg("%s: %s", text, err.msg);
		row_says(text, err.msg, "", good ? "" : "/poolgate.yaml:3: ");
	}
	write_config(HEAD "cluster: {kubeconfig: /abs}\n");
	must_load(NEEDED "--config CONFIG", NULL);
	assert_string_equal(s.cluster.kubeconfig, "/abs");
	err = (struct err){0};
	(void)err_set(&err, ERR_NOTFOUND, "cannot open /abs: no");
	(void)settings_blame(&s, &err);
	assert_non_null(strstr(err.msg, "/cluster/kubeconfig: cannot open /abs"));
}

/* What differs in any member needs another start. */
TEST(test_cluster_differs)
{
	char keys[SETTINGS_KEYS_SIZE], *a, *b;
	struct slice another = SLICE("other");

	write_config(cluster_keys);
	must_load(NEEDED "--config CONFIG", NULL);
	assert_false(settings_needs_restart(&s, &s, keys));
#define DIFFERS(member, value)                                                                     \
	do {                                                                                       \
		struct settings other = s;                                                         \
		other.cluster.member = (value);                                                    \
		assert_true(settings_needs_restart(&s, &other, keys));                             \
		assert_string_equal(keys, "cluster");                                              \
		assert_true(settings_needs_restart(&other, &s, keys));                             \
	} while (0)
	DIFFERS(on, false);
	DIFFERS(kubeconfig, NULL);
	DIFFERS(kubeconfig, "x");
	DIFFERS(namespace, NULL);
	DIFFERS(service, "x");
	DIFFERS(lease, "x");
	DIFFERS(webhooks, NULL);
	DIFFERS(tls_secret, "x");
	DIFFERS(ca_secret, "x");
	DIFFERS(tls_manage, true);
	DIFFERS(ca_valid_ms, 1);
	DIFFERS(serving_valid_ms, 1);
	DIFFERS(publish_wait_ms, 1);
	DIFFERS(drop_wait_ms, 1);
	DIFFERS(secrets_sync, false);
	DIFFERS(secrets_source, "x");
	DIFFERS(probe_every_ms, 1);
	DIFFERS(pending_share, 1);
	DIFFERS(max_grace_ms, 1);
	DIFFERS(waiting, true);
	DIFFERS(usage, false);
	DIFFERS(usage_listen, NULL);
	DIFFERS(reserve_ms, 1);
	DIFFERS(eviction, false);
	DIFFERS(policies, false);
	DIFFERS(policies_required, false);
	DIFFERS(evict_after_ms, 1);
	DIFFERS(n_priority_classes, 0);
	DIFFERS(priority_classes, &another);
	/* The same words elsewhere in memory are the same. */
	struct settings copy = s;
	a = strdup(copy.cluster.lease);
	b = strdup(copy.cluster.kubeconfig);
	copy.cluster.lease = a;
	copy.cluster.kubeconfig = b;
	/* What is taken up while it runs. */
	copy.cluster.when_full = WHEN_FULL_OWNED;
	assert_false(settings_needs_restart(&s, &copy, keys));
	free(a);
	free(b);
}

TEST(test_wrong_file)
{
	static const struct {
		const char *text;
		int line;
		const char *complaint;
	} cases[] = {
		{"", 0, "found 0 documents, expected one"},
		{HEAD "---\n" HEAD, 0, "found 2 documents, expected one"},
		{"[", 0, "poolgate.yaml:"},
		{"- a\n", 1, "expected a mapping"},
		{"kind: Config\n", 1, "/apiVersion: found nothing, expected poolgate.io/v1alpha1"},
		{"apiVersion: v1\nkind: Config\n", 1, "expected poolgate.io/v1alpha1"},
		{"apiVersion: poolgate.io/v1alpha1\n", 1, "kind"},
		{"apiVersion: poolgate.io/v1alpha1\nkind: GPUServer\n", 2, "expected Config"},
		{HEAD "listne: x\n", 3, "unknown key \"listne\""},
		{HEAD "listen: 8443\n", 3, "expected a string"},
		{HEAD "listen: x\n", 3, "/listen: found \"x\", expected ADDR:PORT"},
		{HEAD "listen: off\n", 3, "expected a string"},
		{HEAD "listenPlain: yes\n", 3, "expected a string"},
		{HEAD "listenPlain: x\n", 3, "off for none"},
		{HEAD "tls: x\n", 3, "/tls"},
		{HEAD "tls: {crt: x}\n", 3, "crt"},
		{HEAD "tls: {clientCA: []}\n", 3, "/tls/clientCA"},
		{HEAD "tls: {clientNames: x}\n", 3, "/tls/clientNames"},
		{HEAD "tls: {clientNames: [a, \"\"]}\n", 3, "common name"},
		{HEAD "tls: {cert: [x]}\n", 3, "/tls/cert: found a sequence, expected a string"},
		{HEAD "pool: \"\"\n", 3, "expected a path"},
		{HEAD "pool: \"a\\0b\"\n", 3, "expected a path"},
		{HEAD "launchers: x\n", 3, "expected a sequence of paths"},
		{HEAD "cluster:\n  waiting:\n    priorityClasses: x\n", 5,
			"expected a sequence of strings"},
		{HEAD "launchers: [1]\n", 3, "/launchers/0: found 1, expected a string"},
		{HEAD "defaultLauncher: 1\n", 3, "expected a string"},
		{HEAD "clientShell: [bash]\n", 3,
			"/clientShell: found a sequence, expected a string"},
		{HEAD "clientShell: \"\"\n", 3, "found \"\", expected one word"},
		{HEAD "clientShell: bash -c\n", 3, "found \"bash -c\", expected one word"},
		{HEAD "clientShell: \"a\\0b\"\n", 3, "expected one word"},
		{HEAD "claimTtl: 5\n", 3, "/claimTtl"},
		{HEAD "claimTtl: abc\n", 3, "found \"abc\""},
		{HEAD "drainDelay: 1h\n", 3, "/drainDelay"},
		{HEAD "reloadInterval: 1ms\n", 3,
			"found 1 ms, expected a duration from 100ms to 1h, or 0"},
		{HEAD "totalGpuMemory: 16GB\n", 3, "/totalGpuMemory: found \"16GB\""},
		{HEAD "totalGpuMemory: []\n", 3, "/totalGpuMemory"},
		{HEAD "nodeResource: maybe\n", 3, "/nodeResource"},
		{HEAD "secretWithoutClaim: maybe\n", 3, "/secretWithoutClaim"},
		{HEAD "log: {format: xml}\n", 3,
			"/log/format: found \"xml\", expected text or json"},
		{HEAD "log: {level: loud}\n", 3,
			"found \"loud\", expected error, warn, info or debug"},
		{HEAD "log: {colour: red}\n", 3, "colour"},
		{HEAD "workers: 65\n", 3, "/workers"},
		{HEAD "workers: two\n", 3, "/workers"},
		{HEAD "maxConnections: 0\n", 3, "/maxConnections"},
		{HEAD "cluster: {pendingShare: 101}\n", 3, "/cluster/pendingShare"},
		{HEAD "cluster: {maxGracePeriod: 2d}\n", 3, "/cluster/maxGracePeriod"},
		{HEAD "listen: &a \":1\"\nlistenPlain: *a\n", 3, ""},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err err = {0};
		char where[160];
		int rc;

		write_config(cases[i].text);
		rc = load(NEEDED "--config CONFIG", NULL, &err);
		if (rc != ERR_INVALID)
			fail_msg("%s: %d %s", cases[i].text, rc, err.msg);
		snprintf(where, sizeof(where), "%s:%d: ", config_path(), cases[i].line);
		row_says(cases[i].text, err.msg, cases[i].line ? where : "", cases[i].complaint);
	}
}

TEST(test_unreadable_file)
{
	struct err err = {0};

	assert_int_equal(load(NEEDED "--config /nonexistent/x", NULL, &err), ERR_NOTFOUND);
	assert_string_equal(
		err.msg, "flag --config: cannot open /nonexistent/x: No such file or directory");
	assert_int_equal(load(NEEDED "--config /", NULL, &err), ERR_IO);
	assert_int_equal(load(NEEDED "--config=", NULL, &err), ERR_SYNTAX);
}

/* Only what could not be opened, by the path that the sentence speaks of; a flag's wins over the
 * file's. */
TEST(test_blame)
{
	static const struct {
		int code;
		const char *msg, *said;
	} cases[] = {
		{ERR_NOTFOUND, "cannot open s: No such file",
			"flag --sidecar-config: cannot open s: "},
		{ERR_NOTFOUND, "cannot open c: No such file",
			"flag --client-catalogue: cannot open "},
		{ERR_NOTFOUND, "cannot open /b/pool: No such file",
			"/poolgate.yaml:3: /pool: cannot open /b/pool: No"},
		{ERR_IO, "/b/pool/x.yaml is not a regular file",
			"/poolgate.yaml:3: /pool: /b/pool/x"},
		{ERR_IO, "cannot open /b/l2/x: Denied",
			"/poolgate.yaml:5: /launchers/1: cannot open"},
		{ERR_IO, "/b/k is not a regular file", "flag -tlsKeyFile: /b/k is not"},
		{ERR_IO, "cannot open /b/pools: Denied", NULL},
		{ERR_INVALID, "/b/pool: found nothing", NULL},
	};

	write_config(HEAD "pool: /b/pool\nlaunchers: [/b/l1,\n  /b/l2]\ntls: {key: /b/k}\n");
	must_load("--config CONFIG --client-catalogue c --sidecar-config=s -tlsKeyFile /b/k", NULL);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err err = {0};

		(void)err_set(&err, cases[i].code, "%s", cases[i].msg);
		assert_int_equal(settings_blame(&s, &err), cases[i].code);
		if (cases[i].said && !strstr(err.msg, cases[i].said))
			fail_msg("\"%s\", expected \"%s\"", err.msg, cases[i].said);
		if (!cases[i].said)
			assert_string_equal(err.msg, cases[i].msg);
	}
	assert_int_equal(settings_blame(&s, NULL), 0);
}

TEST(test_needs_restart)
{
	static const struct {
		const char *line, *key; /* NULL: none */
	} cases[] = {
		{NEEDED, NULL},
		{NEEDED "--pool p --claim-ttl 1h --total-gpu-memory 5 --drain-delay 1s", NULL},
		{NEEDED "--listen :1", "listen"},
		{NEEDED "--listen-plain off", "listenPlain"},
		{NEEDED "--client-ca ca", "tls.clientCA"},
		{NEEDED "--listen-admin 127.0.0.1:1", "listenAdmin"},
		{NEEDED "--log-format json", "log.format"},
		{NEEDED "--log-level debug", "log.level"},
		{NEEDED "--workers 3", "workers"},
		{NEEDED "--max-connections 3", "maxConnections"},
		{NEEDED "--workers 3 --log-level debug", "log.level, workers"},
		{NEEDED "--listen :1 --listen-plain off --listen-admin :2 --log-format json "
			"--log-level debug --workers 3 --max-connections 3",
			"listen, listenPlain, listenAdmin, log.format, log.level, workers, "
			"maxConnections"},
	};
	struct settings now;

	must_load(NEEDED, NULL);
	now = s;
	s = (struct settings){0};
	for (size_t i = 0; i < COUNT(cases); i++) {
		char keys[SETTINGS_KEYS_SIZE];

		must_load(cases[i].line, NULL);
		assert_int_equal(settings_needs_restart(&now, &s, keys), cases[i].key != NULL);
		assert_string_equal(keys, cases[i].key ? cases[i].key : "");
	}
	settings_release(&now);
}

/* Each row of the help as it stands in a table of settings. How many there are. */
static size_t must_be_listed(const char *text, const struct setting *rows, size_t n)
{
	size_t listed = 0;

	for (size_t i = 0; i < n; i++) {
		const char *flag = rows[i].flag, *arg = rows[i].arg, *help = rows[i].help;
		char head[96], line[256];

		listed += must_be_listed(text, rows[i].in, rows[i].n_in) + (help != NULL);
		if (!help)
			continue;
		assert_non_null(flag);
		(void)snprintf(head, sizeof(head), "%s%s%s", flag, arg ? " " : "", arg ? arg : "");
		(void)snprintf(line, sizeof(line), *help ? "\n  --%-25s %s\n" : "\n  --%s%s\n",
			head, help);
		if (!strstr(text, line))
			fail_msg("the help has no line%s", line);
	}
	return listed;
}

/* Every flag of the help text is one, and every one that has a help is there, once. */
TEST(test_help_is_true)
{
	char text[8192] = "";
	FILE *f = fmemopen(text, sizeof(text), "w");
	const char *at = text;
	size_t listed, shown = 0;

	assert_non_null(f);
	settings_help(f);
	assert_int_equal(fclose(f), 0);
	listed = must_be_listed(text, settings_table, settings_table_n);
	assert_true(listed > 20);
	while ((at = strstr(at, "\n  --"))) {
		char line[96];
		struct err err = {0};
		int n = (int)strcspn(at + 3, " \n");

		snprintf(line, sizeof(line), "%.*s", n, at + 3);
		at += 3;
		shown++;
		(void)load(line, NULL, &err);
		if (strstr(err.msg, "unknown flag"))
			fail_msg("%s", err.msg);
	}
	assert_int_equal(shown, listed);
}

/* What is released holds nothing, and may be released once more. */
TEST(test_release)
{
	write_config(all_keys);
	must_load("--config CONFIG", NULL);
	assert_true(s.n_launchers > 0 && s.n_sources > 0);
	for (int i = 0; i < 2; i++) {
		settings_release(&s);
		assert_null(s.config);
		assert_null(s.listen);
		assert_int_equal(s.n_launchers, 0);
		assert_int_equal(s.n_sources, 0);
		assert_false(s.cluster.on);
	}
}

TESTS_WITHIN(make_dir, remove_dir, test_defaults, test_file, test_precedence, test_origin,
	test_notes, test_help, test_wrong_flags, test_flags_that_stand_too_often, test_many_paths,
	test_bounds, test_cluster, test_cluster_values, test_cluster_differs, test_wrong_whole,
	test_wrong_file, test_unreadable_file, test_blame, test_needs_restart, test_release,
	test_help_is_true)
