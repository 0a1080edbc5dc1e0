/* SPDX-License-Identifier: Apache-2.0 */
/* bench: an API server that has a large pool, in a process of its own: its time and memory are not
 * a replica's. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json/json_read.h"
#include "test/bench/scale/scale.h"
#include "test/unit/api_fixture.h"

#define PODS "/api/v1/pods"
#define BODY_MAX (64u << 20)
#define EVENT_MAX (1u << 20)
#define FIRST_VERSION 1000

struct scale_api {
	struct api *api;
	size_t servers;
	int fill;
	uint64_t version;
	uint64_t *versions; /* of each server; 0: as at the start */
	char **status;      /* of each; NULL: as at the start */
};

static size_t number(const char *path, const char *key, size_t otherwise)
{
	const char *at = strstr(path, key);

	return at ? strtoul(at + strlen(key), NULL, 10) : otherwise;
}

static void render(const struct scale_api *s, size_t i, struct buf *out)
{
	struct buf status;

	buf_init(&status, EVENT_MAX);
	if (s->status[i])
		buf_str(&status, s->status[i]);
	else
		pool_status(&status, i, s->fill);
	pool_server(out, i, s->versions[i] ? s->versions[i] : i + 1, buf_as_slice(&status));
	buf_release(&status);
}

static void pods_of(const struct scale_api *s, size_t i, struct buf *out, bool *first)
{
	for (size_t k = 0;; k++) {
		struct buf pod;

		buf_init(&pod, EVENT_MAX);
		if (!pool_pod(&pod, i, k, s->fill)) {
			buf_release(&pod);
			return;
		}
		buf_str(out, *first ? "" : ",");
		buf_slice(out, buf_as_slice(&pod));
		*first = false;
		buf_release(&pod);
	}
}

/* A page of the servers, or of the pods on so many servers. */
static void page(const struct scale_api *s, const struct api_request *req, bool pods,
	struct api_reply *reply)
{
	size_t from = number(req->path, "continue=", 0),
	       n = number(req->path, "limit=", s->servers);
	struct buf b;
	bool first = true;

	n = pods ? n / 10 : n;
	n = from + n < s->servers ? n : s->servers - from;
	buf_init(&b, BODY_MAX);
	buf_fmt(&b,
		"{\"apiVersion\":\"%s\",\"kind\":\"%sList\",\"metadata\":{\"resourceVersion\":\"%"
		"llu\"",
		pods ? "v1" : "poolgate.io/v1alpha1", pods ? "Pod" : "GPUServer",
		(unsigned long long)s->version);
	if (from + n < s->servers)
		buf_fmt(&b, ",\"continue\":\"%zu\"", from + n);
	buf_str(&b, "},\"items\":[");
	for (size_t i = from; i < from + n; i++) {
		if (pods) {
			pods_of(s, i, &b, &first);
			continue;
		}
		buf_str(&b, first ? "" : ",");
		first = false;
		render(s, i, &b);
	}
	buf_str(&b, "]}\n");
	reply->body = strdup(b.data);
	buf_release(&b);
}

static void put_status(
	struct scale_api *s, const struct api_request *req, size_t i, struct api_reply *reply)
{
	const char *status = strstr(req->body, "},\"status\":");
	struct buf b;

	if (status) {
		status += strlen("},\"status\":");
		free(s->status[i]);
		s->status[i] = strndup(status, strlen(status) - 1);
		s->versions[i] = ++s->version;
	}
	buf_init(&b, EVENT_MAX);
	render(s, i, &b);
	reply->body = strdup(b.data);
	buf_clear(&b);
	buf_str(&b, "{\"type\":\"MODIFIED\",\"object\":");
	render(s, i, &b);
	buf_str(&b, "}\n");
	(void)api_push(s->api, SERVERS "?*", b.data);
	buf_release(&b);
}

static int on_request(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	struct scale_api *s = ctx;
	bool pods = strncmp(req->path, PODS, strlen(PODS)) == 0;
	size_t i = number(req->path, SERVERS "/gpu-", s->servers);
	struct buf b;

	if (strstr(req->path, "watch=true")) {
		reply->stream = true;
		reply->body = strdup("");
	} else if (pods || i == s->servers) {
		page(s, req, pods, reply);
	} else if (strcmp(req->method, "PUT") == 0) {
		put_status(s, req, i, reply);
	} else {
		buf_init(&b, EVENT_MAX);
		render(s, i, &b);
		reply->body = strdup(b.data);
		buf_release(&b);
	}
	return 0;
}

pid_t scale_api_start(size_t servers, int fill, char *url)
{
	struct scale_api s = {.servers = servers, .fill = fill, .version = FIRST_VERSION + servers};
	int ends[2];
	pid_t pid;

	if (pipe(ends) != 0 || (pid = fork()) < 0) {
		perror("scale");
		exit(1);
	}
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		s.versions = calloc(servers, sizeof(*s.versions));
		s.status = calloc(servers, sizeof(*s.status));
		s.api = api_start(on_request, &s);
		(void)!write(ends[1], api_url(s.api), strlen(api_url(s.api)) + 1);
		for (;;)
			(void)pause();
	}
	if (read(ends[0], url, 64) <= 0) {
		perror("scale: no API server");
		exit(1);
	}
	(void)close(ends[0]);
	(void)close(ends[1]);
	return pid;
}

void scale_api_stop(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}
