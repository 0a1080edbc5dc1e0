/* SPDX-License-Identifier: Apache-2.0 */
/* gpuprobe-serve: when it looks, and at what; certificates, signals, start and end. Workers do what
 * needs CUDA or NVML, in processes of gpuprobe, which lies in the same folder. */
#define _GNU_SOURCE

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "probe/result/report.h"
#include "probe/serve/serve_watch.h"

#define FINISH_MS 2000
#define CERTIFICATE_EVERY_S 10.0

/* ---- certificates and token ---- */

static int load_certificate(struct serving *s, struct err *err)
{
	const struct serve_options *o = &s->options;

	return s->identity ? tls_identity_load_files(s->identity, o->tls_cert, o->tls_key, err) : 0;
}

static int load_clients(struct serving *s, struct err *err)
{
	const struct serve_options *o = &s->options;

	return s->clients ? tls_trust_load_file(s->clients, o->client_ca, o->client_names,
				    o->n_client_names, err)
			  : 0;
}

static void reload(struct serving *s)
{
	struct err err = {0};

	if (load_certificate(s, &err) != 0)
		log_line(&s->log, LOG_LEVEL_WARN, "certificate: the one in force stays",
			log_str("error", err.msg));
	err_clear(&err);
	if (load_clients(s, &err) != 0)
		log_line(&s->log, LOG_LEVEL_WARN, "client CA: the one in force stays",
			log_str("error", err.msg));
	err_clear(&err);
	if (serve_read_token(&s->shared, s->options.token_file, &err) != 0)
		log_line(&s->log, LOG_LEVEL_WARN, "token: the one in force stays",
			log_str("error", err.msg));
}

/* ---- the loop ---- */

static double nearest(const struct serving *s)
{
	double next = s->next_look;

	next = s->next_list < next ? s->next_list : next;
	next = s->next_verify < next ? s->next_verify : next;
	return s->next_certificate < next ? s->next_certificate : next;
}

/* The next signal, or 0 when something is due. */
static int wait_signal(const struct serving *s)
{
	double left = nearest(s) - clock_s();
	struct timespec limit = {0};
	int sig;

	if (left > 0) {
		limit.tv_sec = (time_t)left;
		limit.tv_nsec = (long)((left - (double)limit.tv_sec) * 1e9);
	}
	sig = sigtimedwait(&s->signals, NULL, &limit);
	return sig > 0 ? sig : 0;
}

static void do_due(struct serving *s)
{
	const struct serve_options *o = &s->options;
	double now = clock_s();

	if (now >= s->next_certificate) {
		s->next_certificate = now + CERTIFICATE_EVERY_S;
		reload(s);
	}
	if (now >= s->next_look) {
		s->next_look = now + o->look_every_s;
		if (!o->verify.no_nvml)
			serve_look(s);
	}
	if (now >= s->next_list && !(s->verifying && !atomic_load(&s->verified))) {
		/* without NVML this is the only look between verifies */
		double every = s->shared.nvml || o->list_every_s < o->stale_after_s / 2
				       ? o->list_every_s
				       : o->stale_after_s / 2;

		s->next_list = now + every;
		serve_list(s);
	}
	/* what was open may be found out when the GPU is idle again */
	if (s->verifying && atomic_load(&s->verified) && atomic_exchange(&s->open, false) &&
		now + o->list_every_s < s->next_verify)
		s->next_verify = now + o->list_every_s;
	if (now >= s->next_verify) {
		bool running = s->verifying && !atomic_load(&s->verified);

		/* one that is asked for while another runs comes after it */
		s->next_verify = now + (running ? 1 : o->verify_every_s);
		serve_verify(s);
	}
}

static void run(struct serving *s)
{
	for (;;) {
		int sig = wait_signal(s);

		if (sig == SIGTERM || sig == SIGINT)
			return;
		if (sig == SIGHUP) {
			log_text(&s->log, LOG_LEVEL_INFO,
				"SIGHUP: verify, and read certificates again");
			reload(s);
			s->next_verify = 0;
		}
		do_due(s);
	}
}

/* ---- start and end ---- */

