/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: pluginregistration.Registration: the kubelet asks who is there, and says whether it
 * wants it. */
#include <registration.pb-c.h>

#include "base/text.h"
#include "deviceplugin/plugin_call.h"
#include "deviceplugin/plugin_impl.h"

/* Of the kubelet's words in a log line. */
#define WORDS_MAX 512

enum grpc_status plugin_get_info(
	void *ctx, struct slice request, struct buf *reply, struct err *err)
{
	static char type[] = "DevicePlugin", name[] = PLUGIN_RESOURCE, version[] = "v1beta1";
	char *versions[] = {version};
	Pluginregistration__PluginInfo info;
	struct plugin *p = ctx;
	enum grpc_status status = GRPC_OK;
	struct plugin_call c;

	pluginregistration__plugin_info__init(&info);
	info.type = type;
	info.name = name;
	info.endpoint = p->socket;
	info.supported_versions = versions;
	info.n_supported_versions = 1;
	plugin_call_init(&c);
	if (plugin_call_unpack(
		    &c, &pluginregistration__info_request__descriptor, request, &status, err))
		status = plugin_call_pack((const ProtobufCMessage *)&info, reply, err);
	return plugin_call_end(&c, status);
}

enum grpc_status plugin_notify(void *ctx, struct slice request, struct buf *reply, struct err *err)
{
	Pluginregistration__RegistrationStatusResponse answer =
		PLUGINREGISTRATION__REGISTRATION_STATUS_RESPONSE__INIT;
	const Pluginregistration__RegistrationStatus *r;
	enum grpc_status status = GRPC_OK;
	struct plugin *p = ctx;
	struct plugin_call c;

	plugin_call_init(&c);
	r = plugin_call_unpack(
		&c, &pluginregistration__registration_status__descriptor, request, &status, err);
	if (r) {
		struct slice words = {(const char *)r->error.data, r->error.len};

		words.len = text_utf8_cut(words, WORDS_MAX);
		p->counts.registered = r->plugin_registered;
		if (r->plugin_registered)
			log_line(p->log, LOG_LEVEL_INFO, "registered",
				log_str("resource", PLUGIN_RESOURCE));
		else
			log_line(p->log, LOG_LEVEL_ERROR, "the kubelet refuses this plugin",
				log_str("socket", p->socket), log_slice("error", words));
		p->counts.refused += !r->plugin_registered;
		status = plugin_call_pack((const ProtobufCMessage *)&answer, reply, err);
	}
	return plugin_call_end(&c, status);
}
