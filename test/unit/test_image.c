/* SPDX-License-Identifier: Apache-2.0 */
/* core/image/image_name, core/image/image_doc: names of images, and what registries say of them. */
#include "base/buf.h"
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/image/image.h"
#include "webhook/core/image/image_doc.h"

#define D "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OCI "application/vnd.oci.image."
#define DOCKER "application/vnd.docker."

TEST(names_are_taken_apart_as_runtimes_do)
{
	static const struct {
		const char *text, *host, *repository, *tag, *digest;
	} rows[] = {{"ubuntu", "docker.io", "library/ubuntu", "latest", NULL},
		{"ubuntu:22.04", "docker.io", "library/ubuntu", "22.04", NULL},
		{"team/train", "docker.io", "team/train", "latest", NULL},
		{"docker.io/ubuntu", "docker.io", "library/ubuntu", "latest", NULL},
		{"index.docker.io/a/b", "docker.io", "a/b", "latest", NULL},
		{"ghcr.io/a/b/c:v1", "ghcr.io", "a/b/c", "v1", NULL},
		{"localhost/a", "localhost", "a", "latest", NULL},
		{"r:5000/a:T", "r:5000", "a", "T", NULL}, {"r.x/a@" D, "r.x", "a", NULL, D},
		{"r.x/a:1@" D, "r.x", "a", NULL, D},
		{"r.x/a__b/c.d/e---f", "r.x", "a__b/c.d/e---f", "latest", NULL},
		{"127.0.0.1/a", "127.0.0.1", "a", "latest", NULL}};
	struct arena a;

	arena_init(&a, 65536);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct image_name n;

		if (image_name_read(slice_of(rows[i].text), &a, &n, NULL) != 0)
			fail_msg("%s was refused", rows[i].text);
		assert_true(slice_is(n.host, rows[i].host));
		assert_true(slice_is(n.repository, rows[i].repository));
		assert_true(slice_eq(n.tag, slice_of(rows[i].tag)));
		assert_true(slice_eq(n.digest, slice_of(rows[i].digest)));
	}
	arena_release(&a);
}

TEST(names_that_are_none)
{
	static const char *const bad[] = {"", ":", "@", "/", "a/", "/a", "a//b", "A", "a/B", "r.x/",
		"a:", "a:-x", "a:.x", "a:x y", "a@sha256:0", "a@" D "0", "a@md5:x", "a b", "a\n",
		"r.x:99999999/a", "r.x:/a", "r.x:5x/a", "R.x/a", "-r.x/a", "r.x-/a", "u@r.x/a",
		"a..b", "a___b", "a_", "_a", "a-", ".a", "r.x/../a", "r.x/a/../b", "r.x/%2e/a",
		"[::1]:5000/a", "a:b:c", "https://r.x/a", "r.x/a?b", "r.x/a#b", "a\\b"};
	char longest[300];
	struct arena a;
	struct image_name n;

	arena_init(&a, 65536);
	for (size_t i = 0; i < COUNT(bad); i++)
		if (image_name_read(slice_of(bad[i]), &a, &n, NULL) != ERR_INVALID)
			fail_msg("%s was taken", bad[i]);
	memset(longest, 'a', sizeof(longest));
	assert_int_equal(image_name_read((struct slice){longest, 256}, &a, &n, NULL), ERR_INVALID);
	assert_int_equal(image_name_read((struct slice){NULL, 0}, &a, &n, NULL), ERR_INVALID);
	assert_int_equal(image_name_read((struct slice){"a\0b", 3}, &a, &n, NULL), ERR_INVALID);
	arena_release(&a);
	arena_init(&a, 1);
	assert_int_equal(image_name_read(SLICE("ubuntu"), &a, &n, NULL), ERR_NOMEM);
	arena_release(&a);
}

