/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: GPUs of the pool that take claims, server by server. */
#include "deviceplugin/gpu_count.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

/* The columns of the CRD (manifests/base/crd.yaml). */
#define NAME_COLUMN "Name"
#define FIT_COLUMN "Fit"

static int no_table(const char *why, struct err *err)
{
	return err_set(err, ERR_SYNTAX, "the answer is no table of GPUServers: %s", why);
}

void gpu_count_release(struct gpu_count *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->server[i].name);
	free(c->server);
	*c = (struct gpu_count){0};
}

/* ---- the servers ---- */

/* Where the server is, or where it would be. */
static bool find(const struct gpu_count *c, struct slice name, size_t *ret_at)
{
	size_t low = 0, high = c->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int order = slice_order(slice_of(c->server[mid].name), name);

		if (order == 0) {
			*ret_at = mid;
			return true;
		}
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*ret_at = low;
	return false;
}

static void drop(struct gpu_count *c, struct slice name)
{
	size_t at;

	if (!find(c, name, &at))
		return;
	c->fit -= c->server[at].fit;
	free(c->server[at].name);
	memmove(c->server + at, c->server + at + 1, (c->n - at - 1) * sizeof(*c->server));
	c->n--;
}

static int put(struct gpu_count *c, struct slice name, uint32_t fit, struct err *err)
{
	size_t at;
	char *copy;

	if (find(c, name, &at)) {
		c->fit = c->fit - c->server[at].fit + fit;
		c->server[at].fit = fit;
		return 0;
	}
	if (c->n == GPU_COUNT_SERVERS_MAX)
		return err_set(err, ERR_TOOBIG, "more than %u GPUServers", GPU_COUNT_SERVERS_MAX);
	copy = strndup(name.at, name.len);
	if (!copy || !LIST_ROOM(c->server, c->n, c->cap)) {
		free(copy);
		return err_set(err, ERR_NOMEM, "out of memory for %zu GPUServers", c->n);
	}
	memmove(c->server + at + 1, c->server + at, (c->n - at) * sizeof(*c->server));
	c->server[at].name = copy;
	c->server[at].fit = fit;
	c->n++;
	c->fit += fit;
	return 0;
}

/* ---- tables ---- */

static int read_columns(
	struct gpu_count *c, const struct json *j, const struct json_node *columns, struct err *err)
{
	bool has_name = false, has_fit = false;
	uint32_t i = 0;

	JSON_EACH(j, columns, column)
	{
		const struct json_node *name = json_get(j, column, SLICE("name"));

		if (!has_name && json_is_str(j, name, SLICE(NAME_COLUMN))) {
			c->name_column = i;
			has_name = true;
		} else if (!has_fit && json_is_str(j, name, SLICE(FIT_COLUMN))) {
			c->fit_column = i;
			has_fit = true;
		}
		i++;
	}
	if (!has_name)
		return no_table("it has no column " NAME_COLUMN, err);
	if (!has_fit)
		return err_set(err, ERR_INVALID,
			"GPUServers have no column " FIT_COLUMN
			": the CRD gpuservers.poolgate.io is another version's; apply the one of "
			"this version");
	c->known_columns = true;
	return 0;
}

static int read_row(struct gpu_count *c, const struct json *j, const struct json_node *row,
	bool gone, struct err *err)
{
	const struct json_node *cells = json_get(j, row, SLICE("cells"));
	struct slice name = {0};
	int64_t fit = 0;
	uint32_t i = 0;

	JSON_EACH(j, cells, cell)
	{
		if (i == c->name_column && !cell->escaped)
			name = json_inside(j, cell);
		else if (i == c->fit_column && !json_int(j, cell, &fit))
			fit = 0;
		i++;
	}
	if (name.len == 0)
		return no_table("a row without a name", err);
	if (gone) {
		drop(c, name);
		return 0;
	}
	return put(c, name, fit > 0 && fit <= GPU_COUNT_FIT_MAX ? (uint32_t)fit : 0, err);
}

int gpu_count_columns(
	struct gpu_count *c, const struct json *j, const struct json_node *table, struct err *err)
{
	const struct json_node *columns = json_get(j, table, SLICE("columnDefinitions"));

	return json_absent(columns) ? 0 : read_columns(c, j, columns, err);
}

int gpu_count_table(struct gpu_count *c, const struct json *j, const struct json_node *table,
	bool gone, struct err *err)
{
	const struct json_node *rows = json_get(j, table, SLICE("rows"));
	int rc;

	if (!json_is_str(j, json_get(j, table, SLICE("kind")), SLICE("Table")))
		return no_table("its kind", err);
	if (!json_absent(rows) && !json_is(rows, JSON_ARRAY))
		return no_table("its rows", err);
	rc = gpu_count_columns(c, j, table, err);
	if (rc == 0 && !c->known_columns)
		return no_table("it has no columns", err);
	JSON_EACH(j, rows, row)
	{
		if (rc == 0)
			rc = read_row(c, j, row, gone, err);
	}
	return rc;
}
