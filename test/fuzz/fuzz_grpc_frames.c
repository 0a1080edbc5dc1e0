/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: the bytes of a connection to the gRPC server, through a real socket. The first byte of an
 * input says whether preface and SETTINGS come before it (even: yes), the second how many bytes are
 * written at a time. Whatever the rest is: every answer ends with a status, nothing stays behind,
 * memory is bounded. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <nghttp2/nghttp2.h>
#include <sanitizer/allocator_interface.h>

#include "deviceplugin/grpc_impl.h"
#include "test/fuzz/require.h"

/* What one connection may cost while its input is a few kB: sessions, streams, one read's frames.
 */
#define COST_MAX 2000000u

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/fuzz-grpc-XXXXXX";
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static struct grpc_server *server;
static struct log quiet;
static struct grpc_stream *open_streams[GRPC_OPEN_MAX];
static size_t n_open;

/* ---- the server ---- */

static enum grpc_status echo(void *ctx, struct slice request, struct buf *reply, struct err *err)
{
	(void)ctx;
	if (request.len > 0 && request.at[0] == '!') {
		(void)err_set(err, ERR_INVALID, "%.*s", (int)request.len, request.at);
		return GRPC_INVALID_ARGUMENT;
	}
	buf_slice(reply, request);
	return GRPC_OK;
}

static enum grpc_status watch(
	void *ctx, struct grpc_stream *stream, struct slice request, struct err *err)
{
	(void)ctx;
	REQUIRE(n_open < GRPC_OPEN_MAX);
	REQUIRE(grpc_stream_show(stream, request, err) == 0);
	open_streams[n_open++] = stream;
	return GRPC_OK;
}

static void closed(void *ctx, struct grpc_stream *stream)
{
	size_t i = 0;

	(void)ctx;
	while (i < n_open && open_streams[i] != stream)
		i++;
	REQUIRE(i < n_open);
	open_streams[i] = open_streams[--n_open];
}

static const struct grpc_method methods[] = {
	{"/e", echo, NULL, NULL},
	{"/w", NULL, watch, closed},
	{0},
};

static void clean_up(void)
{
	grpc_server_free(server, 0);
	(void)rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	REQUIRE(mkdtemp(folder));
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", folder);
	REQUIRE(grpc_server_new(address.sun_path, methods, NULL, &quiet, &server, NULL) == 0);
	REQUIRE(atexit(clean_up) == 0);
	return 0;
}

/* ---- what came back ---- */

struct seen {
	bool status, plain; /* grpc-status; HTTP's is not 200 */
};

static void read_block(
	nghttp2_hd_inflater *inflater, const uint8_t *at, size_t len, struct seen *seen)
{
	int flags = 0;

	while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
		nghttp2_nv nv;
		ssize_t n = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, at, len, 1);

		REQUIRE(n >= 0);
		at += n;
		len -= (size_t)n;
		if (!(flags & NGHTTP2_HD_INFLATE_EMIT))
			continue;
		struct slice name = {(const char *)nv.name, nv.namelen};
		struct slice value = {(const char *)nv.value, nv.valuelen};

		if (slice_is(name, "grpc-status")) {
			REQUIRE(!seen->status);
			seen->status = true;
		}
		if (slice_is(name, ":status"))
			seen->plain = !slice_is(value, "200");
		for (size_t i = 0; i < value.len; i++)
			REQUIRE(value.at[i] >= 0x20 && value.at[i] <= 0x7e);
	}
	REQUIRE(nghttp2_hd_inflate_end_headers(inflater) == 0);
}

/* Every answer that ends, ends with a status, and once. */
static void check_answers(const uint8_t *at, size_t len)
{
	static uint8_t ended[1u << 16];
	nghttp2_hd_inflater *inflater;
	uint8_t other;

	memset(ended, 0, sizeof(ended));
	REQUIRE(nghttp2_hd_inflate_new(&inflater) == 0);
	REQUIRE(len < 9 || at[3] == NGHTTP2_SETTINGS);
	while (len >= 9) {
		size_t n = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
		uint32_t id = (uint32_t)at[5] << 24 | (uint32_t)at[6] << 16 | (uint32_t)at[7] << 8 |
			      at[8];
		uint8_t type = at[3], flags = at[4],
			*end = id < sizeof(ended) ? &ended[id] : &other;

		if (n > len - 9)
			break;
		other = 0;
		if (type == NGHTTP2_HEADERS) {
			struct seen seen = {0};
			bool last = flags & NGHTTP2_FLAG_END_STREAM;

			REQUIRE(flags & NGHTTP2_FLAG_END_HEADERS);
			read_block(inflater, at + 9, n, &seen);
			REQUIRE(last == (seen.status || seen.plain));
			REQUIRE(!*end);
			*end = last;
		} else if (type == NGHTTP2_DATA) {
			REQUIRE(!(flags & NGHTTP2_FLAG_END_STREAM));
			REQUIRE(!*end);
		}
		at += 9 + n;
		len -= 9 + n;
	}
	nghttp2_hd_inflate_del(inflater);
}

/* ---- one connection ---- */

static uint8_t output[1u << 20];
static size_t output_len;

static void turn(int fd)
{
	struct pollfd p = {.fd = grpc_server_fd(server), .events = POLLIN};

	do {
		(void)grpc_server_turn(server);
		ssize_t n =
			recv(fd, output + output_len, sizeof(output) - output_len, MSG_DONTWAIT);

		if (n > 0)
			output_len += (size_t)n;
	} while (poll(&p, 1, 0) > 0);
}

static void put(int fd, const uint8_t *at, size_t len, size_t step)
{
	while (len > 0) {
		size_t n = len < step ? len : step;

		if (send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
			return;
		at += n;
		len -= n;
		turn(fd);
		/* something new for those who listen */
		for (size_t i = 0; i < n_open; i++)
			REQUIRE(grpc_stream_show(open_streams[i],
					(struct slice){(const char *)at, len < 100 ? len : 100},
					NULL) == 0);
	}
	turn(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
	size_t before = __sanitizer_get_current_allocated_bytes();
	int fd;

	if (size < 2)
		return 0;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE(fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0);
	output_len = 0;
	if (data[0] % 2 == 0)
		put(fd, (const uint8_t *)hello, sizeof(hello), sizeof(hello));
	/* 0 to 63 are few bytes, above all at once */
	put(fd, data + 2, size - 2, data[1] < 64 ? data[1] + 1u : size);
	REQUIRE(__sanitizer_get_current_allocated_bytes() < before + COST_MAX);
	check_answers(output, output_len);
	(void)close(fd);
	while (server->connections)
		(void)grpc_server_turn(server);
	REQUIRE(n_open == 0 && server->n_open == 0 && server->kept == 0 && !server->newest);
	REQUIRE(__sanitizer_get_current_allocated_bytes() <= before + 4096);
	return 0;
}
