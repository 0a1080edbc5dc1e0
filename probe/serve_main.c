/* SPDX-License-Identifier: Apache-2.0 */
/* gpuprobe-serve: what it looks at, and when. It holds no CUDA context: workers do what needs CUDA or NVML, in processes of
 * gpuprobe, which lies in the same folder. */
#define _GNU_SOURCE

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "probe/run.h"
#include "probe/serve_options.h"
#include "probe/serve_routes.h"
#include "probe/workers.h"

#define FINISH_MS 2000
#define LOOK_LIMIT_S 10.0
#define CERTIFICATE_EVERY_S 10.0

struct serving {
	struct serve_options options;
	struct thresholds thresholds;
	struct serve_shared shared; /* what handlers see, too */
	struct tls_identity *identity;
	struct http_server *server;
	struct log log;
	const char *root;
	char program[4096]; /* gpuprobe: what workers are made of */
	sigset_t signals;
	int stop_fd; /* for the verifier: readable when it is to end */
	int term_fd; /* for looks: readable while SIGTERM or SIGINT waits */
	pthread_t verifier;
	bool verifying;       /* the thread exists */
	atomic_bool verified; /* and has done its work */
	atomic_bool open;     /* some GPUs were busy, so nothing was found out of them */
	double next_look, next_list, next_verify, next_certificate;
};

static double now_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int64_t wall_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec;
}

/* ---- looks ---- */

struct look {
	struct serve_shared *shared;
	struct wire_state *states;
	size_t n;
};

static void take_state(void *arg, const struct wire_state *state)
{
	struct look *l = arg;

	if (l->n < REPORT_GPUS_MAX)
		l->states[l->n++] = *state;
}

/* One look of NVML, in a process of its own: with a lost GPU its calls may never return. */
static void look(struct serving *s)
{
	struct worker_job job = {.task = TASK_NVML, .nvml = s->options.verify.nvml};
	struct look l = {
		.shared = &s->shared, .states = calloc(REPORT_GPUS_MAX, sizeof(struct wire_state))};
	struct workers_config config = {.program = s->program,
		.jobs = &job,
		.n_jobs = 1,
		.phase_limit_s = LOOK_LIMIT_S,
		.total_limit_s = LOOK_LIMIT_S,
		.stop_fd = s->term_fd,
		.state = take_state,
		.arg = &l};
	enum workers_end end;
	struct report r;

	report_init(&r);
	if (l.states && workers_run(&config, &r, &end, NULL) == 0 && end == WORKERS_DONE &&
		r.n_errors == 0 && r.nvml) {
		(void)pthread_mutex_lock(&s->shared.lock);
		fleet_look_begin(&s->shared.fleet);
		for (size_t i = 0; i < l.n; i++)
			fleet_look(&s->shared.fleet, &l.states[i]);
		fleet_look_end(&s->shared.fleet, (int)l.n, wall_s());
		(void)pthread_mutex_unlock(&s->shared.lock);
		s->shared.nvml = true;
	} else {
		s->shared.nvml = false;
	}
	report_release(&r);
	free(l.states);
}

/* The list of GPUs by CUDA; with their free memory where NVML does not tell it. */
static void list(struct serving *s)
{
	struct probe_options o = s->options.verify;
	struct report r;
	struct err err = {0};

	o.command = COMMAND_LIST;
	o.free_memory = !s->shared.nvml;
	o.min_memory_bytes = 0; /* verify looks at it; here it would take a context each time */

	struct run_config config = {.options = &o,
		.thresholds = &s->thresholds,
		.program = s->program,
		.root = s->root,
		.stop_fd = s->term_fd};

	report_init(&r);
	if (run_probe(&config, &r, &err) == 0) {
		(void)pthread_mutex_lock(&s->shared.lock);
		fleet_listed(&s->shared.fleet, &r, wall_s());
		(void)pthread_mutex_unlock(&s->shared.lock);
	} else {
		log_line(&s->log, LOG_LEVEL_ERROR, "list", log_str("error", err.msg));
	}
	report_release(&r);
}

/* ---- verify ---- */

/* GPUs that somebody computes on keep their verdict: --gpu names the others. False: there is none to check. */
static bool choose_idle(struct serving *s, struct probe_options *o, char (*names)[48])
{
	const struct fleet *f = &s->shared.fleet;
	bool busy = false;

	(void)pthread_mutex_lock(&s->shared.lock);
	for (size_t i = 0; i < f->n_gpus; i++) {
		const struct fleet_gpu *gpu = &f->gpus[i];

		if (!gpu->present)
			continue;
		if (!fleet_idle(gpu)) {
			busy = true;
			continue;
		}
		(void)snprintf(names[o->n_gpus], sizeof(names[0]), "%s",
			gpu->known.uuid[0] ? gpu->known.uuid : gpu->known.pci);
		o->gpus[o->n_gpus] = names[o->n_gpus];
		o->n_gpus++;
	}
	(void)pthread_mutex_unlock(&s->shared.lock);
	if (!busy)
		o->n_gpus = 0; /* all, those that nobody has seen yet among them */
	return !busy || o->n_gpus > 0;
}

static void note_change(struct serving *s, const struct report *r)
{
	for (size_t i = 0; i < r->n_gpus; i++)
		if (!r->gpus[i].fit)
			log_line(&s->log, LOG_LEVEL_WARN, "GPU is not fit",
				log_int("index", r->gpus[i].index),
				log_str("uuid", r->gpus[i].uuid), log_str("pci", r->gpus[i].pci),
				log_str("code", code_text(report_problem(r, &r->gpus[i]))->name));
	log_line(&s->log, LOG_LEVEL_INFO, "verified", log_int("gpus", (int64_t)r->n_gpus),
		log_str("verdict", report_verdict_name(r->exit)),
		log_int("ms", (int64_t)(r->duration_s * 1000)));
}

