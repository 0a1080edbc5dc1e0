/* SPDX-License-Identifier: Apache-2.0 */
/* net: libcurl's functions, loaded when they are first needed. For http_client.c. */
#ifndef NET_HTTP_CLIENT_LIB_H
#define NET_HTTP_CLIENT_LIB_H

#include <curl/curl.h>
#include <stdbool.h>

#include "base/err.h"

/* The functions' types are those of the header it was built with. */
struct http_client_lib {
	__typeof__(&curl_global_init) global_init;
	__typeof__(&curl_easy_init) easy_init;
	__typeof__(&curl_easy_cleanup) easy_cleanup;
	__typeof__(&curl_easy_reset) easy_reset;
	/* In parentheses: the header has macros of these names. */
	__typeof__(&(curl_easy_setopt)) easy_setopt;
	__typeof__(&(curl_easy_getinfo)) easy_getinfo;
	__typeof__(&curl_easy_perform) easy_perform;
	__typeof__(&curl_easy_strerror) easy_strerror;
	__typeof__(&curl_slist_append) slist_append;
	__typeof__(&curl_slist_free_all) slist_free_all;
};

/* The library, loaded and initialised by the first call; lives for ever. NULL and ERR_IO when it
 * cannot be loaded. */
const struct http_client_lib *http_client_lib(struct err *err);

#endif
