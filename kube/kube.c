/* SPDX-License-Identifier: Apache-2.0 */
/* kube: calls to the Kubernetes API, over as many connections as there are calls at one time; its
 * lists, page by page; Events about its objects. */
#include "kube/kube.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "kube/kube_answer.h"
#include "kube/kube_request.h"

/* ---- calls ---- */

#define CONNECT_MS 5000
#define CALL_MS 10000
/* libcurl takes 300 KB. */
#define HEAD_MAX (320u * 1024)
#define PATH_MAX_BYTES 16384

/* A connection that nobody uses now. */
struct idle {
	struct http_client *client;
	struct idle *next;
};

struct kube {
	const struct kube_config *config;
	pthread_mutex_t lock;
	struct idle *idle; /* the most recently used first, so that the others may be closed by the
			      other side */
	atomic_uint restores, breaks;
	/* What the API server's clock said when clock_ms() was at_ms; 0: nothing yet. */
	int64_t date_ms, at_ms;
};

int kube_new(const struct kube_config *config, struct kube **ret, struct err *err)
{
	/* Here rather than at the first call it is said that there is no libcurl. */
	struct http_client *client = http_client_new(err);
	struct idle *first = client ? calloc(1, sizeof(*first)) : NULL;
	struct kube *k = first ? calloc(1, sizeof(*k)) : NULL;

	if (!client)
		return err ? (int)err->code : ERR_IO;
	if (!k || pthread_mutex_init(&k->lock, NULL) != 0) {
		free(k);
		free(first);
		http_client_free(client);
		return err_set(err, ERR_NOMEM, "out of memory for the Kubernetes API");
	}
	first->client = client;
	k->config = config;
	k->idle = first;
	*ret = k;
	return 0;
}

void kube_free(struct kube *k)
{
	if (!k)
		return;
	for (struct idle *i = k->idle, *next; i; i = next) {
		next = i->next;
		http_client_free(i->client);
		free(i);
	}
	(void)pthread_mutex_destroy(&k->lock);
	free(k);
}

unsigned kube_restored(struct kube *k)
{
	return atomic_fetch_add(&k->restores, 1) + 1;
}

unsigned kube_restores(const struct kube *k)
{
	return atomic_load(&k->restores);
}

void kube_broken(struct kube *k)
{
	(void)atomic_fetch_add(&k->breaks, 1);
}

unsigned kube_breaks(const struct kube *k)
{
	return atomic_load(&k->breaks);
}

static struct idle *take(struct kube *k, struct err *err)
{
	struct idle *i;

	pthread_mutex_lock(&k->lock);
	i = k->idle;
	if (i)
		k->idle = i->next;
	pthread_mutex_unlock(&k->lock);
	if (i)
		return i;
	i = calloc(1, sizeof(*i));
	if (!i) {
		err_set(err, ERR_NOMEM, "out of memory for a connection to the Kubernetes API");
		return NULL;
	}
	i->client = http_client_new(err);
	if (!i->client) {
		free(i);
		return NULL;
	}
	return i;
}

static void give(struct kube *k, struct idle *i)
{
	pthread_mutex_lock(&k->lock);
	i->next = k->idle;
	k->idle = i;
	pthread_mutex_unlock(&k->lock);
}

int kube_request_init(struct kube_request *r, const struct kube *k, const char *method,
	const char *path, const char *content_type, struct err *err)
{
	const struct kube_config *c = k->config;
	int rc;

	*r = (struct kube_request){0};
	buf_init(&r->url, PATH_MAX_BYTES);
	buf_init(&r->content_type, 256);
	if (!path)
		return err_set(err, ERR_NOMEM, "%s: out of memory for the path", method);
	rc = kube_config_token(c, &r->token, err);
	if (rc != 0)
		return rc;
	buf_str(&r->url, c->server);
	buf_str(&r->url, path);
	buf_fmt(&r->content_type, "Content-Type: %s", content_type ? content_type : KUBE_JSON);
	if (r->url.full)
		return err_set(err, ERR_INVALID, "%s: the path is too long", method);
	if (r->url.failed || r->content_type.failed)
		return err_set(err, ERR_NOMEM, "%s %s: out of memory", method, path);
	r->headers[0] = "Accept: application/json";
	r->headers[1] = r->content_type.data;
	r->http = (struct http_ask){.method = method,
		.url = r->url.data,
		.headers = r->headers,
		.bearer = r->token.len ? r->token.data : NULL,
		.ca_file = c->ca_file,
		.insecure = c->insecure,
		.cert_file = c->cert_file,
		.key_file = c->key_file,
		.connect_ms = CONNECT_MS};
	return 0;
}

