/* SPDX-License-Identifier: Apache-2.0 */
/* gate: ServerProfiles: by what pods are known, what is done about use of GPUs, and MPS. */
#include "base/text.h"
#include "gate/server_profile_impl.h"

static int read_session(const struct yaml_node *spec, struct server_profile *p, struct err *err)
{
	struct yaml_node *map, *header;
	int rc = yaml_get_map(spec, "session", &map, err);

	if (rc != 0 || !map)
		return rc;
	if (p->mode != GATE_MODE_ADDRESS)
		return yaml_err(map, err, ERR_INVALID, "a session goes with mode: address alone");
	if ((rc = yaml_known(map, err, "header", NULL)) != 0 ||
		(rc = yaml_need(map, "header", &header, err)) != 0 ||
		(rc = yaml_as_cstr(header, &p->session, err)) != 0)
		return rc;
	if (text_dns_label(slice_of(p->session)))
		return 0;
	return yaml_unexpected(header, err, "a header's name of a to z, 0 to 9 and '-'");
}

static int read_mode(const struct yaml_node *spec, struct server_profile *p, struct err *err)
{
	size_t mode = GATE_MODE_TOKEN;
	int rc = yaml_get_choice(spec, "mode", gate_modes, 2, &mode, err);

	p->mode = (enum gate_mode)mode;
	return rc == 0 ? read_session(spec, p, err) : rc;
}

static int read_context(const struct yaml_node *map, uint64_t *ret, struct err *err)
{
	const struct yaml_node *node = yaml_get(map, "context");
	struct quantity q;
	int rc = yaml_absent(node) ? 0 : yaml_as_quantity(node, &q, err);

	if (rc != 0 || yaml_absent(node))
		return rc;
	if (q.nano < 0 || quantity_ceil(q) > INT64_C(1) << 40)
		return yaml_unexpected(node, err, "a quantity of memory such as 600Mi");
	*ret = (uint64_t)quantity_ceil(q);
	return 0;
}

static int read_usage(const struct yaml_node *spec, struct server_profile *p, struct err *err)
{
	static const char *const words[] = {"tell", "end"};
	int64_t margin = SERVER_PROFILE_MARGIN_PERCENT;
	struct yaml_node *map;
	size_t word = 0;
	int rc;

	if ((rc = yaml_get_map(spec, "usage", &map, err)) != 0 ||
		(rc = yaml_known(map, err, "context", "margin", "overShare", "accounts", NULL)) !=
			0 ||
		(rc = read_context(map, &p->usage.context_bytes, err)) != 0 ||
		(rc = yaml_get_int(map, "margin", 0, 100, &margin, err)) != 0 ||
		(rc = yaml_get_choice(map, "overShare", words, 2, &word, err)) != 0 ||
		(rc = yaml_get_strs(map, "accounts", &p->accounts, &p->n_accounts, err)) != 0)
		return rc;
	if (p->n_accounts > SERVER_PROFILE_ACCOUNTS_MAX)
		return yaml_err(yaml_get(map, "accounts"), err, ERR_INVALID,
			"found %zu accounts, expected at most %d", p->n_accounts,
			SERVER_PROFILE_ACCOUNTS_MAX);
	p->usage.margin_percent = (unsigned)margin;
	p->ends_over = word == 1;
	p->says_context = !yaml_absent(yaml_get(map, "context"));
	return 0;
}

static int read_path(
	const struct yaml_node *map, const char *key, const char **ret, struct err *err)
{
	const struct yaml_node *node = yaml_get(map, key);
	int rc = yaml_get_cstr(map, key, ret, err);

	if (rc == 0 && *ret && (*ret)[0] != '/')
		rc = yaml_unexpected(node, err, "an absolute path");
	return rc;
}

static int read_mps(const struct yaml_node *spec, struct server_profile *p, struct err *err)
{
	struct yaml_node *map, *control;
	int rc = yaml_get_map(spec, "mps", &map, err);

	if (rc != 0 || !map)
		return rc;
	if ((rc = yaml_known(map, err, "control", "pipeDirectory", NULL)) != 0 ||
		(rc = yaml_need(map, "control", &control, err)) != 0 ||
		(rc = read_path(map, "control", &p->mps_control, err)) != 0)
		return rc;
	return read_path(map, "pipeDirectory", &p->mps_pipe, err);
}

int server_profile_read_use(const struct yaml_node *spec, struct server_profile *p, struct err *err)
{
	int rc = read_mode(spec, p, err);

	if (rc == 0)
		rc = read_usage(spec, p, err);
	return rc == 0 ? read_mps(spec, p, err) : rc;
}
