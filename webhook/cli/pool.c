/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate pool`: the pool of a running server or of a file, and ending a pod's claim. */
#include "webhook/cli/pool.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "net/http_client.h"
#include "webhook/cli/usage/usage.h"
#include "webhook/edge/pool/gpu_servers.h"
#include "webhook/edge/pool/pool_report.h"

#define DEFAULT_SERVER "http://127.0.0.1:8081"
#define SERVER_FORM "http://HOST:PORT or https://HOST:PORT"
#define TIMEOUT_MS 10000
#define ANSWER_MAX (64u << 20)
#define TABLE_MAX (256u << 20)
#define ARENA_MAX (256u << 20)

struct options {
	const char *server, *pool, *uid, *pod;
	unsigned json;
	bool release;
};

static const char *const formats[] = {"table", "json", NULL};
static const struct opt options[] = {
	OPT_TEXT(options, server, "--server", "URL", "the admin listener (" DEFAULT_SERVER ")",
		.form = SERVER_FORM),
	OPT_TEXT(options, pool, "--pool", "FILE|DIR", "GPUServer documents instead of a server"),
	USAGE_FORMAT(options, json, "table|json", formats),
	OPT_TEXT(options, uid, "--uid", "UID", "release: the one of this uid"),
};
static const struct subcommand command = {"pool",
	"usage: poolgate pool [--server URL | --pool FILE|DIR] [-o table|json]\n"
	"       poolgate pool release NAMESPACE/POD [--uid UID] [--server URL]\n"
	"\n"
	"Shows the pool: servers, GPUs, who holds what, who waits, what is free. Asks the admin\n"
	"listener of a running server, or reads GPUServer documents.\n"
	"\n",
	"\n"
	"release ends every claim of that pod, or with --uid the one of that uid (as the table\n"
	"shows it): for a server without a cluster, which does not see that a pod has ended.\n"
	"\n"
	"Exit codes: 0 done, 1 refused or nothing to release, 2 usage, 3 unreadable or "
	"unreachable.\n"
	"\n"
	"Examples:\n"
	"  poolgate pool --pool servers/ -o json\n"
	"  poolgate pool release ml/train-0\n",
	USAGE_OPTIONS(options)};

/* One line to stderr; control characters in it, an answer's words among them, are made harmless by
 * err_set. */
__attribute__((format(printf, 1, 2))) static void complain(const char *fmt, ...)
{
	struct err line = {0};
	char text[sizeof(line.msg)];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	(void)err_set(&line, ERR_INVALID, "%s", text);
	(void)fprintf(stderr, "poolgate pool: %s\n", line.msg);
}

/* Ask the server. 0 when an answer of any status came. */
static int ask(const char *server, const char *method, const char *path, struct slice body,
	struct http_response *ret, struct err *err)
{
	static const char *const headers[] = {"Content-Type: application/json", NULL};
	struct http_client *client = http_client_new(err);
	struct http_ask req = {.method = method,
		.headers = body.at ? headers : NULL,
		.body = body,
		.timeout_ms = TIMEOUT_MS,
		.max_bytes = ANSWER_MAX};
	size_t len = strlen(server);
	struct buf url;
	int rc;

	if (!client)
		return err->code;
	while (len > 0 && server[len - 1] == '/')
		len--;
	buf_init(&url, 4096);
	buf_add(&url, server, len);
	buf_str(&url, path);
	req.url = url.data;
	if (url.failed)
		rc = err_set(err, ERR_INVALID, "--server: too long for a URL");
	else
		rc = http_client_do(client, &req, ret, err);
	buf_release(&url);
	http_client_free(client);
	return rc;
}

/* The words of an answer that is not what was hoped for, without its newline. */
static int complain_answer(const char *server, const struct http_response *res)
{
	int len = (int)(res->body.len < 400 ? res->body.len : 400);

	while (len > 0 && res->body.data[len - 1] == '\n')
		len--;
	complain("%s answered %ld: %.*s", server, res->status, len,
		res->body.data ? res->body.data : "");
	return res->status >= 400 && res->status < 500 ? POOL_REFUSED : POOL_UNREADABLE;
}

/* The JSON of the pool, from the server or from files. 0 or an exit code, all said. */
static int fetch(const char *server, struct buf *out)
{
	struct http_response res = {0};
	struct err err = {0};
	int code = 0;

	if (ask(server, "GET", "/v1/pool", (struct slice){0}, &res, &err) != 0) {
		complain("%s; --server URL names the admin listener of poolgate serve", err.msg);
		return POOL_UNREADABLE;
	}
	if (res.status != 200) {
		(void)complain_answer(server, &res);
		code = POOL_UNREADABLE;
	} else {
		buf_slice(out, buf_as_slice(&res.body));
	}
	buf_release(&res.body);
	return code;
}

/* A pool on which nobody is. */
static int report_files(
	const char *path, struct arena *a, struct buf *warnings, struct buf *out, struct err *err)
{
	const struct slice nobody = {0};
	struct pool_view view = {0};
	int rc = gpu_servers_load(path, a, &view.inventory, warnings, err);

	if (rc != 0)
		return rc;
	view.usage.claimed = arena_array(a, view.inventory.n_gpus, sizeof(uint64_t));
	view.usage.pending = arena_array(a, view.inventory.n_gpus, sizeof(uint64_t));
	view.usage.n_claims = arena_array(a, view.inventory.n_servers, sizeof(uint32_t));
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory while reading %s", path);
	return pool_report_write(&view, nobody, out, err);
}

static int read_files(const char *path, struct buf *out)
{
	struct err err = {0};
	struct buf warnings;
	struct arena a;
	int rc;

	arena_init(&a, ARENA_MAX);
	buf_init(&warnings, 1u << 20);
	rc = report_files(path, &a, &warnings, out, &err);
	if (warnings.len)
		(void)fwrite(warnings.data, 1, warnings.len, stderr);
	if (rc != 0)
		complain("%s", err.msg);
	buf_release(&warnings);
	arena_release(&a);
	return rc == 0 ? 0 : POOL_UNREADABLE;
}

static int show(const struct options *o)
{
	struct err err = {0};
	struct buf json, table;
	int code;

	buf_init(&json, ANSWER_MAX);
	buf_init(&table, TABLE_MAX);
	code = o->pool ? read_files(o->pool, &json) : fetch(o->server, &json);
	/* The table is made for JSON output, too: it finds what is not a pool. */
	if (code == 0 && pool_table_write(buf_as_slice(&json), &table, &err) != 0) {
		complain("%s: %s", o->pool ? o->pool : o->server, err.msg);
		code = POOL_UNREADABLE;
	}
	if (code == 0 && !usage_print("pool", o->json ? &json : &table))
		code = POOL_UNREADABLE;
	buf_release(&table);
	buf_release(&json);
	return code;
}

/* The body that /v1/release takes. */
static void release_body(const struct options *o, struct buf *body)
{
	const char *slash = o->pod ? strchr(o->pod, '/') : NULL;

	if (o->uid) {
		buf_str(body, "{\"uid\":");
		buf_json_str(body, slice_of(o->uid));
	} else if (slash) {
		buf_str(body, "{\"namespace\":");
		buf_json_str(body, (struct slice){o->pod, (size_t)(slash - o->pod)});
		buf_str(body, ",\"name\":");
		buf_json_str(body, slice_of(slash + 1));
	}
	buf_char(body, '}');
}

static int release(const struct options *o)
{
	struct http_response res = {0};
	struct err err = {0};
	struct buf body;
	int code = POOL_DONE;

	buf_init(&body, 8192);
	release_body(o, &body);
	if (body.failed) {
		complain("the name or the uid is too long");
		code = POOL_USAGE;
	} else if (ask(o->server, "POST", "/v1/release", buf_as_slice(&body), &res, &err) != 0) {
		complain("%s", err.msg);
		code = POOL_UNREADABLE;
	} else if (res.status != 200) {
		code = complain_answer(o->server, &res);
	} else if (!o->json) {
		(void)printf("released %s\n", o->pod ? o->pod : o->uid);
	} else {
		code = usage_print("pool", &res.body) ? POOL_DONE : POOL_UNREADABLE;
	}
	buf_release(&res.body);
	buf_release(&body);
	return code;
}

/* What remains after the options, and what excludes what. 0, or an exit code. */
static int operands(struct options *o, char **words)
{
	const char *slash;

	if (words[0] && strcmp(words[0], "release") == 0) {
		o->release = true;
		words++;
		o->pod = words[0];
		words += words[0] != NULL;
	}
	if (words[0]) {
		return usage_wrong("pool", "unexpected word \"%s\"", words[0]);
	}
	if (o->server && strncmp(o->server, "http://", 7) != 0 &&
		strncmp(o->server, "https://", 8) != 0) {
		return usage_wrong(
			"pool", "--server takes " SERVER_FORM ", found \"%s\"", o->server);
	}
	if (o->pool && (o->server || o->release)) {
		return usage_wrong(
			"pool", "--pool reads files: it does not go with --server or release");
	}
	if (!o->release && o->uid) {
		return usage_wrong("pool", "--uid belongs to release");
	}
	slash = o->pod ? strchr(o->pod, '/') : NULL;
	if (o->release && o->pod &&
		(!slash || slash == o->pod || !slash[1] || strchr(slash + 1, '/'))) {
		return usage_wrong("pool", "found \"%s\", expected NAMESPACE/POD", o->pod);
	}
	if (o->release && !o->pod && !o->uid) {
		return usage_wrong("pool", "release needs NAMESPACE/POD or --uid UID");
	}
	return 0;
}

int pool_main(int argc, char **argv)
{
	struct options o = {0};
	int code = usage_read(&command, &o, argc, argv);

	if (code >= 0)
		return code;
	code = operands(&o, argv + optind);
	if (code != 0)
		return code;
	if (!o.server)
		o.server = DEFAULT_SERVER;
	return o.release ? release(&o) : show(&o);
}
