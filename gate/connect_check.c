/* SPDX-License-Identifier: Apache-2.0 */
/* gate: does `gpugate connect` listen? Asked of the kernel: a connection would be carried to a
 * gate. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "gate/connect.h"

/* 127.0.0.1 as the kernel writes it: a number in the machine's order. */
#define LOOPBACK "0100007F"
#define LISTENS "0A"

int connect_addresses(const char *list, struct gate_address ret[static GATE_SERVERS_MAX],
	size_t *ret_n, struct err *err)
{
	size_t n = 0;

	for (const char *at = list; at; n++) {
		const char *end = strchr(at, ','), *colon;
		struct slice one = {at, end ? (size_t)(end - at) : strlen(at)}, host;
		uint64_t port;

		if (n == GATE_SERVERS_MAX)
			return err_set(
				err, ERR_INVALID, "found more than %d servers", GATE_SERVERS_MAX);
		colon = memrchr(one.at, ':', one.len);
		host = (struct slice){one.at, colon ? (size_t)(colon - one.at) : 0};
		if (host.len > 2 && host.at[0] == '[' && host.at[host.len - 1] == ']')
			host = (struct slice){host.at + 1, host.len - 2};
		else if (host.len > 0 && memchr(host.at, ':', host.len))
			host.len = 0;
		if (host.len == 0 || host.len >= sizeof(ret[n].host) ||
			!text_u64((struct slice){colon + 1, (size_t)(one.at + one.len - colon - 1)},
				65535, &port) ||
			port == 0)
			return err_set(err, ERR_INVALID,
				"found server \"%.*s\", expected HOST:PORT", (int)one.len, one.at);
		memcpy(ret[n].host, host.at, host.len);
		ret[n].host[host.len] = '\0';
		ret[n].port = (uint16_t)port;
		at = end ? end + 1 : NULL;
	}
	*ret_n = n;
	return 0;
}

/* "  0: 0100007F:3A08 00000000:0000 0A …" */
static bool tells(const char *line, uint16_t port)
{
	struct slice rest = slice_of(line), word[4];
	char local[sizeof(LOOPBACK) + 5];

	(void)snprintf(local, sizeof(local), LOOPBACK ":%04X", (unsigned)port);
	for (size_t i = 0; i < 4; i++)
		if (!text_word(&rest, &word[i]))
			return false;
	return slice_is(word[1], local) && slice_is(word[3], LISTENS);
}

static bool listens(uint16_t port)
{
	FILE *table = fopen("/proc/self/net/tcp", "re");
	char line[512];
	bool yes = false;

	while (table && !yes && fgets(line, sizeof(line), table))
		yes = tells(line, port);
	if (table)
		(void)fclose(table);
	return yes;
}

int check_main(int argc, char **argv)
{
	struct gate_address servers[GATE_SERVERS_MAX];
	struct gate_connect_options o;
	struct log log;
	struct err err = {0};
	size_t n;

	log_init(&log, STDERR_FILENO);
	if (gate_connect_options_read(argc, argv, &o, &log, &err) != 0 ||
		(o.answer == GATE_RUN && connect_addresses(o.servers, servers, &n, &err) != 0)) {
		(void)fprintf(stderr, "gpugate: %s; `gpugate --help` tells more\n", err.msg);
		return 2;
	}
	if (o.answer == GATE_HELP) {
		gate_help(stdout);
		return EXIT_SUCCESS;
	}
	for (size_t i = 0; i < n; i++) {
		if (listens((uint16_t)(o.port + i)))
			continue;
		(void)fprintf(stderr, "gpugate: nobody listens at 127.0.0.1:%zu\n", o.port + i);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
