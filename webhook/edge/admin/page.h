/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the page with the pool for people: share/page.html, made into C by tools/embed-page when
 * the program is built. */
#ifndef WEBHOOK_EDGE_ADMIN_PAGE_H
#define WEBHOOK_EDGE_ADMIN_PAGE_H

#include <stddef.h>

/* The document as it lies in the tree. It draws /v1/pool?servers=1&claims=1 and /v1/decisions
 * (edge/admin/plain_routes.h), and asks for nothing else. */
extern const char page_html[];
extern const size_t page_html_len;

/* The Content-Security-Policy to send with it: the document's style and script by their SHA-256,
 * this server for what the script asks, nothing else. */
extern const char page_policy[];

#endif
