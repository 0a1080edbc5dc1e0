/* SPDX-License-Identifier: Apache-2.0 */
/* kube: how the Kubernetes API's objects are named, and its clock: what is known of it without a
 * connection. */

#include "kube/kube_object.h"
#include <stdio.h>
#include <string.h>

#include "base/rfc3339.h"
#include "base/text.h"

static struct slice plain(const struct json *j, const struct json_node *meta, struct slice key)
{
	const struct json_node *v = json_get(j, meta, key);

	return v && !v->escaped ? json_inside(j, v) : (struct slice){0};
}

struct kube_meta kube_meta(const struct json *j, const struct json_node *object)
{
	const struct json_node *meta = json_get(j, object, SLICE("metadata"));

	return (struct kube_meta){.name = plain(j, meta, SLICE("name")),
		.namespace = plain(j, meta, SLICE("namespace")),
		.uid = plain(j, meta, SLICE("uid")),
		.version = plain(j, meta, SLICE("resourceVersion")),
		.deleting = !json_absent(json_get(j, meta, SLICE("deletionTimestamp")))};
}

uint64_t kube_version_number(struct slice version)
{
	uint64_t n = 0;

	return text_u64(version, UINT64_MAX, &n) ? n : 0;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
static bool read_date(struct slice value, int64_t *ret_s)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	struct slice day_name, day, month, year, time, zone, more;
	char text[RFC3339_SIZE];
	const char *at;
	char name[4] = "";
	int64_t ms;

	if (!text_word(&value, &day_name) || !text_word(&value, &day) ||
		!text_word(&value, &month) || !text_word(&value, &year) ||
		!text_word(&value, &time) || !text_word(&value, &zone) || text_word(&value, &more))
		return false;
	if (day.len != 2 || month.len != 3 || year.len != 4 || time.len != 8 ||
		!slice_is(zone, "GMT"))
		return false;
	memcpy(name, month.at, month.len);
	at = strstr(months, name);
	if (!at || (at - months) % 3 != 0)
		return false;
	(void)snprintf(text, sizeof(text), "%.4s-%02u-%.2sT%.8sZ", year.at,
		(unsigned)(at - months) / 3 + 1, day.at, time.at);
	if (!rfc3339_read(slice_of(text), &ms))
		return false;
	*ret_s = ms / 1000;
	return true;
}

bool kube_date(struct slice head, int64_t *ret_s)
{
	const struct slice name = SLICE("date:");

	while (head.len > 0) {
		const char *end = memchr(head.at, '\n', head.len);
		struct slice line = {head.at, end ? (size_t)(end - head.at) : head.len};

		head.at += line.len + (end ? 1 : 0);
		head.len -= line.len + (end ? 1 : 0);
		if (line.len > name.len && text_ieq((struct slice){line.at, name.len}, name))
			return read_date(
				(struct slice){line.at + name.len, line.len - name.len}, ret_s);
	}
	return false;
}

void kube_path(struct buf *out, const char *api, const char *namespace, const char *plural,
	const char *name, const char *sub)
{
	const char *const part[] = {namespace, plural, name, sub};
	bool full;

	buf_str(out, api);
	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		if (!part[i])
			continue;
		buf_str(out, i == 0 ? "/namespaces/" : "/");
		buf_percent(out, slice_of(part[i]));
	}
	if (!out->failed)
		return;
	/* The beginning of a path is another one: of a list. */
	full = out->full;
	buf_release(out);
	out->failed = true;
	out->full = full;
}
