/* SPDX-License-Identifier: Apache-2.0 */
/* base/memory: what a program holds of its heap and of its code. Each part is played in a process
 * of its own, which tells by its exit status what was not so. */
#include "base/memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#include "test/unit/test.h"

#define PIECE 4096
#define PIECES 1024
#define PAGE 4096

/* Where a sanitizer has an allocator of its own, what is set of the C library's shows nowhere:
 * nothing of the heap is tried there. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_HEAP false
#else
#define OWN_HEAP true
#endif

/* Ends the process that plays a part, with the line as its status. */
#define MUST(holds)                                                                                \
	do {                                                                                       \
		if (!(holds))                                                                      \
			_exit(__LINE__ % 250 + 1);                                                 \
	} while (0)

static void play(const char *name, void (*part)(void))
{
	pid_t child = fork();
	int status = 0;

	assert_true(child >= 0);
	if (child == 0) {
		alarm(20);
		part();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (status != 0)
		fail_msg("%s ends with status %#x", name, (unsigned)status);
}

/* ---- the heap ---- */

static char *heap_end(void)
{
	return sbrk(0);
}

/* A heap that has grown by many pieces, which are given back from its end on. By how many bytes it
 * is longer than before; what was free at its end then may have gone, too. */
static ptrdiff_t grow_and_free(void)
{
	static void *pieces[PIECES];
	char *begin = heap_end();

	for (size_t i = 0; i < PIECES; i++) {
		pieces[i] = malloc(PIECE);
		MUST(pieces[i]);
	}
	MUST(heap_end() - begin > PIECE * PIECES / 2);
	for (size_t i = PIECES; i-- > 0;)
		free(pieces[i]);
	return heap_end() - begin;
}

static void little_is_spared(void)
{
	memory_begin(4 * PIECE);
	/* the library looks when it has 64 KiB to give back */
	MUST(grow_and_free() <= 24 * PIECE);
}

static void much_is_spared(void)
{
	memory_begin(2 * PIECE * PIECES);
	MUST(grow_and_free() > PIECE * PIECES / 2);
}

/* The heap grows by what is asked for, and little more. */
static void steps_are_small(void)
{
	char *begin;

	memory_begin(PIECE);
	for (begin = heap_end(); heap_end() == begin;)
		MUST(malloc(PIECE));
	for (size_t i = 0; i < 16; i++) {
		begin = heap_end();
		MUST(malloc(16 * PIECE));
		MUST(heap_end() > begin && heap_end() - begin <= 19 * PIECE);
	}
}

static void *allocate(void *ret)
{
	*(char **)ret = malloc(PIECE);
	return NULL;
}

/* One heap for all threads: what each of them has lies where the process's end of data is. */
static void threads_share_a_heap(void)
{
	char *begin = malloc(1), *got = NULL;
	pthread_t thread;

	memory_begin(PIECE);
	for (size_t i = 0; i < 4; i++) {
		MUST(pthread_create(&thread, NULL, allocate, &got) == 0);
		MUST(pthread_join(thread, NULL) == 0);
		MUST(got && got > begin - PIECES * PAGE && got < heap_end());
	}
}

/* What is free goes back, however much was to be spared. */
static void settling_gives_back(void)
{
	char *begin = heap_end();

	memory_begin(2 * PIECE * PIECES);
	MUST(grow_and_free() > PIECE * PIECES / 2);
	memory_settle();
	MUST(heap_end() - begin <= 64 * PAGE);
}

TEST(test_the_heap)
{
	if (!OWN_HEAP)
		return;
	play("little is spared", little_is_spared);
	play("much is spared", much_is_spared);
	play("steps are small", steps_are_small);
	play("threads share a heap", threads_share_a_heap);
	play("settling gives back", settling_gives_back);
}

/* ---- code ---- */

/* The pages, in KB, that the process has of files' code. touch: each of them is read first. */
static size_t code_kb(bool touch)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	bool code = false;
	size_t sum = 0;
	char line[512];

	MUST(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long from, to, kb;
		char rights[5];

		if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3) {
			code = strcmp(rights, "r-xp") == 0 && strchr(line, '/');
			for (; touch && code && from < to; from += PAGE)
				(void)*(volatile const char *)from;
		} else if (code && sscanf(line, "Rss: %lu kB", &kb) == 1) {
			sum += kb;
		}
	}
	MUST(fclose(maps) == 0);
	return sum;
}

static char written[4 * PAGE] = "written";
static const char constant[] = "constant";

static void code_goes_and_data_stay(void)
{
	char *text = strdup("allocated");
	size_t before;
	int fd;

	memset(written + PAGE, 'x', PAGE);
	(void)code_kb(true);
	before = code_kb(false);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	MUST(fd >= 0 && close(fd) == 0);
	memory_settle();
	/* what runs since then has come back */
	MUST(code_kb(false) < before / 2);
	MUST(strcmp(text, "allocated") == 0 && strcmp(constant, "constant") == 0);
	MUST(strcmp(written, "written") == 0);
	for (size_t i = PAGE; i < 2 * PAGE; i++)
		MUST(written[i] == 'x');
	/* no file has stayed open */
	MUST(open("/dev/null", O_RDONLY | O_CLOEXEC) == fd);
	memory_settle();
	free(text);
}

TEST(test_code)
{
	play("code goes and data stay", code_goes_and_data_stay);
}

TESTS(test_the_heap, test_code)
