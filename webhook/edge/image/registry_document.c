/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the documents that a registry has of an image: its index, manifests and configurations,
 * down to what it starts. */
#include "net/mac.h"
#include "webhook/core/image/image_doc.h"
#include "webhook/edge/image/registry_impl.h"

#define NODES_MAX 10000

/* One document below the repository. */
struct wanted {
	const char *kind, *what; /* "manifests"; what a redirect would be for */
	struct slice which;
	const struct image_part *part; /* its digest, if it is known, and its size */
	const char *accept;
	struct hosts elsewhere; /* that the operator named for redirects */
};

static int get(struct asking *s, const struct wanted *w, struct http_response *ret)
{
	struct carries with = {.accept = w->accept, .token = true, .max = REGISTRY_DOCUMENT_MAX};
	const struct image_name *n = s->q->name;
	struct https_url url = {.host = s->api};
	int rc;

	url.rest = slice_of(arena_fmt(&s->a, "/v2/%.*s/%s/%.*s", (int)n->repository.len,
		n->repository.at, w->kind, (int)w->which.len, w->which.at));
	if (!url.rest.at)
		return registry_no_memory(s);
	with.basic = s->sends_basic;
	rc = registry_fetch(s, &url, &with, ret);
	if (rc != 0 || ret->status != 401 || s->token || s->sends_basic)
		return rc;
	rc = registry_authorize(s, ret);
	registry_release(ret);
	*ret = (struct http_response){0};
	with.basic = s->sends_basic;
	return rc == 0 ? registry_fetch(s, &url, &with, ret) : rc;
}

/* Wherever it lies. */
static int fetch(struct asking *s, const struct wanted *w, struct http_response *ret)
{
	const struct redirect to = {.what = w->what,
		.bound = w->part->digest.at != NULL,
		.with = {.accept = w->accept, .max = REGISTRY_DOCUMENT_MAX, .named = w->elsewhere}};
	int rc = get(s, w, ret);

	if (rc == 0)
		rc = registry_follow(s, &to, ret);
	return rc == 0 && ret->status != 200 ? registry_bad_status(s, ret->status) : rc;
}

static void digest_text(const unsigned char *digest, char ret[static IMAGE_DIGEST_LEN + 1])
{
	static const char hex[] = "0123456789abcdef";
	char *at = ret + 7;

	memcpy(ret, "sha256:", 7);
	for (size_t i = 0; i < MAC_BYTES; i++) {
		*at++ = hex[digest[i] >> 4];
		*at++ = hex[digest[i] & 15];
	}
	*at = '\0';
}

/* The bytes are those that the digest names (absent: whatever came), and of that size. They move
 * into the arena and are read there. */
static int read_document(struct asking *s, struct http_response *res, const struct image_part *want,
	struct arena *a, struct json *j, struct slice *ret_digest)
{
	unsigned char digest[MAC_BYTES];
	char text[IMAGE_DIGEST_LEN + 1];
	size_t len = res->body.len;
	char *copy;
	int rc;

	if (mac_digest(buf_as_slice(&res->body), digest, s->err) != 0)
		return registry_no_memory(s);
	digest_text(digest, text);
	*ret_digest = arena_slice(a, slice_of(text));
	copy = arena_alloc(a, len + JSON_PAD);
	if (!copy || a->failed)
		return registry_no_memory(s);
	if (want->digest.at && !slice_is(want->digest, text))
		return registry_say(s, "it answered with other bytes than the digest names");
	if (want->size > 0 && want->size != len)
		return registry_say(s, "it answered with another number of bytes than it said");
	if (len > 0)
		memcpy(copy, res->body.data, len);
	buf_release(&res->body);
	rc = json_read(j, copy, len, NODES_MAX, NULL);
	if (rc == ERR_NOMEM)
		return registry_no_memory(s);
	return rc == 0 ? 0 : registry_say(s, "it answered with what cannot be read as JSON");
}

/* What a document says of itself as a sentence about its registry. */
static int said(struct asking *s, int rc)
{
	struct err why = *s->err;

	return rc == ERR_REFUSED ? registry_say(s, why.msg) : rc;
}

/* A manifest or an index. What a tag stands for only the registry can say, and whom the operator
 * named for that; what a digest names may come from anywhere. */
