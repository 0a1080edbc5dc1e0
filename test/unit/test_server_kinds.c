/* SPDX-License-Identifier: Apache-2.0 */
/* test: the table of kinds of servers: who is of one kind, and how large the table gets. That
 * searches find the same with it and without it is test_placement's. */
#include "webhook/core/pool/server_kinds.h"

#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"

TEST(one_kind_for_servers_that_differ_by_name_address_and_labels)
{
	struct server_kinds k = {0};
	struct pool p;
	uint32_t kinds[11];

	pool_init(&p,
		"a zone=x t4:8000 t4:8000/900u; b zone=y t4:4000 t4:1; c zone=x t4:1; "
		"d zone=x t4:1 k80:1; e zone=x k80:1 t4:1; f zone=x at=[::1]:5 t4:1 t4:1; g "
		"zone=x for=a t4:1 t4:1; h zone=x for=b t4:1 t4:1; i zone=x guarded t4:1 t4:1; "
		"j zone=x by-address t4:1 t4:1; k zone=x by-token t4:1 t4:1");
	for (size_t i = 0; i < COUNT(kinds); i++)
		kinds[i] = server_kinds_take(&k, 0, &p.inv.servers[i]);
	assert_int_equal(kinds[0], kinds[1]);
	assert_int_equal(kinds[0], 1);
	for (size_t i = 2; i < COUNT(kinds); i++)
		assert_int_equal(kinds[i], i);
	/* what is kept of them outlives them */
	pool_release(&p);
	assert_string_equal(k.servers[4].gpus[0].model, "k80");
	assert_int_equal(k.servers[1].n_gpus, 2);
	assert_string_equal(k.servers[7].launchers[0], "b");
	assert_true(k.servers[8].guarded && !k.servers[1].guarded);
	assert_int_equal(k.servers[1].gate_by, GATE_BY_ANY);
	assert_int_equal(k.servers[9].gate_by, GATE_BY_ADDRESS);
	assert_int_equal(k.servers[10].gate_by, GATE_BY_TOKEN);
	server_kinds_release(&k);
}

TEST(a_kind_ends_with_its_last_server_and_its_place_is_used_again)
{
	struct server_kinds k = {0};
	struct pool p;

	pool_init(&p, "a t4:1; b k80:1; c v100:1");
	assert_int_equal(server_kinds_take(&k, 0, &p.inv.servers[0]), 1);
	assert_int_equal(server_kinds_take(&k, 0, &p.inv.servers[0]), 1);
	assert_int_equal(server_kinds_take(&k, 0, &p.inv.servers[1]), 2);
	/* one of two goes, then the other becomes something else */
	server_kinds_drop(&k, 1);
	assert_int_equal(k.servers[1].n_gpus, 1);
	assert_int_equal(server_kinds_take(&k, 1, &p.inv.servers[2]), 1);
	assert_string_equal(k.servers[1].gpus[0].model, "v100");
	server_kinds_drop(&k, 2);
	assert_int_equal(k.servers[2].n_gpus, 0);
	server_kinds_drop(&k, 0);
	assert_int_equal(server_kinds_take(&k, 0, &p.inv.servers[1]), 2);
	assert_int_equal(k.n, 3);
	server_kinds_release(&k);
	pool_release(&p);
}

TEST(models_that_tell_all_servers_apart_do_not_fill_memory)
{
	struct server_kinds k = {0};
	struct gpu gpu = {0};
	struct gpu_server s = {.name = "a", .address = "a:1", .gpus = &gpu, .n_gpus = 1};
	char value[20];

	gpu.model = value;
	for (uint32_t i = 1; i <= SERVER_KINDS_MAX + 5; i++) {
		(void)snprintf(value, sizeof(value), "%u", i);
		assert_int_equal(server_kinds_take(&k, 0, &s), i <= SERVER_KINDS_MAX ? i : 0);
	}
	assert_int_equal(k.n, SERVER_KINDS_MAX + 1);
	/* who is of a kind that is there has it still */
	(void)snprintf(value, sizeof(value), "%u", 700u);
	assert_int_equal(server_kinds_take(&k, 0, &s), 700);
	server_kinds_release(&k);
	assert_null(k.servers);
}

/* Each model and each launcher counts, at its place, and how many there are. */
TEST(who_is_like_whom)
{
	static const char *ab[] = {"a", "b"}, *ac[] = {"a", "c"}, *cb[] = {"c", "b"};
	struct gpu xy[] = {{.model = "x"}, {.model = "y"}}, xz[] = {{.model = "x"}, {.model = "z"}};
	struct gpu_server s = {
		.address = "a:1", .gpus = xy, .n_gpus = 2, .launchers = ab, .n_launchers = 2};
	struct gpu_server other = s;

	other.name = "b";
	other.address = "b:2";
	assert_true(server_kinds_alike(&s, &other));
	other.launchers = ac;
	assert_false(server_kinds_alike(&s, &other));
	other.launchers = cb;
	assert_false(server_kinds_alike(&s, &other));
	other = s;
	other.n_launchers = 1;
	assert_false(server_kinds_alike(&s, &other));
	other = s;
	other.gpus = xz;
	assert_false(server_kinds_alike(&s, &other));
	other = s;
	other.n_gpus = 1;
	assert_false(server_kinds_alike(&s, &other));
	other = s;
	other.guarded = true;
	assert_false(server_kinds_alike(&s, &other));
	other = s;
	other.gate_by = GATE_BY_TOKEN;
	assert_false(server_kinds_alike(&s, &other));
	other = s;
	other.address = "[::1]:1";
	assert_false(server_kinds_alike(&s, &other));
}

TESTS(one_kind_for_servers_that_differ_by_name_address_and_labels,
	a_kind_ends_with_its_last_server_and_its_place_is_used_again,
	models_that_tell_all_servers_apart_do_not_fill_memory, who_is_like_whom)
