/* SPDX-License-Identifier: Apache-2.0 */
/* edge/settings/settings_file: the config file's key `registries`. */
#include "test/unit/test.h"
#include "webhook/core/image/image.h"
#include "webhook/edge/settings/settings.h"

#define HEAD "apiVersion: poolgate.io/v1alpha1\nkind: Config\nregistries:\n"
#define EIGHT "a1, a2, a3, a4, a5, a6, a7, a8"

static char path[64];

FIXTURE(make_file)
{
	int fd;

	(void)snprintf(path, sizeof(path), "/tmp/poolgate-registries-XXXXXX");
	fd = mkstemp(path);
	return fd >= 0 ? close(fd) : -1;
}

FIXTURE(remove_file)
{
	return unlink(path);
}

static int load(const char *registries, struct settings *s, struct err *err)
{
	char catalogue[] = "--client-catalogue=c", sidecar[] = "--sidecar-config=s",
	     config[] = "--config";
	char *argv[] = {catalogue, sidecar, config, path, NULL};
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fprintf(f, HEAD "%s", registries) > 0);
	assert_int_equal(fclose(f), 0);
	return settings_load(4, argv, NULL, s, err);
}

static void expect(const struct slice *list, size_t n, const char *joined)
{
	char got[256] = "";

	for (size_t i = 0; i < n; i++)
		(void)snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%.*s", i ? " " : "",
			(int)list[i].len, list[i].at);
	assert_string_equal(got, joined);
}

TEST(what_may_be_asked)
{
	struct settings s;
	struct err err = {0};

	if (load("- host: ghcr.io\n"
		 "  tokens: [auth.ghcr.io, tokens.example:444]\n"
		 "  manifests: [m.ghcr.io]\n"
		 "  storage: [s1.example, s2.example, s3.example]\n"
		 "  addresses: [10.2.0.0/16, 'fd00:1::/32']\n"
		 "  ca: /etc/ca.pem\n"
		 "- host: registry.example:5000\n"
		 "  ca: inner.pem\n"
		 "- {host: quay.io}\n",
		    &s, &err) != 0)
		fail_msg("%s", err.msg);
	assert_int_equal(s.n_registries, 3);
	expect(&s.registries[0].host, 1, "ghcr.io");
	expect(s.registries[0].tokens, s.registries[0].n_tokens, "auth.ghcr.io tokens.example:444");
	expect(s.registries[0].manifests, s.registries[0].n_manifests, "m.ghcr.io");
	expect(s.registries[0].storage, s.registries[0].n_storage,
		"s1.example s2.example s3.example");
	expect(s.registries[0].addresses, s.registries[0].n_addresses, "10.2.0.0/16 fd00:1::/32");
	assert_string_equal(s.registries[0].ca, "/etc/ca.pem");
	expect(&s.registries[1].host, 1, "registry.example:5000");
	/* Beside the file that names it. */
	assert_string_equal(s.registries[1].ca, "/tmp/inner.pem");
	expect(&s.registries[2].host, 1, "quay.io");
	assert_int_equal(s.registries[2].n_tokens + s.registries[2].n_manifests +
				 s.registries[2].n_storage + s.registries[2].n_addresses,
		0);
	assert_null(s.registries[2].ca);
	settings_release(&s);
}

TEST(none)
{
	struct settings s;
	struct err err = {0};

	assert_int_equal(load("", &s, &err), 0);
	assert_int_equal(s.n_registries, 0);
	settings_release(&s);
}

TEST(mistakes_are_told)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"  x\n", "/registries: "},
		{"- x\n", "/registries/0: found"},
		{"- {}\n", "host"},
		{"- {host: [a]}\n", "/registries/0/host: "},
		{"- {host: GHCR.io}\n", "found \"GHCR.io\", expected a host"},
		{"- {host: a, extra: 1}\n", "extra"},
		{"- {host: a}\n- {host: b}\n- {host: a}\n", "the same registry stands here twice"},
		{"- {host: a, tokens: x}\n", "tokens"},
		{"- {host: a, tokens: [B]}\n", "found \"B\", expected a host"},
		{"- {host: a, manifests: [[]]}\n", "manifests"},
		{"- {host: a, manifests: [b, C]}\n", "found \"C\", expected a host"},
		{"- {host: a, storage: [D]}\n", "found \"D\", expected a host"},
		{"- {host: a, addresses: [10.0.0.0/33]}\n",
			"found \"10.0.0.0/33\", expected addresses"},
		{"- {host: a, ca: ''}\n", "found no text, expected a path"},
		{"- {host: a, ca: \"x\\0y\"}\n", "found no text, expected a path"},
		{"- {host: a, ca: [b]}\n", "ca"},
		{"- {host: a, storage: [" EIGHT ", b, b, b, b, b, b, b, b, b]}\n",
			"found 17 strings, expected at most 16"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct settings s;
		struct err err = {0};

		if (load(cases[i].text, &s, &err) == 0)
			fail_msg("%s is taken", cases[i].text);
		assert_int_equal(err.code, ERR_INVALID);
		row_says(cases[i].text, err.msg, "", cases[i].says);
		settings_release(&s);
	}
}

/* n registries with n_storage hosts each. */
static int many(unsigned n, unsigned n_storage, struct err *err)
{
	struct settings s;
	struct buf text;
	int rc;

	buf_init(&text, 1 << 20);
	for (unsigned i = 0; i < n; i++) {
		buf_fmt(&text, "- host: h%u\n  storage: [", i);
		for (unsigned k = 0; k < n_storage; k++)
			buf_fmt(&text, "%ss%u", k ? ", " : "", k);
		buf_str(&text, "]\n");
	}
	rc = load(text.data, &s, err);
	if (rc == 0) {
		assert_int_equal(s.n_registries, n);
		assert_int_equal(s.registries[n - 1].n_storage, n_storage);
	}
	settings_release(&s);
	buf_release(&text);
	return rc;
}

TEST(as_many_as_are_said)
{
	struct err err = {0};

	assert_int_equal(many(SETTINGS_REGISTRIES_MAX, 1, &err), 0);
	assert_int_equal(many(SETTINGS_REGISTRIES_MAX + 1, 1, &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, "found 65, expected at most 64 registries"));
	assert_int_equal(many(1, SETTINGS_REGISTRY_NAMES_MAX, &err), 0);
}

TESTS_WITHIN(
	make_file, remove_file, what_may_be_asked, none, mistakes_are_told, as_many_as_are_said)
