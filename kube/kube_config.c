/* SPDX-License-Identifier: Apache-2.0 */
/* kube: where the Kubernetes API is: a pod's service account, or a kubeconfig file. */
#include "kube/kube_config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/files.h"
#include "base/text.h"
#include "base/yaml/yaml.h"
#include "base/yaml/yaml_config.h"

/* A file of certificates, a key, a token: much more than any of them. */
#define FILE_MAX (1u << 20)
#define TOKEN_MAX 65536

static void config_init(struct kube_config *c)
{
	*c = (struct kube_config){.ca_fd = -1, .cert_fd = -1, .key_fd = -1};
	arena_init(&c->arena, YAML_ARENA_MAX);
}

int kube_config_verifies(const struct kube_config *c, struct err *err)
{
	return c->insecure
		       ? err_set(err, ERR_INVALID,
				 "the kubeconfig says insecure-skip-tls-verify: this program would "
				 "give its token to whoever answers; give the "
				 "certificate-authority instead")
		       : 0;
}

void kube_config_release(struct kube_config *c)
{
	int *fd[] = {&c->ca_fd, &c->cert_fd, &c->key_fd};

	for (size_t i = 0; i < 3; i++) {
		if (*fd[i] >= 0)
			(void)close(*fd[i]);
		*fd[i] = -1;
	}
	arena_release(&c->arena);
}

static int no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory for the way to the Kubernetes API");
}

int kube_config_token(const struct kube_config *c, struct buf *ret, struct err *err)
{
	struct slice rest, word = {0};
	int rc;

	buf_init(ret, TOKEN_MAX);
	if (!c->token_file) {
		buf_str(ret, c->token ? c->token : "");
		return ret->failed ? err_set(err, ERR_NOMEM, "out of memory for the token") : 0;
	}
	rc = files_read(c->token_file, ret, err);
	if (rc != 0)
		return rc == ERR_NOTFOUND || rc == ERR_NOMEM
			       ? rc
			       : err_set(err, ERR_IO, "%s", err ? err->msg : "");
	rest = buf_as_slice(ret);
	if (text_word(&rest, &word) && word.at > ret->data)
		memmove(ret->data, word.at, word.len);
	ret->len = word.len;
	if (ret->data)
		ret->data[ret->len] = '\0';
	return 0;
}

/* ---- in a pod ---- */

/* A short file, without the blanks around its text. */
static int read_word(const char *path, struct arena *a, const char **ret, struct err *err)
{
	struct slice word, rest;
	struct buf text;
	int rc;

	buf_init(&text, FILE_MAX);
	rc = files_read(path, &text, err);
	rest = buf_as_slice(&text);
	if (rc == 0 && !text_word(&rest, &word))
		rc = err_set(err, ERR_INVALID, "%s is empty", path);
	if (rc == 0 && !(*ret = arena_strdup(a, word)))
		rc = no_memory(err);
	buf_release(&text);
	return rc;
}

int kube_config_in_cluster(const char *host, const char *port, const char *dir,
	struct kube_config *ret, struct err *err)
{
	const char *token, *namespace;
	struct arena *a = &ret->arena;
	bool v6 = host && strchr(host, ':');
	uint64_t number;
	struct buf pem;
	int rc;

	config_init(ret);
	if (!host || !*host || !port || !*port)
		return err_set(err, ERR_INVALID,
			"not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not "
			"set; name a kubeconfig file");
	if (!text_u64(slice_of(port), 65535, &number) || number == 0)
		return err_set(
			err, ERR_INVALID, "KUBERNETES_SERVICE_PORT is no port: \"%s\"", port);
	ret->server =
		arena_fmt(a, v6 ? "https://[%s]:%u" : "https://%s:%u", host, (unsigned)number);
	ret->ca_file = arena_fmt(a, "%s/ca.crt", dir);
	ret->token_file = arena_fmt(a, "%s/token", dir);
	namespace = arena_fmt(a, "%s/namespace", dir);
	if (a->failed)
		return no_memory(err);
	/* Whatever is missing is better said now than at every call. */
	rc = read_word(ret->token_file, a, &token, err);
	if (rc == 0)
		rc = read_word(namespace, a, &ret->namespace, err);
	if (rc != 0)
		return rc;
	buf_init(&pem, FILE_MAX);
	rc = files_read(ret->ca_file, &pem, err);
	buf_release(&pem);
	return rc;
}

