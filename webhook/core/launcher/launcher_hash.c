/* SPDX-License-Identifier: Apache-2.0 */
/* core: the fingerprint of a launcher profile: every member, in order, with its length. */
#include "webhook/core/launcher/launcher_parts.h"

#include <stdint.h>

#include "base/buf.h"
#include "base/text.h"

/* Changes with the meaning of what is rendered, so that an old replica never takes our hash for its
 * own. */
#define FORM "poolgate-profile-2"
#define RENDERED_MAX (64u << 20)

static void put(struct buf *b, struct slice s)
{
	if (!s.at) {
		buf_char(b, '-');
		return;
	}
	buf_u64(b, s.len);
	buf_char(b, ':');
	buf_slice(b, s);
}

static void put_number(struct buf *b, uint64_t n)
{
	buf_u64(b, n);
	buf_char(b, ';');
}

static void put_all(struct buf *b, const struct slice *words, size_t n)
{
	put_number(b, n);
	for (size_t i = 0; i < n; i++)
		put(b, words[i]);
}

static void put_argv(struct buf *b, const struct profile *p)
{
	put_number(b, p->n_argv);
	for (size_t i = 0; i < p->n_argv; i++) {
		put_number(b, (uint64_t)p->argv[i].when);
		put_all(b, p->argv[i].word, p->argv[i].n);
	}
	put(b, p->separator);
	put(b, p->basename);
	put_all(b, p->options.amount, p->options.n_amount);
	put_all(b, p->options.fraction, p->options.n_fraction);
	put_all(b, p->options.memory_mb, p->options.n_memory_mb);
	put(b, p->shell);
}

static void put_env(struct buf *b, const struct profile *p)
{
	put_number(b, p->n_env);
	for (size_t i = 0; i < p->n_env; i++) {
		const struct profile_env *e = &p->env[i];

		put(b, e->name);
		put(b, e->value);
		put_number(b, e->prepend);
		put(b, e->separator);
		put_number(b, (uint64_t)e->when);
		put(b, e->secret);
		put(b, e->secret_key);
		if (e->field.at)
			put(b, e->field);
	}
}

static void put_init(struct buf *b, const struct profile_init *i)
{
	const struct slice all[] = {i->name, i->json, i->limit_cpu, i->limit_memory, i->request_cpu,
		i->request_memory, i->other_limits, i->other_requests};

	put_all(b, all, sizeof(all) / sizeof(all[0]));
	if (i->resources.at)
		put(b, i->resources);
}

static void put_clients(struct buf *b, const struct profile *p)
{
	put_number(b, p->by_client);
	put_number(b, p->n_clients);
	for (size_t i = 0; i < p->n_clients; i++) {
		const struct profile_client *c = &p->clients[i];

		put(b, c->os);
		put(b, c->version);
		put_number(b, c->n_values);
		for (size_t k = 0; k < c->n_values; k++) {
			put(b, c->values[k].name);
			put(b, c->values[k].value);
		}
		put_number(b, c->n_inits);
		for (size_t k = 0; k < c->n_inits; k++)
			put_init(b, &c->inits[k]);
	}
}

static void put_parts(struct buf *b, const struct profile *p)
{
	put_number(b, p->n_volumes);
	for (size_t i = 0; i < p->n_volumes; i++)
		put(b, p->volumes[i].json);
	put_number(b, p->n_mounts);
	for (size_t i = 0; i < p->n_mounts; i++)
		put(b, p->mounts[i].json);
	put_all(b, p->secrets, p->n_secrets);
}

int profile_seal(struct profile *p, struct err *err)
{
	struct buf b;

	buf_init(&b, RENDERED_MAX);
	buf_str(&b, FORM);
	put(&b, p->name);
	put_number(&b, (uint64_t)p->kind);
	put_argv(&b, p);
	put_env(&b, p);
	put_clients(&b, p);
	put_parts(&b, p);
	put_number(&b, (uint64_t)p->can_fraction);
	put_number(&b, (uint64_t)p->can_memory);
	put_number(&b, p->max_amount);
	put_number(&b, p->servers_placed);
	put_number(&b, p->whole_servers);
	if (p->gate.port) {
		put_number(&b, p->gate.port);
		put(&b, p->gate.ca);
		if (p->gate.pull_secret.at)
			put(&b, p->gate.pull_secret);
	}
	if (b.failed) {
		buf_release(&b);
		return err_set(err, ERR_NOMEM, "out of memory for the launcher profile");
	}
	p->hash = text_hash64(buf_as_slice(&b));
	buf_release(&b);
	return 0;
}
