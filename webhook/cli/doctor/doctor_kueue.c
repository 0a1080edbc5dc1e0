/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges Kueue's settings where pods wait for us: what it lets go and is not ready in time it
 * takes back (law W11 of waiting). */
#include <string.h>

#include "base/yaml/yaml.h"
#include "webhook/cli/doctor/doctor_facts.h"

#define SETTINGS_KEY "controller_manager_config.yaml"
#define MEND "kubectl -n " DOCTOR_KUEUE " edit configmap " DOCTOR_KUEUE_SETTINGS

/* Who may not look cannot know that it is not there; its webhooks say that it is. */
static bool is_there(const struct doctor_facts *f)
{
	DOCTOR_EACH(struct doctor_other, &f->others, o)
	if (strstr(o->name, "kueue"))
		return true;
	return false;
}

/* In v1beta1 it has a switch of its own; later it is on where it stands. */
static bool is_on(const struct yaml_node *settings, const struct yaml_node *wait)
{
	const struct yaml_node *enable = yaml_get(wait, "enable");
	const struct yaml_node *version = yaml_get(settings, "apiVersion");

	if (!yaml_is(wait, YAML_MAP))
		return false;
	return enable ? yaml_is(enable, YAML_SCALAR) && slice_is(enable->text, "true")
		      : !yaml_is_str(version, "config.kueue.x-k8s.io/v1beta1");
}

static void judge_wait(const struct yaml_node *settings, struct doctor_report *r)
{
	const struct yaml_node *wait = yaml_get(settings, "waitForPodsReady");
	const struct yaml_node *timeout = yaml_get(wait, "timeout");
	struct slice after = yaml_is(timeout, YAML_SCALAR) ? timeout->text : SLICE("5m");

	if (!is_on(settings, wait))
		doctor_ok(r, "it takes back nobody who waits for GPUs: waitForPodsReady is off");
	else
		doctor_wrong(r, MEND,
			"its waitForPodsReady takes back who is not ready within %.*s, as nobody "
			"is who "
			"waits for GPUs: take it out, or make its timeout longer than anybody "
			"waits",
			after.len < 20 ? (int)after.len : 20, after.at);
}

void doctor_kueue(const struct doctor_facts *f, struct doctor_report *r)
{
	const struct sight *s = &f->kueue;
	struct yaml_stream stream;
	struct arena a;
	struct slice text;
	struct err err = {0};

	if (s->state == SIGHT_NOT_ASKED || s->state == SIGHT_MISSING ||
		(s->state != SIGHT_THERE && !is_there(f)) || !sight_there(s, r))
		return;
	arena_init(&a, YAML_ARENA_MAX);
	text = json_str(
		&s->json, json_path(&s->json, json_root(&s->json), "data", SETTINGS_KEY, NULL), &a);
	if (!text.at)
		doctor_unchecked(r, "%s has no " SETTINGS_KEY, s->what);
	else if (yaml_parse(&a, SETTINGS_KEY, text, YAML_ANY, &stream, &err) < 0)
		doctor_unchecked(r, "cannot read %s: %s", s->what, err.msg);
	else
		judge_wait(stream.first ? stream.first->root : NULL, r);
	arena_release(&a);
}
