/* SPDX-License-Identifier: Apache-2.0 */
/* core: the profile "bitfusion" out of the origin's client catalogue and sidecar config. */
#include "webhook/core/launcher/launcher_bitfusion.h"

#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "base/yaml/yaml_config.h"
#include "webhook/core/launcher/launcher_parts.h"
#include "webhook/core/pool/placement.h"

#define OPT_WORD SLICE("BITFUSION_CLIENT_OPT_PATH")
#define OPT_FOLDER SLICE("/opt/bitfusion")
#define CLIENTS_MAX 1024
#define PATH_BYTES_MAX 4096

/* The command line of the client (its user guide, "bitfusion run"). */
static const struct {
	enum word_when when;
	const char *word[4];
} command_line[] = {
	{WORD_ALWAYS, {"{client.binary}", "run", "-n", "{amount}"}},
	{WORD_FRACTION, {"-p", "{fraction}"}},
	{WORD_MEMORY, {"-m", "{memory_mb}"}},
	{WORD_EACH_FILTER, {"--filter", "{filter}"}},
};

static const char *const amount_options[] = {"-n", "--num_gpus", "--num-gpus"};
static const char *const fraction_options[] = {"-p", "--partial"};
static const char *const memory_options[] = {"-m", "--memory", "--mem"};

#define COUNT(x) (sizeof(x) / sizeof((x)[0]))

static int out_of_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory for the configuration");
}

/* ---- what the client itself dictates ---- */

static struct slice *copy_words(
	const char *const *words, size_t max, size_t *ret_n, struct arena *a)
{
	struct slice *copy = arena_array(a, max, sizeof(*copy));

	*ret_n = 0;
	for (size_t i = 0; copy && i < max && words[i]; i++)
		copy[(*ret_n)++] = slice_of(words[i]);
	return copy;
}

static int fixed_parts(struct profile *p, struct arena *a, struct err *err)
{
	struct profile_options *o = &p->options;

	p->name = SLICE(BITFUSION_PROFILE);
	p->kind = PROFILE_WRAP;
	p->by_client = true;
	p->separator = SLICE("--");
	p->can_fraction = CAN_YES;
	p->can_memory = CAN_YES;
	p->max_amount = GPU_AMOUNT_MAX;
	p->argv = arena_array(a, COUNT(command_line), sizeof(*p->argv));
	p->env = arena_array(a, 1, sizeof(*p->env));
	if (!p->argv || !p->env)
		return out_of_memory(err);
	for (size_t i = 0; i < COUNT(command_line); i++) {
		struct profile_words *w = &p->argv[p->n_argv++];

		w->when = command_line[i].when;
		w->word = copy_words(command_line[i].word, COUNT(command_line[i].word), &w->n, a);
	}
	p->env[p->n_env++] = (struct profile_env){.name = SLICE("LD_LIBRARY_PATH"),
		.value = SLICE("{client.lib}"),
		.prepend = true,
		.separator = SLICE(":")};
	o->amount = copy_words(amount_options, COUNT(amount_options), &o->n_amount, a);
	o->fraction = copy_words(fraction_options, COUNT(fraction_options), &o->n_fraction, a);
	o->memory_mb = copy_words(memory_options, COUNT(memory_options), &o->n_memory_mb, a);
	return a->failed ? out_of_memory(err) : 0;
}

/* ---- the catalogue ---- */

/* One entry as the file has it. */
struct entry {
	const struct yaml_node *node;
	struct slice os, version, arch, binary, lib;
};

/* A value of an entry by its spelling: `BitfusionVersion: 450` without quotes was fine for the
 * origin. */
static int read_member(
	const struct yaml_node *node, const char *key, struct slice *ret, struct err *err)
{
	struct yaml_node *value;
	int rc;

	if ((rc = yaml_need(node, key, &value, err)) != 0 ||
		(rc = yaml_as_text(value, ret, err)) != 0)
		return rc;
	if (ret->len == 0 || ret->len > PATH_BYTES_MAX || memchr(ret->at, '\0', ret->len))
		return yaml_unexpected(
			value, err, "text of 1 to %d bytes without NUL", PATH_BYTES_MAX);
	return 0;
}

/* EnvVariable without empty elements: an empty one is the current folder to the loader. */
static int clean_lib(const struct yaml_node *node, struct slice text, struct arena *a,
	struct slice *ret, struct err *err)
{
	char *copy = arena_alloc(a, text.len + 1);
	size_t n = 0;

