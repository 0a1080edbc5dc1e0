/* SPDX-License-Identifier: Apache-2.0 */
/* core/pool/inventory, core/pool/filter: servers and GPUs are looked up, selected by filters, and
 * copied. */
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pool/filter.h"
#include "webhook/core/pool/ledger.h"

#define POOL                                                                                       \
	"a zone=lab floor=1 Tesla_V100-PCIE-16GB:16000 T4:8000u; a-b zone=lab rack=7 drain for=x " \
	"T4:8000; "                                                                                \
	"b NVIDIA_A100_80GB_PCIe:80000s k80:1m; c"

TEST(test_find)
{
	static const char *const names[] = {"a", "a-b", "b", "c"};
	static const char *const absent[] = {"", "A", "a-", "a-bc", "bb", "d", "0"};
	struct pool p;

	pool_init(&p, POOL);
	for (size_t i = 0; i < 4; i++)
		assert_ptr_equal(inventory_server(&p.inv, slice_of(names[i])), &p.inv.servers[i]);
	for (size_t i = 0; i < COUNT(absent); i++)
		assert_null(inventory_server(&p.inv, slice_of(absent[i])));
	assert_null(inventory_server(&(struct inventory){0}, SLICE("a")));
	assert_ptr_equal(
		inventory_gpu(&p.inv.servers[0], SLICE("gpu-1")), &p.inv.servers[0].gpus[1]);
	assert_null(inventory_gpu(&p.inv.servers[0], SLICE("gpu-2")));
	assert_null(inventory_gpu(&p.inv.servers[3], SLICE("gpu-0")));
	pool_release(&p);
}

TEST(test_usable)
{
	static const bool want[] = {true, false, false, false, false};
	struct pool p;
	size_t n = 0;

	pool_init(&p, POOL);
	for (size_t i = 0; i < p.inv.n_servers; i++)
		for (size_t j = 0; j < p.inv.servers[i].n_gpus; j++)
			assert_int_equal(
				inventory_usable(&p.inv.servers[i], &p.inv.servers[i].gpus[j]),
				want[n++]);
	assert_int_equal(n, 5);
	pool_release(&p);
}

/* As placement selects: every token that the pool knows says yes to server and GPU. */
static bool selected(
	const struct inventory *inv, const struct gpu_server *s, size_t g, const struct demand *d)
{
	for (size_t i = 0; i < d->n_filters; i++)
		if (inventory_knows_filter(inv, &d->filters[i]) &&
			!(inventory_server_matches(s, &d->filters[i]) &&
				inventory_gpu_matches(&s->gpus[g], &d->filters[i])))
			return false;
	return true;
}

TEST(test_filters)
{
	/* selected: one letter per GPU in the order of the pool */
	static const struct {
		const char *tokens;
		bool known; /* the first token */
		const char *selected;
	} cases[] = {
		{"server.name=a", true, "xx..."},
		{"server.name=A", true, "....."},
		{"server.name=", true, "....."},
		{"server.addr=a-b:56001", true, "..x.."},
		{"gpu.model=T4", true, ".xx.."},
		{"gpu.model=t4", true, ".xx.."},
		{"gpu.model=T", true, "....."},
		{"gpu.model=", true, "....."},
		{"gpu.model=80gb", true, "...x."},
		{"gpu.model=tesla", true, "x...."},
		{"gpu.model=v100", true, "x...."},
		{"gpu.model=V100-PCIE", true, "x...."},
		{"gpu.model=V10", true, "....."},
		{"zone=lab", true, "xxx.."},
		{"zone=LAB", true, "....."},
		{"rack=7", true, "..x.."},
		{"floor=1", true, "xx..."},
		{"rack=7 gpu.model=k80", true, "....."},
		{"zone=lab gpu.model=t4 server.name=a", true, ".x..."},
		{"zone=lab zone=attic", true, "....."},
		{"colour=blue", false, "xxxxx"},
		{"zone", false, "xxxxx"},
		{"=lab", false, "xxxxx"},
		{"colour=blue rack=7", false, "..x.."},
		{"Zone=lab", false, "xxxxx"},
	};
	struct pool p;

	pool_init(&p, POOL);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct demand d;
		char got[8] = {0};
		size_t n = 0;

		demand_init(&d, &p.arena, "", cases[i].tokens, NULL, false);
		assert_int_equal(inventory_knows_filter(&p.inv, &d.filters[0]), cases[i].known);
		for (size_t s = 0; s < p.inv.n_servers; s++)
			for (size_t g = 0; g < p.inv.servers[s].n_gpus; g++)
				got[n++] = selected(&p.inv, &p.inv.servers[s], g, &d) ? 'x' : '.';
		if (strcmp(got, cases[i].selected) != 0)
			fail_msg("%s selects %s", cases[i].tokens, got);
	}
	pool_release(&p);
}

