/* SPDX-License-Identifier: Apache-2.0 */
/* core: a GPUPolicy is read by its tables. */
#include "webhook/core/policy/policy.h"

#include <string.h>

#include "base/json/json_record.h"
#include "base/quantity.h"
#include "base/text.h"

/* A label's value has no more. */
#define NAME_MAX_LABEL 63
#define LIST_MAX 64
#define COUNT_MAX 1000000
/* Of PriorityClasses that are not the system's. */
#define PRIORITY_MAX 1000000000

const char *foreign_key_name(enum foreign_key k)
{
	static const char *const names[FOREIGN_KEYS] = {[FOREIGN_GPU] = "nvidia.com/gpu",
		[FOREIGN_MEM] = "nvidia.com/gpumem",
		[FOREIGN_MEM_PERCENT] = "nvidia.com/gpumem-percentage",
		[FOREIGN_CORES] = "nvidia.com/gpucores"};

	return names[k];
}

/* ---- values ---- */

/* What is an object's name and a label's value. */
static bool is_name(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n > NAME_MAX_LABEL || !text_is_lower_alnum(s[0]) ||
		!text_is_lower_alnum(s[n - 1]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!text_is_lower_alnum(s[i]) && s[i] != '-' && s[i] != '.')
			return false;
	return true;
}

static bool is_when_full(const char *s)
{
	return strcmp(s, "wait") == 0 || strcmp(s, "refuse") == 0;
}

static bool is_word(const char *s)
{
	return *s != '\0' && strlen(s) <= 253;
}

/* Does v say yes? Anything but the two words is wrong. */
static int read_choice(struct json_reader *r, const struct json_node *v, const char *key,
	const char *yes, const char *no, const char *expected, bool *ret)
{
	*ret = json_is_str(r->j, v, slice_of(yes));
	return *ret || json_is_str(r->j, v, slice_of(no)) ? 0
							  : json_record_wrong(r, v, key, expected);
}

static int read_ties(struct json_reader *r, const struct json_node *v, void *to)
{
	struct policy *p = to;

	return read_choice(r, v, "ties", "keep", "remove", "\"remove\" or \"keep\"", &p->keep_ties);
}

static int read_outage(struct json_reader *r, const struct json_node *v, void *to)
{
	struct policy *p = to;

	return read_choice(r, v, "onOutage", "local", "refuse", "\"refuse\" or \"local\"",
		&p->local_on_outage);
}

#define ACCEPTS_FORM                                                                               \
	"a list of nvidia.com/gpu, nvidia.com/gpumem, nvidia.com/gpumem-percentage and "           \
	"nvidia.com/gpucores"

static int read_accepts(struct json_reader *r, const struct json_node *v, void *to)
{
	struct policy *p = to;

	if (!json_is(v, JSON_ARRAY))
		return json_record_wrong(r, v, "accepts", ACCEPTS_FORM);
	p->accepts = 0;
	JSON_EACH(r->j, v, e)
	{
		unsigned k = 0;

		while (k < FOREIGN_KEYS &&
			!json_is_str(r->j, e, slice_of(foreign_key_name((enum foreign_key)k))))
			k++;
		if (k == FOREIGN_KEYS)
			return json_record_wrong(r, e, "accepts", ACCEPTS_FORM);
		p->accepts |= 1U << k;
	}
	return 0;
}

#define SERVERS_FORM "1 to 64 labels that a server must have, such as {team: research}"

static int read_servers(struct json_reader *r, const struct json_node *v, void *to)
{
	struct policy *p = to;

	if (!json_is(v, JSON_OBJECT) || v->count < 1 || v->count > LIST_MAX)
		return json_record_wrong(r, v, "servers", SERVERS_FORM);
	p->servers = arena_array(r->a, v->count, sizeof(*p->servers));
	p->n_servers = 0;
	JSON_MEMBERS(r->j, v, k)
	{
		if (!json_is(json_value(k), JSON_STRING))
			return json_record_wrong(r, json_value(k), "servers", "strings");
		if (p->servers)
			p->servers[p->n_servers++] =
				(struct label){arena_strdup(r->a, json_str(r->j, k, r->a)),
					arena_strdup(r->a, json_str(r->j, json_value(k), r->a))};
	}
	return r->a->failed ? err_set(r->err, ERR_NOMEM, "out of memory while reading labels") : 0;
}

/* int-or-string, as quantities are everywhere in Kubernetes */
static int read_memory(struct json_reader *r, const struct json_node *v, void *to)
{
	struct slice s = json_is(v, JSON_STRING) ? json_str(r->j, v, r->a) : json_raw(r->j, v);
	struct policy *p = to;
	struct quantity q;

	if (r->a->failed)
		return err_set(r->err, ERR_NOMEM, "out of memory while reading a quantity");
	if ((!json_is(v, JSON_STRING) && !json_is(v, JSON_NUMBER)) ||
		quantity_parse(s, &q, NULL) != 0 || q.nano < 0)
		return json_record_wrong(
			r, v, "memory", "memory of GPUs as a quantity in bytes, such as 160G");
	p->bytes = (uint64_t)quantity_ceil(q);
	return 0;
}

/* ---- tables ---- */

static const struct json_own ties = {read_ties, NULL}, outage = {read_outage, NULL},
			     accepts = {read_accepts, NULL}, servers = {read_servers, NULL},
			     memory = {read_memory, NULL};

