/* SPDX-License-Identifier: Apache-2.0 */
/* test: service accounts and kubeconfig files. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/files.h"
#include "kube/kube_config.h"
#include "test/unit/scratch.h"
#include "test/unit/test.h"

/* What was read last, and why not. */
static struct kube_config c = {.ca_fd = -1, .cert_fd = -1, .key_fd = -1};
static struct err e;

static void forget(void)
{
	kube_config_release(&c);
	memset(&c, 0xa5, sizeof(c)); /* whatever was in it */
	err_clear(&e);
}

static int in_cluster(const char *host, const char *port)
{
	forget();
	return kube_config_in_cluster(host, port, scratch(""), &c, &e);
}

static int load(const char *text)
{
	forget();
	return kube_config_load(scratch_file("config", text), &c, &e);
}

FIXTURE(tear_down)
{
	kube_config_release(&c);
	return 0;
}

TEST(test_in_cluster)
{
	scratch_file("token", "abc\n");
	scratch_file("namespace", "poolgate-system\n");
	scratch_file("ca.crt", "PEM");
	if (in_cluster("10.96.0.1", "443") != 0)
		fail_msg("%s", e.msg);
	assert_string_equal(c.server, "https://10.96.0.1:443");
	assert_string_equal(c.ca_file, scratch("ca.crt"));
	assert_string_equal(c.token_file, scratch("token"));
	assert_string_equal(c.namespace, "poolgate-system");
	assert_null(c.token);
	assert_null(c.cert_file);
	assert_int_equal(in_cluster("10.96.0.1", "65535"), 0);
	assert_int_equal(in_cluster("10.96.0.1", "1"), 0);
	assert_int_equal(in_cluster("fd00::1", "6443"), 0);
	assert_string_equal(c.server, "https://[fd00::1]:6443");
}

TEST(test_not_in_cluster)
{
	static const char *const places[][2] = {{NULL, NULL}, {"", ""}, {"10.0.0.1", NULL},
		{"10.0.0.1", "x"}, {"10.0.0.1", "0"}, {"10.0.0.1", ""}, {"", "1"},
		{"10.0.0.1", "65536"}};
	static const char *const files[] = {"token", "namespace", "ca.crt"};

	for (size_t i = 0; i < COUNT(places); i++) {
		bool told = places[i][0] && *places[i][0] && places[i][1] && *places[i][1];

		assert_int_equal(in_cluster(places[i][0], places[i][1]), ERR_INVALID);
		assert_non_null(strstr(e.msg, told ? "is no port" : "name a kubeconfig file"));
	}
	for (size_t i = 0; i < 3; i++) {
		for (size_t k = 0; k < 3; k++)
			scratch_file(files[k], "text");
		assert_int_equal(unlink(scratch(files[i])), 0);
		assert_int_equal(in_cluster("h", "1"), ERR_NOTFOUND);
		assert_non_null(strstr(e.msg, files[i]));
	}
	scratch_file("token", "\n");
	scratch_file("ca.crt", "text");
	assert_int_equal(in_cluster("h", "1"), ERR_INVALID);
	kube_config_release(&c); /* and once more behind the test */
}

#define HEAD                                                                                       \
	"apiVersion: v1\nkind: Config\npreferences: {}\ncurrent-context: one\n"                    \
	"contexts:\n- name: other\n  context: {cluster: x, user: y}\n"                             \
	"- name: one\n  context: {cluster: home, user: me, namespace: tools}\n"
#define CLUSTERS "clusters:\n- name: home\n  cluster:\n    server: https://127.0.0.1:6443/\n"
#define USERS "users:\n- name: me\n  user:\n"

static void file_says(const char *path, const char *text)
{
	struct buf b;

	buf_init(&b, 4096);
	if (files_read(path, &b, &e) != 0)
		fail_msg("%s", e.msg);
	assert_string_equal(b.data, text);
	buf_release(&b);
}

