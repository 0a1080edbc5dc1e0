/* SPDX-License-Identifier: Apache-2.0 */
/* cli: the webhook configurations for profiles of one's own. A server that rewrote its hooks would
 * fight whoever applies them from a repository, so this is done offline, for kustomize and the
 * chart. */
#define _GNU_SOURCE 1 /* memmem */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "webhook/cli/doctor/doctor_shipped.h"
#include "webhook/cli/usage/cli.h"
#include "webhook/cli/usage/usage.h"
#include "webhook/core/launcher/config.h"
#include "webhook/core/policy/policy.h"
#include "webhook/edge/settings/config_store.h"

#define OUT_MAX (4u << 20)
/* With this each list of Secrets in the manifest begins. */
#define LIST "['bitfusion-client-secret-"
/* With this the selector of each hook, and what those of the base have more beside policies. */
#define SPARED "        - {key: kubernetes.io/metadata.name, "
#define OF_NO_POLICY "        - {key: " LABEL_POLICY ", operator: DoesNotExist}\n"

static const char help[] =
	"usage: poolgate hooks [options]\n"
	"\n"
	"Prints the webhook configurations of this version, whose conditions name the Secrets "
	"that\n"
	"remote-GPU clients read: those of the profiles that the settings name. The ones in\n"
	"manifests/base are made for the shipped profiles; a pod that reads another profile's\n"
	"Secret is not sent to poolgate. With cluster.policies those of components/policies are "
	"among\n"
	"them. Nothing is asked of a cluster.\n"
	"\n"
	"  --config FILE, --client-catalogue FILE, --sidecar-config FILE, --launchers FILE|DIR "
	"and\n"
	"  every other option of poolgate serve\n"
	"\n"
	"Exit status: 0 done, 2 wrong usage, 3 something could not be read or written.\n"
	"\n"
	"Examples:\n"
	"  poolgate hooks --config poolgate.yaml > webhooks.yaml    a patch for kustomize, a value "
	"for the chart\n"
	"  poolgate hooks --launchers launchers/ | kubectl diff -f -\n";

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The Secrets of all profiles, each name once, sorted, in the arena; what no Secret can be called
 * is left out. NULL: out of memory. */
static const char **hooks_secrets(const struct config *c, struct arena *a, size_t *ret_n)
{
	const char **names;
	size_t n = 0, kept = 0;

	for (size_t i = 0; i < c->n_profiles; i++)
		n += c->profiles[i].n_secrets;
	names = arena_array(a, n, sizeof(*names));
	n = 0;
	for (size_t i = 0; names && i < c->n_profiles; i++)
		for (size_t k = 0; k < c->profiles[i].n_secrets; k++)
			if (text_dns_subdomain(c->profiles[i].secrets[k]))
				names[n++] = arena_strdup(a, c->profiles[i].secrets[k]);
	if (!names || a->failed)
		return NULL;
	if (n > 1)
		qsort(names, n, sizeof(*names), by_text);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || strcmp(names[i], names[kept - 1]) != 0)
			names[kept++] = names[i];
	*ret_n = kept;
	return names;
}

static void write_list(const char *const *names, size_t n, struct buf *out)
{
	buf_char(out, '[');
	for (size_t i = 0; i < n; i++)
		buf_fmt(out, "%s'%s'", i > 0 ? ", " : "", names[i]);
	buf_char(out, ']');
}

/* What stands in front of a mark in the text, the mark with it, which is taken from the text; else
 * all of it. */
static struct slice take_up_to(struct slice *io_text, struct slice mark)
{
	const char *at = memmem(io_text->at, io_text->len, mark.at, mark.len);
	size_t n = at ? (size_t)(at - io_text->at) + mark.len : io_text->len;
	struct slice front = {io_text->at, n};

	*io_text = (struct slice){io_text->at + n, io_text->len - n};
	return front;
}

/* The base's hooks are for namespaces without the label then. */
static void write_base(struct slice text, struct buf *out)
{
	while (text.len > 0) {
		struct slice line = take_up_to(&text, SLICE("\n"));

		buf_slice(out, line);
		if (slice_starts(line, SLICE(SPARED)))
			buf_str(out, OF_NO_POLICY);
	}
}

