/* SPDX-License-Identifier: Apache-2.0 */
/* edge: writing who waits. */
#include "webhook/edge/pool/pool_waiting.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "webhook/core/pool/placement_say.h"

/* Of what a pod with many containers asks. */
#define ASKS_MAX 300

void pool_waiting_begin(struct buf *out, bool ordered)
{
	buf_fmt(out, "{\"ordered\":%s,\"pods\":[", ordered ? "true" : "false");
}

struct slice pool_waiting_asks(const struct demand *d, struct arena *a)
{
	struct slice ret = {0};
	struct buf words;

	buf_init(&words, 2 * ASKS_MAX);
	for (size_t i = 0; i < d->n_containers; i++) {
		const struct demand_container *c = &d->containers[i];

		if (c->amount == 0)
			continue;
		if (words.len > ASKS_MAX) {
			buf_str(&words, ", ...");
			break;
		}
		buf_str(&words, words.len ? ", " : "");
		say_amount(&words, c, c->amount);
	}
	if (words.failed)
		a->failed = true;
	else
		ret = arena_slice(a, buf_as_slice(&words));
	buf_release(&words);
	return ret;
}

struct slice pool_waiting_why(struct slice why)
{
	size_t end = 0, n;

	if (why.len <= POOL_WAITING_WHY)
		return why;
	while ((n = utf8_len(why.at + end, why.len - end)) > 0 && end + n <= POOL_WAITING_WHY)
		end += n;
	return (struct slice){why.at, end};
}

void pool_waiting_add(struct buf *out, const struct pool_waiting *pod)
{
	char since[CLOCK_TEXT_SIZE];

	buf_str(out, out->len && out->data[out->len - 1] == '}' ? ",{\"namespace\":"
								: "{\"namespace\":");
	buf_json_str(out, pod->namespace);
	buf_str(out, ",\"name\":");
	buf_json_str(out, pod->name);
	buf_str(out, ",\"gang\":");
	buf_json_str(out, pod->gang);
	buf_str(out, ",\"asks\":");
	buf_json_str(out, pod->asks);
	buf_fmt(out,
		",\"since\":\"%s\",\"place\":%zu,\"why\":", clock_text(pod->since_ms / 1000, since),
		pod->place);
	buf_json_str(out, pool_waiting_why(pod->why));
	buf_char(out, '}');
}

void pool_waiting_end(struct buf *out, size_t total, bool more)
{
	buf_fmt(out, "],\"total\":%zu,\"more\":%s}", total, more ? "true" : "false");
}
