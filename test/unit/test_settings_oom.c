/* SPDX-License-Identifier: Apache-2.0 */
/* edge/settings: memory that ends at every n-th allocation while file and flags are read. */
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"
#include "webhook/core/image/image.h"
#include "webhook/edge/settings/settings.h"

/* A key and a flag of each kind. */
static const char file[] =
	"apiVersion: poolgate.io/v1alpha1\nkind: Config\nlisten: \":1\"\n"
	"tls: {cert: a, key: b, clientCA: c, clientNames: [v, w]}\nlog: {level: warn}\n"
	"clientShell: /bin/bash\nlaunchers: [d, e]\ndefaultLauncher: f\ntotalGpuMemory: 16G\n"
	"workers: 3\ndrainDelay: 1s\nregistries: [{host: ghcr.io, tokens: [t], ca: g}]\n"
	"cluster: {lease: le, pendingShare: 7, tls: {manage: false}, waiting: {whenFull: wait,\n"
	"  priorityClasses: [urgent]}, secrets: {source: a/b}}\n";

static char path[] = "/tmp/poolgate-settings-oom-XXXXXX";

FIXTURE(make_file)
{
	int fd = mkstemp(path);

	if (fd < 0 || write(fd, file, sizeof(file) - 1) != (ssize_t)sizeof(file) - 1)
		return -1;
	return close(fd);
}

FIXTURE(remove_file)
{
	return unlink(path);
}

static int load(struct settings *s, struct err *err)
{
	char config[] = "--config", catalogue[] = "--client-catalogue=h",
	     sidecar[] = "--sidecar-config=i", port[] = "-port=5", name[] = "--client-name=z",
	     ignored[] = "-v=3";
	char *argv[] = {config, path, catalogue, sidecar, port, name, ignored, NULL};

	return settings_load(7, argv, "8000", s, err);
}

/* Nothing but who named a path, and what the log says, may be missing where memory was. */
TEST(every_allocation_fails)
{
	char keys[SETTINGS_KEYS_SIZE];
	struct settings right, s;
	struct err err = {0};
	int broken = 0;

	if (load(&right, &err) != 0)
		fail_msg("%s", err.msg);
	assert_string_equal(right.listen, ":5");
	assert_string_equal(right.client_names[0], "z");
	for (enum oom_extent extent = OOM_ONE; extent <= OOM_ALL_AFTER; extent++) {
		bool failed = true;

		for (long n = 0; failed; n++) {
			int rc;

			oom_begin(n, extent);
			rc = load(&s, &err);
			failed = oom_end();
			if (rc != 0) {
				assert_true(failed);
				assert_int_equal(rc, ERR_NOMEM);
				broken++;
			} else {
				assert_false(settings_needs_restart(&right, &s, keys));
				assert_int_equal(s.n_client_names, 1);
				assert_int_equal(s.n_launchers, 2);
				assert_string_equal(s.launchers[1], right.launchers[1]);
				assert_int_equal(s.total_gpu_mb, 8000);
				assert_string_equal(s.registries[0].ca, right.registries[0].ca);
			}
			settings_release(&s);
		}
	}
	assert_true(broken > 40);
	settings_release(&right);
}

TESTS_WITHIN(make_file, remove_file, every_allocation_fails)