	if (!copy)
		return out_of_memory(err);
	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] != ':' || (n > 0 && copy[n - 1] != ':'))
			copy[n++] = text.at[i];
	if (n > 0 && copy[n - 1] == ':')
		n--;
	if (n == 0)
		return yaml_err(yaml_get(node, "EnvVariable"), err, ERR_INVALID,
			"found \"%.*s\", expected the client's library folder", (int)text.len,
			text.at);
	copy[n] = '\0';
	*ret = (struct slice){copy, n};
	return 0;
}

static int read_entry(
	const struct yaml_node *node, struct arena *a, struct entry *e, struct err *err)
{
	struct slice lib;
	int rc;

	if ((rc = yaml_as_map(node, err)) != 0 ||
		(rc = read_member(node, "BitfusionVersion", &e->version, err)) != 0 ||
		(rc = read_member(node, "OSVersion", &e->os, err)) != 0 ||
		(rc = read_member(node, "BinaryPath", &e->binary, err)) != 0 ||
		(rc = read_member(node, "EnvVariable", &lib, err)) != 0)
		return rc;
	if (text_basename(e->binary).len == 0)
		return yaml_err(yaml_get(node, "BinaryPath"), err, ERR_INVALID,
			"found \"%.*s\", expected the path of a program", (int)e->binary.len,
			e->binary.at);
	e->node = node;
	/* There was never a client of Bitfusion for anything else. */
	if ((rc = parts_arch(node, "Architecture", a, &e->arch, err)) != 0)
		return rc;
	if (!e->arch.at)
		e->arch = SLICE("amd64");
	return clean_lib(node, lib, a, &e->lib, err);
}

static int read_entries(const struct yaml_node *catalogue, struct arena *a, struct entry **ret,
	size_t *ret_n, struct err *err)
{
	struct yaml_node *seq;
	struct entry *all;
	size_t n = 0;
	int rc;

	if ((rc = yaml_as_map(catalogue, err)) != 0 ||
		(rc = yaml_need_as(
			 catalogue, "BitfusionClients", "a sequence of clients", &seq, err)) != 0 ||
		(rc = yaml_as_seq(seq, err)) != 0)
		return rc;
	if (seq->count == 0 || seq->count > CLIENTS_MAX)
		return yaml_err(seq, err, ERR_INVALID, "found %u clients, expected 1 to %d",
			seq->count, CLIENTS_MAX);
	all = arena_array(a, seq->count, sizeof(*all));
	if (!all)
		return out_of_memory(err);
	YAML_EACH(seq, node)
	{
		struct entry e = {0};
		size_t i = 0;

		if ((rc = read_entry(node, a, &e, err)) != 0)
			return rc;
		while (i < n && !(slice_eq(all[i].os, e.os) && slice_eq(all[i].version, e.version)))
			i++;
		all[i] = e;
		n += i == n;
	}
	*ret = all;
	*ret_n = n;
	return 0;
}

/* ---- the sidecar config ---- */

/* Is the word used? It has a meaning in command[2] alone; elsewhere in command or args it would
 * reach the shell. */
static int find_word(const struct yaml_node *inits, bool *ret_used, struct err *err)
{
	static const char *const lists[] = {"command", "args"};

	*ret_used = false;
	YAML_EACH(inits, init)
	{
		for (size_t l = 0; l < COUNT(lists); l++) {
			size_t i = 0;

			YAML_EACH(yaml_get(init, lists[l]), word)
			{
				bool here = yaml_is(word, YAML_SCALAR) &&
					    slice_holds(word->text, OPT_WORD);

				if (here && (l != 0 || i != 2))
					return yaml_err(word, err, ERR_INVALID,
						"found BITFUSION_CLIENT_OPT_PATH, expected it in "
						"command[2] alone, as in [/bin/bash, -c, \"cp -r "
						"BITFUSION_CLIENT_OPT_PATH /folder\"]");
				*ret_used |= here;
				i++;
			}
		}
	}
	return 0;
}

/* What the word stands for with this client. */
static int opt_path(const struct entry *e, struct arena *a, struct slice *ret, struct err *err)
{
	size_t i = 0;
	char *path;

	while (i + OPT_FOLDER.len <= e->lib.len &&
		memcmp(e->lib.at + i, OPT_FOLDER.at, OPT_FOLDER.len) != 0)
		i++;
	if (i + OPT_FOLDER.len > e->lib.len)
		return yaml_err(yaml_get(e->node, "EnvVariable"), err, ERR_INVALID,
			"found \"%.*s\", expected a path that holds /opt/bitfusion: the sidecar "
			"config "
			"uses BITFUSION_CLIENT_OPT_PATH, which is made of it",
			(int)e->lib.len, e->lib.at);
	path = arena_fmt(a, "%.*s/opt/bitfusion/*", (int)i, e->lib.at);
	if (!path)
		return out_of_memory(err);
	*ret = slice_of(path);
	return 0;
}

