/* SPDX-License-Identifier: Apache-2.0 */
/* core: the pod's end of a gate: read, and rendered as an init container and volumes like any other
 * of a profile. */
#include "webhook/core/launcher/launcher_parts.h"

#include <string.h>

#include "base/text.h"
#include "base/yaml/yaml_config.h"
#include "base/yaml/yaml_json.h"

#define NAME "gpugate"
#define TOKEN_VOLUME NAME "-token"
#define CA_VOLUME NAME "-ca"
#define PORT_DEFAULT 14840
#define CERTIFICATE "-----BEGIN CERTIFICATE-----"

/* What the sidecar needs where nobody says more: measured is 42 KB a connection (docs/gpugate.md).
 */
#define RESOURCES                                                                                  \
	"{\"limits\":{\"memory\":\"128Mi\"},\"requests\":{\"cpu\":\"10m\",\"memory\":\"16Mi\"}}"

/* The kubelet renews the token at four fifths of its hour; nothing mounts it but the sidecar. */
static const char token_volume[] =
	"{\"name\":\"" TOKEN_VOLUME "\",\"projected\":{\"sources\":[{\"serviceAccountToken\":{"
	"\"audience\":\"gpugate\",\"expirationSeconds\":3600,\"path\":\"token\"}}]}}";
static const char ca_volume[] = "{\"name\":\"" CA_VOLUME
				"\",\"downwardAPI\":{\"items\":[{\"path\":\"ca.crt\",\"fieldRef\":{"
				"\"fieldPath\":\"metadata.annotations['" ANN_GATE_CA "']\"}}]}}";

/* Of a native sidecar. The probe has no arguments of the pod's: the kubelet expands none that come
 * from a field, so both commands read the variable themselves. A minute, since a busy node may take
 * long to start it. */
static const char sidecar_env[] =
	"\"env\":[{\"name\":\"POOLGATE_SERVERS\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":"
	"\"metadata.annotations['" ANN_GATE_SERVERS "']\"}}}]";
static const char sidecar_rest[] =
	",\"periodSeconds\":1,\"timeoutSeconds\":5,\"failureThreshold\":60},"
	"\"securityContext\":{\"allowPrivilegeEscalation\":false,\"readOnlyRootFilesystem\":true,"
	"\"runAsNonRoot\":true,\"runAsUser\":65532,\"capabilities\":{\"drop\":[\"ALL\"]},"
	"\"seccompProfile\":{\"type\":\"RuntimeDefault\"}},\"volumeMounts\":["
	"{\"name\":\"" TOKEN_VOLUME
	"\",\"mountPath\":\"/var/run/secrets/gpugate\",\"readOnly\":true},"
	"{\"name\":\"" CA_VOLUME "\",\"mountPath\":\"/etc/gpugate\",\"readOnly\":true}]}";

static int no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory for the launcher profile");
}

static int read_ca(
	const struct yaml_node *gate, struct arena *a, struct profile *p, struct err *err)
{
	struct yaml_node *node;
	struct slice text;
	int rc;

	if ((rc = yaml_need(gate, "ca", &node, err)) != 0 ||
		(rc = yaml_as_str(node, &text, err)) != 0)
		return rc;
	if (text.len > GATE_CA_MAX || memchr(text.at, '\0', text.len) ||
		!slice_starts(text, SLICE(CERTIFICATE)))
		return yaml_err(node, err, ERR_INVALID,
			"found %zu bytes, expected the CAs that signed the gates' certificates, as "
			"PEM: it begins with " CERTIFICATE " and has at most %u bytes",
			text.len, GATE_CA_MAX);
	return parts_copy(text, a, &p->gate.ca, err);
}

static int read_pull_secret(
	const struct yaml_node *gate, struct arena *a, struct profile *p, struct err *err)
{
	const struct yaml_node *node = yaml_get(gate, "pullSecret");
	struct slice name;

	if (yaml_absent(node))
		return 0;
	if (yaml_as_str(node, &name, err) != 0)
		return err->code;
	if (!text_dns_subdomain(name))
		return yaml_err(node, err, ERR_INVALID,
			"found \"%.*s\", expected the name of a Secret in the pods' namespaces, "
			"such "
			"as registry",
			(int)text_utf8_cut(name, 80), name.at);
	return parts_copy(name, a, &p->gate.pull_secret, err);
}

/* The sidecar's own: those of the pod's containers, which other init containers are given, say
 * nothing about it. */
static int read_resources(
	const struct yaml_node *gate, struct arena *a, struct slice *ret, struct err *err)
{
	const struct yaml_node *res = yaml_get(gate, "resources");
	struct buf b;
	int rc;

	if (yaml_absent(res)) {
		*ret = SLICE(RESOURCES);
		return 0;
	}
	if (yaml_known(res, err, "limits", "requests", NULL) != 0)
		return err->code;
	buf_init(&b, PROFILE_OBJECT_MAX);
	rc = yaml_to_json(res, YAML_JSON_COMPACT, &b, err);
	if (rc == 0 || b.failed)
		return parts_finish(&b, res, a, ret, err);
	buf_release(&b);
	return rc;
}

