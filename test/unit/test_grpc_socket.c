/* SPDX-License-Identifier: Apache-2.0 */
/* test: the socket that the gRPC server listens on: what stood there before, what happens to it,
 * what is left. */
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "test/unit/grpc_fixture.h"
#include "test/unit/test.h"

/* What happens right before the next bind. */
static struct {
	const char *folder, *moved;
	unsigned times, done;
} meanwhile;

int __real_bind(int fd, const struct sockaddr *a, socklen_t len);
int __wrap_bind(int fd, const struct sockaddr *a, socklen_t len);
int __wrap_bind(int fd, const struct sockaddr *a, socklen_t len)
{
	char moved[160];

	if (meanwhile.times > 0) {
		meanwhile.times--;
		(void)snprintf(moved, sizeof(moved), "%s%u", meanwhile.moved, meanwhile.done++);
		assert_int_equal(rename(meanwhile.folder, moved), 0);
		assert_int_equal(mkdir(meanwhile.folder, 0700), 0);
	}
	return __real_bind(fd, a, len);
}

static int open_at(const char *path, bool listening)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
	if (listening)
		assert_int_equal(listen(fd, 1), 0);
	return fd;
}

/* Connect more often than it takes. */
static void fill(const char *path, int *fd, size_t n)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	for (size_t i = 0; i < n; i++) {
		fd[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)connect(fd[i], (const struct sockaddr *)&a, sizeof(a));
	}
}

static int try_new(const char *path, struct grpc_fixture *f, struct err *err)
{
	struct grpc_server *s = NULL;
	int rc = grpc_server_new(path, grpc_fixture_methods, f, &f->log, &s, err);

	grpc_server_free(s, 0);
	return rc;
}

static void assert_answers(struct grpc_fixture *f)
{
	struct peer p = {0};

	peer_open(f, &p);
	assert_string_equal(peer_call(&p, "/test.T/Echo", "x")->status, "0");
	peer_close(&p);
}

static bool listens(void *fixture)
{
	struct grpc_fixture *f = fixture;

	return grpc_server_listens(f->server) && access(f->path, F_OK) == 0;
}

static bool does_not_listen(void *fixture)
{
	struct grpc_fixture *f = fixture;

	return !grpc_server_listens(f->server);
}

/* Another program's socket in the place of ours: its descriptor. */
static int displace(struct grpc_fixture *f)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/other", f->folder);
	fd = open_at(path, true);
	assert_int_equal(rename(path, f->path), 0);
	return fd;
}

/* Taken away, it comes again. */
static void assert_watched(struct grpc_fixture *f)
{
	assert_int_equal(unlink(f->path), 0);
	grpc_fixture_settle(f, NULL);
	assert_answers(f);
}

static void end(struct grpc_fixture *f)
{
	grpc_server_free(f->server, 0);
	f->server = NULL;
}

/* Another one where the fixture's has ended. */
static void begin(struct grpc_fixture *f)
{
	assert_int_equal(
		grpc_server_new(f->path, grpc_fixture_methods, f, &f->log, &f->server, NULL), 0);
}

TEST(paths)
{
	struct grpc_fixture *f = *state;
	struct err err = {0};
	char path[200];

	assert_int_equal(try_new("plugin.sock", f, &err), ERR_INVALID);
	assert_int_equal(try_new("/tmp/", f, &err), ERR_INVALID);
	assert_int_equal(try_new("", f, &err), ERR_INVALID);
	memset(path, 'x', sizeof(path));
	(void)snprintf(path, sizeof(path), "%s/%0*d", f->folder, (int)(106 - strlen(f->folder)), 0);
	assert_int_equal(strlen(path), 107);
	assert_int_equal(try_new(path, f, &err), 0);
	(void)strcat(path, "0");
	assert_int_equal(try_new(path, f, &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, "108 bytes; a socket's may have 107"));
	(void)snprintf(path, sizeof(path), "%s/none/plugin.sock", f->folder);
	assert_int_equal(try_new(path, f, &err), ERR_IO);
	assert_non_null(strstr(err.msg, "is the kubelet's folder mounted there?"));
	assert_int_equal(try_new("/proc/self/plugin.sock", f, &err), ERR_IO);
}

