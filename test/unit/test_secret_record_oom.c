/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, while the record of Secrets' copies is read: all its
 * namespaces are told, or an error says why not. Linked with --wrap for malloc, calloc and realloc.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "test/unit/api_fixture.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"
#include "webhook/cluster/secrets/secret_sync_impl.h"

/* The name of the thread that reads; those that play the API server have another. */
#define READS "reads"

static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx, (void)req;
	api_text(reply, 200,
		"{\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"r\",\"resourceVersion\":\"7\"},"
		"\"data\":{\"namespaces\":\"lab ward\\nml\"}}");
	return 0;
}

static void each(void *ctx, const char *namespace)
{
	size_t len = strlen(ctx);

	(void)snprintf((char *)ctx + len, 100 - len, "%s,", namespace);
}

TEST(all_or_an_error)
{
	struct api *api = api_start(handle, NULL);
	struct secret_sync_config cfg = {.namespace = "n", .source = "n/s"};
	struct kube_config config;
	bool failed = true;

	assert_int_equal(pthread_setname_np(pthread_self(), READS), 0);
	api_config(api, &config);
	assert_int_equal(kube_new(&config, &cfg.kube, NULL), 0);
	for (long n = 0; failed; n++) {
		struct err err = {0};
		char told[100] = "";
		int rc;

		oom_begin_in(READS, n, OOM_ONE);
		rc = secret_record_read(&cfg, each, told, &err);
		failed = oom_end();
		if (rc == 0 ? strcmp(told, "lab,ward,ml,") != 0
			    : !failed || rc != ERR_NOMEM || told[0] || !err.msg[0])
			fail_msg("%ld: %d, \"%s\", %s", n, rc, told, err.msg);
	}
	kube_free(cfg.kube);
	api_stop(api);
}

TESTS(all_or_an_error)