static int get_manifest(struct asking *s, const struct image_part *want, struct slice which,
	struct arena *a, struct image_manifest *ret, struct slice *ret_digest)
{
	const struct registry *r = s->q->registry;
	const struct wanted w = {.kind = "manifests",
		.what = "a manifest",
		.which = which,
		.part = want,
		.accept = "Accept: " IMAGE_ACCEPT,
		.elsewhere = {r->manifests, r->n_manifests}};
	struct http_response res = {0};
	struct slice head, named, type;
	struct json j = {0};
	int rc = fetch(s, &w, &res);

	if (rc == 0)
		rc = read_document(s, &res, want, a, &j, ret_digest);
	head = buf_as_slice(&res.head);
	named = http_head_value(head, "Docker-Content-Digest", 0);
	type = http_media_type(http_head_value(head, "Content-Type", 0));
	if (rc == 0 && named.at && !slice_eq(named, *ret_digest))
		rc = registry_say(s, "it answered with other bytes than its digest names");
	if (rc == 0)
		rc = said(s, image_manifest_read(&j, type, s->q->arches, a, ret, s->err));
	json_release(&j);
	registry_release(&res);
	return rc;
}

static int get_config(
	struct asking *s, const struct image_part *want, struct arena *a, struct image_config *ret)
{
	const struct registry *r = s->q->registry;
	const struct wanted w = {.kind = "blobs",
		.what = "a blob",
		.which = want->digest,
		.part = want,
		.elsewhere = {r->storage, r->n_storage}};
	struct http_response res = {0};
	struct json j = {0};
	struct slice digest;
	int rc;

	if (want->size > REGISTRY_DOCUMENT_MAX)
		return registry_say(s, "its configuration is too long");
	rc = fetch(s, &w, &res);
	if (rc == 0)
		rc = read_document(s, &res, want, a, &j, &digest);
	if (rc == 0)
		rc = said(s, image_config_read(&j, a, ret, s->err));
	json_release(&j);
	registry_release(&res);
	return rc;
}

/* One image of an index: it must be what the index says. */
static int get_platform(struct asking *s, const struct image_part *part, struct image_start *ret)
{
	struct image_manifest m = {0};
	struct image_config c = {0};
	struct slice digest;
	int rc = get_manifest(s, part, part->digest, &s->doc, &m, &digest);

	if (rc == 0 && m.index)
		rc = registry_say(s, "its index names another index");
	if (rc == 0) {
		m.config.digest = arena_slice(&s->a, m.config.digest);
		arena_reset(&s->doc);
		rc = s->a.failed ? registry_no_memory(s) : get_config(s, &m.config, &s->doc, &c);
	}
	if (rc == 0 && !slice_eq(c.arch, part->arch))
		rc = registry_say(
			s, "its index says another platform than the image's configuration");
	*ret = c.start;
	return rc;
}

static int get_all(struct asking *s, const struct image_manifest *index, struct image_start *ret)
{
	struct image_start other;
	int rc;

	if (index->n_parts > REGISTRY_PLATFORMS_MAX)
		return registry_say(s,
			"its index has images for too many of the platforms that the pod may run "
			"on; say which by the pod's node selector kubernetes.io/arch");
	rc = get_platform(s, &index->parts[0], ret);
	if (rc == 0 && image_start_copy(&s->a, ret, ret) != 0)
		return registry_no_memory(s);
	for (size_t i = 1; rc == 0 && i < index->n_parts; i++) {
		arena_reset(&s->doc);
		rc = get_platform(s, &index->parts[i], &other);
		if (rc == 0 && !image_start_same(ret, &other))
			rc = registry_say(s,
				"the image starts something else on each of the platforms that the "
				"pod may run on; say which by the pod's node selector "
				"kubernetes.io/arch");
	}
	return rc;
}

int registry_look(struct asking *s, struct image_start *ret)
{
	const struct image_name *n = s->q->name;
	struct image_part want = {.digest = n->digest};
	struct slice which = n->digest.at ? n->digest : n->tag, digest = {0};
	struct image_manifest m = {0};
	struct image_config c = {0};
	int rc = get_manifest(s, &want, which, &s->a, &m, &digest);

	if (rc == 0)
		rc = m.index ? get_all(s, &m, &c.start) : get_config(s, &m.config, &s->doc, &c);
	*ret = c.start;
	ret->digest = digest;
	return rc;
}