/* ---- a kubeconfig ---- */

/* What is being read. */
struct reading {
	struct kube_config *config;
	struct slice folder; /* of the file, with its slash; empty for none */
	struct err *err;
};

/* The element of a list that has this name, and the map under `inside` in it. */
static int find(const struct yaml_node *root, const char *list, const char *inside,
	const char *name, struct yaml_node **ret, struct err *err)
{
	struct yaml_node *all = NULL;
	int rc = yaml_get_seq(root, list, &all, err);

	if (rc != 0)
		return rc;
	YAML_EACH(all, e)
	{
		if (!yaml_is_str(yaml_get(e, "name"), name))
			continue;
		rc = yaml_get_map(e, inside, ret, err);
		if (rc == 0 && !*ret)
			rc = yaml_err(e, err, ERR_INVALID, "has no %s", inside);
		return rc;
	}
	return yaml_err(
		all ? all : root, err, ERR_INVALID, "there is no %s named \"%s\"", inside, name);
}

/* A string that is there and not empty, else NULL: kubectl writes "" for what was taken away. */
static int word(const struct yaml_node *map, const char *key, const char **ret, struct err *err)
{
	const char *s = NULL;
	int rc = yaml_get_cstr(map, key, &s, err);

	if (rc == 0)
		*ret = s && *s ? s : NULL;
	return rc;
}

static int refuse(const struct yaml_node *map, const char *const *keys, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		struct yaml_node *v = yaml_get(map, keys[i]);

		if (yaml_absent(v) || yaml_is_str(v, ""))
			continue;
		return yaml_err(v, err, ERR_INVALID,
			"cannot be used here; give a token, a token file or a client certificate");
	}
	return 0;
}

/* A path, relative to the file that names it. */
static int path_of(
	struct reading *r, const struct yaml_node *map, const char *key, const char **ret)
{
	const char *path = NULL;
	int rc = word(map, key, &path, r->err);

	if (rc != 0 || !path)
		return rc;
	*ret = path[0] == '/' ? path
			      : arena_fmt(&r->config->arena, "%.*s%s", (int)r->folder.len,
					r->folder.at, path);
	return *ret ? 0 : no_memory(r->err);
}

/* KEY-data, which counts more, or KEY. */
static int file_of(struct reading *r, const struct yaml_node *map, const char *key,
	const char *key_data, int *ret_fd, const char **ret)
{
	char path[FILES_MEMORY_PATH];
	const char *data = NULL;
	struct err what = {0};
	struct buf bytes;
	int rc = word(map, key_data, &data, r->err);

	if (rc != 0)
		return rc;
	if (!data)
		return path_of(r, map, key, ret);
	buf_init(&bytes, FILE_MAX);
	rc = base64_decode(slice_of(data), &bytes, &what);
	if (rc != 0)
		rc = yaml_err(yaml_get(map, key_data), r->err, (enum err_code)rc, "%s", what.msg);
	else
		rc = *ret_fd = files_in_memory(buf_as_slice(&bytes), path, r->err);
	if (rc >= 0 && !(*ret = arena_strdup(&r->config->arena, slice_of(path))))
		rc = no_memory(r->err);
	if (bytes.data)
		explicit_bzero(bytes.data, bytes.len);
	buf_release(&bytes);
	return rc < 0 ? rc : 0;
}