void kube_request_release(struct kube_request *r)
{
	if (r->token.data)
		explicit_bzero(r->token.data, r->token.len);
	buf_release(&r->token);
	buf_release(&r->url);
	buf_release(&r->content_type);
}

/* The answer is in ret->body: what it means. */
static int judge(const struct kube_call *call, struct kube_answer *ret, struct err *err)
{
	struct err what = {0};
	int rc = kube_read(&ret->body, &ret->json, &what);

	if (ret->status < 200 || ret->status > 299)
		return kube_failure(call->method, call->path, ret->status, &ret->json,
			buf_as_slice(&ret->body), err);
	if (rc != 0)
		return err_set(err, (enum err_code)rc, "%s %s: the answer cannot be read: %s",
			call->method, call->path, what.msg);
	return 0;
}

void kube_note_date(struct kube *k, struct slice head)
{
	int64_t date_s;

	if (!kube_date(head, &date_s))
		return;
	pthread_mutex_lock(&k->lock);
	k->date_ms = date_s * 1000;
	k->at_ms = clock_ms();
	pthread_mutex_unlock(&k->lock);
}

int64_t kube_wall_ms(struct kube *k)
{
	int64_t now = clock_wall_ms(), most = INT64_MAX;

	pthread_mutex_lock(&k->lock);
	if (k->date_ms != 0)
		most = k->date_ms + (clock_ms() - k->at_ms) + KUBE_AHEAD_MS;
	pthread_mutex_unlock(&k->lock);
	return now < most ? now : most;
}

int kube_do(struct kube *k, const struct kube_call *call, struct kube_answer *ret, struct err *err)
{
	struct kube_answer unwanted, *answer = ret ? ret : &unwanted;
	const struct kube_place *at = &call->at;
	struct kube_call whole = *call;
	struct http_response response = {0};
	struct kube_request r;
	struct idle *line = NULL;
	struct buf path;
	int rc;

	*answer = (struct kube_answer){0};
	buf_init(&path, PATH_MAX_BYTES);
	if (at->api) {
		kube_path(&path, at->api, at->namespace, at->plural, at->name, at->sub);
		whole.path = path.data;
	}
	if (call->text)
		whole.body = buf_as_slice(call->text);
	rc = kube_request_init(&r, k, call->method, whole.path, call->content_type, err);
	if (rc == 0 && call->text && call->text->failed)
		rc = err_set(err, ERR_NOMEM, "%s %s: out of memory for the body", call->method,
			whole.path);
	if (rc == 0 && !(line = take(k, err)))
		rc = err && err->code ? (int)err->code : ERR_NOMEM;
	if (rc == 0) {
		r.http.body = whole.body;
		if (!whole.body.at)
			r.headers[1] = NULL;
		r.http.timeout_ms = call->timeout_ms > 0 ? call->timeout_ms : CALL_MS;
		r.http.max_bytes = KUBE_ANSWER_MAX;
		r.http.max_head = HEAD_MAX;
		r.http.go_on = call->go_on;
		r.http.go_on_ctx = call->go_on_ctx;
		rc = http_client_do(line->client, &r.http, &response, err);
		give(k, line);
	}
	if (rc == 0) {
		answer->status = response.status;
		answer->body = response.body;
		kube_note_date(k, buf_as_slice(&response.head));
		rc = judge(&whole, answer, err);
	}
	kube_request_release(&r);
	buf_release(&path);
	buf_release(&response.head);
	if (!ret)
		kube_answer_release(answer);
	return rc;
}

bool kube_says_gone(int rc, const struct err *err)
{
	return rc == ERR_NOTFOUND && strcmp(err->reason, "NotFound") == 0;
}

void kube_answer_release(struct kube_answer *a)
{
	json_release(&a->json);
	buf_release(&a->body);
}

int kube_get(struct kube *k, const char *path, int64_t timeout_ms, struct kube_answer *ret,
	struct err *err)
{
	const struct kube_call call = {.method = "GET", .path = path, .timeout_ms = timeout_ms};

	return kube_do(k, &call, ret, err);
}

int kube_get_at(struct kube *k, struct kube_place at, int64_t timeout_ms, struct kube_answer *ret,
	struct err *err)
{
	const struct kube_call call = {.method = "GET", .at = at, .timeout_ms = timeout_ms};

	return kube_do(k, &call, ret, err);
}

/* ---- lists ---- */

/* A list that gets too old between two pages is begun anew this often. */
#define RESTARTS 2

/* A list on its way. */
struct listing {
	struct kube *kube;
	const char *path;
	int64_t deadline_ms;
	kube_each *each;
	void *ctx;
	struct kube_page page; /* the last one that came */
};