/* One rule: from the beginning of a word up to the end of a word or to a hyphen. */
TEST(test_models)
{
	static const struct {
		const char *value;
		bool matches;
	} cases[] = {{"Tesla V100-PCIE-16GB", true}, {"tesla v100", true},
		{"Tesla V100-PCIE", true}, {"V100-PCIE-16GB", true}, {"Tesla", true},
		{"16GB", false}, {"Tesla V10", false}, {"esla V100", false}, {"Tesla  V100", false},
		{"Tesla ", false}, {" V100", false}, {"-PCIE", false},
		{"Tesla V100-PCIE-16GB ", false}};
	struct pool p;

	pool_init(&p, POOL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct filter f = {.key = SLICE("gpu.model"), .value = slice_of(cases[i].value)};

		if (inventory_gpu_matches(&p.inv.servers[0].gpus[0], &f) != cases[i].matches)
			fail_msg("gpu.model=%s", cases[i].value);
	}
	pool_release(&p);
}

TEST(test_words)
{
	static const struct {
		const char *text, *words; /* joined by '|' */
	} cases[] = {{"", ""}, {"  ", ""}, {"a=b c", "a=b|c"},
		{"gpu.model=\"Tesla V100\" zone=lab", "gpu.model=Tesla V100|zone=lab"},
		{"\"gpu.model=T\" a'\"b", "\"gpu.model=T\"|a'\"b"}, {"a=\"\"", "a="},
		{"a=\" b = c \"\n\td", "a= b = c |d"}, {"=\"x y\"", "=x y"}, {"a=\"b", NULL},
		{"x a=\"b c\"d", NULL}, {"a=\"", NULL}};
	struct arena a;

	arena_init(&a, 1u << 20);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct slice *words = NULL;
		struct err err = {0};
		char got[80] = "";
		size_t n = 0;
		int rc = filter_words(slice_of(cases[i].text), &a, &words, &n, &err);

		assert_int_equal(rc, cases[i].words ? 0 : ERR_INVALID);
		for (size_t w = 0; w < n; w++)
			(void)snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%.*s",
				w ? "|" : "", (int)words[w].len, words[w].at);
		assert_string_equal(got, cases[i].words ? cases[i].words : "");
	}
	/* as many words and bytes as there may be, and one more */
	for (size_t n = FILTERS_MAX; n <= FILTERS_MAX + 1; n++) {
		struct slice *words = NULL;
		struct err err = {0};
		char text[FILTER_BYTES_MAX + 2];
		size_t n_words = 0;

		memset(text, ' ', sizeof(text));
		for (size_t i = 0; i < n; i++)
			text[2 * i] = 'x';
		assert_int_equal(
			filter_words((struct slice){text, 2 * n}, &a, &words, &n_words, &err),
			n > FILTERS_MAX ? ERR_INVALID : 0);
		assert_int_equal(n_words, n > FILTERS_MAX ? 0 : n);
		memset(text, 'x', sizeof(text));
		assert_int_equal(
			filter_words((struct slice){text, n - FILTERS_MAX + FILTER_BYTES_MAX}, &a,
				&words, &n_words, &err),
			n > FILTERS_MAX ? ERR_INVALID : 0);
	}
	arena_release(&a);
}