static int read_cluster(struct reading *r, const struct yaml_node *cluster)
{
	static const char *const cannot[] = {"proxy-url", "tls-server-name"};
	struct kube_config *c = r->config;
	struct yaml_node *node;
	const char *server = NULL;
	size_t len;
	int rc = yaml_need(cluster, "server", &node, r->err);

	if (rc == 0)
		rc = yaml_as_cstr(node, &server, r->err);
	for (size_t i = 0; i < 2 && rc == 0; i++) {
		node = yaml_get(cluster, cannot[i]);
		if (!yaml_absent(node) && !yaml_is_str(node, ""))
			rc = yaml_err(node, r->err, ERR_INVALID, "cannot be used here; remove it");
	}
	if (rc == 0)
		rc = yaml_get_bool(cluster, "insecure-skip-tls-verify", &c->insecure, r->err);
	if (rc != 0)
		return rc;
	if (strncmp(server, "http://", 7) != 0 && strncmp(server, "https://", 8) != 0)
		return yaml_err(yaml_get(cluster, "server"), r->err, ERR_INVALID,
			"found \"%s\", expected https://HOST:PORT", server);
	for (len = strlen(server); len > 0 && server[len - 1] == '/';)
		len--;
	c->server = arena_strdup(&c->arena, (struct slice){server, len});
	if (!c->server)
		return no_memory(r->err);
	return file_of(r, cluster, "certificate-authority", "certificate-authority-data", &c->ca_fd,
		&c->ca_file);
}

static int read_user(struct reading *r, const struct yaml_node *user)
{
	static const char *const cannot[] = {"exec", "auth-provider", "username", "password", "as",
		"as-uid", "as-groups", "as-user-extra"};
	struct kube_config *c = r->config;
	int rc = refuse(user, cannot, sizeof(cannot) / sizeof(cannot[0]), r->err);

	if (rc == 0)
		rc = path_of(r, user, "tokenFile", &c->token_file);
	if (rc == 0 && !c->token_file)
		rc = word(user, "token", &c->token, r->err);
	if (rc == 0)
		rc = file_of(r, user, "client-certificate", "client-certificate-data", &c->cert_fd,
			&c->cert_file);
	if (rc == 0)
		rc = file_of(r, user, "client-key", "client-key-data", &c->key_fd, &c->key_file);
	if (rc == 0 && !c->cert_file != !c->key_file)
		rc = yaml_err(user, r->err, ERR_INVALID,
			"client-certificate and client-key belong together; one of them is "
			"missing");
	return rc;
}

static int read_root(struct reading *r, const struct yaml_node *root)
{
	const char *name = NULL, *cluster_name = NULL, *user_name = NULL;
	struct yaml_node *context, *cluster, *user;
	int rc = yaml_as_map(root, r->err);

	if (rc == 0)
		rc = word(root, "current-context", &name, r->err);
	if (rc == 0 && !name)
		rc = yaml_err(root, r->err, ERR_INVALID,
			"no current-context is set: kubectl config use-context NAME");
	if (rc == 0)
		rc = find(root, "contexts", "context", name, &context, r->err);
	if (rc == 0)
		rc = word(context, "cluster", &cluster_name, r->err);
	if (rc == 0)
		rc = word(context, "user", &user_name, r->err);
	if (rc == 0)
		rc = word(context, "namespace", &r->config->namespace, r->err);
	if (rc == 0 && !cluster_name)
		rc = yaml_err(context, r->err, ERR_INVALID, "names no cluster");
	if (rc == 0)
		rc = find(root, "clusters", "cluster", cluster_name, &cluster, r->err);
	if (rc == 0)
		rc = read_cluster(r, cluster);
	if (rc != 0 || !user_name)
		return rc;
	rc = find(root, "users", "user", user_name, &user, r->err);
	return rc != 0 ? rc : read_user(r, user);
}

int kube_config_load(const char *path, struct kube_config *ret, struct err *err)
{
	struct reading r = {.config = ret, .err = err};
	const char *slash = strrchr(path, '/');
	struct yaml_stream stream;
	struct buf text;
	int rc;

	config_init(ret);
	buf_init(&text, YAML_BYTES_MAX);
	r.folder = (struct slice){path, slash ? (size_t)(slash - path) + 1 : 0};
	rc = files_read(path, &text, err);
	if (rc == 0)
		rc = yaml_parse(
			&ret->arena, path, buf_as_slice(&text), YAML_NO_ALIASES, &stream, err);
	if (text.data)
		explicit_bzero(text.data, text.len);
	buf_release(&text);
	if (rc != 0)
		return rc;
	if (stream.count != 1)
		return err_set(err, ERR_INVALID, "%s: %zu documents, expected one kubeconfig", path,
			stream.count);
	return read_root(&r, stream.first->root);
}