/* What the page says, object by object. */
static int read_page(struct listing *l, const struct json *j, struct err *err)
{
	const struct json_node *items;
	int rc = kube_page_items(j, l->path, &items, err);

	if (rc == 0)
		rc = kube_page_read(&l->page, l->path, j, err);
	if (rc != 0)
		return rc;
	JSON_EACH(j, items, object)
	{
		if (!l->each(l->ctx, j, object))
			return err_set(err, ERR_REFUSED, "GET %s: the list was ended", l->path);
	}
	return 0;
}

static int get_page(struct listing *l, long *ret_status, struct err *err)
{
	struct kube_call call = {.method = "GET", .timeout_ms = l->deadline_ms - clock_ms()};
	struct kube_answer answer = {0};
	struct buf path;
	int rc;

	*ret_status = 0;
	if (call.timeout_ms <= 0)
		return err_set(err, ERR_TIMEOUT, "GET %s: not all pages came in time", l->path);
	buf_init(&path, PATH_MAX_BYTES);
	kube_page_path(&l->page, l->path, &path);
	call.path = path.data;
	if (path.failed)
		rc = err_set(err, ERR_NOMEM, "GET %s: no room for the path", l->path);
	else
		rc = kube_do(l->kube, &call, &answer, err);
	*ret_status = answer.status;
	if (rc == 0)
		rc = read_page(l, &answer.json, err);
	kube_answer_release(&answer);
	buf_release(&path);
	return rc;
}

int kube_list(struct kube *k, const char *path, int64_t timeout_ms, void (*begin)(void *ctx),
	kube_each *each, void *ctx, char ret_version[static 32], struct err *err)
{
	struct listing l = {.kube = k,
		.path = path,
		.deadline_ms = clock_ms() + timeout_ms,
		.each = each,
		.ctx = ctx};
	int restarts = 0, rc;
	long status;

	buf_init(&l.page.next, PATH_MAX_BYTES / 4);
	if (begin)
		begin(ctx);
	for (;;) {
		rc = get_page(&l, &status, err);
		if (rc == 0 && l.page.next.len == 0)
			break;
		if (rc == 0)
			continue;
		if (status != 410 || restarts++ == RESTARTS)
			break;
		buf_clear(&l.page.next);
		if (begin)
			begin(ctx);
	}
	if (rc == 0)
		memcpy(ret_version, l.page.version, sizeof(l.page.version));
	buf_release(&l.page.next);
	return rc;
}

/* ---- Events ---- */

/* What the API server accepts. */
#define NOTE_MAX 1024
#define EVENT_MAX 8192

static void member(struct buf *b, const char *key, struct slice value)
{
	buf_fmt(b, ",\"%s\":", key);
	buf_json_str(b, value);
}

/* Objects without a namespace have their events in "default". */
static void write_event(
	struct buf *b, const struct kube_event *e, struct slice namespace, struct slice note)
{
	struct slice component = slice_of(e->component ? e->component : "poolgate");
	char now[CLOCK_TEXT_SIZE];

	(void)clock_text(clock_wall_s(), now);
	buf_str(b, "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{\"generateName\":\"");
	buf_json_esc(b, e->name);
	buf_str(b, ".\"");
	member(b, "namespace", namespace);
	buf_str(b, "},\"involvedObject\":{\"kind\":");
	buf_json_str(b, slice_of(e->kind));
	member(b, "apiVersion", slice_of(e->api_version));
	if (e->namespace.len)
		member(b, "namespace", e->namespace);
	member(b, "name", e->name);
	if (e->uid.len)
		member(b, "uid", e->uid);
	buf_str(b, "},\"source\":{\"component\":");
	buf_json_str(b, component);
	buf_str(b, "},\"count\":1");
	member(b, "type", slice_of(e->type));
	member(b, "reason", slice_of(e->reason));
	member(b, "message", note);
	member(b, "reportingComponent", component);
	member(b, "firstTimestamp", slice_of(now));
	member(b, "lastTimestamp", slice_of(now));
	buf_char(b, '}');
}

int kube_tell(struct kube *k, const struct kube_event *event, struct err *err)
{
	struct slice namespace = event->namespace.len ? event->namespace : SLICE("default");
	struct slice note = slice_of(event->note);
	struct buf body, name;
	struct kube_call call = {.method = "POST", .text = &body};
	int rc;

	note.len = text_utf8_cut(note, NOTE_MAX);
	buf_init(&name, 256);
	buf_init(&body, EVENT_MAX);
	buf_slice(&name, namespace);
	write_event(&body, event, namespace, note);
	call.at = (struct kube_place){"/api/v1", name.data, "events", NULL, NULL};
	if (name.failed)
		rc = err_set(err, ERR_NOMEM, "no room for an event");
	else
		rc = kube_do(k, &call, NULL, err);
	buf_release(&name);
	buf_release(&body);
	return rc;
}
