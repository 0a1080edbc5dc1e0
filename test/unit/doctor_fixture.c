/* SPDX-License-Identifier: Apache-2.0 */
/* Facts for tests of the doctor. */
#include "test/unit/doctor_fixture.h"
#include "test/unit/test.h"

void doctor_fixture_init(struct doctor_fixture *x)
{
	struct err err = {0};

	memset(x, 0, sizeof(*x));
	doctor_facts_init(&x->f, "poolgate-system");
	x->f.now_ms = NOW_MS;
	x->f.api_major = 1;
	x->f.api_minor = 36;
	for (size_t i = 0; i < SHIPPED_COUNT; i++)
		assert_int_equal(shipped_read((enum shipped)i, &x->f.shipped[i], &err), 0);
	arena_init(&x->arena, 64 << 20);
	x->r.arena = &x->arena;
	x->r.group = "test";
	buf_init(&x->out, 1 << 20);
}

void doctor_fixture_release(struct doctor_fixture *x)
{
	assert_false(x->arena.failed);
	doctor_facts_release(&x->f);
	arena_release(&x->arena);
	buf_release(&x->out);
}

void doctor_fixture_put(struct sight *s, const char *text)
{
	char *quoted = fixture_quotes(text);
	struct err err = {0};

	sight_release(s);
	if (json_read_copy(&s->json, quoted, strlen(quoted), 100000, &s->text, &err) != 0)
		fail_msg("%s: %s", err.msg, text);
	s->text_len = strlen(quoted);
	s->state = SIGHT_THERE;
	s->what = "it";
	free(quoted);
}

const char *doctor_fixture_judge(struct doctor_fixture *x, doctor_judge *fn)
{
	x->r.n = 0;
	buf_clear(&x->out);
	fn(&x->f, &x->r);
	doctor_print(&x->r, false, &x->out);
	return x->out.data;
}

/* The configuration as shipped, with one piece of it changed. */
void doctor_fixture_hooks(struct doctor_fixture *x, size_t i, const char *from, const char *to)
{
	const struct sight *s = &x->f.shipped[SHIPPED_HOOKS];
	const struct json_node *doc = shipped_doc(s,
		i == HOOKS_MUTATING ? "MutatingWebhookConfiguration"
				    : "ValidatingWebhookConfiguration",
		NULL);
	struct slice raw = json_raw(&s->json, doc);
	char *text = strndup(raw.at, raw.len), *wanted = from ? fixture_quotes(from) : NULL,
	     *with = fixture_quotes(to ? to : "");
	char *at = from ? strstr(text, wanted) : NULL;
	struct buf b;

	buf_init(&b, 1 << 20);
	if (from && !at)
		fail_msg("%s is not in %s", wanted, text);
	buf_add(&b, text, at ? (size_t)(at - text) : raw.len);
	if (at) {
		buf_str(&b, with);
		buf_str(&b, at + strlen(wanted));
	}
	sight_release(&x->f.hooks[i]);
	assert_int_equal(json_read_copy(&x->f.hooks[i].json, b.data, b.len, 100000,
				 &x->f.hooks[i].text, NULL),
		0);
	x->f.hooks[i].text_len = b.len;
	x->f.hooks[i].state = SIGHT_THERE;
	x->f.hooks[i].what = i == HOOKS_MUTATING ? "Mutating" : "Validating";
	buf_release(&b);
	free(with);
	free(wanted);
	free(text);
}

void doctor_fixture_take(
	struct doctor_fixture *x, kube_each *each, struct doctor_list *list, const char *object)
{
	struct doctor_taking t = {&x->f, list};
	struct sight s = {0};

	doctor_fixture_put(&s, object);
	assert_true(each(&t, &s.json, json_root(&s.json)));
	sight_release(&s);
	list->sight.state = SIGHT_THERE;
}