static int render(const struct yaml_node *gate, struct slice image, struct arena *a,
	const struct profile *p, struct profile_init *ret, struct err *err)
{
	struct buf b;
	int rc;

	buf_init(&b, PROFILE_OBJECT_MAX);
	buf_str(&b, "{\"name\":\"" NAME "\",\"image\":");
	buf_json_str(&b, image);
	buf_fmt(&b, ",\"restartPolicy\":\"Always\",\"args\":[\"connect\",\"--port\",\"%u\"],%s",
		(unsigned)p->gate.port, sidecar_env);
	buf_fmt(&b,
		",\"startupProbe\":{\"exec\":{\"command\":[\"/usr/bin/"
		"gpugate\",\"check\",\"--port\","
		"\"%u\"]}%s",
		(unsigned)p->gate.port, sidecar_rest);
	*ret = (struct profile_init){.name = SLICE(NAME)};
	if ((rc = parts_finish(&b, gate, a, &ret->json, err)) != 0 ||
		(rc = read_resources(gate, a, &ret->resources, err)) != 0)
		return rc;
	return parts_copy(image, a, &ret->image, err);
}

/* Its volumes behind the profile's. */
static int add_volumes(
	const struct yaml_node *gate, struct arena *a, struct profile *p, struct err *err)
{
	struct profile_volume *all = arena_array(a, p->n_volumes + 2, sizeof(*all));

	if (!all)
		return no_memory(err);
	for (size_t i = 0; i < p->n_volumes; i++) {
		if (slice_is(p->volumes[i].name, TOKEN_VOLUME) ||
			slice_is(p->volumes[i].name, CA_VOLUME))
			return yaml_err(gate, err, ERR_INVALID,
				"adds the volumes " TOKEN_VOLUME " and " CA_VOLUME
				", and the profile has one of that name: rename it");
		all[i] = p->volumes[i];
	}
	all[p->n_volumes++] = (struct profile_volume){SLICE(TOKEN_VOLUME), SLICE(token_volume)};
	all[p->n_volumes++] = (struct profile_volume){SLICE(CA_VOLUME), SLICE(ca_volume)};
	p->volumes = all;
	return 0;
}

static int add_sidecar(const struct yaml_node *gate, const struct profile_init *sidecar,
	struct arena *a, struct profile_client *c, struct err *err)
{
	struct profile_init *all = arena_array(a, c->n_inits + 1, sizeof(*all));

	if (!all)
		return no_memory(err);
	for (size_t i = 0; i < c->n_inits; i++) {
		if (slice_is(c->inits[i].name, NAME))
			return yaml_err(gate, err, ERR_INVALID,
				"adds the init container " NAME
				", and the profile has one of that name: rename it");
		all[i] = c->inits[i];
	}
	all[c->n_inits++] = *sidecar;
	c->inits = all;
	return 0;
}

/* Nothing is added to the pod. */
static int read_address(const struct yaml_node *gate, struct profile *p, struct err *err)
{
	if (gate->count > 1)
		return yaml_err(gate, err, ERR_INVALID,
			"found more than \"mode: address\", by which clients dial the gates "
			"themselves and pods get no end of theirs: expected that alone");
	if (!p->servers_placed)
		return yaml_err(gate, err, ERR_INVALID,
			"found a gate, but the client is not told its servers: a gate needs "
			"\"placement: servers\"");
	p->gate.by_address = true;
	return 0;
}

/* The client meets 127.0.0.1 and ports alone, whatever addresses the servers have. */
static int check_client(const struct yaml_node *gate, struct profile *p, struct err *err)
{
	if (!p->servers_placed || !profile_has(p, "servers"))
		return yaml_err(gate, err, ERR_INVALID,
			"found a gate, but the client is not told its servers by {servers}: a gate "
			"needs \"placement: servers\" and that place");
	if (profile_has(p, "server_host"))
		return yaml_err(gate, err, ERR_INVALID,
			"found a gate, and {server_host}, which leaves out the port that a server "
			"has behind a gate: expected {servers}");
	if (p->no_ipv4)
		return yaml_err(gate, err, ERR_INVALID,
			"found a gate, whose end in the pod is at 127.0.0.1, and a client that "
			"cannot use IPv4");
	p->no_ipv6 = false;
	return 0;
}

int gate_read(const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err)
{
	static const char *const modes[] = {"token", "address"};
	const struct yaml_node *gate = yaml_get(spec, "gate");
	size_t mode = 0;
	int64_t port = PORT_DEFAULT;
	struct profile_init sidecar;
	struct yaml_node *node;
	struct slice image;
	int rc;

	if (yaml_absent(gate))
		return 0;
	if ((rc = yaml_as_map(gate, err)) != 0 ||
		(rc = yaml_known(gate, err, "mode", "image", "pullSecret", "ca", "port",
			 "resources", NULL)) != 0 ||
		(rc = yaml_get_choice(gate, "mode", modes, 2, &mode, err)) != 0)
		return rc;
	if (mode == 1)
		return read_address(gate, p, err);
	if ((rc = yaml_need(gate, "image", &node, err)) != 0 ||
		(rc = yaml_as_str(node, &image, err)) != 0 ||
		(rc = yaml_get_int(gate, "port", 1024, 65535 - PROFILE_GATE_SERVERS, &port, err)) !=
			0 ||
		(rc = read_pull_secret(gate, a, p, err)) != 0 ||
		(rc = read_ca(gate, a, p, err)) != 0 || (rc = check_client(gate, p, err)) != 0)
		return rc;
	if (image.len == 0)
		return yaml_err(node, err, ERR_INVALID, "found \"\", expected gpugate's image");
	p->gate.port = (uint16_t)port;
	rc = render(gate, image, a, p, &sidecar, err);
	for (size_t i = 0; rc == 0 && i < p->n_clients; i++)
		rc = add_sidecar(gate, &sidecar, a, &p->clients[i], err);
	return rc == 0 ? add_volumes(gate, a, p, err) : rc;
}
