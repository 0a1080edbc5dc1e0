/* SPDX-License-Identifier: Apache-2.0 */
/* test: what the kubelet is told and answered, message by message; the server in between is played
 * here. */
#include <deviceplugin.pb-c.h>
#include <registration.pb-c.h>

#include "deviceplugin/plugin.h"
#include "test/unit/test.h"

#define DEVICE_PLUGIN "/v1beta1.DevicePlugin/"
#define REGISTRATION "/pluginregistration.Registration/"

/* ---- the server's side ---- */

struct grpc_stream {
	struct buf shown;
	unsigned times;
	bool broken; /* has no memory */
};

int __wrap_grpc_stream_show(struct grpc_stream *stream, struct slice message, struct err *err);
int __wrap_grpc_stream_show(struct grpc_stream *stream, struct slice message, struct err *err)
{
	if (stream->broken)
		return err_set(err, ERR_NOMEM, "no memory");
	buf_clear(&stream->shown);
	buf_slice(&stream->shown, message);
	stream->times++;
	return 0;
}

struct fixture {
	struct plugin *p;
	struct log log;
	char log_path[40];
	struct buf reply;
	struct err err;
	struct grpc_stream stream[2];
};

static const struct plugin_gives nothing;

static void begin(struct fixture *f, uint32_t units, const struct plugin_gives *gives)
{
	memset(f, 0, sizeof(*f));
	(void)snprintf(f->log_path, sizeof(f->log_path), "/tmp/poolgate-test-XXXXXX");
	log_init(&f->log, mkstemp(f->log_path));
	buf_init(&f->reply, GRPC_MESSAGE_MAX);
	for (size_t i = 0; i < 2; i++)
		buf_init(&f->stream[i].shown, GRPC_MESSAGE_MAX);
	if (plugin_new("/var/lib/kubelet/plugins_registry/x.sock", units, gives, &f->log, &f->p,
		    &f->err) != 0)
		fail_msg("%s", f->err.msg);
}

static void end(struct fixture *f)
{
	plugin_free(f->p);
	buf_release(&f->reply);
	for (size_t i = 0; i < 2; i++)
		buf_release(&f->stream[i].shown);
	(void)close(f->log.fd);
	(void)unlink(f->log_path);
}

static const struct grpc_method *method(const char *path)
{
	for (const struct grpc_method *m = plugin_methods(); m->path; m++)
		if (strcmp(m->path, path) == 0)
			return m;
	fail_msg("no method %s", path);
	return NULL;
}

static enum grpc_status call_bytes(struct fixture *f, const char *path, const void *at, size_t len)
{
	buf_clear(&f->reply);
	buf_str(&f->reply, "#####"); /* what the server puts before it */
	err_clear(&f->err);
	return method(path)->call(f->p, (struct slice){at, len}, &f->reply, &f->err);
}

static enum grpc_status call(struct fixture *f, const char *path, const ProtobufCMessage *m)
{
	static uint8_t bytes[1 << 20];

	assert_true(protobuf_c_message_get_packed_size(m) <= sizeof(bytes));
	return call_bytes(f, path, bytes, protobuf_c_message_pack(m, bytes));
}

static void *answer(struct fixture *f, const ProtobufCMessageDescriptor *type)
{
	void *m = protobuf_c_message_unpack(
		type, NULL, f->reply.len - 5, (const uint8_t *)f->reply.data + 5);

	assert_memory_equal(f->reply.data, "#####", 5);
	assert_non_null(m);
	return m;
}

static void release(void *m)
{
	protobuf_c_message_free_unpacked(m, NULL);
}

static enum grpc_status listen_on(struct fixture *f, size_t i)
{
	return method(DEVICE_PLUGIN "ListAndWatch")->open(f->p, &f->stream[i], SLICE(""), &f->err);
}

static void hang_up(struct fixture *f, size_t i)
{
	method(DEVICE_PLUGIN "ListAndWatch")->closed(f->p, &f->stream[i]);
}

/* The list that a stream has: its length, all of one health, ids in order. */
static size_t listed(struct fixture *f, size_t i, const char *health)
{
	V1beta1__ListAndWatchResponse *list = v1beta1__list_and_watch_response__unpack(
		NULL, f->stream[i].shown.len, (const uint8_t *)f->stream[i].shown.data);
	char id[24];
	size_t n;

	assert_non_null(list);
	n = list->n_devices;
	for (size_t k = 0; k < n; k++) {
		(void)snprintf(id, sizeof(id), "u%zu", k);
		assert_string_equal(list->devices[k]->id, id);
		assert_string_equal(list->devices[k]->health, health);
	}
	v1beta1__list_and_watch_response__free_unpacked(list, NULL);
	return n;
}

