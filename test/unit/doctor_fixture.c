/* SPDX-License-Identifier: Apache-2.0 */
/* Facts for tests of the doctor. */
#include "test/unit/doctor_fixture.h"
#include "test/unit/test.h"

struct doctor_fixture dr;

int dr_begin(void **state __attribute__((unused)))
{
	struct err err = {0};

	memset(&dr, 0, sizeof(dr));
	doctor_facts_init(&dr.f, "poolgate-system");
	dr.f.now_ms = NOW_MS;
	dr.f.api_major = 1;
	dr.f.api_minor = 36;
	for (size_t i = 0; i < SHIPPED_COUNT; i++)
		assert_int_equal(shipped_read((enum shipped)i, &dr.f.shipped[i], &err), 0);
	arena_init(&dr.arena, 64 << 20);
	dr.r.arena = &dr.arena;
	dr.r.group = "test";
	buf_init(&dr.out, 1 << 20);
	return 0;
}

int dr_end(void **state __attribute__((unused)))
{
	assert_false(dr.arena.failed);
	doctor_facts_release(&dr.f);
	arena_release(&dr.arena);
	buf_release(&dr.out);
	return 0;
}

void dr_anew(void)
{
	(void)dr_end(NULL);
	(void)dr_begin(NULL);
}

void dr_put(struct sight *s, const char *text)
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

const char *dr_judge(doctor_judge *fn)
{
	dr.r.n = 0;
	buf_clear(&dr.out);
	fn(&dr.f, &dr.r);
	doctor_print(&dr.r, false, &dr.out);
	return dr.out.data;
}

/* The configuration as shipped, with one piece of it changed. */
void dr_hooks(size_t i, const char *from, const char *to)
{
	const struct sight *s = &dr.f.shipped[SHIPPED_HOOKS];
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
	sight_release(&dr.f.hooks[i]);
	assert_int_equal(json_read_copy(&dr.f.hooks[i].json, b.data, b.len, 100000,
				 &dr.f.hooks[i].text, NULL),
		0);
	dr.f.hooks[i].text_len = b.len;
	dr.f.hooks[i].state = SIGHT_THERE;
	dr.f.hooks[i].what = i == HOOKS_MUTATING ? "Mutating" : "Validating";
	buf_release(&b);
	free(with);
	free(wanted);
	free(text);
}

void dr_take(kube_each *each, struct doctor_list *list, const char *object)
{
	struct doctor_taking t = {&dr.f, list};
	struct sight s = {0};

	dr_put(&s, object);
	assert_true(each(&t, &s.json, json_root(&s.json)));
	sight_release(&s);
	list->sight.state = SIGHT_THERE;
}