TEST(test_copy)
{
	struct inventory copy = {0};
	struct arena a;
	struct pool p;
	size_t failed = 0;

	pool_init(&p, POOL);
	arena_init(&a, 1u << 20);
	assert_int_equal(inventory_copy(&p.inv, &a, &copy, NULL), 0);
	assert_int_equal(copy.n_servers, 4);
	assert_int_equal(copy.n_gpus, 5);
	assert_ptr_not_equal(copy.servers[1].name, p.inv.servers[1].name);
	pool_release(&p); /* nothing is shared */
	assert_string_equal(copy.servers[1].name, "a-b");
	assert_string_equal(copy.servers[1].labels[1].key, "rack");
	assert_string_equal(copy.servers[1].labels[1].value, "7");
	assert_true(copy.servers[1].drain);
	assert_int_equal(copy.servers[1].n_launchers, 1);
	assert_string_equal(copy.servers[1].launchers[0], "x");
	assert_null(copy.servers[1].probe_url);
	assert_int_equal(copy.servers[2].first_gpu, 3);
	assert_string_equal(copy.servers[0].gpus[1].why, "ECC errors");
	assert_true(copy.servers[2].gpus[1].missing);

	for (size_t max = 0; max < 4096; max += 16) {
		struct inventory again;
		struct arena small;
		struct err e = {0};
		int rc;

		arena_init(&small, max);
		rc = inventory_copy(&copy, &small, &again, &e);
		assert_true(rc == 0 || (rc == ERR_NOMEM && e.msg[0]));
		failed += rc != 0;
		arena_release(&small);
	}
	assert_true(failed > 5 && failed < 250);
	arena_release(&a);
}

static bool twins(struct pool *p)
{
	bool any;

	assert_int_equal(inventory_find_twins(&p->inv, &p->arena, &any, NULL), 0);
	return any;
}

