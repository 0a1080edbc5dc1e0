/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: reads the imagePullSecrets of a pod that is reviewed, past every cache, and keeps
 * nothing of them. */
#include "webhook/cluster/secrets/pull_secrets.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "net/mac.h"
#include "webhook/cluster/secrets/secret_data.h"
#include "webhook/core/pod/pod.h"

#define CONFIG_BYTES_MAX (1024u * 1024)
#define NODES_MAX 20000

/* The key of the Secret's data, by its type; NULL: it is none of a registry. */
static const char *key_of(const struct kube_answer *secret)
{
	const struct json_node *type =
		json_get(&secret->json, json_root(&secret->json), SLICE("type"));

	if (json_is_str(&secret->json, type, SLICE("kubernetes.io/dockerconfigjson")))
		return ".dockerconfigjson";
	return json_is_str(&secret->json, type, SLICE("kubernetes.io/dockercfg")) ? ".dockercfg"
										  : NULL;
}

/* 0, also where it cannot be read as what it says it is; ERR_NOMEM. */
static int read_config(const struct kube_answer *secret, const struct image_name *name,
	struct arena *a, struct pull_logins *io)
{
	const char *key = key_of(secret);
	const struct json_node *auths = NULL; /* the older type has none around them */
	struct json j = {0};
	char *copy = NULL;
	struct buf text;
	int rc = 0;

	if (!key)
		return 0;
	buf_init(&text, CONFIG_BYTES_MAX);
	rc = secret_value(&secret->json, json_root(&secret->json), key, &text, NULL);
	if (rc == 0)
		rc = json_read_copy(
			&j, text.data ? text.data : "", text.len, NODES_MAX, &copy, NULL);
	if (rc == 0) {
		auths = json_get(&j, json_root(&j), SLICE("auths"));
		pull_config_find(&j, auths ? auths : json_root(&j), name, a, io);
	}
	if (copy)
		mac_wipe(copy, text.len);
	if (text.data)
		mac_wipe(text.data, text.cap);
	json_release(&j);
	free(copy);
	buf_release(&text);
	return rc == ERR_NOMEM || a->failed ? ERR_NOMEM : 0;
}

static int read_secret(struct kube *k, struct slice namespace, struct slice secret,
	int64_t deadline_ms, const struct image_name *name, struct arena *a, struct pull_logins *io,
	struct err *why)
{
	int64_t left = deadline_ms - clock_ms();
	struct kube_answer answer = {0};
	struct err err = {0};
	int rc = secret_get(k, arena_strdup(a, namespace), arena_strdup(a, secret),
		left > 0 ? left : 1, &answer, &err);

	if (rc == 0)
		rc = read_config(&answer, name, a, io);
	else if (rc != ERR_NOMEM && rc != ERR_NOTFOUND)
		(void)err_set(why, ERR_REFUSED, "its imagePullSecret %.*s is not read: %s",
			(int)secret.len, secret.at,
			rc == ERR_REFUSED
				? "its namespace has not let poolgate (components/registry)"
				: "the API server did not give it");
	secret_release(&answer);
	return rc == ERR_NOMEM ? rc : 0;
}

int pull_secrets_find(void *ctx, const struct image_ask *ask, const struct image_name *name,
	int64_t deadline_ms, struct arena *a, struct pull_logins *ret, struct err *why)
{
	const struct json *j = ask->pod->j;
	const struct json_node *list = json_get(j, ask->pod->spec, SLICE("imagePullSecrets"));
	size_t n = 0;

	JSON_EACH(j, list, e)
	{
		struct slice secret = json_str(j, json_get(j, e, SLICE("name")), a);
		int rc;

		if (!text_dns_subdomain(secret))
			continue;
		if (n++ == PULL_SECRETS_MAX)
			break;
		rc = read_secret(ctx, ask->namespace, secret, deadline_ms, name, a, ret, why);
		if (rc != 0)
			return rc;
	}
	return 0;
}
