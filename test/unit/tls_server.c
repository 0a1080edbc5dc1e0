/* SPDX-License-Identifier: Apache-2.0 */
/* test: an HTTPS server with a certificate. */
#include "test/unit/tls_server.h"
#include "test/unit/test.h"

#include "test/unit/http_fixture.h"

struct tls_server {
	struct fixture f;
	struct tls_identity *id;
};

struct tls_server *tls_server_start(const struct made_pair *pair, unsigned *ret_port)
{
	struct tls_server *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->id = tls_identity_new();
	assert_non_null(s->id);
	made_load(pair, s->id);
	fixture_start(&s->f, (struct http_config){.workers = 1, .identity = s->id});
	*ret_port = http_server_port(s->f.server);
	return s;
}

int tls_server_stop(struct tls_server *s)
{
	int handled = atomic_load(&s->f.handled);

	assert_true(fixture_idle(&s->f));
	assert_true(fixture_stop(&s->f, 1000));
	tls_identity_free(s->id);
	free(s);
	return handled;
}