static int fill_client(const struct entry *e, const struct yaml_node *inits, bool word_used,
	const struct profile *p, struct arena *a, struct profile_client *c, struct err *err)
{
	struct inits_fill fill = {0};
	int rc;

	c->values = arena_array(a, 2, sizeof(*c->values));
	if (!c->values)
		return out_of_memory(err);
	c->n_values = 2;
	c->values[0].name = SLICE("binary");
	c->values[1].name = SLICE("lib");
	c->values[1].value = e->lib;
	c->arch = e->arch;
	if ((rc = parts_copy(e->binary, a, &c->values[0].value, err)) != 0 ||
		(rc = parts_copy(e->os, a, &c->os, err)) != 0 ||
		(rc = parts_copy(e->version, a, &c->version, err)) != 0)
		return rc;
	if (word_used) {
		fill.word = OPT_WORD;
		if ((rc = opt_path(e, a, &fill.by, err)) != 0)
			return rc;
	}
	return inits_read(inits, &fill, p->volumes, p->n_volumes, a, &c->inits, &c->n_inits, err);
}

static int read_mounts(
	const struct yaml_node *sidecar, struct arena *a, struct profile *p, struct err *err)
{
	struct yaml_node *containers;
	int rc;

	if ((rc = yaml_need_as(
		     sidecar, "containers", "a sequence of containers", &containers, err)) != 0 ||
		(rc = yaml_as_seq(containers, err)) != 0)
		return rc;
	if (containers->count == 0)
		return yaml_err(containers, err, ERR_INVALID,
			"found no container, expected one whose volumeMounts are given to the GPU "
			"containers");
	if ((rc = yaml_as_map(containers->first, err)) != 0)
		return rc;
	return parts_mounts(yaml_get(containers->first, "volumeMounts"), p->volumes, p->n_volumes,
		a, &p->mounts, &p->n_mounts, err);
}

/* The launcher's name in commands: the file name that all entries share, else the client's usual
 * one. */
static int find_basename(
	const struct entry *entries, size_t n, struct arena *a, struct profile *p, struct err *err)
{
	struct slice name = {0};

	for (size_t i = 0; i < n; i++) {
		struct slice other = text_basename(entries[i].binary);

		if (i > 0 && !slice_eq(name, other)) {
			name = SLICE("bitfusion");
			break;
		}
		name = other;
	}
	return parts_copy(name, a, &p->basename, err);
}

int launcher_bitfusion(const struct yaml_node *catalogue, const struct yaml_node *sidecar,
	struct slice shell, struct arena *a, struct profile *ret, struct err *err)
{
	const struct yaml_node *inits, *volumes;
	struct entry *entries = NULL;
	struct profile p = {0};
	bool word_used = false;
	size_t n = 0;
	int rc;

	if ((rc = fixed_parts(&p, a, err)) != 0 ||
		(rc = parts_copy(shell, a, &p.shell, err)) != 0 ||
		(rc = read_entries(catalogue, a, &entries, &n, err)) != 0 ||
		(rc = find_basename(entries, n, a, &p, err)) != 0 ||
		(rc = yaml_as_map(sidecar, err)) != 0)
		return rc;
	inits = yaml_get(sidecar, "initContainers");
	volumes = yaml_get(sidecar, "volumes");
	if (!yaml_absent(inits) && (rc = yaml_as_seq(inits, err)) != 0)
		return rc;
	if ((rc = parts_volumes(volumes, a, &p.volumes, &p.n_volumes, err)) != 0 ||
		(rc = parts_secrets(volumes, a, &p.secrets, &p.n_secrets, err)) != 0 ||
		(rc = read_mounts(sidecar, a, &p, err)) != 0 ||
		(rc = find_word(inits, &word_used, err)) != 0)
		return rc;
	p.clients = arena_array(a, n, sizeof(*p.clients));
	if (!p.clients)
		return out_of_memory(err);
	for (; p.n_clients < n; p.n_clients++) {
		rc = fill_client(&entries[p.n_clients], inits, word_used, &p, a,
			&p.clients[p.n_clients], err);
		if (rc != 0)
			return rc;
	}
	if ((rc = profile_seal(&p, err)) != 0)
		return rc;
	*ret = p;
	return 0;
}