TEST(test_one_address)
{
	static const struct {
		const char *a, *b;
		bool same;
	} cases[] = {
		{"10.0.0.1:56001", "10.0.0.1:56001", true},
		{"10.0.0.1:56001", "10.0.0.1:56002", false},
		{"10.0.0.1:56001", "10.0.0.11:56001", false},
		{"10.0.0.1:80", "10.0.0.1:080", true},
		{"Gpu-01.Lab:1", "gpu-01.lab.:1", true},
		{"gpu-01.lab:1", "gpu-01.lap:1", false},
		{"[fd00::1]:1", "[FD00:0:0:0:0:0:0:1]:1", true},
		{"[fd00::1]:1", "[fd00::1:0:0:1]:1", false},
		{"[fd00::1]:1", "[fd00:0::0001]:1", true},
		{"[::]:1", "[0::0]:1", true},
		{"[::ffff:10.0.0.1]:1", "10.0.0.1:1", true},
		{"[::ffff:a00:1]:1", "10.0.0.1:1", true},
		{"[::10.0.0.1]:1", "10.0.0.1:1", false},
		{"[fe80::1%eth0]:1", "[FE80::1%ETH0]:1", true},
		{"[fe80::1%eth0]:1", "[fe80::1%eth1]:1", false},
		{"[1:2:3:4:5:6:7:8]:1", "[1:2:3:4:5:6:7::8]:1", false},
		{"[1::2::3]:1", "[1:0:2::3]:1", false},
		{"[12345::]:1", "[2345::]:1", false},
		{"[1:]:1", "[1::]:1", false},
		/* each group, each byte, and the port count */
		{"[1:2:3:4:5:6:7:8]:1", "[01:2:3:4:5:6:7:8]:1", true},
		{"[1:2:3:4:5:6:7:8]:1", "[9:2:3:4:5:6:7:8]:1", false},
		{"[1:2:3:4:5:6:7:8]:1", "[1:9:3:4:5:6:7:8]:1", false},
		{"[1:2:3:4:5:6:7:8]:1", "[1:2:9:4:5:6:7:8]:1", false},
		{"[1:2:3:4:5:6:7:8]:1", "[1:2:3:9:5:6:7:8]:1", false},
		{"[1:2:3:4:5:6:7:8]:1", "[1:2:3:4:9:6:7:8]:1", false},
		{"[1:2:3:4:5:6:7:8]:1", "[1:2:3:4:5:9:7:8]:1", false},
		{"[1:2:3:4:5:6:7:8]:1", "[1:2:3:4:5:6:9:8]:1", false},
		{"[1:2:3:4:5:6:7:8]:1", "[1:2:3:4:5:6:7:9]:1", false},
		{"[::ffff:1.2.3.4]:1", "9.2.3.4:1", false},
		{"[::ffff:1.2.3.4]:1", "1.9.3.4:1", false},
		{"[::ffff:1.2.3.4]:1", "1.2.9.4:1", false},
		{"[::ffff:1.2.3.4]:1", "1.2.3.9:1", false},
		{"[::ffff:1.2.3.4]:1", "1.2.3.4:1", true},
		{"[1::ffff:1.2.3.4]:1", "1.2.3.4:1", false},
		{"[0:1:0:0:0:ffff:102:304]:1", "1.2.3.4:1", false},
		{"[0:0:1:0:0:ffff:102:304]:1", "1.2.3.4:1", false},
		{"[0:0:0:1:0:ffff:102:304]:1", "1.2.3.4:1", false},
		{"[0:0:0:0:1:ffff:102:304]:1", "1.2.3.4:1", false},
		{"[1:2:3:4:5:6:1.2.3.4]:1", "[1:2:3:4:5:6:102:304]:1", true},
		{"[1:2:3:4:5:6:7:1.2.3.4]:1", "[1:2:3:4:5:6:7:102]:1", false},
		{"[::ffff:1.2.3.256]:1", "1.2.3.256:1", false},
		{"[af09::]:1", "[AF09::]:1", true},
		{"[ag09::]:1", "[a009::]:1", false},
		{"a.:1", "a:1", true},
		{"a:65535", "a:65535", true},
		{"a:65535", "a:0", false},
		{"az:1", "AZ:1", true},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct pool p;

		pool_init(&p, "a t4:8 t4:8; b t4:8 t4:8; c");
		p.inv.servers[0].address = cases[i].a;
		p.inv.servers[1].address = cases[i].b;
		if (twins(&p) != cases[i].same)
			fail_msg("%s, %s", cases[i].a, cases[i].b);
		assert_null(p.inv.servers[0].twin);
		if (cases[i].same) {
			assert_string_equal(p.inv.servers[1].twin,
				"GPUServer a, which came first, has its address");
			assert_string_equal(p.inv.servers[1].gpus[1].twin, p.inv.servers[1].twin);
		}
		/* who is older, not whose name comes first */
		p.inv.servers[0].created_ms = 2000;
		p.inv.servers[1].created_ms = 1000;
		assert_int_equal(twins(&p), cases[i].same);
		assert_int_equal(p.inv.servers[0].twin != NULL, cases[i].same);
		assert_null(p.inv.servers[1].twin);
		assert_null(p.inv.servers[1].gpus[1].twin);
		pool_release(&p);
	}
}

