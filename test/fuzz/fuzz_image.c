/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: an image's name, and what a registry says of it: as an index, a manifest, a configuration,
 * and as somebody's credentials. A name that is taken is taken once more when it is put together
 * from its parts; what is read of documents keeps to the limits; no credential is another host's.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/fuzz/require.h"
#include "webhook/core/image/image_doc.h"
#include "webhook/core/image/pull_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(struct slice text, struct arena *a)
{
	struct image_name n, again;
	struct slice tail;

	if (image_name_read(text, a, &n, NULL) != 0)
		return;
	REQUIRE(n.host.len > 0 && n.repository.len > 0 && !n.tag.at != !n.digest.at);
	REQUIRE(!memchr(n.host.at, '/', n.host.len) && !memchr(n.host.at, '@', n.host.len));
	for (size_t i = 0; i + 1 < n.repository.len; i++)
		REQUIRE(n.repository.at[i] != '.' || n.repository.at[i + 1] != '.');
	tail = n.digest.at ? n.digest : n.tag;
	REQUIRE(image_name_read(slice_of(arena_fmt(a, "%.*s/%.*s%c%.*s", (int)n.host.len, n.host.at,
					(int)n.repository.len, n.repository.at,
					n.digest.at ? '@' : ':', (int)tail.len, tail.at)),
			a, &again, NULL) == 0);
	REQUIRE(slice_eq(again.host, n.host) && slice_eq(again.repository, n.repository) &&
		slice_eq(again.tag, n.tag) && slice_eq(again.digest, n.digest));
}

static void check_manifest(const struct json *j, struct arena *a)
{
	static const char *const types[] = {"application/vnd.oci.image.index.v1+json",
		"application/vnd.oci.image.manifest.v1+json",
		"application/vnd.docker.distribution.manifest.list.v2+json",
		"application/vnd.docker.distribution.manifest.v2+json", "text/html"};
	unsigned taken = 0;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct image_manifest m;
		struct err err = {0};
		int rc = image_manifest_read(j, slice_of(types[i]), ~0u, a, &m, &err);

		REQUIRE(rc == 0 || (rc == ERR_REFUSED && err.msg[0]));
		if (rc != 0)
			continue;
		taken |= m.index ? 1 : 2;
		REQUIRE(i < 4 && m.index == (i % 2 == 0));
		REQUIRE(m.index ? m.n_parts > 0 : image_is_digest(m.config.digest));
		for (size_t k = 0; k < m.n_parts; k++)
			REQUIRE(image_is_digest(m.parts[k].digest) &&
				slice_is(m.parts[k].os, "linux"));
	}
	REQUIRE(taken != 3);
}

static void check_config(const struct json *j, struct arena *a)
{
	struct image_config c;
	struct err err = {0};
	int rc = image_config_read(j, a, &c, &err);

	REQUIRE(rc == 0 || (rc == ERR_REFUSED && err.msg[0]));
	if (rc != 0)
		return;
	REQUIRE(slice_is(c.os, "linux"));
	REQUIRE(c.start.n_entrypoint + c.start.n_cmd <= IMAGE_WORDS_MAX);
	for (size_t i = 0; i < c.start.n_entrypoint; i++)
		REQUIRE(c.start.entrypoint[i].at &&
			!memchr(c.start.entrypoint[i].at, '\0', c.start.entrypoint[i].len));
	REQUIRE(image_start_same(&c.start, &c.start));
}

static void check_logins(const struct json *j, struct arena *a)
{
	const struct image_name here = {.host = SLICE("r.x"), .repository = SLICE("a/b")};
	const struct image_name nowhere = {.host = SLICE("n.invalid~"), .repository = SLICE("a/b")};
	struct pull_logins got = {0}, none = {0};

	pull_config_find(j, json_root(j), &here, a, &got);
	REQUIRE(got.n <= PULL_LOGINS_MAX);
	for (size_t i = 0; i < got.n; i++) {
		REQUIRE(got.list[i].user.at && got.list[i].password.at);
		REQUIRE(got.list[i].path <= here.repository.len);
		REQUIRE(i == 0 || got.list[i - 1].path >= got.list[i].path);
	}
	pull_config_find(j, json_root(j), &nowhere, a, &none);
	REQUIRE(none.n == 0 || memmem(j->text, j->len, "n.invalid", 9));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice text = {(const char *)data, size};
	struct json j = {0};
	struct arena a;
	char *copy;

	arena_init(&a, 256u << 20);
	check_name(text, &a);
	if (json_read_copy(&j, text.at, text.len, 100000, &copy, NULL) == 0) {
		check_manifest(&j, &a);
		check_config(&j, &a);
		check_logins(&j, &a);
	}
	REQUIRE(!a.failed);
	free(copy);
	json_release(&j);
	arena_release(&a);
	return 0;
}
