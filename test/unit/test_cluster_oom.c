/* SPDX-License-Identifier: Apache-2.0 */
/* test: a replica that is put together (cluster) while memory runs out: at each allocation it says
 * so, and leaves nothing. Its API server is not there. Linked with --wrap for malloc, calloc and
 * realloc. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include <sys/mman.h>

#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"
#include "webhook/cluster/cluster.h"
#include "webhook/edge/metrics/metrics.h"
#include "webhook/edge/settings/settings_file.h"

/* Nobody listens there, and nobody may without root's rights. */
#define CONFIG                                                                                     \
	"apiVersion: v1\nkind: Config\ncurrent-context: c\n"                                       \
	"clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"                         \
	"users: [{name: u, user: {token: t}}]\n"                                                   \
	"contexts: [{name: c, context: {cluster: c, user: u, namespace: tools}}]\n"

static struct cluster_settings settings;
static struct cluster_config cfg;
static const struct log errors = {.fd = STDERR_FILENO};
static int config_fd = -1;
static char config_path[32];

FIXTURE(set_up)
{
	struct err err = {0};

	config_fd = memfd_create("kubeconfig", 0);
	(void)snprintf(config_path, sizeof(config_path), "/proc/self/fd/%d", config_fd);
	assert_int_equal(write(config_fd, CONFIG, sizeof(CONFIG) - 1), sizeof(CONFIG) - 1);
	settings_cluster_defaults(&settings);
	settings.on = true;
	settings.kubeconfig = config_path;
	settings.lease = "leader";
	settings.webhooks = "hooks";
	settings.tls_secret = "pair";
	settings.policies = true;
	settings.waiting = true;
	settings.usage_listen = "127.0.0.1:0";
	settings.secrets_sync = true;
	settings.secrets_source = "tools/client";
	cfg = (struct cluster_config){.settings = &settings,
		.log = &errors,
		.pod_name = "poolgate-7",
		.identity = tls_identity_new(),
		.keys = plan_keys_new(&err),
		.metrics = metrics_new(metric_table, M_COUNT)};
	assert_non_null(cfg.identity);
	assert_non_null(cfg.keys);
	assert_non_null(cfg.metrics);
	return 0;
}

FIXTURE(tear_down)
{
	metrics_free(cfg.metrics);
	plan_keys_free(cfg.keys);
	tls_identity_free(cfg.identity);
	(void)close(config_fd);
	return 0;
}

TEST(each_allocation_of_one_that_is_made)
{
	bool fails = true;

	for (long n = 0; fails; n++) {
		struct cluster *cluster = NULL;
		struct err err = {0};
		int rc;

		oom_begin(n, OOM_ONE);
		rc = cluster_new(&cfg, &cluster, &err);
		fails = oom_end();
		if (fails ? rc == 0 || err.code == 0 || cluster : rc != 0 || !cluster)
			fail_msg("%ld: %d, \"%s\"", n, rc, err.msg);
		cluster_free(cluster);
	}
}

TEST(each_allocation_of_one_that_starts)
{
	bool fails = true;

	for (long n = 0; fails; n++) {
		struct cluster *cluster = NULL;
		struct err err = {0};
		int rc;

		assert_int_equal(cluster_new(&cfg, &cluster, &err), 0);
		oom_begin_here(n, OOM_ONE);
		rc = cluster_start(cluster, &err);
		fails = oom_end();
		if (fails ? rc == 0 || err.code == 0 : rc != 0)
			fail_msg("%ld: %d, \"%s\"", n, rc, err.msg);
		cluster_free(cluster);
	}
}

TESTS_BETWEEN(
	set_up, tear_down, each_allocation_of_one_that_is_made, each_allocation_of_one_that_starts)