static const char *logged(struct fixture *f)
{
	static char text[16384];
	ssize_t n = pread(f->log.fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static int times(const char *text, const char *word)
{
	int n = 0;

	for (; (text = strstr(text, word)); text++)
		n++;
	return n;
}

/* ---- the list ---- */

static struct fixture fix;

FIXTURE(set_up)
{
	begin(&fix, 0, &nothing);
	return 0;
}

FIXTURE(tear_down)
{
	end(&fix);
	return 0;
}

TEST(test_list_follows_the_pool)
{
	assert_int_equal(listen_on(&fix, 0), GRPC_OK);
	assert_int_equal(listed(&fix, 0, "Unhealthy"), 1000);
	assert_int_equal(plugin_pool(fix.p, true, 100, &fix.err), 0);
	assert_int_equal(listed(&fix, 0, "Healthy"), 1000);
	assert_int_equal(plugin_pool(fix.p, true, 300, &fix.err), 0);
	assert_int_equal(listed(&fix, 0, "Healthy"), 3000);
	/* Never less: pods hold some. */
	assert_int_equal(plugin_pool(fix.p, true, 100, &fix.err), 0);
	assert_int_equal(fix.stream[0].times, 3);
	assert_int_equal(plugin_pool(fix.p, true, 0, &fix.err), 0);
	assert_int_equal(listed(&fix, 0, "Unhealthy"), 3000);
	assert_int_equal(plugin_pool(fix.p, true, 300, &fix.err), 0);
	assert_int_equal(plugin_pool(fix.p, false, 300, &fix.err), 0);
	assert_int_equal(listed(&fix, 0, "Unhealthy"), 3000);
	assert_int_equal(plugin_pool(fix.p, false, 200, &fix.err), 0);
	assert_int_equal(fix.stream[0].times, 6);
	/* One that comes later has the newest. */
	assert_int_equal(plugin_pool(fix.p, true, 300, &fix.err), 0);
	assert_int_equal(listen_on(&fix, 1), GRPC_OK);
	assert_int_equal(listed(&fix, 1, "Healthy"), 3000);
	assert_int_equal(plugin_facts(fix.p).streams, 2);
	hang_up(&fix, 0);
	plugin_withdraw(fix.p);
	assert_int_equal(listed(&fix, 1, "Unhealthy"), 3000);
	assert_int_equal(fix.stream[0].times, 7);
	assert_int_equal(plugin_pool(fix.p, true, 900, &fix.err), 0);
	assert_false(plugin_facts(fix.p).healthy);
	/* One line for each change. */
	assert_int_equal(times(logged(&fix), "devices are offered"), 4);
	assert_int_equal(times(logged(&fix), "no GPU of the pool takes claims"), 1);
	assert_int_equal(times(logged(&fix), "the pool is not known"), 1);
	assert_int_equal(times(logged(&fix), "the program ends"), 2);
}

TEST(test_nothing_to_offer_is_said_once)
{
	for (int i = 0; i < 3; i++)
		assert_int_equal(plugin_pool(fix.p, true, 0, &fix.err), 0);
	assert_int_equal(times(logged(&fix), "no device is offered"), 1);
}

TEST(test_sizes)
{
	end(&fix);
	begin(&fix, 7, &nothing);
	assert_int_equal(plugin_pool(fix.p, true, 100000, &fix.err), 0);
	assert_int_equal(listen_on(&fix, 0), GRPC_OK);
	assert_int_equal(listed(&fix, 0, "Healthy"), 7);
	end(&fix);
	/* 20 000 units and more: as many as a message may hold, which is what grpc-go takes. */
	begin(&fix, 0, &nothing);
	assert_int_equal(listen_on(&fix, 0), GRPC_OK);
	for (uint64_t units = 20000; units; units = units == 20000 ? UINT64_MAX : 0) {
		assert_int_equal(plugin_pool(fix.p, true, units, &fix.err), 0);
		assert_int_equal(listed(&fix, 0, "Healthy"), PLUGIN_UNITS_MAX);
	}
	plugin_withdraw(fix.p);
	assert_int_equal(listed(&fix, 0, "Unhealthy"), PLUGIN_UNITS_MAX);
	assert_true(fix.stream[0].shown.len < 4000000);
}

TEST(test_no_memory_is_tried_again)
{
	assert_int_equal(listen_on(&fix, 0), GRPC_OK);
	fix.stream[0].broken = true;
	assert_int_equal(plugin_pool(fix.p, true, 100, &fix.err), ERR_NOMEM);
	fix.stream[0].broken = false;
	assert_int_equal(plugin_pool(fix.p, true, 100, &fix.err), 0);
	assert_int_equal(listed(&fix, 0, "Healthy"), 1000);
	fix.stream[1].broken = true;
	assert_int_equal(listen_on(&fix, 1), GRPC_RESOURCE_EXHAUSTED);
	assert_int_equal(plugin_facts(fix.p).streams, 1);
}

/* ---- Allocate ---- */

static ProtobufCBinaryData id(const char *text)
{
	return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

static enum grpc_status allocate(
	struct fixture *f, size_t containers, const char *const *ids, size_t n)
{
	V1beta1__AllocateRequest r = V1BETA1__ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest one[128], *all[128];
	ProtobufCBinaryData data[128][8];

	for (size_t i = 0; i < containers; i++) {
		one[i] = (V1beta1__ContainerAllocateRequest)
			V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
		for (size_t k = 0; k < n; k++)
			data[i][k] = id(ids[k]);
		one[i].devices_ids = data[i];
		one[i].n_devices_ids = n;
		all[i] = &one[i];
	}
	r.container_requests = all;
	r.n_container_requests = containers;
	return call(f, DEVICE_PLUGIN "Allocate", &r.base);
}

TEST(test_allocate_gives_nothing_by_default)
{
	V1beta1__AllocateResponse *a;

	assert_int_equal(allocate(&fix, 1, (const char *[]){"u0", "u17", "u999"}, 3), GRPC_OK);
	a = answer(&fix, &v1beta1__allocate_response__descriptor);
	assert_int_equal(a->n_container_responses, 1);
	assert_int_equal(a->container_responses[0]->n_envs, 0);
	assert_int_equal(a->container_responses[0]->n_mounts, 0);
	release(a);
	assert_int_equal(fix.reply.len - 5, 2); /* no member that we do not know of either */
	assert_int_equal(plugin_facts(fix.p).allocated, 1);
}

TEST(test_allocate_gives_what_was_asked_for)
{
	const char *const envs[] = {"A=b=c", "EMPTY="}, *const mounts[] = {"/opt/a:/b", "/c:/d:ro"};
	const struct plugin_gives gives = {envs, 2, mounts, 2};
	V1beta1__AllocateResponse *a;
	V1beta1__ContainerAllocateResponse *one;

	end(&fix);
	begin(&fix, 0, &gives);
	assert_int_equal(allocate(&fix, 1, (const char *[]){"u1"}, 1), GRPC_OK);
	a = answer(&fix, &v1beta1__allocate_response__descriptor);
	assert_int_equal(a->n_container_responses, 1);
	one = a->container_responses[0];
	assert_int_equal(one->n_envs, 2);
	assert_string_equal(one->envs[0]->key, "A");
	assert_string_equal(one->envs[0]->value, "b=c");
	assert_string_equal(one->envs[1]->key, "EMPTY");
	assert_string_equal(one->envs[1]->value, "");
	assert_int_equal(one->n_mounts, 2);
	assert_string_equal(one->mounts[0]->host_path, "/opt/a");
	assert_string_equal(one->mounts[0]->container_path, "/b");
	assert_false(one->mounts[0]->read_only);
	assert_string_equal(one->mounts[1]->host_path, "/c");
	assert_string_equal(one->mounts[1]->container_path, "/d");
	assert_true(one->mounts[1]->read_only);
	release(a);
}

TEST(test_allocate_refuses)
{
	static const char *const bad[] = {"u1000", "u01", "u", "", "1", "u-1", "u1 ", "v1",
		"u18446744073709551616", "U1", "u1\n"};
	V1beta1__ContainerAllocateRequest one = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT,
					  *all = &one;
	V1beta1__AllocateRequest r = V1BETA1__ALLOCATE_REQUEST__INIT;
	ProtobufCBinaryData nul = {3, (uint8_t *)(uintptr_t) "u1\0"};

	for (size_t i = 0; i < COUNT(bad); i++) {
		assert_int_equal(allocate(&fix, 1, &bad[i], 1), GRPC_INVALID_ARGUMENT);
		assert_non_null(strstr(fix.err.msg, "no device of ours"));
	}
	one.devices_ids = &nul;
	one.n_devices_ids = 1;
	r.container_requests = &all;
	r.n_container_requests = 1;
	assert_int_equal(call(&fix, DEVICE_PLUGIN "Allocate", &r.base), GRPC_INVALID_ARGUMENT);
	assert_int_equal(allocate(&fix, 1, (const char *[]){"u1", "u1"}, 2), GRPC_INVALID_ARGUMENT);
	assert_int_equal(allocate(&fix, 2, (const char *[]){"u1"}, 1), GRPC_INVALID_ARGUMENT);
	assert_int_equal(allocate(&fix, 1, NULL, 0), GRPC_INVALID_ARGUMENT);
	assert_int_equal(allocate(&fix, 0, NULL, 0), GRPC_INVALID_ARGUMENT);
	assert_int_equal(allocate(&fix, PLUGIN_CONTAINERS_MAX + 1, NULL, 0), GRPC_INVALID_ARGUMENT);
	assert_int_equal(plugin_facts(fix.p).allocated, 0);
}

TEST(test_requests_that_are_no_message)
{
	static const char *const calls[] = {DEVICE_PLUGIN "Allocate",
		DEVICE_PLUGIN "PreStartContainer", DEVICE_PLUGIN "GetDevicePluginOptions",
		REGISTRATION "GetInfo", REGISTRATION "NotifyRegistrationStatus"};
	static uint8_t many[4u << 20];

	for (size_t i = 0; i < COUNT(calls); i++) {
		assert_int_equal(call_bytes(&fix, calls[i], "\x0a\x7f", 2), GRPC_INVALID_ARGUMENT);
		assert_int_equal(
			call_bytes(&fix, calls[i], "\xff\xff\xff", 3), GRPC_INVALID_ARGUMENT);
	}
	/* Two million containers of no bytes: bounded, whatever they would become. */
	for (size_t i = 0; i < sizeof(many); i += 2)
		many[i] = 0x0a;
	assert_int_equal(call_bytes(&fix, DEVICE_PLUGIN "Allocate", many, sizeof(many)),
		GRPC_RESOURCE_EXHAUSTED);
	assert_int_equal(method(DEVICE_PLUGIN "ListAndWatch")
				 ->open(fix.p, &fix.stream[0], SLICE("\x0a\x7f"), &fix.err),
		GRPC_INVALID_ARGUMENT);
	assert_int_equal(fix.stream[0].times, 0);
}

/* ---- the rest ---- */

TEST(test_options_and_pre_start)
{
	V1beta1__PreStartContainerRequest r = V1BETA1__PRE_START_CONTAINER_REQUEST__INIT;
	ProtobufCBinaryData ids[] = {id("u1"), id("u1000")};
	V1beta1__DevicePluginOptions *o;

	assert_int_equal(call_bytes(&fix, DEVICE_PLUGIN "GetDevicePluginOptions", "", 0), GRPC_OK);
	o = answer(&fix, &v1beta1__device_plugin_options__descriptor);
	assert_false(o->pre_start_required);
	assert_false(o->get_preferred_allocation_available);
	release(o);
	r.devices_ids = ids;
	r.n_devices_ids = 1;
	assert_int_equal(call(&fix, DEVICE_PLUGIN "PreStartContainer", &r.base), GRPC_OK);
	assert_int_equal(fix.reply.len, 5);
	r.n_devices_ids = 2;
	assert_int_equal(
		call(&fix, DEVICE_PLUGIN "PreStartContainer", &r.base), GRPC_INVALID_ARGUMENT);
}

TEST(test_registration)
{
	Pluginregistration__RegistrationStatus r = PLUGINREGISTRATION__REGISTRATION_STATUS__INIT;
	char words[2000] = "no: \n\x1b[31m";
	Pluginregistration__PluginInfo *info;

	assert_int_equal(call_bytes(&fix, REGISTRATION "GetInfo", "", 0), GRPC_OK);
	info = answer(&fix, &pluginregistration__plugin_info__descriptor);
	assert_string_equal(info->type, "DevicePlugin");
	assert_string_equal(info->name, "bitfusion.io/gpu");
	assert_string_equal(info->endpoint, "/var/lib/kubelet/plugins_registry/x.sock");
	assert_int_equal(info->n_supported_versions, 1);
	assert_string_equal(info->supported_versions[0], "v1beta1");
	release(info);
	/* Refused: logged with the kubelet's words, made harmless, and counted. */
	memset(words + strlen(words), 'x', 1500);
	r.error = id(words);
	assert_int_equal(call(&fix, REGISTRATION "NotifyRegistrationStatus", &r.base), GRPC_OK);
	assert_int_equal(plugin_facts(fix.p).refused, 1);
	assert_false(plugin_facts(fix.p).registered);
	assert_non_null(strstr(logged(&fix), "error=\"no: \\n\\u001b[31mxxx"));
	r.plugin_registered = true;
	r.error = id("");
	assert_int_equal(call(&fix, REGISTRATION "NotifyRegistrationStatus", &r.base), GRPC_OK);
	assert_true(plugin_facts(fix.p).registered);
	assert_int_equal(listen_on(&fix, 0), GRPC_OK);
	assert_true(plugin_facts(fix.p).registered);
	hang_up(&fix, 0);
	assert_false(plugin_facts(fix.p).registered);
	hang_up(&fix, 1); /* of nobody */
}

TEST(test_what_cannot_be_made)
{
	static const char *const bad_env[] = {"", "A", "=b", "1A=b", "A B=c", "A=\xff"};
	static const char *const bad_mount[] = {"", "/a", "a:/b", "/a:b", "/a:/b:rw",
		"/a:/b:", "/a:", ":/b", "/a/../b:/c", "/a:/..", "/a:/b:ro:ro"};
	static char large[40000] = "A=";
	struct plugin_gives gives = {.n_envs = 1};
	struct plugin *p = NULL;
	char path[200] = "/";
	struct log log;
	struct err e;

	log_init(&log, STDERR_FILENO);
	for (size_t i = 0; i < COUNT(bad_env); i++) {
		gives.envs = &bad_env[i];
		assert_int_equal(plugin_new("/x", 0, &gives, &log, &p, &e), ERR_INVALID);
	}
	gives.envs = (const char *const[]){"A=1", "A=2"};
	gives.n_envs = 2;
	assert_int_equal(plugin_new("/x", 0, &gives, &log, &p, &e), ERR_INVALID);
	gives.envs = (const char *const[]){large};
	gives.n_envs = 1;
	memset(large + 2, 'x', sizeof(large) - 3);
	assert_int_equal(plugin_new("/x", 0, &gives, &log, &p, &e), ERR_INVALID);
	gives = (struct plugin_gives){.n_mounts = 1};
	for (size_t i = 0; i < COUNT(bad_mount); i++) {
		gives.mounts = &bad_mount[i];
		assert_int_equal(plugin_new("/x", 0, &gives, &log, &p, &e), ERR_INVALID);
	}
	gives.mounts = (const char *const[]){"/a:/c", "/b:/c"};
	gives.n_mounts = 2;
	assert_int_equal(plugin_new("/x", 0, &gives, &log, &p, &e), ERR_INVALID);
	assert_int_equal(
		plugin_new("/x", PLUGIN_UNITS_MAX + 1, &nothing, &log, &p, &e), ERR_INVALID);
	assert_int_equal(plugin_new("x", 0, &nothing, &log, &p, &e), ERR_INVALID);
	memset(path + 1, 'x', 107);
	assert_int_equal(plugin_new(path, 0, &nothing, &log, &p, &e), ERR_INVALID);
	path[107] = '\0';
	assert_int_equal(plugin_new(path, 0, &nothing, &log, &p, &e), 0);
	plugin_free(p);
	plugin_free(NULL);
}

TESTS_BETWEEN(set_up, tear_down, test_list_follows_the_pool, test_nothing_to_offer_is_said_once,
	test_sizes, test_no_memory_is_tried_again, test_allocate_gives_nothing_by_default,
	test_allocate_gives_what_was_asked_for, test_allocate_refuses,
	test_requests_that_are_no_message, test_options_and_pre_start, test_registration,
	test_what_cannot_be_made)
