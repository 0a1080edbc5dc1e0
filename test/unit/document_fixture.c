/* SPDX-License-Identifier: Apache-2.0 */
/* test: see document_fixture.h. */
#include <stdlib.h>

#include "base/json/json_read.h"
#include "base/yaml/yaml.h"
#include "gate/server_profile.h"
#include "test/unit/document_fixture.h"
#include "webhook/core/launcher/launcher_load.h"
#include "webhook/core/policy/policy.h"
#include "webhook/core/server/server_object.h"
#include "webhook/edge/pool/gpu_servers.h"
#include "webhook/edge/settings/settings_file.h"

int document_settings(struct slice text, struct arena *a, struct err *err)
{
	struct settings s = {.arena = *a};
	int rc = settings_text(&s, "/folder/poolgate.yaml", text, err);

	*a = s.arena;
	return rc;
}

int document_launcher(struct slice text, struct arena *a, struct err *err)
{
	struct yaml_stream docs = {0};
	struct profile p;
	int rc = yaml_parse(a, "profile.yaml", text, YAML_NO_ALIASES, &docs, err);

	return rc == 0 ? launcher_load(docs.first->root, a, &p, err) : rc;
}

int document_pool(struct slice text, struct arena *a, struct err *err)
{
	struct inventory inv;

	return gpu_servers_parse(text, "pool.yaml", a, &inv, NULL, err);
}

int document_server_profile(struct slice text, struct arena *a, struct err *err)
{
	struct server_profile p;

	return server_profile_read("profile.yaml", text, a, &p, err);
}

int document_of_json(struct slice text, struct arena *a, struct err *err,
	int (*read)(const struct json *j, struct arena *a, struct err *err))
{
	struct json j = {0};
	char *copy = NULL;
	int rc = json_read_copy(&j, text.at, text.len, 10000, &copy, err);

	if (rc == 0)
		rc = read(&j, a, err);
	json_release(&j);
	free(copy);
	return rc;
}

static int read_policy(const struct json *j, struct arena *a, struct err *err)
{
	struct policy p;

	return policy_read(j, json_root(j), a, &p, err);
}

int document_policy(struct slice text, struct arena *a, struct err *err)
{
	return document_of_json(text, a, err, read_policy);
}

static int read_server(const struct json *j, struct arena *a, struct err *err)
{
	struct server_object o;

	return server_object_read(j, json_root(j), a, &o, err);
}

int document_server_object(struct slice text, struct arena *a, struct err *err)
{
	return document_of_json(text, a, err, read_server);
}