TEST(a_registry_is_found_to_the_letter)
{
	const struct registry all[] = {{.host = SLICE("r.x")}, {.host = SLICE("r.x:5000")}};
	struct image_name n = {.host = SLICE("r.x:5000")};

	assert_ptr_equal(image_registry(all, 2, &n), &all[1]);
	n.host = SLICE("r.x.y");
	assert_null(image_registry(all, 2, &n));
	n.host = SLICE("r.");
	assert_null(image_registry(all, 2, &n));
}

/* ---- documents ---- */

static struct arena arena;
static struct json json;
static char *text;

static void read_text(const char *single)
{
	char *quoted = fixture_quotes(single);
	struct err err = {0};

	arena_reset(&arena);
	free(text);
	if (json_read_copy(&json, quoted, strlen(quoted), 100000, &text, &err) != 0)
		fail_msg("%s: %s", single, err.msg);
	free(quoted);
}

FIXTURE(begin)
{
	arena_init(&arena, 1 << 20);
	return 0;
}

FIXTURE(end)
{
	arena_release(&arena);
	json_release(&json);
	free(text);
	text = NULL;
	json = (struct json){0};
	return 0;
}

#define PART "'digest':'" D "','size':9"
#define LAYERS ",'layers':[]"
#define CONFIG "'config':{'mediaType':'" OCI "config.v1+json'," PART "}"

TEST(manifests)
{
	static const struct {
		const char *type, *text, *wrong; /* NULL: it is taken */
	} rows[] = {{OCI "manifest.v1+json", "{" CONFIG LAYERS "}", NULL},
		{OCI "manifest.v1+json",
			"{'mediaType':'" OCI "manifest.v1+json'," CONFIG LAYERS "}", NULL},
		{DOCKER "distribution.manifest.v2+json",
			"{'config':{'mediaType':'" DOCKER "container.image.v1+json'," PART
			"}" LAYERS "}",
			NULL},
		{OCI "manifest.v1+json", "{'mediaType':'" OCI "index.v1+json'," CONFIG LAYERS "}",
			"calls itself something else"},
		{OCI "manifest.v1+json", "{'mediaType':7," CONFIG LAYERS "}", "calls itself"},
		{"text/html", "{" CONFIG LAYERS "}", "content type"},
		{"", "{" CONFIG LAYERS "}", "content type"},
		{OCI "manifest.v1+json", "{" CONFIG LAYERS ",'manifests':[]}", "not what"},
		{OCI "manifest.v1+json", "{" CONFIG "}", "not what"},
		{OCI "manifest.v1+json", "[]", "not what"},
		{OCI "manifest.v1+json", "7", "not what"},
		{OCI "manifest.v1+json", "{'config':{'mediaType':'x'," PART "}" LAYERS "}",
			"no container image"},
		{OCI "manifest.v1+json", "{'layers':[]}", "no container image"},
		{OCI "manifest.v1+json",
			"{'config':{'mediaType':'" OCI
			"config.v1+json','digest':'sha256:0','size':1}" LAYERS "}",
			"without digest"},
		{OCI "manifest.v1+json",
			"{'config':{'mediaType':'" OCI "config.v1+json','digest':'" D
			"','size':-1}" LAYERS "}",
			"without digest"},
		{OCI "manifest.v1+json", "{" CONFIG LAYERS ",'Config':{}}", "cannot be read"},
		{OCI "manifest.v1+json", "{" CONFIG LAYERS ",'MEDIATYPE':''}", "cannot be read"},
		{OCI "manifest.v1+json",
			"{'config':{'mediaType':'" OCI "config.v1+json'," PART ",'Digest':'" D
			"'}" LAYERS "}",
			"cannot be read"}};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct image_manifest m;
		struct err err = {0};
		int rc;

		read_text(rows[i].text);
		rc = image_manifest_read(&json, slice_of(rows[i].type), ~0u, &arena, &m, &err);
		if (rc != (rows[i].wrong ? ERR_REFUSED : 0) ||
			(rows[i].wrong && !strstr(err.msg, rows[i].wrong)))
			fail_msg("row %zu: %d %s", i, rc, err.msg);
		if (rc == 0) {
			assert_false(m.index);
			assert_true(slice_is(m.config.digest, D));
			assert_int_equal(m.config.size, 9);
		}
	}
}

