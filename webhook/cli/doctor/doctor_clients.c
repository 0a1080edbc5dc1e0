/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges the clients: has the operator set their images? */
#include <string.h>

#include "webhook/cli/doctor/doctor_facts.h"
#include "webhook/core/launcher/launcher.h"

/* The first image in a text of YAML that nobody has set; absent when there is none. */
static struct slice unset_image(const char *text)
{
	static const char key[] = "image:";

	for (const char *at = text; (at = strstr(at, key)) != NULL;) {
		struct slice image;

		at += sizeof(key) - 1;
		at += strspn(at, " \"'");
		image = (struct slice){at, strcspn(at, " \t\r\n\"',}")};
		if (image_is_unset(image))
			return image;
	}
	return (struct slice){0};
}

/* Pods get the sidecar config's client by default, other launchers' when they choose them. */
static void judge_file(size_t which, const char *file, struct slice image, const struct sight *s,
	struct doctor_report *r)
{
	if (which == CLIENTS_LAUNCHERS)
		doctor_ok(r, "%s names %.*s: pods that choose this launcher are refused", file,
			(int)image.len, image.at);
	else
		doctor_wrong(r,
			"kubectl apply -k DIR, your own kustomization with a sidecar.yaml that "
			"names it "
			"(docs/operating.md, Install)",
			"%s in %s names %.*s, which stands for your client's image: pods are "
			"refused until you set it",
			file, s->what, (int)image.len, image.at);
}

void doctor_clients(const struct doctor_facts *f, struct doctor_report *r)
{
	if (f->clients[CLIENTS_SIDECAR].state == SIGHT_NOT_ASKED)
		doctor_unchecked(r,
			"the clients' images: the Deployment does not tell which ConfigMap "
			"names them");
	for (size_t i = 0; i < CLIENTS_COUNT; i++) {
		const struct sight *s = &f->clients[i];
		const struct json *j = &s->json;

		if (s->state == SIGHT_NOT_ASKED || !sight_there(s, r))
			continue;
		JSON_MEMBERS(j, json_get(j, json_root(j), SLICE("data")), file)
		{
			const char *text = sight_str(j, json_value(file), r->arena);
			struct slice image = text ? unset_image(text) : (struct slice){0};

			if (image.len)
				judge_file(i,
					doctor_fmt(r, "%.*s", (int)json_inside(j, file).len,
						json_inside(j, file).at),
					image, s, r);
		}
	}
	if (!doctor_group_troubled(r) && f->clients[CLIENTS_SIDECAR].state == SIGHT_THERE)
		doctor_ok(r, "%s names images that can be there", f->clients[CLIENTS_SIDECAR].what);
}
