/* SPDX-License-Identifier: Apache-2.0 */
/* core: manifests, indexes and configurations of images. Whoever can push to a registry has written
 * them. */
#include "webhook/core/image/image_doc.h"

#include "base/text.h"

static const char *const arch_names[IMAGE_ARCHES] = {"amd64", "arm64", "arm", "386", "ppc64le",
	"s390x", "riscv64", "loong64", "mips64le", "mips64", "ppc64", "other"};

const char *image_arch_name(unsigned arch)
{
	return arch_names[arch];
}

static unsigned image_arch(struct slice name)
{
	unsigned i = 0;

	while (i < IMAGE_ARCH_OTHER && !slice_is(name, arch_names[i]))
		i++;
	return i;
}

static int bad(struct err *err, const char *what)
{
	return err_set(err, ERR_REFUSED, "%s", what);
}

/* Container runtimes are written in Go, whose reader takes a key in any case, and the last one of
 * several: a key that we would not see is none. */
static bool spelled_otherwise(const struct json *j, const struct json_node *v, struct arena *a)
{
	static const char *const keys[] = {"mediaType", "manifests", "layers", "config", "digest",
		"size", "platform", "os", "architecture", "Entrypoint", "Cmd"};

	JSON_MEMBERS(j, v, key)
	{
		struct slice name = json_str(j, key, a);

		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			if (text_ieq(name, slice_of(keys[i])) && !slice_is(name, keys[i]))
				return true;
	}
	return false;
}

static struct slice text(const struct json *j, const struct json_node *obj, const char *key)
{
	const struct json_node *v = json_get(j, obj, slice_of(key));

	return v && !v->escaped ? json_inside(j, v) : (struct slice){0};
}

static bool read_part(const struct json *j, const struct json_node *v, struct image_part *ret)
{
	int64_t size;

	*ret = (struct image_part){.digest = text(j, v, "digest")};
	if (!image_is_digest(ret->digest) || !json_int(j, json_get(j, v, SLICE("size")), &size) ||
		size < 0)
		return false;
	ret->size = (uint64_t)size;
	return true;
}

static bool is_index_type(struct slice type)
{
	return slice_is(type, "application/vnd.oci.image.index.v1+json") ||
	       slice_is(type, "application/vnd.docker.distribution.manifest.list.v2+json");
}

static bool is_manifest_type(struct slice type)
{
	return slice_is(type, "application/vnd.oci.image.manifest.v1+json") ||
	       slice_is(type, "application/vnd.docker.distribution.manifest.v2+json");
}

/* Would nobody read it as another's name? Runtimes take capitals for small letters, no system for
 * their own, and these (containerd/platforms, Normalize). */
static bool is_plain(struct slice name)
{
	static const char *const others[] = {"i386", "aarch64", "armhf", "armel"};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (slice_is(name, others[i]))
			return false;
	for (size_t i = 0; i < name.len; i++)
		if (!text_is_lower_alnum(name.at[i]))
			return false;
	return name.len > 0;
}

static int read_index(const struct json *j, const struct json_node *root, unsigned want,
	struct arena *a, struct image_manifest *ret, struct err *err)
{
	const struct json_node *list = json_get(j, root, SLICE("manifests"));

	ret->parts =
		arena_array(a, json_is(list, JSON_ARRAY) ? list->count : 0, sizeof(*ret->parts));
	if (!ret->parts)
		return err_set(err, ERR_NOMEM, "out of memory");
	JSON_EACH(j, list, v)
	{
		const struct json_node *platform = json_get(j, v, SLICE("platform"));
		struct image_part *part = &ret->parts[ret->n_parts];
		struct slice os = text(j, platform, "os");

		if (spelled_otherwise(j, v, a) || spelled_otherwise(j, platform, a))
			return bad(err, "its index cannot be read");
		/* what was noted when they were built; runtimes, too, tell it by the platform alone
		 */
		if (slice_is(os, "unknown"))
			continue;
		if (!read_part(j, v, part) || !json_is(platform, JSON_OBJECT))
			return bad(
				err, "its index names a manifest without digest, size or platform");
		part->os = os;
		part->arch = text(j, platform, "architecture");
		if (!is_plain(os) || !is_plain(part->arch))
			return bad(err, "its index names a platform as others do not");
		if (!slice_is(os, "linux") || !(want & 1u << image_arch(part->arch)))
			continue;
		if (!is_manifest_type(text(j, v, "mediaType")))
			return bad(err, "its index names something else than an image's manifest");
		ret->n_parts++;
	}
	return ret->n_parts > 0 ? 0
				: bad(err, "its index has no image for Linux on the nodes that the "
					   "pod may run on");
}

int image_manifest_read(const struct json *j, struct slice media_type, unsigned want_arches,
	struct arena *a, struct image_manifest *ret, struct err *err)
{
	const struct json_node *root = json_root(j), *config;
	const struct json_node *own = json_get(j, root, SLICE("mediaType"));
	struct slice type;

