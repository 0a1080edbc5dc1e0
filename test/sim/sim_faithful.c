/* SPDX-License-Identifier: Apache-2.0 */
/* sim: the model API server alone, for whoever compares it with a real one (test/sim/faithful).
 * Each line of the standard input is a request,
 * {"method":"PUT","path":"/apis/…","body":{…}}, and {"method":"COMPACT"} makes it forget what was
 * before; each line of the output is the answer,
 * {"code":200,"text":"…"}. Requests go where those of replicas go, and nothing goes wrong on the
 * way. {"method":"REVIEW","path":"/mutate",…} asks a replica that has the settings of the
 * arguments, as `poolgate serve` reads them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/http_client.h"
#include "test/sim/sim_world.h"
#include "webhook/edge/settings/config_store.h"
#include "webhook/edge/settings/settings.h"

#define ANSWER_MAX (16u << 20)
#define READY_US (60 * SECOND)
/* As a server without a pool is told. */
#define TOTAL_MB "16000"

struct got {
	long status;
	struct buf body;
};

static bool take_head(void *ctx, long status)
{
	((struct got *)ctx)->status = status;
	return true;
}

static bool take_data(void *ctx, struct slice bytes)
{
	buf_add(&((struct got *)ctx)->body, bytes.at, bytes.len);
	return true;
}

static bool go_on(void *ctx)
{
	(void)ctx;
	return true;
}

static void ask(struct http_client *client, const struct http_ask *req, struct got *got)
{
	struct http_stream stream = {take_head, take_data, go_on, got, NULL};
	struct http_response answer = {0};
	struct err err = {0};
	int rc;

	buf_init(&got->body, ANSWER_MAX);
	if (strstr(req->url, "watch=")) {
		rc = http_client_stream(client, req, &stream, &err);
	} else {
		rc = http_client_do(client, req, &answer, &err);
		got->status = answer.status;
		buf_str(&got->body, answer.body.data ? answer.body.data : "");
		buf_release(&answer.body);
	}
	if (rc != 0)
		sim_fail("simulator", "%s %s: %s", req->method, req->url, err.msg);
}

static void tell(const struct got *got)
{
	cJSON *line = cJSON_CreateObject();
	char *text;

	cJSON_AddNumberToObject(line, "code", (double)got->status);
	cJSON_AddStringToObject(line, "text", got->body.data ? got->body.data : "");
	text = cJSON_PrintUnformatted(line);
	(void)puts(text);
	(void)fflush(stdout);
	free(text);
	cJSON_Delete(line);
}

static const char *text_of(cJSON *line, const char *name)
{
	const char *text = cJSON_GetStringValue(store_at(line, name, NULL));

	return text ? text : "";
}

/* The replica has some time to become ready, and what it is asked for the first time comes later
 * still. */
static void review(const struct http_ask *req, struct got *got)
{
	char *answer;

	if (!replica_runs(1)) {
		replica_start(1);
		sim_sleep(READY_US);
	}
	answer = replica_answer(1, req->url, req->body.at);
	if (!answer)
		sim_fail("simulator", "the replica does not answer");
	got->status = 200;
	buf_init(&got->body, ANSWER_MAX);
	buf_str(&got->body, answer);
	free(answer);
}

static void serve(struct http_client *client, cJSON *line)
{
	cJSON *body = store_at(line, "body", NULL);
	char *sent = body ? cJSON_PrintUnformatted(body) : NULL;
	struct http_ask req = {.method = text_of(line, "method"),
		.url = text_of(line, "path"),
		.body = {sent, sent ? strlen(sent) : 0},
		.timeout_ms = 60000,
		.max_bytes = ANSWER_MAX};
	struct got got = {0};

	if (strcmp(req.method, "COMPACT") == 0)
		store_compact();
	else if (strcmp(req.method, "REVIEW") == 0)
		review(&req, &got);
	else
		ask(client, &req, &got);
	tell(&got);
	buf_release(&got.body);
	free(sent);
}

/* False: told why. */
static bool configure(int argc, char **argv)
{
	static struct settings settings;
	struct config_built *built;
	struct err err = {0};

	if (settings_load(argc, argv, TOTAL_MB, &settings, &err) != 0 ||
		config_build(&settings, &built, &err) != 0)
		return fprintf(stderr, "sim: %s\n", err.msg), false;
	replicas_use(&built->config);
	return true;
}

int faithful_main(int argc, char **argv)
{
	struct http_client *client = http_client_new(NULL);
	char *text = NULL;
	size_t size = 0;

	if (argc > 0 && !configure(argc, argv))
		return 2;
	sim_begin(1, false);
	weather.page = 500;
	while (getline(&text, &size, stdin) > 0) {
		cJSON *line = cJSON_Parse(text);

		if (!line)
			return fprintf(stderr, "sim: a line that is no JSON: %s", text), 2;
		serve(client, line);
		cJSON_Delete(line);
	}
	free(text);
	http_client_free(client);
	return 0;
}
