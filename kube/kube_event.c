/* SPDX-License-Identifier: Apache-2.0 */
/* kube: Events about objects of the Kubernetes API. */
#include "base/clock.h"
#include "base/text.h"
#include "kube/kube.h"

/* What the API server accepts. */
#define NOTE_MAX 1024
#define EVENT_MAX 8192

static void member(struct buf *b, const char *key, struct slice value)
{
	buf_fmt(b, ",\"%s\":", key);
	buf_json_str(b, value);
}

/* Objects without a namespace have their events in "default". */
static void write_event(
	struct buf *b, const struct kube_event *e, struct slice namespace, struct slice note)
{
	struct slice component = slice_of(e->component ? e->component : "poolgate");
	char now[CLOCK_TEXT_SIZE];

	(void)clock_text(clock_wall_s(), now);
	buf_str(b, "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{\"generateName\":\"");
	buf_json_esc(b, e->name);
	buf_str(b, ".\"");
	member(b, "namespace", namespace);
	buf_str(b, "},\"involvedObject\":{\"kind\":");
	buf_json_str(b, slice_of(e->kind));
	member(b, "apiVersion", slice_of(e->api_version));
	if (e->namespace.len)
		member(b, "namespace", e->namespace);
	member(b, "name", e->name);
	if (e->uid.len)
		member(b, "uid", e->uid);
	buf_str(b, "},\"source\":{\"component\":");
	buf_json_str(b, component);
	buf_str(b, "},\"count\":1");
	member(b, "type", slice_of(e->type));
	member(b, "reason", slice_of(e->reason));
	member(b, "message", note);
	member(b, "reportingComponent", component);
	member(b, "firstTimestamp", slice_of(now));
	member(b, "lastTimestamp", slice_of(now));
	buf_char(b, '}');
}

int kube_tell(struct kube *k, const struct kube_event *event, struct err *err)
{
	struct slice namespace = event->namespace.len ? event->namespace : SLICE("default");
	struct slice note = slice_of(event->note);
	struct kube_call call = {.method = "POST"};
	struct buf path, body, name;
	int rc;

	note.len = text_utf8_cut(note, NOTE_MAX);
	buf_init(&name, 256);
	buf_init(&path, 1024);
	buf_init(&body, EVENT_MAX);
	buf_slice(&name, namespace);
	kube_path(&path, "/api/v1", name.data, "events", NULL, NULL);
	write_event(&body, event, namespace, note);
	call.path = path.data;
	call.body = buf_as_slice(&body);
	if (path.failed || body.failed || name.failed)
		rc = err_set(err, ERR_NOMEM, "no room for an event");
	else
		rc = kube_do(k, &call, NULL, err);
	buf_release(&name);
	buf_release(&path);
	buf_release(&body);
	return rc;
}