TEST(test_files)
{
	if (load(HEAD CLUSTERS "    certificate-authority: pki/ca.crt\n" USERS
			       "    client-certificate: /abs/me.crt\n    client-key: me.key\n"
			       "    token: \"\"\n") != 0)
		fail_msg("%s", e.msg);
	assert_string_equal(c.server, "https://127.0.0.1:6443");
	assert_string_equal(c.ca_file, scratch("pki/ca.crt"));
	assert_string_equal(c.cert_file, "/abs/me.crt");
	assert_string_equal(c.key_file, scratch("me.key"));
	assert_string_equal(c.namespace, "tools");
	assert_null(c.token);
	assert_null(c.token_file);
}

/* A file that is named without a folder is where we are, and so are those that it names. */
TEST(test_files_beside_us)
{
	char here[4096];

	assert_non_null(getcwd(here, sizeof(here)));
	(void)scratch_file("config",
		HEAD "clusters:\n- name: home\n  cluster:\n    server: https://h:1//\n"
		     "    certificate-authority: ca.crt\n" USERS "    tokenFile: t\n");
	forget();
	assert_int_equal(chdir(scratch("")), 0);
	assert_int_equal(kube_config_load("config", &c, &e), 0);
	assert_int_equal(chdir(here), 0);
	assert_string_equal(c.ca_file, "ca.crt");
	assert_string_equal(c.token_file, "t");
	assert_string_equal(c.server, "https://h:1");
}

/* What cannot be used here is refused, but for what kubectl leaves of it once it is taken away. */
TEST(test_what_cannot_be_used)
{
	static const char *const cluster[] = {"proxy-url", "tls-server-name"};
	static const char *const user[] = {"exec", "auth-provider", "username", "password", "as",
		"as-uid", "as-groups", "as-user-extra"};
	static const char *const values[] = {"x", "\"\"", "null", "[x]"};
	char text[1000];

	for (size_t i = 0; i < COUNT(cluster) + COUNT(user); i++)
		for (size_t k = 0; k < COUNT(values); k++) {
			bool of_user = i >= COUNT(cluster), refused = k == 0 || k == 3;
			const char *key = of_user ? user[i - COUNT(cluster)] : cluster[i];

			(void)snprintf(text, sizeof(text),
				HEAD CLUSTERS "    %s: %s\n" USERS "    %s: %s\n",
				of_user ? "proxy-url" : key, of_user ? "\"\"" : values[k],
				of_user ? key : "token", of_user ? values[k] : "t");
			if (load(text) != (refused ? ERR_INVALID : 0))
				fail_msg("%s: %s", key, values[k]);
			if (refused &&
				(!strstr(e.msg, key) || !strstr(e.msg, "cannot be used here")))
				fail_msg("%s", e.msg);
		}
}

/* As kubectl does; programs that keep running do not. */
TEST(test_insecure)
{
	if (load(HEAD CLUSTERS "    insecure-skip-tls-verify: true\n" USERS "    token: t\n") != 0)
		fail_msg("%s", e.msg);
	assert_true(c.insecure);
	assert_int_equal(kube_config_verifies(&c, &e), ERR_INVALID);
	assert_non_null(strstr(e.msg, "give the certificate-authority instead"));
	c.insecure = false;
	assert_int_equal(kube_config_verifies(&c, &e), 0);
}

TEST(test_inline)
{
	struct stat st;
	int fd;

	if (load(HEAD CLUSTERS "    certificate-authority: ignored\n"
			       "    certificate-authority-data: Y2E=\n" USERS
			       "    client-certificate-data: Y2VydA==\n"
			       "    client-key-data: a2V5\n    token: secret\n") != 0)
		fail_msg("%s", e.msg);
	file_says(c.ca_file, "ca");
	for (int i = 0; i < 2; i++) /* can be read more than once */
		file_says(c.cert_file, "cert");
	file_says(c.key_file, "key");
	assert_string_equal(c.token, "secret");
	fd = c.key_fd;
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	kube_config_release(&c);
	assert_int_equal(fstat(fd, &st), -1);
	/* The file counts more than the token. */
	assert_int_equal(load(HEAD CLUSTERS USERS "    token: secret\n    tokenFile: t\n"), 0);
	assert_null(c.token);
	assert_non_null(strstr(c.token_file, "/t"));
	assert_null(c.ca_file);
	/* JSON, and nobody in particular. */
	assert_int_equal(load("{\"current-context\":\"a\",\"contexts\":[{\"name\":\"a\","
			      "\"context\":{\"cluster\":\"b\"}}],\"clusters\":[{\"name\":"
			      "\"b\",\"cluster\":{\"server\":\"http://h:1\"}}]}"),
		0);
	assert_string_equal(c.server, "http://h:1");
	assert_null(c.namespace);
}

