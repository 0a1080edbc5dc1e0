/* SPDX-License-Identifier: Apache-2.0 */
/* core: hold a container's command against its plan, and what it sees of its node's GPUs. */
#include "base/text.h"
#include "webhook/core/inject/inject.h"
#include "webhook/core/inject/wrap.h"
#include "webhook/core/inject/wrap_own.h"
#include "webhook/core/validate/validate_check.h"

/* Where the words stand in the array one after the other, with at least one word behind them; NULL:
 * nowhere. */
static const struct json_node *find_run(
	const struct json *j, const struct json_node *array, const struct slice *words, size_t n)
{
	size_t count = json_is(array, JSON_ARRAY) ? array->count : 0, start = 0;

	JSON_EACH(j, array, first)
	{
		const struct json_node *at = first;
		size_t i = 0;

		if (count - start++ <= n)
			return NULL;
		while (i < n && json_is_str(j, at, words[i])) {
			at = json_next(j, array, at);
			i++;
		}
		if (i == n)
			return first;
	}
	return NULL;
}

/* May this byte belong to a program's name? */
static bool in_name(char c)
{
	return text_is_alnum(c) || c == '_' || c == '-' || c == '.' || (unsigned char)c >= 0x80;
}

/* Does the word hold this program's name: alone, at a path's end, or anywhere in a script? */
static bool names(struct slice word, struct slice program)
{
	for (size_t i = 0; program.len > 0 && i + program.len <= word.len; i++) {
		size_t end = i + program.len;

		if (memcmp(word.at + i, program.at, program.len) == 0 &&
			(i == 0 || !in_name(word.at[i - 1])) &&
			(end == word.len || !in_name(word.at[end])))
			return true;
	}
	return false;
}

static bool names_launcher(const struct checking *c, struct slice word)
{
	for (size_t k = 0; k < c->config->n_profiles; k++)
		if (c->config->profiles[k].kind == PROFILE_WRAP &&
			names(word, c->config->profiles[k].basename))
			return true;
	return false;
}

/* The rule for what may stand in front of our words, which begin with run: anything (another hook
 * may have wrapped them once more), but no word that names a launcher; it would be that one which
 * starts, with figures of its own. */
static bool launcher_in_front(
	const struct checking *c, const struct pod_container *pc, const struct json_node *run)
{
	const struct json *j = c->pod->j;
	const struct json_node *parts[] = {
		json_get(j, pc->node, SLICE("command")), json_get(j, pc->node, SLICE("args"))};
	bool in_front = true, ret = false;

	for (size_t i = 0; i < 2; i++)
		JSON_EACH(j, parts[i], word)
		{
			in_front = in_front && word != run;
			ret = ret || (in_front && names_launcher(c, json_str(j, word, c->a)));
		}
	return ret;
}

static int command_mismatch(struct checking *c, const struct pod_container *pc, const char *what)
{
	MISMATCH(c, "%s", what);
	return check_in(c, pc, "command");
}

/* An error of wrap_own's becomes a mismatch. */
static int own_mismatch(struct checking *c, const struct pod_container *pc)
{
	char msg[sizeof(c->err->msg)];

	if (c->err->code == ERR_NOMEM)
		return c->err->code;
	memcpy(msg, c->err->msg, sizeof(msg));
	return command_mismatch(c, pc, msg);
}

static int check_words(struct checking *c, const struct pod_container *pc,
	const struct plan_container *plan, const struct launch *l)
{
	const struct json *j = c->pod->j;
	struct warnings ignored = {0};
	const struct json_node *run;
	struct wrap w;

	if (plan->command == COMMAND_OWN) {
		if (!wrap_is_own(j, pc->node, c->profile, c->a))
			return command_mismatch(c, pc,
				"the plan says that the command starts the launcher itself; it "
				"does not");
		return wrap_own_agrees(j, pc->node, l, c->a, &ignored, c->err) < 0
			       ? own_mismatch(c, pc)
			       : 0;
	}
	if (wrap_words(l, plan->command, c->a, &w, c->err) < 0)
		return c->err->code;
	run = find_run(j, json_get(j, pc->node, SLICE("command")), w.words, w.n_words);
	if (!run)
		run = find_run(j, json_get(j, pc->node, SLICE("args")), w.words, w.n_words);
	if (plan->argv != w.argv || !run)
		return command_mismatch(c, pc,
			"does not hold the launcher's words as the plan has them, in one piece and "
			"with a program behind them");
	if (launcher_in_front(c, pc, run))
		return command_mismatch(c, pc,
			"names a launcher in front of the one that the plan counts; nothing there "
			"may");
	return 0;
}

/* The plan counts no launcher words. A command that starts a launcher by itself must then agree
 * with the plan, or a plan in mode injection would be a way to claim one percent and start eight
 * GPUs. */
static int check_own_launchers(
	struct checking *c, const struct pod_container *pc, const struct launch *l)
{
	struct warnings ignored = {0};

	for (size_t i = 0; i < c->config->n_profiles; i++) {
		struct launch own = *l;

		own.profile = &c->config->profiles[i];
		if (own.profile->kind == PROFILE_WRAP &&
			wrap_is_own(c->pod->j, pc->node, own.profile, c->a) &&
			wrap_own_agrees(c->pod->j, pc->node, &own, c->a, &ignored, c->err) < 0)
			return own_mismatch(c, pc);
	}
	return 0;
}

int check_command(struct checking *c, const struct pod_container *pc,
	const struct plan_container *plan, const struct launch *l)
{
	bool wraps = plan->command != COMMAND_NONE;

	if (wraps != (c->profile->kind == PROFILE_WRAP && c->plan->full)) {
		MISMATCH(c,
			"the plan's command mode \"%s\" does not belong to mode %s of the launcher "
			"\"%.*s\"",
			command_mode_name(plan->command), c->plan->full ? "full" : "injection",
			(int)c->plan->profile.len, c->plan->profile.at);
		return err_in(c->err, PLAN_PATH);
	}
	return wraps ? check_words(c, pc, plan, l) : check_own_launchers(c, pc, l);
}

int check_void(
	struct checking *c, const struct pod_container *pc, const struct plan_container *plan)
{
	const struct json *j = c->pod->j;
	const struct json_node *var;

	if (!inject_hides(c->profile, plan))
		return 0;
	var = json_find(
		j, json_get(j, pc->node, SLICE("env")), "name", SLICE(VISIBLE_DEVICES), true, NULL);
	if (json_is_str(j, json_get(j, var, SLICE("value")), SLICE(VISIBLE_NONE)))
		return 0;
	MISMATCH(c, VISIBLE_DEVICES " must be " VISIBLE_NONE
				    ": the container asked for its node's GPUs and has the pool's");
	return check_in(c, pc, "env");
}
