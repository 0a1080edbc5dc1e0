/* SPDX-License-Identifier: Apache-2.0 */
/* core: credentials for registries. */
#include "webhook/core/image/pull_config.h"

#include "base/base64.h"
#include "base/buf.h"

#define LOGIN_BYTES_MAX 16384

static void drop_front(struct slice *s, const char *front)
{
	struct slice f = slice_of(front);

	if (slice_starts(*s, f)) {
		s->at += f.len;
		s->len -= f.len;
	}
}

/* Is the key for this registry? *ret_path: the repositories that it is for; "" for all. Docker's
 * own names for its registry are one. */
static bool is_for(struct slice key, const struct image_name *name, struct slice *ret_path)
{
	struct slice host;
	const char *slash;

	drop_front(&key, "https://");
	drop_front(&key, "http://");
	slash = key.len > 0 ? memchr(key.at, '/', key.len) : NULL;
	host = (struct slice){key.at, slash ? (size_t)(slash - key.at) : key.len};
	*ret_path = slash ? (struct slice){slash + 1, key.len - host.len - 1} : SLICE("");
	while (ret_path->len > 0 && ret_path->at[ret_path->len - 1] == '/')
		ret_path->len--;
	if (slice_is(*ret_path, "v1") || slice_is(*ret_path, "v2"))
		ret_path->len = 0;
	if (slice_is(host, "index.docker.io") || slice_is(host, "registry-1.docker.io"))
		host = SLICE("docker.io");
	return slice_eq(host, name->host);
}

static bool lies_under(struct slice repository, struct slice path)
{
	return path.len == 0 ||
	       (slice_starts(repository, path) &&
		       (repository.len == path.len || repository.at[path.len] == '/'));
}

/* "auth" is both in one; else each by itself. */
static bool read_login(const struct json *j, const struct json_node *entry, struct arena *a,
	struct pull_login *ret)
{
	struct slice auth = json_str(j, json_get(j, entry, SLICE("auth")), a), both;
	const char *colon;
	struct buf b;

	ret->user = arena_slice(a, json_str(j, json_get(j, entry, SLICE("username")), a));
	ret->password = arena_slice(a, json_str(j, json_get(j, entry, SLICE("password")), a));
	if (auth.len == 0)
		return ret->user.len > 0 && ret->password.len > 0;
	buf_init(&b, LOGIN_BYTES_MAX);
	both = base64_decode(auth, &b, NULL) == 0 ? arena_slice(a, buf_as_slice(&b))
						  : (struct slice){0};
	if (b.failed && !b.full)
		a->failed = true;
	if (b.data)
		explicit_bzero(b.data, b.cap);
	buf_release(&b);
	colon = both.len > 0 ? memchr(both.at, ':', both.len) : NULL;
	if (!colon)
		return false;
	ret->user = (struct slice){both.at, (size_t)(colon - both.at)};
	ret->password = (struct slice){colon + 1, both.len - ret->user.len - 1};
	return true;
}

static void put(struct pull_logins *io, const struct pull_login *login)
{
	size_t at = io->n < PULL_LOGINS_MAX ? io->n++ : PULL_LOGINS_MAX - 1;

	if (at == PULL_LOGINS_MAX - 1 && io->n == PULL_LOGINS_MAX && io->list[at].user.at &&
		io->list[at].path >= login->path)
		return;
	for (; at > 0 && io->list[at - 1].path < login->path; at--)
		io->list[at] = io->list[at - 1];
	io->list[at] = *login;
}

void pull_config_find(const struct json *j, const struct json_node *auths,
	const struct image_name *name, struct arena *a, struct pull_logins *io)
{
	JSON_MEMBERS(j, auths, key)
	{
		struct pull_login login = {0};
		struct slice path;

		if (!is_for(json_str(j, key, a), name, &path) ||
			!lies_under(name->repository, path) ||
			!read_login(j, json_value(key), a, &login))
			continue;
		login.path = path.len;
		put(io, &login);
	}
}
