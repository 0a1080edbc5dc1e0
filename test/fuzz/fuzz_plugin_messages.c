/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: any bytes as the kubelet's messages. The first byte chooses the method. What is answered
 * can be read, and is for what was asked; what is refused is refused with a sentence. */
#include <deviceplugin.pb-c.h>
#include <registration.pb-c.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "deviceplugin/plugin.h"
#include "test/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct plugin *plugin(void)
{
	static const char *const envs[] = {"A=b"}, *const mounts[] = {"/a:/b:ro"};
	static const struct plugin_gives gives = {envs, 1, mounts, 1};
	static const struct log quiet = {.fd = -1};
	static struct plugin *p;

	if (!p)
		REQUIRE(plugin_new("/run/x.sock", 300, &gives, &quiet, &p, NULL) == 0);
	return p;
}

/* The method at that place which answers at once. */
static const struct grpc_method *method(uint8_t at)
{
	const struct grpc_method *all = plugin_methods(), *found = NULL;
	size_t n = 0;

	while (all[n].path)
		n++;
	for (size_t i = at % n; !found; i = (i + 1) % n)
		found = all[i].call ? &all[i] : NULL;
	return found;
}

/* An allocation that was answered: every id is one of ours, in each container once. */
static void check_allocated(const uint8_t *data, size_t size, const struct buf *reply)
{
	V1beta1__AllocateRequest *r = v1beta1__allocate_request__unpack(NULL, size, data);
	V1beta1__AllocateResponse *a =
		v1beta1__allocate_response__unpack(NULL, reply->len, (const uint8_t *)reply->data);

	REQUIRE(r && a && a->n_container_responses == r->n_container_requests);
	for (size_t i = 0; i < r->n_container_requests; i++) {
		REQUIRE(r->container_requests[i]->n_devices_ids > 0);
		REQUIRE(r->container_requests[i]->n_devices_ids <= 300);
		REQUIRE(r->container_requests[i]->devices_ids[0].data[0] == 'u');
		REQUIRE(a->container_responses[i]->n_envs == 1);
		REQUIRE(a->container_responses[i]->n_mounts == 1);
	}
	v1beta1__allocate_request__free_unpacked(r, NULL);
	v1beta1__allocate_response__free_unpacked(a, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct grpc_method *m;
	struct err err = {0};
	struct buf reply;

	if (size < 1)
		return 0;
	m = method(data[0]);
	data++;
	size--;
	buf_init(&reply, GRPC_MESSAGE_MAX);
	enum grpc_status status =
		m->call(plugin(), (struct slice){(const char *)data, size}, &reply, &err);

	if (status != GRPC_OK)
		REQUIRE(err.code != ERR_NONE && err.msg[0]);
	else if (strstr(m->path, "/Allocate"))
		check_allocated(data, size, &reply);
	buf_release(&reply);
	return 0;
}