TEST(only_its_owner_may_connect)
{
	struct grpc_fixture *f = *state;
	struct stat st;
	mode_t mask = umask(0);

	grpc_fixture_restart(f);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0600);
	(void)umask(mask);
}

TEST(who_was_there_before)
{
	struct grpc_fixture *f = *state;
	struct err err = {0};
	int fd, waiting[4];

	/* a living one, ours */
	assert_int_equal(try_new(f->path, f, &err), ERR_CONFLICT);
	assert_non_null(strstr(err.msg, "another program answers there"));
	assert_answers(f);
	end(f);
	/* a dead one */
	(void)close(open_at(f->path, true));
	assert_int_equal(access(f->path, F_OK), 0);
	assert_int_equal(try_new(f->path, f, &err), 0);
	/* a living one that takes no more */
	fd = open_at(f->path, true);
	fill(f->path, waiting, COUNT(waiting));
	assert_int_equal(try_new(f->path, f, &err), ERR_CONFLICT);
	for (size_t i = 0; i < COUNT(waiting); i++)
		(void)close(waiting[i]);
	(void)close(fd);
	assert_int_equal(try_new(f->path, f, &err), 0);
	/* no socket at all */
	fd = open(f->path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(try_new(f->path, f, &err), ERR_CONFLICT);
	assert_non_null(strstr(err.msg, "no socket"));
	(void)close(fd);
	(void)unlink(f->path);
	/* one that is about to listen */
	fd = open(f->folder, O_RDONLY);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(try_new(f->path, f, &err), ERR_CONFLICT);
	(void)close(fd);
	begin(f);
}

TEST(taken_away)
{
	struct grpc_fixture *f = *state;
	struct peer p = {0};
	char *log;

	peer_open(f, &p);
	assert_string_equal(peer_call(&p, "/test.T/Echo", "x")->status, "0");
	for (int i = 0; i < 3; i++) {
		assert_watched(f);
		assert_true(listens(f));
	}
	/* who was connected still is */
	assert_string_equal(peer_call(&p, "/test.T/Echo", "x")->status, "0");
	peer_close(&p);
	log = grpc_fixture_log(f);
	assert_non_null(strstr(log, "the socket was taken away"));
	assert_non_null(strstr(log, "listening anew"));
	free(log);
}

/* Others come and go in the folder: nothing is done anew. */
TEST(the_neighbours)
{
	struct grpc_fixture *f = *state;
	struct stat before, after;
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/kubelet.sock", f->folder);
	assert_int_equal(stat(f->path, &before), 0);
	(void)close(open_at(path, true));
	grpc_fixture_settle(f, NULL);
	(void)unlink(path);
	grpc_fixture_settle(f, NULL);
	assert_int_equal(stat(f->path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
}

TEST(replaced)
{
	struct grpc_fixture *f = *state;
	char path[128];
	int fd = displace(f);

	/* by one that lives: it is left alone until it has gone, and so is its socket by our end */
	assert_true(grpc_fixture_turn(f, NULL, does_not_listen, f, 1000));
	assert_false(grpc_fixture_turn(f, NULL, listens, f, 1100));
	(void)close(fd);
	assert_true(grpc_fixture_turn(f, NULL, listens, f, 5000));
	assert_answers(f);
	/* by one that is dead */
	(void)close(displace(f));
	grpc_fixture_settle(f, NULL);
	assert_answers(f);
	/* by a file */
	(void)snprintf(path, sizeof(path), "%s/other", f->folder);
	(void)close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(rename(path, f->path), 0);
	assert_true(grpc_fixture_turn(f, NULL, does_not_listen, f, 1000));
	(void)unlink(f->path);
	grpc_fixture_settle(f, NULL);
	assert_answers(f);
}

TEST(the_end_of_who_was_replaced)
{
	struct grpc_fixture *f = *state;
	int fd = displace(f);

	end(f);
	assert_int_equal(access(f->path, F_OK), 0);
	(void)close(fd);
	begin(f);
}

TEST(the_folder_goes)
{
	struct grpc_fixture *f = *state;
	char moved[128];

	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(rmdir(f->folder), 0);
	assert_true(grpc_fixture_turn(f, NULL, does_not_listen, f, 1000));
	assert_int_equal(mkdir(f->folder, 0700), 0);
	assert_true(grpc_fixture_turn(f, NULL, listens, f, 5000));
	assert_answers(f);
	/* the new one is watched */
	assert_watched(f);
	/* moved away, and another in its place */
	(void)snprintf(moved, sizeof(moved), "%s.moved", f->folder);
	assert_int_equal(rename(f->folder, moved), 0);
	assert_int_equal(mkdir(f->folder, 0700), 0);
	assert_true(grpc_fixture_turn(f, NULL, listens, f, 5000));
	assert_answers(f);
	assert_watched(f);
	(void)snprintf(moved, sizeof(moved), "%s.moved/plugin.sock", f->folder);
	assert_int_equal(unlink(moved), 0);
	*strrchr(moved, '/') = '\0';
	assert_int_equal(rmdir(moved), 0);
}

static void remove_moved(const char *prefix)
{
	for (unsigned i = 0; i < meanwhile.done; i++) {
		char path[160];

		(void)snprintf(path, sizeof(path), "%s%u", prefix, i);
		assert_int_equal(rmdir(path), 0);
	}
	meanwhile.done = 0;
}

/* Replaced after it was watched and before the socket is there: the new one is watched all the
 * same. */
TEST(the_folder_is_replaced_meanwhile)
{
	struct grpc_fixture *f = *state;
	char moved[128];

	(void)snprintf(moved, sizeof(moved), "%s.moved", f->folder);
	meanwhile.folder = f->folder;
	meanwhile.moved = moved;
	meanwhile.times = 2;
	assert_int_equal(unlink(f->path), 0);
	assert_true(grpc_fixture_turn(f, NULL, listens, f, 5000));
	assert_int_equal(meanwhile.done, 2);
	grpc_fixture_settle(f, NULL);
	assert_answers(f);
	assert_watched(f);
	remove_moved(moved);
	/* for ever: said, and tried again later */
	meanwhile.times = 5;
	assert_int_equal(unlink(f->path), 0);
	assert_true(grpc_fixture_turn(f, NULL, does_not_listen, f, 1000));
	assert_int_equal(meanwhile.times, 0);
	assert_int_equal(access(f->path, F_OK), -1);
	assert_true(grpc_fixture_turn(f, NULL, listens, f, 5000));
	assert_answers(f);
	remove_moved(moved);
}

/* One line for one trouble, however long it lasts. */
TEST(trouble_is_told_once)
{
	struct grpc_fixture *f = *state;
	char *log, *first;
	int fd = displace(f);

	assert_false(grpc_fixture_turn(f, NULL, listens, f, 2500));
	log = grpc_fixture_log(f);
	first = strstr(log, "cannot listen anew");
	assert_non_null(first);
	assert_null(strstr(first + 1, "cannot listen anew"));
	free(log);
	(void)close(fd);
	(void)unlink(f->path);
	assert_true(grpc_fixture_turn(f, NULL, listens, f, 5000));
}

TESTS_BETWEEN(grpc_fixture_start, grpc_fixture_end, paths, only_its_owner_may_connect,
	who_was_there_before, taken_away, the_neighbours, replaced, the_end_of_who_was_replaced,
	the_folder_goes, the_folder_is_replaced_meanwhile, trouble_is_told_once)
