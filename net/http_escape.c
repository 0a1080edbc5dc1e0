/* SPDX-License-Identifier: Apache-2.0 */
/* net: percent-encoding, which takes no libcurl. */
#include <string.h>

#include "net/http_client.h"

void http_client_escape(struct buf *out, struct slice s)
{
	static const char hex[] = "0123456789ABCDEF";

	for (size_t i = 0; i < s.len; i++) {
		unsigned char ch = (unsigned char)s.at[i];

		if ((ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z') ||
			(ch >= '0' && ch <= '9') || (ch && strchr("-._~", ch))) {
			buf_char(out, (char)ch);
		} else {
			buf_char(out, '%');
			buf_char(out, hex[ch >> 4]);
			buf_char(out, hex[ch & 15]);
		}
	}
}