TEST(test_refused)
{
	static const struct {
		const char *text;
		int code;
		const char *say;
	} cases[] = {
		{"", ERR_INVALID, "config"},
		{"[]", ERR_INVALID, "config:1"},
		{"a: [", ERR_SYNTAX, "config"},
		{"a: &x 1\nb: *x\n", ERR_REFUSED, "config"},
		{"a: 1\n---\nb: 1\n", ERR_INVALID, "2 documents"},
		{"contexts: []\n", ERR_INVALID, "current-context"},
		{"current-context: 7\n", ERR_INVALID, "config:1: /current-context"},
		{"current-context: a\ncontexts: []\n", ERR_INVALID, "no context named \"a\""},
		{"current-context: a\n", ERR_INVALID, "no context named \"a\""},
		{"current-context: a\ncontexts: [{name: a}]\n", ERR_INVALID, "has no context"},
		{"current-context: a\ncontexts: [{name: a, context: {}}]\n", ERR_INVALID,
			"names no cluster"},
		{HEAD, ERR_INVALID, "no cluster named \"home\""},
		{HEAD CLUSTERS, ERR_INVALID, "no user named \"me\""},
		{HEAD "clusters: [{name: home, cluster: {}}]\n", ERR_INVALID, "/server"},
		{HEAD "clusters: [{name: home, cluster: {server: 127.0.0.1}}]\n", ERR_INVALID,
			"expected https://"},
		{HEAD CLUSTERS "    insecure-skip-tls-verify: perhaps\n", ERR_INVALID,
			"/insecure-skip-tls-verify"},
		{HEAD CLUSTERS "    proxy-url: http://p\n", ERR_INVALID, "/proxy-url: cannot"},
		{HEAD CLUSTERS "    tls-server-name: p\n", ERR_INVALID, "/tls-server-name: cannot"},
		{HEAD CLUSTERS "    certificate-authority-data: a=Gk\n", ERR_SYNTAX,
			"config:14: /clusters/0/cluster/certificate-authority-data: no base64"},
		{HEAD CLUSTERS USERS "    exec: {command: x}\n", ERR_INVALID, "/exec: cannot"},
		{HEAD CLUSTERS USERS "    auth-provider: {name: x}\n", ERR_INVALID,
			"/auth-provider: cannot"},
		{HEAD CLUSTERS USERS "    username: u\n", ERR_INVALID, "/username: cannot"},
		{HEAD CLUSTERS USERS "    as: u\n", ERR_INVALID, "/as: cannot"},
		{HEAD CLUSTERS USERS "    client-key: u\n", ERR_INVALID, "belong together"},
		{HEAD CLUSTERS USERS "    client-certificate: u\n", ERR_INVALID, "belong together"},
		{HEAD CLUSTERS USERS "    token: 12\n", ERR_INVALID, "/token"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		int rc = load(cases[i].text);

		if (rc != cases[i].code || !strstr(e.msg, cases[i].say))
			fail_msg("case %zu: %d, %s", i, rc, e.msg);
	}
	kube_config_release(&c);
	assert_int_equal(kube_config_load(scratch("none"), &c, &e), ERR_NOTFOUND);
}

TESTS_ALL(scratch_begin, scratch_end, NULL, tear_down, test_in_cluster, test_not_in_cluster,
	test_files, test_files_beside_us, test_what_cannot_be_used, test_insecure, test_inline,
	test_refused)