/* Those of the component's hooks that are more than a selector of one of the base's. */
static void write_component(struct slice text, struct buf *out)
{
	bool own = false;

	(void)take_up_to(&text, SLICE("\nwebhooks:\n"));
	while (text.len > 0) {
		struct slice line = take_up_to(&text, SLICE("\n"));

		if (slice_starts(line, SLICE("  - ")))
			own = slice_starts(text, SLICE("    admissionReviewVersions:"));
		if (own)
			buf_slice(out, line);
	}
}

/* The hooks of the component stand behind those of the base: each list is the end of its document.
 */
static void write_with_policies(struct slice text, struct buf *out)
{
	struct slice front = take_up_to(&text, SLICE("\n---\n"));

	write_base((struct slice){front.at, front.len - sizeof("---\n") + 1}, out);
	write_component(shipped_text(SHIPPED_POLICY_MUTATING), out);
	buf_str(out, "---\n");
	write_base(text, out);
	write_component(shipped_text(SHIPPED_POLICY_VALIDATING), out);
}

static void write_names(struct slice text, const char *const *names, size_t n, struct buf *out)
{
	const char *end = text.at + text.len, *list;

	while ((list = memmem(text.at, (size_t)(end - text.at), LIST, sizeof(LIST) - 1))) {
		buf_slice(out, (struct slice){text.at, (size_t)(list - text.at)});
		write_list(names, n, out);
		text.at = (const char *)memchr(list, ']', (size_t)(end - list)) + 1;
	}
	buf_slice(out, (struct slice){text.at, (size_t)(end - text.at)});
}

/* Append the manifest of the webhooks (manifests/base/webhooks.yaml) with these names, sorted,
 * where its conditions name Secrets; policies: and with those of components/policies. out->failed
 * tells when it did not fit. */
static void hooks_write(const char *const *names, size_t n, bool policies, struct buf *out)
{
	struct buf whole;

	buf_init(&whole, OUT_MAX);
	if (policies)
		write_with_policies(shipped_text(SHIPPED_HOOKS), &whole);
	write_names(policies ? buf_as_slice(&whole) : shipped_text(SHIPPED_HOOKS), names, n, out);
	out->failed = out->failed || whole.failed;
	buf_release(&whole);
}

static int print(const struct config *c, bool policies)
{
	const char **names;
	struct arena a;
	struct buf out;
	size_t n = 0;
	int rc = SERVE_DONE;

	arena_init(&a, OUT_MAX);
	buf_init(&out, OUT_MAX);
	names = hooks_secrets(c, &a, &n);
	if (names)
		hooks_write(names, n, policies, &out);
	if (!names || out.failed || fwrite(out.data, 1, out.len, stdout) != out.len ||
		fflush(stdout) != 0) {
		(void)fputs("poolgate hooks: cannot write to standard output\n", stderr);
		rc = SERVE_UNREADABLE;
	}
	buf_release(&out);
	arena_release(&a);
	return rc;
}

int hooks_main(int argc, char **argv)
{
	struct settings s;
	struct config_built *config = NULL;
	struct err err = {0};
	int rc = settings_load(argc - 1, argv + 1, getenv("TOTAL_GPU_MEMORY"), &s, &err);

	if (rc == 0 && s.help) {
		(void)fputs(help, stdout);
		settings_release(&s);
		return SERVE_DONE;
	}
	if (rc == 0 && config_build(&s, &config, &err) != 0)
		rc = settings_blame(&s, &err);
	if (rc == 0)
		rc = print(&config->config, s.cluster.policies);
	else if (rc == ERR_SYNTAX && !config)
		rc = usage_wrong("hooks", "%s", err.msg);
	else {
		(void)fprintf(stderr, "poolgate hooks: %s%s%s\n", err.path, err.path[0] ? ": " : "",
			err.msg);
		rc = SERVE_UNREADABLE;
	}
	config_built_free(config);
	settings_release(&s);
	return rc;
}
