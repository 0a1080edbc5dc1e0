/* SPDX-License-Identifier: Apache-2.0 */
/* core: an image's name, as the grammar of the distribution project has it. */
#include "webhook/core/image/image.h"

#include "base/text.h"

#define REPOSITORY_MAX 255
#define TAG_MAX 128
#define DEFAULT_HOST SLICE("docker.io")

bool image_is_digest(struct slice s)
{
	if (s.len != IMAGE_DIGEST_LEN || !slice_starts(s, SLICE("sha256:")))
		return false;
	for (size_t i = 7; i < s.len; i++)
		if (!(text_is_digit(s.at[i]) || (s.at[i] >= 'a' && s.at[i] <= 'f')))
			return false;
	return true;
}

/* The first part names a host when it can be nothing else. */
static bool is_host(struct slice first)
{
	return memchr(first.at, '.', first.len) || memchr(first.at, ':', first.len) ||
	       slice_is(first, "localhost");
}

/* A name or an address, and a port: nothing that could be read in two ways. */
static bool host_is_good(struct slice host)
{
	const char *colon = memchr(host.at, ':', host.len);
	size_t name = colon ? (size_t)(colon - host.at) : host.len;

	if (name == 0 || name > 253 || !text_is_lower_alnum(host.at[0]) ||
		!text_is_lower_alnum(host.at[name - 1]) ||
		(colon && (host.len - name < 2 || host.len - name > 6)))
		return false;
	for (size_t i = 0; i < name; i++)
		if (!text_is_lower_alnum(host.at[i]) && host.at[i] != '-' && host.at[i] != '.')
			return false;
	for (size_t i = name + 1; i < host.len; i++)
		if (!text_is_digit(host.at[i]))
			return false;
	return true;
}

/* Parts of small letters and digits with one '.', one or two '_', or any number of '-' between
 * them, '/' between the parts. */
static bool repository_is_good(struct slice s)
{
	size_t i = 0;

	if (s.len == 0 || s.len > REPOSITORY_MAX)
		return false;
	while (i < s.len) {
		size_t from = i;

		while (i < s.len && text_is_lower_alnum(s.at[i]))
			i++;
		if (i == from || i == s.len)
			return i > from;
		from = i;
		while (i < s.len && s.at[i] == s.at[from] && !text_is_lower_alnum(s.at[i]))
			i++;
		if (s.at[from] != '-' && (s.at[from] != '_' || i - from > 2) &&
			((s.at[from] != '.' && s.at[from] != '/') || i - from > 1))
			return false;
	}
	return false;
}

static bool tag_is_good(struct slice s)
{
	if (s.len == 0 || s.len > TAG_MAX || s.at[0] == '.' || s.at[0] == '-')
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!text_is_alnum(s.at[i]) && s.at[i] != '_' && s.at[i] != '.' && s.at[i] != '-')
			return false;
	return true;
}

/* Cut what stands behind the last `sign` off; absent when there is none in the last part. */
static struct slice cut(struct slice *io, char sign)
{
	for (size_t i = io->len; i-- > 0 && io->at[i] != '/';)
		if (io->at[i] == sign) {
			struct slice behind = {io->at + i + 1, io->len - i - 1};

			io->len = i;
			return behind;
		}
	return (struct slice){0};
}

int image_name_read(struct slice text, struct arena *a, struct image_name *ret, struct err *err)
{
	struct image_name n = {.host = DEFAULT_HOST};
	const char *slash;
	struct slice rest = text, first;

	n.digest = cut(&rest, '@');
	slash = rest.len > 0 ? memchr(rest.at, '/', rest.len) : NULL;
	first = (struct slice){rest.at, slash ? (size_t)(slash - rest.at) : 0};
	if (slash && is_host(first)) {
		n.host = slice_is(first, "index.docker.io") ? DEFAULT_HOST : first;
		rest = (struct slice){slash + 1, rest.len - first.len - 1};
	}
	n.tag = cut(&rest, ':');
	if ((n.digest.at && !image_is_digest(n.digest)) || (n.tag.at && !tag_is_good(n.tag)) ||
		!host_is_good(n.host) || !repository_is_good(rest))
		return err_set(err, ERR_INVALID, "the image's name cannot be read");
	if (n.digest.at)
		n.tag = (struct slice){0};
	else if (!n.tag.at)
		n.tag = SLICE("latest");
	n.repository = rest;
	if (slice_eq(n.host, DEFAULT_HOST) && !memchr(rest.at, '/', rest.len)) {
		n.repository = slice_of(arena_fmt(a, "library/%.*s", (int)rest.len, rest.at));
		if (!n.repository.at)
			return err_set(err, ERR_NOMEM, "out of memory");
	}
	if (n.repository.len > REPOSITORY_MAX)
		return err_set(err, ERR_INVALID, "the image's name is too long");
	*ret = n;
	return 0;
}

const struct registry *image_registry(
	const struct registry *all, size_t n, const struct image_name *name)
{
	for (size_t i = 0; i < n; i++)
		if (slice_eq(all[i].host, name->host))
			return &all[i];
	return NULL;
}
