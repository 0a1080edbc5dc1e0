/* SPDX-License-Identifier: Apache-2.0 */
/* core: the rules of Pod Security `restricted` that concern an injected container and its volumes.
 */
#include "webhook/core/inject/restricted.h"

#include <stdlib.h>

#include "base/json/json_read.h"

#define NODES_MAX 65536

static void complain(struct buf *out, bool bad, const char *what)
{
	if (bad)
		buf_fmt(out, "%s%s", out->len ? ", " : "", what);
}

static bool drops_all(const struct json *j, const struct json_node *context)
{
	JSON_EACH(j, json_path(j, context, "capabilities", "drop", NULL), name)
	if (json_is_str(j, name, SLICE("ALL")))
		return true;
	return false;
}

static bool adds_more(const struct json *j, const struct json_node *context)
{
	JSON_EACH(j, json_path(j, context, "capabilities", "add", NULL), name)
	if (!json_is_str(j, name, SLICE("NET_BIND_SERVICE")))
		return true;
	return false;
}

static bool has_host_port(const struct json *j, const struct json_node *container)
{
	JSON_EACH(j, json_get(j, container, SLICE("ports")), port)
	if (!json_absent(json_get(j, port, SLICE("hostPort"))))
		return true;
	return false;
}

static void check_container(const struct json *j, struct buf *out)
{
	const struct json_node *c = json_root(j);
	const struct json_node *context = json_get(j, c, SLICE("securityContext"));
	const struct json_node *seccomp = json_path(j, context, "seccompProfile", "type", NULL);
	int64_t user = -1;

	complain(out, !json_is(json_get(j, context, SLICE("runAsNonRoot")), JSON_TRUE),
		"runAsNonRoot is not true");
	complain(out, json_int(j, json_get(j, context, SLICE("runAsUser")), &user) && user == 0,
		"runAsUser is 0");
	complain(out, !json_is(json_get(j, context, SLICE("allowPrivilegeEscalation")), JSON_FALSE),
		"allowPrivilegeEscalation is not false");
	complain(out, !drops_all(j, context), "capabilities.drop lacks ALL");
	complain(out, adds_more(j, context), "capabilities.add holds more than NET_BIND_SERVICE");
	complain(out,
		!json_is_str(j, seccomp, SLICE("RuntimeDefault")) &&
			!json_is_str(j, seccomp, SLICE("Localhost")),
		"seccompProfile.type is neither RuntimeDefault nor Localhost");
	complain(out, json_is(json_get(j, context, SLICE("privileged")), JSON_TRUE),
		"privileged is true");
	complain(out, has_host_port(j, c), "ports hold a hostPort");
}

static void check_volume(const struct json *j, struct buf *out)
{
	static const char *const allowed[] = {"name", "configMap", "csi", "downwardAPI", "emptyDir",
		"ephemeral", "image", "persistentVolumeClaim", "projected", "secret"};

	JSON_MEMBERS(j, json_root(j), key)
	{
		bool known = json_absent(json_value(key));

		for (size_t i = 0; !known && i < sizeof(allowed) / sizeof(allowed[0]); i++)
			known = json_is_str(j, key, slice_of(allowed[i]));
		if (!known) {
			buf_fmt(out, "%s%.*s is not an allowed kind", out->len ? ", " : "",
				(int)json_inside(j, key).len, json_inside(j, key).at);
		}
	}
}

static int read_and(struct slice text, void (*check)(const struct json *, struct buf *),
	struct buf *out, struct err *err)
{
	struct json j = {0};
	char *copy = NULL;
	int rc = json_read_copy(&j, text.at, text.len, NODES_MAX, &copy, err);

	if (rc == 0)
		check(&j, out);
	json_release(&j);
	free(copy);
	if (rc == 0 && out->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	return rc;
}

int restricted_container(struct slice json, struct buf *out, struct err *err)
{
	return read_and(json, check_container, out, err);
}

int restricted_volume(struct slice json, struct buf *out, struct err *err)
{
	return read_and(json, check_volume, out, err);
}