	*ret = (struct image_manifest){.index = is_index_type(media_type)};
	if (!ret->index && !is_manifest_type(media_type))
		return bad(err, "it answers with a content type that is no image's");
	if (spelled_otherwise(j, root, a))
		return bad(err, "its manifest cannot be read");
	if (own && !json_is_str(j, own, media_type))
		return bad(
			err, "its manifest calls itself something else than its content type does");
	if (!json_get(j, root, SLICE("manifests")) == ret->index ||
		!json_get(j, root, SLICE("layers")) != ret->index)
		return bad(err, "its manifest is not what its content type says");
	if (ret->index)
		return read_index(j, root, want_arches, a, ret, err);
	config = json_get(j, root, SLICE("config"));
	if (spelled_otherwise(j, config, a))
		return bad(err, "its manifest cannot be read");
	type = text(j, config, "mediaType");
	if (!slice_is(type, "application/vnd.oci.image.config.v1+json") &&
		!slice_is(type, "application/vnd.docker.container.image.v1+json"))
		return bad(err, "it is no container image");
	return read_part(j, config, &ret->config)
		       ? 0
		       : bad(err, "its manifest names its configuration without digest or size");
}

static int read_words(const struct json *j, const struct json_node *config, const char *key,
	struct arena *a, struct slice **ret, size_t *ret_n, struct err *err)
{
	const struct json_node *v = json_get(j, config, slice_of(key));

	*ret_n = 0;
	*ret = NULL;
	if (json_absent(v))
		return 0;
	if (!json_is(v, JSON_ARRAY))
		return bad(
			err, "its configuration has an ENTRYPOINT or CMD that is no list of words");
	*ret = arena_array(a, v->count, sizeof(**ret));
	if (!*ret)
		return err_set(err, ERR_NOMEM, "out of memory");
	JSON_EACH(j, v, word)
	{
		if (!json_is(word, JSON_STRING))
			return bad(err, "its configuration has an ENTRYPOINT or CMD that is no "
					"list of words");
		(*ret)[(*ret_n)++] = json_str(j, word, a);
	}
	return a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

static int check_words(const struct image_start *s, struct err *err)
{
	size_t bytes = 0;

	for (size_t i = 0; i < s->n_entrypoint + s->n_cmd; i++)
		bytes +=
			(i < s->n_entrypoint ? s->entrypoint[i] : s->cmd[i - s->n_entrypoint]).len +
			1;
	return s->n_entrypoint + s->n_cmd > IMAGE_WORDS_MAX || bytes > IMAGE_WORDS_BYTES_MAX
		       ? bad(err, "its ENTRYPOINT and CMD are too long")
		       : 0;
}

int image_config_read(
	const struct json *j, struct arena *a, struct image_config *ret, struct err *err)
{
	const struct json_node *root = json_root(j), *config = json_get(j, root, SLICE("config"));
	struct image_start *s = &ret->start;

	*ret = (struct image_config){
		.os = text(j, root, "os"), .arch = text(j, root, "architecture")};
	if (!json_is(root, JSON_OBJECT) ||
		(!json_absent(config) && !json_is(config, JSON_OBJECT)) ||
		spelled_otherwise(j, root, a) || spelled_otherwise(j, config, a))
		return bad(err, "its configuration cannot be read");
	if (!slice_is(ret->os, "linux"))
		return bad(err, "it is no image for Linux");
	if (read_words(j, config, "Entrypoint", a, &s->entrypoint, &s->n_entrypoint, err) < 0 ||
		read_words(j, config, "Cmd", a, &s->cmd, &s->n_cmd, err) < 0)
		return err->code;
	/* so do container runtimes (containerd, WithProcessArgs) */
	if (s->n_entrypoint == 1 && s->entrypoint[0].len == 0)
		s->n_entrypoint = 0;
	return check_words(s, err);
}

int image_start_copy(struct arena *a, const struct image_start *from, struct image_start *ret)
{
	*ret = *from;
	ret->digest = arena_slice(a, from->digest);
	ret->entrypoint = arena_slices(a, from->entrypoint, from->n_entrypoint);
	ret->cmd = arena_slices(a, from->cmd, from->n_cmd);
	return a->failed ? ERR_NOMEM : 0;
}

static bool same_words(const struct slice *a, size_t n, const struct slice *b, size_t m)
{
	if (n != m)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!slice_eq(a[i], b[i]))
			return false;
	return true;
}

bool image_start_same(const struct image_start *a, const struct image_start *b)
{
	return same_words(a->entrypoint, a->n_entrypoint, b->entrypoint, b->n_entrypoint) &&
	       same_words(a->cmd, a->n_cmd, b->cmd, b->n_cmd);
}
