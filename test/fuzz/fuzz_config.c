/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: what operators write. The first byte says what the rest is: 's' the server's config file,
 * 'l' launcher profiles, 'b' a client catalogue and, behind a line "%%", a sidecar config. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_read.h"
#include "base/text.h"
#include "base/yaml/yaml.h"
#include "test/fuzz/require.h"
#include "webhook/core/inject/restricted.h"
#include "webhook/core/launcher/launcher_bitfusion.h"
#include "webhook/core/launcher/launcher_load.h"
#include "webhook/edge/settings/settings_file.h"

#define ARENA_MAX (64u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_err(int rc, const struct err *err)
{
	REQUIRE(rc < 0 && (int)err->code == rc && err->msg[0] && text_utf8(slice_of(err->msg)));
}

/* Whatever is injected must be JSON that our own reader takes. */
static void check_json(struct slice text)
{
	struct json j = {0};
	struct err err = {0};
	char *copy = NULL;

	REQUIRE(text.at && json_read_copy(&j, text.at, text.len, 1u << 20, &copy, &err) == 0);
	REQUIRE(json_is(json_root(&j), JSON_OBJECT));
	json_release(&j);
	free(copy);
}

static void check_init(const struct profile_init *init)
{
	struct err err = {0};
	struct buf why;

	REQUIRE(text_dns_label(init->name));
	check_json(init->json);
	buf_init(&why, 1 << 16);
	REQUIRE(restricted_container(init->json, &why, &err) == 0);
	buf_release(&why);
}

static void check_argv(const struct profile *p, const struct profile_client *c)
{
	static const struct slice words[] = {{"a=b", 3}, {"host:1", 6}};
	const struct launch l = {.profile = p,
		.client = c,
		.amount = 2,
		.percent = 50,
		.filters = words,
		.n_filters = 2,
		.servers = words,
		.n_servers = 2};
	struct err err = {0};
	struct slice *argv;
	struct arena a;
	size_t n;

	arena_init(&a, ARENA_MAX);
	REQUIRE(launch_argv(&l, &a, &argv, &n, &err) == 0);
	REQUIRE(n > 0 || p->kind != PROFILE_WRAP);
	for (size_t i = 0; i < n; i++)
		REQUIRE(argv[i].at && !memchr(argv[i].at, '\0', argv[i].len));
	for (size_t i = 0; i < p->n_env; i++) {
		struct slice value = template_expand(p->env[i].value, &l, SLICE(""), &a);

		if (p->env[i].secret.at) {
			REQUIRE(p->env[i].secret_key.len > 0 && !p->env[i].value.at);
			continue;
		}
		REQUIRE(value.at && !memchr(value.at, '\0', value.len));
		REQUIRE(!p->env[i].prepend || value.len > 0);
	}
	arena_release(&a);
}

static void check_profile(const struct profile *p)
{
	REQUIRE(text_dns_label(p->name) && p->n_clients > 0);
	REQUIRE(p->max_amount >= 1);
	REQUIRE((p->kind == PROFILE_WRAP) == (p->n_argv > 0));
	REQUIRE(p->kind != PROFILE_WRAP || (p->basename.len > 0 && p->shell.len > 0));
	for (size_t i = 0; i < p->n_volumes; i++)
		check_json(p->volumes[i].json);
	for (size_t i = 0; i < p->n_mounts; i++)
		check_json(p->mounts[i].json);
	for (size_t i = 0; i < p->n_clients && i < 4; i++) {
		const struct profile_client *c = &p->clients[i];

		if (p->by_client)
			REQUIRE(profile_client(p, c->os, c->version) == c);
		for (size_t k = 0; k < c->n_inits; k++)
			check_init(&c->inits[k]);
		check_argv(p, c);
	}
}

static void settings(struct slice text)
{
	struct settings s = {0};
	struct err err = {0};
	int rc;

	arena_init(&s.arena, ARENA_MAX);
	rc = settings_text(&s, "/folder/poolgate.yaml", text, &err);
	if (rc != 0) {
		check_err(rc, &err);
		REQUIRE(rc != ERR_SYNTAX); /* that is a wrong command line */
	}
	settings_release(&s);
}

static void launchers(struct slice text, struct arena *tree, struct arena *a)
{
	struct yaml_stream stream = {0};
	struct err err = {0};
	int rc = yaml_parse(tree, "profile.yaml", text, YAML_NO_ALIASES, &stream, &err);

	if (rc != 0) {
		check_err(rc, &err);
		return;
	}
	for (struct yaml_doc *doc = stream.first; doc; doc = doc->next) {
		struct profile p, again;

		rc = launcher_load(doc->root, a, &p, &err);
		if (rc != 0) {
			check_err(rc, &err);
			continue;
		}
		check_profile(&p);
		REQUIRE(launcher_load(doc->root, a, &again, &err) == 0 && again.hash == p.hash);
	}
}

static const struct yaml_node *parse(struct slice text, const char *file, struct arena *tree)
{
	struct yaml_stream stream = {0};
	struct err err = {0};
	int rc = yaml_parse(tree, file, text, YAML_NO_ALIASES, &stream, &err);

	if (rc != 0)
		check_err(rc, &err);
	return rc == 0 && stream.first ? stream.first->root : NULL;
}

static void bitfusion(struct slice text, struct arena *tree, struct arena *a)
{
	struct slice catalogue = text, sidecar = {text.at + text.len, 0};
	struct err err = {0};
	struct profile p;
	int rc;

	for (size_t i = 0; i + 4 <= text.len; i++)
		if (memcmp(text.at + i, "\n%%\n", 4) == 0) {
			catalogue.len = i + 1;
			sidecar = (struct slice){text.at + i + 4, text.len - i - 4};
			break;
		}
	rc = launcher_bitfusion(parse(catalogue, "catalogue.yaml", tree),
		parse(sidecar, "sidecar.yaml", tree), SLICE("sh"), a, &p, &err);
	if (rc != 0)
		check_err(rc, &err);
	else
		check_profile(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena tree, a;
	struct slice text;
	char *copy;

	/* Larger inputs only repeat themselves, and one alone could fill the arenas. */
	if (size < 1 || size > 65536)
		return 0;
	/* An exact copy, so that AddressSanitizer sees a byte too many. */
	copy = malloc(size - 1 ? size - 1 : 1);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	text = (struct slice){copy, size - 1};
	arena_init(&tree, YAML_ARENA_MAX);
	arena_init(&a, ARENA_MAX);
	if (data[0] == 's')
		settings(text);
	else if (data[0] == 'l')
		launchers(text, &tree, &a);
	else if (data[0] == 'b')
		bitfusion(text, &tree, &a);
	arena_release(&tree);
	arena_release(&a);
	free(copy);
	return 0;
}