#define OF(os, arch)                                                                               \
	"{'mediaType':'" OCI "manifest.v1+json'," PART ",'platform':{'os':'" os                    \
	"','architecture':'" arch "'}}"
/* Calls itself none of the images, and is one by its platform. */
#define ATTESTED                                                                                   \
	"{'mediaType':'" OCI "manifest.v1+json'," PART                                             \
	",'platform':{'os':'linux','architecture':'amd64'},'annotations':{'vnd.docker.reference."  \
	"type':'x'}}"

TEST(indexes)
{
	static const struct {
		const char *list;
		unsigned want;
		size_t n; /* 0: refused */
	} rows[] = {{OF("linux", "amd64") "," OF("linux", "arm64"), ~0u, 2},
		{OF("linux", "amd64") "," OF("linux", "arm64"), 1, 1},
		{OF("linux", "amd64") "," OF("windows", "amd64") "," OF(
			 "unknown", "unknown") "," ATTESTED,
			~0u, 2},
		{OF("linux", "sparc"), ~0u, 1}, {OF("linux", "sparc"), 1, 0},
		{OF("linux", "sparc"), 1u << IMAGE_ARCH_OTHER, 1}, {"", ~0u, 0},
		{OF("windows", "amd64"), ~0u, 0}, {ATTESTED, ~0u, 1}, {"7", ~0u, 0},
		{"{" PART "}", ~0u, 0},
		{"{'mediaType':'" OCI "index.v1+json'," PART
		 ",'platform':{'os':'linux','architecture':'amd64'}}",
			~0u, 0},
		{"{'platform':{'os':'linux','architecture':'amd64'}}", ~0u, 0},
		{"{" PART ",'artifactType':'x'}", ~0u, 0},
		{OF("linux", "amd64") "," OF("", "amd64"), 1, 0},
		{OF("linux", "amd64") "," OF("Linux", "amd64"), 1, 0},
		{OF("linux", "amd64") "," OF("linux", "x86_64"), 1, 0},
		{OF("linux", "amd64") "," OF("linux", "AMD64"), 1, 0},
		{OF("linux", "amd64") "," OF("linux", "aarch64"), 1, 0},
		{OF("linux", "amd64") "," OF("az", "a0z9"), 1, 1},
		{OF("linux", "amd64") "," OF("a", "9"), 1, 1},
		{OF("linux", "amd64") "," OF("linux", "z{"), 1, 0},
		{OF("linux", "amd64") "," OF("linux", "a`"), 1, 0},
		{OF("linux", "amd64") "," OF("linux", "0/"), 1, 0},
		{OF("linux", "amd64") "," OF("linux", "9:"), 1, 0},
		{OF("linux", "amd64") "," OF("l\\u0069nux", "amd64"), 1, 0},
		{OF("linux", "amd64") ",{'Digest':'" D "','platform':{'os':'unknown'}}", ~0u, 0},
		{OF("linux", "amd64") ",{'platform':{'os':'unknown','OS':'linux'}}", ~0u, 0}};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char whole[4000];
		struct image_manifest m;
		struct err err = {0};
		int rc;

		(void)snprintf(whole, sizeof(whole), "{'manifests':[%s]}", rows[i].list);
		read_text(whole);
		rc = image_manifest_read(
			&json, SLICE(OCI "index.v1+json"), rows[i].want, &arena, &m, &err);
		if (rc != (rows[i].n ? 0 : ERR_REFUSED) || (rc == 0 && m.n_parts != rows[i].n))
			fail_msg("row %zu: %d %s", i, rc, err.msg);
	}
}

