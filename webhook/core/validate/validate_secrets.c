/* SPDX-License-Identifier: Apache-2.0 */
/* core: who reads the client's Secrets: a pod that asks for nothing, a container that is added to
 * one that lives. */
#include "webhook/core/pod/gpu_request.h"
#include "webhook/core/validate/validate_check.h"

static bool is_secret(const struct config *c, const struct json *j, const struct json_node *name)
{
	for (size_t i = 0; i < c->n_profiles; i++)
		for (size_t k = 0; k < c->profiles[i].n_secrets; k++)
			if (json_is_str(j, name, c->profiles[i].secrets[k]))
				return true;
	return false;
}

static int secret_taken(const char *how, struct err *err)
{
	return err_reason(err, ERR_REFUSED, "SecretWithoutClaim",
		"%s the secret of a remote-GPU client, which is for containers that hold a "
		"claim: create the pod with " RES_AMOUNT " and the annotation " ANN_SWITCH
		", or leave it out",
		how);
}

/* Variables out of a client's secret, one by one or all together. */
static int check_env_secrets(const struct config *c, const struct json *j,
	const struct json_node *container, struct err *err)
{
	size_t i = 0;

	JSON_EACH(j, json_get(j, container, SLICE("env")), v)
	{
		if (is_secret(c, j, json_path(j, v, "valueFrom", "secretKeyRef", "name", NULL))) {
			secret_taken("reads", err);
			return err_in(err, "env/%zu", i);
		}
		i++;
	}
	i = 0;
	JSON_EACH(j, json_get(j, container, SLICE("envFrom")), v)
	{
		if (is_secret(c, j, json_path(j, v, "secretRef", "name", NULL))) {
			secret_taken("reads", err);
			return err_in(err, "envFrom/%zu", i);
		}
		i++;
	}
	return 0;
}

static bool volume_has_secret(
	const struct config *c, const struct json *j, const struct json_node *volume)
{
	bool found = is_secret(c, j, json_path(j, volume, "secret", "secretName", NULL));

	JSON_EACH(j, json_path(j, volume, "projected", "sources", NULL), s)
	found = found || is_secret(c, j, json_path(j, s, "secret", "name", NULL));
	return found;
}

int check_secrets(const struct config *c, const struct pod *p, struct err *err)
{
	size_t i = 0;

	if (!c->secret_without_claim)
		return 0;
	JSON_EACH(p->j, p->volumes, v)
	{
		if (volume_has_secret(c, p->j, v)) {
			secret_taken("mounts", err);
			return err_in(err, "spec/volumes/%zu", i);
		}
		i++;
	}
	for (i = 0; i < p->n_containers; i++)
		if (check_env_secrets(c, p->j, p->containers[i].node, err) < 0)
			return err_in(err, "%s", p->containers[i].path + 1);
	return 0;
}

/* Containers that an update adds to a pod that lives, whatever their place in the list, and the
 * pod's volumes. */
struct brought {
	const struct json *j;
	const struct json_node *list, *volumes;
	struct json_hit *old; /* of each in the list: the one that the pod had */
	struct arena *a;
};

/* The names of the volumes that they mount, one after the other. NULL: out of memory. */
static struct slice *mounted(const struct brought *b, size_t *ret_n)
{
	struct slice *names;
	size_t n = 0;

	JSON_EACH(b->j, b->list, e)
	JSON_EACH(b->j, json_get(b->j, e, SLICE("volumeMounts")), m)
	n++;
	names = arena_array(b->a, n, sizeof(*names));
	n = 0;
	JSON_EACH(b->j, b->list, e)
	JSON_EACH(b->j, json_get(b->j, e, SLICE("volumeMounts")), m)
	if (names)
		names[n++] = json_str(b->j, json_get(b->j, m, SLICE("name")), b->a);
	*ret_n = n;
	return names;
}

static bool find_old(struct brought *b, const struct json_node *was)
{
	struct slice *names;
	size_t n = 0;

	JSON_EACH(b->j, b->list, e)
	n++;
	names = arena_array(b->a, n, sizeof(*names));
	b->old = arena_array(b->a, n, sizeof(*b->old));
	n = 0;
	JSON_EACH(b->j, b->list, e)
	if (names)
		names[n++] = json_str(b->j, json_get(b->j, e, SLICE("name")), b->a);
	return names && b->old &&
	       json_find_each(b->j, was, "name", names, n, false, b->a, b->old) == 0;
}

static int check_mounts(const struct config *c, const struct brought *b, struct err *err)
{
	size_t n, i = 0, at = 0;
	struct slice *names = mounted(b, &n);
	struct json_hit *hits = arena_array(b->a, n, sizeof(*hits));

	if (!names || !hits ||
		json_find_each(b->j, b->volumes, "name", names, n, false, b->a, hits) != 0)
		return err_set(err, ERR_NOMEM, "out of memory");
	JSON_EACH(b->j, b->list, e)
	{
		size_t k = 0;

		JSON_EACH(b->j, json_get(b->j, e, SLICE("volumeMounts")), m)
		{
			if (!b->old[i].node && hits[at].node &&
				volume_has_secret(c, b->j, hits[at].node)) {
				(void)secret_taken("mounts", err);
				err_in(err, "volumeMounts/%zu", k);
				return err_in(err, "spec/ephemeralContainers/%zu", i);
			}
			at++;
			k++;
		}
		i++;
	}
	return 0;
}

int check_ephemeral_secrets(
	const struct config *c, const struct review *r, struct arena *a, struct err *err)
{
	struct brought b = {.j = r->j,
		.list = json_path(r->j, r->object, "spec", "ephemeralContainers", NULL),
		.volumes = json_path(r->j, r->object, "spec", "volumes", NULL),
		.a = a};
	size_t i = 0;

	if (!c->secret_without_claim)
		return 0;
	if (!find_old(&b, json_path(r->j, r->old_object, "spec", "ephemeralContainers", NULL)))
		return err_set(err, ERR_NOMEM, "out of memory");
	JSON_EACH(r->j, b.list, e)
	{
		if (!b.old[i].node && check_env_secrets(c, r->j, e, err) < 0)
			return err_in(err, "spec/ephemeralContainers/%zu", i);
		i++;
	}
	return check_mounts(c, &b, err);
}
