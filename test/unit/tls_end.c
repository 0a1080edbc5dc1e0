/* SPDX-License-Identifier: Apache-2.0 */
/* test: an end that is asked over TLS. */
#include "test/unit/tls_end.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "test/unit/test.h"

static void keep_client(struct tls_end *e, gnutls_session_t s)
{
	unsigned n = 0;
	const gnutls_datum_t *chain = gnutls_certificate_get_peers(s, &n);
	size_t size = sizeof(e->client);

	if (n > 0)
		assert_int_equal(
			gnutls_pem_base64_encode("CERTIFICATE", &chain[0], e->client, &size), 0);
}

static void send_text(gnutls_session_t s, const char *text)
{
	for (size_t at = 0, len = strlen(text); at < len;) {
		ssize_t n = gnutls_record_send(s, text + at, len - at);

		if (n <= 0)
			return;
		at += (size_t)n;
	}
}

static void answer_one(struct tls_end *e, gnutls_session_t s)
{
	const char *answer;
	char head[4096];
	size_t len = 0;
	ssize_t n;

	if (gnutls_handshake(s) != GNUTLS_E_SUCCESS)
		return;
	if (atomic_load(&e->answered) == 0)
		keep_client(e, s);
	do {
		n = gnutls_record_recv(s, head + len, sizeof(head) - 1 - len);
		len += n > 0 ? (size_t)n : 0;
		head[len] = '\0';
	} while (n > 0 && !strstr(head, "\r\n\r\n"));
	if (n <= 0)
		return;
	if (atomic_load(&e->answered) == 0)
		memcpy(e->head, head, sizeof(head));
	pthread_mutex_lock(&e->lock);
	answer = e->answer;
	pthread_mutex_unlock(&e->lock);
	send_text(s, answer ? "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: "
			      "application/json\r\n\r\n"
			    : "HTTP/1.1 503 No\r\nConnection: close\r\n\r\n");
	send_text(s, answer ? answer : "no");
	(void)gnutls_bye(s, GNUTLS_SHUT_WR);
	atomic_fetch_add(&e->answered, 1);
}

static void *serve(void *arg)
{
	struct tls_end *e = arg;
	int fd;

	while ((fd = accept(e->listener, NULL, NULL)) >= 0) {
		gnutls_session_t s;

		assert_int_equal(gnutls_init(&s, GNUTLS_SERVER | GNUTLS_NO_SIGNAL), 0);
		assert_int_equal(gnutls_set_default_priority(s), 0);
		assert_int_equal(gnutls_credentials_set(s, GNUTLS_CRD_CERTIFICATE, e->cred), 0);
		gnutls_transport_set_int(s, fd);
		gnutls_certificate_server_set_request(s, GNUTLS_CERT_REQUEST);
		answer_one(e, s);
		gnutls_deinit(s);
		close(fd);
	}
	return NULL;
}

void tls_end_start(struct tls_end *e, const char *answer)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(a);
	struct certs_names names = {0};
	int64_t now = clock_wall_ms() / 1000;
	gnutls_datum_t cert, key;

	*e = (struct tls_end){.answer = answer};
	pthread_mutex_init(&e->lock, NULL);
	x509_pair_init(&e->ca);
	x509_pair_init(&e->pair);
	assert_int_equal(certs_names_ip(&names, SLICE("127.0.0.1"), NULL), 0);
	assert_int_equal(x509_make_ca(&names, now, 3600, &e->ca, NULL), 0);
	assert_int_equal(x509_make_serving(&e->ca, &names, now, 3600, &e->pair, NULL), 0);
	cert = (gnutls_datum_t){(unsigned char *)e->pair.cert.data, (unsigned)e->pair.cert.len};
	key = (gnutls_datum_t){(unsigned char *)e->pair.key.data, (unsigned)e->pair.key.len};
	assert_int_equal(gnutls_certificate_allocate_credentials(&e->cred), 0);
	assert_int_equal(
		gnutls_certificate_set_x509_key_mem(e->cred, &cert, &key, GNUTLS_X509_FMT_PEM), 0);
	e->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(e->listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(e->listener, 64), 0);
	assert_int_equal(getsockname(e->listener, (struct sockaddr *)&a, &size), 0);
	snprintf(e->url, sizeof(e->url), "https://127.0.0.1:%u", (unsigned)ntohs(a.sin_port));
	assert_int_equal(pthread_create(&e->thread, NULL, serve, e), 0);
}

void tls_end_say(struct tls_end *e, const char *answer)
{
	pthread_mutex_lock(&e->lock);
	e->answer = answer;
	pthread_mutex_unlock(&e->lock);
}

void tls_end_stop(struct tls_end *e)
{
	(void)shutdown(e->listener, SHUT_RDWR);
	assert_int_equal(pthread_join(e->thread, NULL), 0);
	close(e->listener);
	gnutls_certificate_free_credentials(e->cred);
	x509_pair_release(&e->ca);
	x509_pair_release(&e->pair);
	pthread_mutex_destroy(&e->lock);
}