/* Looks end early when a signal waits, which the loop then takes. */
static int open_term(void)
{
	sigset_t term;

	(void)sigemptyset(&term);
	(void)sigaddset(&term, SIGTERM);
	(void)sigaddset(&term, SIGINT);
	return signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int start(struct serving *s, struct err *err)
{
	const struct serve_options *o = &s->options;
	struct http_config cfg = {.listen = o->listen, .connections = 64, .body_max = 4096};
	char host[64] = "";
	int rc;

	(void)gethostname(host, sizeof(host) - 1);
	if (!fleet_init(&s->shared.fleet, o->server ? o->server : host, o->verify.expect_gpus,
		    (int64_t)o->stale_after_s))
		return err_set(err, ERR_NOMEM, "out of memory");
	if (o->tls_cert) {
		s->identity = tls_identity_new();
		if (!s->identity)
			return err_set(err, ERR_NOMEM, "out of memory");
		cfg.identity = s->identity;
	}
	if (o->client_ca) {
		s->clients = tls_trust_new();
		if (!s->clients)
			return err_set(err, ERR_NOMEM, "out of memory");
		cfg.clients = s->clients;
	}
	s->stop_fd = eventfd(0, EFD_CLOEXEC);
	s->term_fd = open_term();
	if (s->stop_fd < 0 || s->term_fd < 0)
		return err_set(err, ERR_IO, "eventfd: %s", strerrordesc_np(errno));
	if ((rc = load_certificate(s, err)) != 0 || (rc = load_clients(s, err)) != 0 ||
		(rc = serve_read_token(&s->shared, o->token_file, err)) != 0)
		return rc;
	struct http_app app = {.routes = serve_routes,
		.nroutes = serve_n_routes,
		.ctx = &s->shared,
		.log = serve_transport};

	return http_server_start(&cfg, &app, &s->server, err);
}

static int serve(struct serving *s)
{
	struct err err = {0};
	int status = EXIT_INCONCLUSIVE;

	if (start(s, &err) != 0) {
		log_line(&s->log, LOG_LEVEL_ERROR, "cannot serve", log_str("error", err.msg));
		if (err.code == ERR_NOTFOUND || err.code == ERR_INVALID || err.code == ERR_SYNTAX ||
			err.code == ERR_CONFLICT)
			status = EXIT_USAGE;
	} else {
		uint64_t one = 1;

		log_line(&s->log, LOG_LEVEL_INFO, "serving", log_str("version", POOLGATE_VERSION),
			log_str("listen", s->options.listen),
			log_int("port", http_server_port(s->server)));
		run(s);
		(void)!write(s->stop_fd, &one, sizeof(one)); /* workers end early */
		serve_join(s);
		log_text(&s->log, LOG_LEVEL_INFO, "ended");
		status = EXIT_FIT;
	}
	(void)http_server_stop(s->server, FINISH_MS);
	tls_identity_free(s->identity);
	tls_trust_free(s->clients);
	fleet_release(&s->shared.fleet);
	buf_release(&s->shared.report);
	buf_release(&s->shared.token);
	if (s->stop_fd >= 0)
		(void)close(s->stop_fd);
	if (s->term_fd >= 0)
		(void)close(s->term_fd);
	return status;
}

/* GPUPROBE names another one, for tests. False: there is none. */
static bool find_program(struct serving *s)
{
	const char *named = getenv("GPUPROBE");
	ssize_t n;
	char *slash;

	if (named) {
		(void)snprintf(s->program, sizeof(s->program), "%s", named);
	} else {
		n = readlink("/proc/self/exe", s->program, sizeof(s->program) - 32);
		s->program[n > 0 ? n : 0] = '\0';
		slash = strrchr(s->program, '/');
		if (slash)
			memcpy(slash + 1, "gpuprobe", sizeof("gpuprobe"));
	}
	return access(s->program, X_OK) == 0;
}

int main(int argc, char **argv)
{
	struct serving *s = calloc(1, sizeof(*s));
	const char *root = getenv("GPUPROBE_ROOT");
	struct err err = {0};
	int status;

	if (!s)
		return EXIT_INCONCLUSIVE;
	s->root = root ? root : "/";
	s->stop_fd = s->term_fd = -1;
	log_init(&s->log, STDERR_FILENO);
	log_never_wait(&s->log, &s->log_pipe);
	serve_shared_init(&s->shared, &s->log);
	thresholds_init(&s->thresholds);
	if (serve_options_read(argc, argv, &s->options, &err) != 0) {
		(void)fprintf(stderr, "gpuprobe serve: %s; `gpuprobe serve --help` tells more\n",
			err.msg);
		status = EXIT_USAGE;
	} else if (s->options.verify.answer == OPTIONS_VERSION) {
		(void)puts("gpuprobe " POOLGATE_VERSION);
		status = EXIT_FIT;
	} else if (s->options.verify.answer != OPTIONS_RUN) {
		serve_options_help(stdout);
		status = EXIT_FIT;
	} else if (s->options.verify.thresholds &&
		   thresholds_read(&s->thresholds, s->options.verify.thresholds, &err) != 0) {
		(void)fprintf(stderr, "gpuprobe serve: %s\n", err.msg);
		status = EXIT_USAGE;
	} else if (!find_program(s)) {
		(void)fprintf(
			stderr, "gpuprobe serve: %s: %s\n", s->program, strerrordesc_np(errno));
		status = EXIT_USAGE;
	} else {
		thread_hold_signals(&s->signals);
		status = serve(s);
	}
	thresholds_release(&s->thresholds);
	serve_options_release(&s->options);
	free(s);
	return status;
}