static void verify(struct serving *s)
{
	char(*names)[48] = calloc(REPORT_GPUS_MAX, sizeof(*names));
	struct probe_options o = s->options.verify;
	struct run_config config = {.options = &o,
		.thresholds = &s->thresholds,
		.program = s->program,
		.root = s->root,
		.stop_fd = s->stop_fd};
	struct report r;
	struct err err = {0};

	report_init(&r);
	if (!names || !choose_idle(s, &o, names)) {
		log_text(&s->log, LOG_LEVEL_INFO, "verify: put off, every GPU is in use");
		atomic_store(&s->open, true);
	} else if (run_probe(&config, &r, &err) != 0) {
		log_line(&s->log, LOG_LEVEL_ERROR, "verify", log_str("error", err.msg));
	} else {
		struct buf text;

		note_change(s, &r);
		for (size_t i = 0; i < r.n_gpus; i++)
			if (fleet_was_busy(&r.gpus[i]))
				atomic_store(&s->open, true);
		buf_init(&text, SERVE_BYTES_MAX);
		(void)report_json(&r, &text, NULL);
		(void)pthread_mutex_lock(&s->shared.lock);
		fleet_verified(&s->shared.fleet, &r, wall_s());
		if (!text.failed) {
			buf_release(&s->shared.report);
			s->shared.report = text;
			buf_init(&text, 0);
		}
		(void)pthread_mutex_unlock(&s->shared.lock);
		buf_release(&text);
	}
	report_release(&r);
	free(names);
}

static void *run_verifier(void *arg)
{
	struct serving *s = arg;

	verify(s);
	atomic_store(&s->verified, true);
	return NULL;
}

static void join_verifier(struct serving *s)
{
	if (!s->verifying)
		return;
	(void)pthread_join(s->verifier, NULL);
	s->verifying = false;
}

/* In a thread of its own, since a hung GPU takes its time, and the others are looked at meanwhile. */
static void start_verify(struct serving *s)
{
	if (s->verifying && !atomic_load(&s->verified))
		return;
	join_verifier(s);
	atomic_store(&s->verified, false);
	atomic_store(&s->open, false);
	s->verifying = pthread_create(&s->verifier, NULL, run_verifier, s) == 0;
	if (!s->verifying)
		log_text(&s->log, LOG_LEVEL_ERROR, "verify: no thread could be started");
}

/* ---- certificates and token ---- */

static int load_certificate(struct serving *s, struct err *err)
{
	const struct serve_options *o = &s->options;

	return s->identity ? tls_identity_load_files(s->identity, o->tls_cert, o->tls_key, err) : 0;
}

static void reload(struct serving *s)
{
	struct err err = {0};

	if (load_certificate(s, &err) != 0)
		log_line(&s->log, LOG_LEVEL_WARN, "certificate: the one in force stays",
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
	double left = nearest(s) - now_s();
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
	double now = now_s();

	if (now >= s->next_certificate) {
		s->next_certificate = now + CERTIFICATE_EVERY_S;
		reload(s);
	}
	if (now >= s->next_look) {
		s->next_look = now + o->look_every_s;
		if (!o->verify.no_nvml)
			look(s);
	}
	if (now >= s->next_list && !(s->verifying && !atomic_load(&s->verified))) {
		/* without NVML this is the only look between verifies */
		double every = s->shared.nvml || o->list_every_s < o->stale_after_s / 2
				       ? o->list_every_s
				       : o->stale_after_s / 2;

		s->next_list = now + every;
		list(s);
	}
	/* what was open may be found out when the GPU is idle again */
	if (s->verifying && atomic_load(&s->verified) && atomic_exchange(&s->open, false) &&
		now + o->list_every_s < s->next_verify)
		s->next_verify = now + o->list_every_s;
	if (now >= s->next_verify) {
		bool running = s->verifying && !atomic_load(&s->verified);

		/* one that is asked for while another runs comes after it */
		s->next_verify = now + (running ? 1 : o->verify_every_s);
		start_verify(s);
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
	s->stop_fd = eventfd(0, EFD_CLOEXEC);
	s->term_fd = open_term();
	if (s->stop_fd < 0 || s->term_fd < 0)
		return err_set(err, ERR_IO, "eventfd: %s", strerrordesc_np(errno));
	if ((rc = load_certificate(s, err)) != 0 ||
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
		join_verifier(s);
		log_text(&s->log, LOG_LEVEL_INFO, "ended");
		status = EXIT_FIT;
	}
	(void)http_server_stop(s->server, FINISH_MS);
	tls_identity_free(s->identity);
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

static void block_signals(struct serving *s)
{
	(void)sigemptyset(&s->signals);
	(void)sigaddset(&s->signals, SIGTERM);
	(void)sigaddset(&s->signals, SIGINT);
	(void)sigaddset(&s->signals, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &s->signals, NULL);
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
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
	serve_shared_init(&s->shared, &s->log);
	thresholds_init(&s->thresholds);
	if (serve_options_read(argc, argv, &s->options, &err) != 0) {
		(void)fprintf(stderr, "gpuprobe serve: %s; `gpuprobe serve --help` tells more\n",
			err.msg);
		status = EXIT_USAGE;
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
		block_signals(s);
		status = serve(s);
	}
	thresholds_release(&s->thresholds);
	serve_options_release(&s->options);
	free(s);
	return status;
}