static const struct json_field metadata_fields[] = {
	REC_STR(policy, name, "name", REC_NEEDED, .good = is_name,
		.expected = "an object name that can be a label's value: at most 63 of a-z, 0-9, "
			    "'-' and '.'"),
};
JSON_RECORD(metadata_record, policy, metadata_fields, 0);

#define WORD(member, key, of)                                                                      \
	REC_STR(policy, member, key, REC_OR_NULL, .good = is_word, .expected = of)
static const struct json_field defaults_fields[] = {
	WORD(launcher, "launcher", "the name of a launcher profile"),
	WORD(os, "os", "the client's os, such as ubuntu20"),
	WORD(version, "version", "the client's version, such as 450"),
	REC_STR(policy, when_full, "whenFull", REC_OR_NULL, .good = is_when_full,
		.expected = "\"wait\" or \"refuse\""),
	REC_U32(policy, percent, "percent", .min = 1, .max = 100,
		.expected = "percent of each GPU, from 1 to 100"),
	REC_INT(policy, priority, "priority", .min = -PRIORITY_MAX, .max = PRIORITY_MAX,
		.expected = "a priority from -1000000000 to 1000000000"),
};
JSON_RECORD(defaults_record, policy, defaults_fields, 0);

static const struct json_field allow_fields[] = {
	REC_OWN(servers, "servers"),
	REC_STRS(policy, launchers, "launchers", .min = 1, .max = LIST_MAX,
		.expected = "1 to 64 names of launcher profiles, such as [lupine]"),
	REC_STRS(policy, models, "models", .min = 1, .max = LIST_MAX,
		.expected = "1 to 64 models of GPUs, such as [Tesla V100-PCIE-16GB]"),
	REC_U32(policy, gpus, "gpus", .max = COUNT_MAX, .expected = "from 0 to 1000000 GPUs"),
	REC_OWN(memory, "memory"),
	REC_U32(policy, waiting, "waiting", .max = COUNT_MAX, .expected = "from 0 to 1000000 pods"),
};
JSON_RECORD(allow_record, policy, allow_fields, 0);

static const struct json_field spec_fields[] = {
	REC_BOOL(policy, inject, "inject"),
	REC_U32(policy, share, "share", .max = 100,
		.expected = "how many of 100 groups of pods, from 0 to 100"),
	REC_WITHIN(defaults_record, "defaults"),
	REC_OWN(accepts, "accepts"),
	REC_OWN(ties, "ties"),
	REC_OWN(outage, "onOutage"),
	REC_WITHIN(allow_record, "allow"),
};
JSON_RECORD(spec_record, policy, spec_fields, 0);

static const struct json_field object_fields[] = {
	REC_WITHIN(metadata_record, "metadata", REC_NEEDED),
	REC_WITHIN(spec_record, "spec", REC_NEEDED),
};
JSON_RECORD(object_record, policy, object_fields, 0);

int policy_read(const struct json *j, const struct json_node *object, struct arena *a,
	struct policy *ret, struct err *err)
{
	struct err own = {0};
	struct policy p = {
		.share = 100, .gpus = UINT32_MAX, .waiting = UINT32_MAX, .bytes = UINT64_MAX};
	struct json_reader r = {.j = j, .a = a, .err = err ? err : &own, .top = &p};
	int rc;

	if (!json_is_str(j, json_get(j, object, SLICE("kind")), SLICE(POLICY_KIND)) ||
		!json_is_str(j, json_get(j, object, SLICE("apiVersion")), SLICE(POLICY_API)))
		return err_set(r.err, ERR_SYNTAX, "this is no " POLICY_KIND " of " POLICY_API);
	rc = json_record_read(&r, object, &object_record, &p);
	if (rc == 0)
		*ret = p;
	return rc;
}

int policy_check_keys(
	const struct json *j, const struct json_node *object, struct arena *a, struct err *err)
{
	static const struct {
		const char *key;
		const struct json_record *record;
	} parts[] = {
		{NULL, &spec_record}, {"defaults", &defaults_record}, {"allow", &allow_record}};
	const struct json_node *spec = json_get(j, object, SLICE("spec"));
	struct json_reader r = {.j = j, .a = a, .err = err};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const struct json_node *v =
			parts[i].key ? json_get(j, spec, slice_of(parts[i].key)) : spec;
		struct slice rest = {0};

		if (!json_is(v, JSON_OBJECT))
			continue;
		if (json_record_rest(&r, v, parts[i].record, &rest) != 0)
			return err->code;
		if (!rest.at)
			continue;
		(void)err_set(err, ERR_INVALID,
			"found %.*s, expected members that a " POLICY_KIND " has",
			(int)(rest.len > 60 ? 60 : rest.len), rest.at);
		if (parts[i].key)
			err_in(err, "%s", parts[i].key);
		return err_in(err, "spec");
	}
	return 0;
}

int policy_missing(const char *name, struct err *err)
{
	return err_reason(err, ERR_REFUSED, "NoPolicy",
		"its namespace picks the policy \"%s\" (label " LABEL_POLICY
		"), which does not exist, or of which there has been no version that could be "
		"read; create it, or pick another",
		name);
}

int policy_required(struct err *err)
{
	return err_reason(err, ERR_REFUSED, "NoPolicy",
		"its namespace picks no policy (label " LABEL_POLICY
		"), and pods of such namespaces get no GPUs here; ask the operator for one");
}

int policy_unset(struct err *err)
{
	return err_reason(err, ERR_REFUSED, "NoPolicy",
		"its namespace picks a policy (label " LABEL_POLICY
		"), and this replica was not told to look at policies: the operator has to set "
		"cluster.policies.enabled, or to take the hooks of components/policies away");
}
