/* SPDX-License-Identifier: Apache-2.0 */
/* net: libcurl, loaded when it is first needed. */
#include "net/http_client_lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Linked, libcurl costs every process 3 MB of resident memory, and 4.9 MB once it is initialised
 * (the server without it takes about 9 MB), though most never call out. So it is loaded by the
 * first http_client_new(). */
#define LIBRARY "libcurl-gnutls.so.4"
#define PACKAGE "libcurl3-gnutls"

static struct http_client_lib lib;
static bool loaded;
static char why[200]; /* not loaded */

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* One function of the library into its pointer. */
static bool symbol(void *handle, const char *name, void *ret_pointer)
{
	void *found = dlsym(handle, name);

	/* ISO C has no conversion from object to function pointers; POSIX promises that they look
	 * alike. */
	memcpy(ret_pointer, &found, sizeof(found));
	return found != NULL;
}

static void say_why(const char *text)
{
	(void)snprintf(why, sizeof(why), "%s", text ? text : "unknown reason");
}

static void load(void)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!handle || !symbol(handle, "curl_global_init", &lib.global_init) ||
		!symbol(handle, "curl_easy_init", &lib.easy_init) ||
		!symbol(handle, "curl_easy_cleanup", &lib.easy_cleanup) ||
		!symbol(handle, "curl_easy_reset", &lib.easy_reset) ||
		!symbol(handle, "curl_easy_setopt", &lib.easy_setopt) ||
		!symbol(handle, "curl_easy_getinfo", &lib.easy_getinfo) ||
		!symbol(handle, "curl_easy_perform", &lib.easy_perform) ||
		!symbol(handle, "curl_easy_strerror", &lib.easy_strerror) ||
		!symbol(handle, "curl_slist_append", &lib.slist_append) ||
		!symbol(handle, "curl_slist_free_all", &lib.slist_free_all)) {
		say_why(dlerror());
		return;
	}
	if (lib.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		say_why("curl_global_init failed");
		return;
	}
	loaded = true;
}

const struct http_client_lib *http_client_lib(struct err *err)
{
	pthread_once(&once, load);
	if (loaded)
		return &lib;
	err_set(err, ERR_IO, "cannot load " LIBRARY " (package " PACKAGE "): %s", why);
	return NULL;
}