TEST(configurations)
{
	static const struct {
		const char *text;
		int rc;
		size_t n_entrypoint, n_cmd;
	} rows[] = {{"{'os':'linux','architecture':'amd64','config':{'Entrypoint':['a','b'],'Cmd':["
		     "'c']}}",
			    0, 2, 1},
		{"{'os':'linux','config':{'Entrypoint':null,'Cmd':['c']}}", 0, 0, 1},
		{"{'os':'linux','config':{'Entrypoint':['']}}", 0, 0, 0},
		{"{'os':'linux','config':{'Entrypoint':['','']}}", 0, 2, 0},
		{"{'os':'linux','config':null}", 0, 0, 0}, {"{'os':'linux'}", 0, 0, 0},
		{"{'os':'windows','config':{}}", ERR_REFUSED, 0, 0}, {"{}", ERR_REFUSED, 0, 0},
		{"[]", ERR_REFUSED, 0, 0}, {"{'os':'linux','config':[]}", ERR_REFUSED, 0, 0},
		{"{'os':'linux','Config':{'Entrypoint':['x']}}", ERR_REFUSED, 0, 0},
		{"{'os':'linux','config':{'ENTRYPOINT':['x']}}", ERR_REFUSED, 0, 0},
		{"{'os':'linux','config':{'Entrypoint':'x'}}", ERR_REFUSED, 0, 0},
		{"{'os':'linux','config':{'Cmd':[1]}}", ERR_REFUSED, 0, 0}};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct image_config c;
		struct err err = {0};
		int rc;

		read_text(rows[i].text);
		rc = image_config_read(&json, &arena, &c, &err);
		if (rc != rows[i].rc || (rc == 0 && (c.start.n_entrypoint != rows[i].n_entrypoint ||
							    c.start.n_cmd != rows[i].n_cmd)))
			fail_msg("row %zu: %d %s", i, rc, err.msg);
	}
}

TEST(words_are_bounded)
{
	struct image_config c;
	struct err err = {0};
	struct buf b;

	for (int bytes = 0; bytes < 2; bytes++) {
		buf_init(&b, 1 << 20);
		buf_str(&b, "{'os':'linux','config':{'Cmd':['x'");
		for (size_t i = 0; i < (bytes ? 40u : IMAGE_WORDS_MAX); i++)
			buf_fmt(&b, ",'%0*d'", bytes ? 1000 : 1, 1);
		buf_str(&b, "]}}");
		read_text(b.data);
		buf_release(&b);
		assert_int_equal(image_config_read(&json, &arena, &c, &err), ERR_REFUSED);
		assert_non_null(strstr(err.msg, "too long"));
	}
}

TEST(starts_are_compared_word_by_word)
{
	struct slice ab[] = {SLICE("a"), SLICE("b")}, c[] = {SLICE("c")};
	struct slice ac[] = {SLICE("a"), SLICE("c")}, cb[] = {SLICE("c"), SLICE("b")};
	struct image_start x = {.entrypoint = ab, .n_entrypoint = 2, .cmd = c, .n_cmd = 1}, y = x;

	assert_true(image_start_same(&x, &y));
	y.n_cmd = 0;
	assert_false(image_start_same(&x, &y));
	assert_true(image_start_same(&(struct image_start){0}, &(struct image_start){0}));
	y = (struct image_start){.entrypoint = ac, .n_entrypoint = 2, .cmd = c, .n_cmd = 1};
	assert_false(image_start_same(&x, &y));
	y.entrypoint = cb;
	assert_false(image_start_same(&x, &y));
	y = (struct image_start){.entrypoint = ab, .n_entrypoint = 2, .cmd = ab, .n_cmd = 1};
	assert_false(image_start_same(&x, &y));
	/* the same words, but args would take the place of others */
	y = (struct image_start){.entrypoint = ab, .n_entrypoint = 1, .cmd = ab + 1, .n_cmd = 1};
	x = (struct image_start){.entrypoint = ab, .n_entrypoint = 2};
	assert_false(image_start_same(&x, &y));
}

TESTS_BETWEEN(begin, end, names_are_taken_apart_as_runtimes_do, names_that_are_none,
	a_registry_is_found_to_the_letter, manifests, indexes, configurations, words_are_bounded,
	starts_are_compared_word_by_word)