TEST(test_one_gpu)
{
	static const struct {
		const char *a, *a_parent, *b, *b_parent;
		bool same;
	} cases[] = {
		{"GPU-1", NULL, "GPU-1", NULL, true},
		{"GPU-1", NULL, "GPU-2", NULL, false},
		{"gpu-0", NULL, "gpu-0", NULL, false},
		{"GPU-1", NULL, "MIG-2", "GPU-1", true},
		{"MIG-1", "GPU-1", "MIG-2", "GPU-1", true},
		{"MIG-1", "GPU-1", "MIG-2", "GPU-2", false},
		{"MIG-1", NULL, "MIG-1", NULL, true},
		{"MIG-1", "", "MIG-2", "", false},
		{"MIG-GPU-1/0/0", NULL, "GPU-1", NULL, true},
		{"MIG-GPU-1/0/0", NULL, "MIG-GPU-1/1/0", NULL, true},
		{"MIG-GPU-1/0/0", NULL, "MIG-GPU-11/0/0", NULL, false},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct pool p;

		pool_init(&p, "a t4:8 t4:8; b t4:8 t4:8; c t4:8 t4:8");
		p.inv.servers[0].gpus[1].id = cases[i].a;
		p.inv.servers[0].gpus[1].parent = cases[i].a_parent;
		p.inv.servers[2].gpus[0].id = cases[i].b;
		p.inv.servers[2].gpus[0].parent = cases[i].b_parent;
		if (twins(&p) != cases[i].same)
			fail_msg("case %zu", i);
		assert_null(p.inv.servers[0].twin);
		assert_null(p.inv.servers[2].gpus[1].twin);
		if (cases[i].same)
			assert_string_equal(p.inv.servers[2].gpus[0].twin,
				"GPUServer a, which came first, has this GPU");
		pool_release(&p);
	}
}

/* A server whose GPUs are another's names the first of them; one that is at another's address says
 * that alone. */
TEST(test_two_gpus)
{
	struct pool p;

	pool_init(&p, "a t4:8 t4:8; b t4:8 t4:8; c t4:8 t4:8");
	p.inv.servers[0].gpus[0].id = p.inv.servers[1].gpus[0].id = "GPU-1";
	p.inv.servers[0].gpus[1].id = p.inv.servers[1].gpus[1].id = "GPU-2";
	assert_true(twins(&p));
	assert_string_equal(
		p.inv.servers[1].twin, "GPUServer a, which came first, has its GPU GPU-1");
	assert_string_equal(
		p.inv.servers[1].gpus[1].twin, "GPUServer a, which came first, has this GPU");
	p.inv.servers[1].address = p.inv.servers[2].address = p.inv.servers[0].address;
	assert_true(twins(&p));
	for (size_t i = 1; i < 3; i++) {
		assert_string_equal(
			p.inv.servers[i].twin, "GPUServer a, which came first, has its address");
		for (size_t g = 0; g < 2; g++)
			assert_string_equal(p.inv.servers[i].gpus[g].twin, p.inv.servers[i].twin);
	}
	pool_release(&p);
}

/* Instances of one GPU on one server are no twins; without memory there is an error. */
TEST(test_twins_of_none)
{
	struct pool p;
	struct arena none;
	struct err e = {0};
	bool any;

	pool_init(&p, "a t4:8 t4:8; b t4:8");
	p.inv.servers[0].gpus[0].parent = p.inv.servers[0].gpus[1].parent = "GPU-1";
	assert_false(twins(&p));
	p.inv.servers[1].address = p.inv.servers[0].address;
	arena_init(&none, 0);
	assert_int_equal(inventory_find_twins(&p.inv, &none, &any, &e), ERR_NOMEM);
	arena_release(&none);
	pool_release(&p);
}

TEST(test_state_names)
{
	assert_string_equal(claim_state_name(CLAIM_PENDING), "pending");
	assert_string_equal(claim_state_name(CLAIM_BOUND), "bound");
	assert_string_equal(claim_state_name(CLAIM_ADOPTED), "adopted");
}

TESTS(test_find, test_usable, test_filters, test_models, test_words, test_copy, test_one_address,
	test_one_gpu, test_two_gpus, test_twins_of_none, test_state_names)
