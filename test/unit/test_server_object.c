/* SPDX-License-Identifier: Apache-2.0 */
/* test: a GPUServer object is read and its status written again. */
#include "test/unit/server_fixture.h"
#include "test/unit/test.h"

#define HASHES "'plan':'00000000000000ab','since':'2026-11-21T09:30:00Z','take':'fedcba9876543210'"

/* Everything that a status can say, in the order it is written in, with members of a later version
 * everywhere. */
#define FULL                                                                                       \
	"{'version':2,'observedGeneration':3,"                                                     \
	"'gpus':[{'id':'gpu-0','model':'V100','memory':16000000000,'fit':true,'numa':{'a':[1,2]}," \
	"'x':1e2},{'id':'gpu-1','model':'V100','memory':16000000000,'fit':false,'reason':'ECC "    \
	"\\u00e4 "                                                                                 \
	"\\\"3\\\"'},{'id':'gpu-9','model':'K80','memory':12000000000,'fit':true,'missing':true}]" \
	","                                                                                        \
	"'claims':[{'uid':'a','namespace':'ml','name':'web-0','state':'bound'," HASHES             \
	",'servers':['gpu-01','gpu-02'],'grace':90,'lingers':'2026-11-21T09:32:00Z','waits':'"     \
	"Pending','gangKey':9,'gangSize':4,'gangBytes':5000000000,'gangLike':7,'gangAsks':3,'"     \
	"used':7,'"                                                                                \
	"usedUntil':'2026-11-"                                                                     \
	"21T09:31:00Z','podIPs':['10.1.2.3','fd00::3'],"                                           \
	"'gpus':[{'id':'gpu-0','bytes':8000000000,'mig':'1g'},"                                    \
	"{'id':'gpu-9','bytes':5}],'prio':[]},"                                                    \
	"{'uid':'b','namespace':'ml','name':'','state':'pending'," HASHES                          \
	",'servers':['gpu-01'],'gpus':[]}],"                                                       \
	"'conditions':[{'type':'Fresh','status':'True','observedGeneration':2,"                    \
	"'lastTransitionTime':'2026-11-21T09:30:00+02:00','reason':'Listed','message':'m','s':"    \
	"null},{'type':'Other','status':'Unknown','reason':'','message':''}],"                     \
	"'kept':[{'uid':'k','namespace':'ml','name':'big','since':'2026-11-21T09:40:00Z',"         \
	"'gpus':[{'id':'gpu-0','bytes':7,'a':1}],'b':{}}],"                                        \
	"'summary':{'gpus':3,'fit':1,'free':8000,'claims':2,'busy':0.5},'later':{'b':[{}]},"       \
	"'\\u0065nd':null}"

static struct server_fixture fix;

FIXTURES(server_fixture_init, server_fixture_release)

/* What is written is what was read, escapes aside. */
TEST(test_round_trip)
{
	static const char head[] =
		"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUServer\",\"metadata\":{"
		"\"name\":\"gpu-01\",\"uid\":\"u-1\",\"resourceVersion\":\"7\"},\"status\":{";
	char *want = fixture_quotes(FULL), *first;
	const char *ae;

	server_fixture_load(&fix, SERVER_STATUS(FULL));
	first = strdup(server_fixture_status(&fix));
	ae = strstr(want, "\\u00e4");
	assert_non_null(ae);
	/* a known string is written anew: the letter instead of its escape */
	assert_memory_equal(first, want, (size_t)(ae - want));
	assert_memory_equal(first + (ae - want), "\303\244", 2);
	assert_string_equal(first + (ae - want) + 2, ae + 6);
	assert_int_equal(strncmp(fix.out.data, head, strlen(head)), 0);
	free(first);
	free(want);
}

/* Whatever it says, the next one can read it. */
TEST(test_no_count_beyond_what_is_read)
{
	struct buf b;

	buf_init(&b, 1 << 16);
	server_fixture_load(&fix, SERVER_STATUS(FULL));
	fix.o.status.claims[0].began.bytes = UINT64_MAX;
	buf_str(&b, "{'apiVersion':'poolgate.io/v1alpha1','kind':'GPUServer','metadata':{'name':"
		    "'gpu-01','uid':'u','resourceVersion':'1'}," SERVER_SPEC ",'status':");
	buf_str(&b, server_fixture_status(&fix));
	buf_str(&b, "}");
	assert_non_null(strstr(b.data, "\"gangBytes\":9007199254740992,"));
	server_fixture_load(&fix, b.data);
	assert_true(fix.o.status.claims[0].began.bytes == UINT64_C(1) << 53);
	buf_release(&b);
}

TEST(test_values)
{
	const struct claim_record *c;

	server_fixture_load(&fix, SERVER_STATUS(FULL));
	assert_string_equal(fix.o.name, "gpu-01");
	assert_string_equal(fix.o.uid, "u-1");
	assert_string_equal(fix.o.version, "7");
	assert_int_equal(fix.o.generation, 3);
	assert_true(fix.o.finalizer);
	assert_false(fix.o.deleting);
	assert_string_equal(fix.o.address, "10.0.0.1:56001");
	assert_null(fix.o.probe_url);
	assert_null(fix.o.gate_profile);
	assert_int_equal(fix.o.n_declared, 1);
	assert_int_equal(fix.o.declared[0].bytes, 16000000000);
	assert_int_equal(fix.o.declared[0].count, 2);
	assert_int_equal(fix.o.status.version, 2);
	assert_int_equal(fix.o.status.n_gpus, 3);
	assert_string_equal(fix.o.status.gpus[1].gpu.why, "ECC \303\244 \"3\"");
	assert_true(fix.o.status.gpus[2].gpu.missing);
	assert_int_equal(fix.o.status.n_claims, 2);
	c = &fix.o.status.claims[0];
	assert_string_equal(c->claim.key, "a");
	assert_string_equal(c->claim.namespace, "ml");
	assert_int_equal(c->claim.state, CLAIM_BOUND);
	assert_int_equal(c->claim.plan_hash, 0xab);
	assert_true(c->take == 0xfedcba9876543210u);
	assert_int_equal(c->claim.since_ms, INT64_C(1795253400000));
	assert_int_equal(c->n_pod_ips, 2);
	assert_string_equal(c->pod_ips[1], "fd00::3");
	assert_int_equal(c[1].n_pod_ips, 0);
	assert_int_equal(c->n_servers, 2);
	assert_string_equal(c->servers[1], "gpu-02");
	assert_int_equal(c->claim.n_parts, 2);
	assert_string_equal(c->claim.parts[0].server, "gpu-01");
	assert_int_equal(c->claim.parts[0].bytes, 8000000000);
	/* what stands there many times is kept once */
	assert_ptr_equal(c->claim.parts[0].gpu, fix.o.status.gpus[0].gpu.id);
	assert_ptr_equal(c->servers[0], fix.o.name);
	assert_ptr_equal(c[1].claim.namespace, c->claim.namespace);
	assert_string_equal(server_status_condition(&fix.o.status, "Fresh")->reason, "Listed");
	assert_null(server_status_condition(&fix.o.status, SERVER_READY));
	assert_int_equal(fix.o.status.n_kept, 1);
	assert_string_equal(fix.o.status.kept[0].uid, "k");
	assert_string_equal(fix.o.status.kept[0].gpus[0].gpu, "gpu-0");
	assert_int_equal(server_status_kept(&fix.o.status, 0), 7);
	assert_int_equal(server_status_kept(&fix.o.status, 1), 0);
}

#define PROBE                                                                                      \
	"{'address':'[::1]:1','launchers':['lupine','juice'],'drain':true,'gpus':null,'probe':{'"  \
	"url':'https://h:9443','caSecret'"                                                         \
	":'ca','tokenSecret':'t.k','clientSecret':'c','later':1},'later':{},'gate':{'profile':"    \
	"'lupine','url':'https://g:9447','caSecret':'gc','tokenSecret':'gt','strangers':'tell',"   \
	"'mode':'address'}}"

TEST(test_probe)
{
	server_fixture_load(
		&fix, SERVER_TEXT("'deletionTimestamp':'2026-11-21T09:30:00Z','labels':{"
				  "'poolgate.io/\\u007aone':'l\\u0061b','e':''}",
			      PROBE, "null"));
	assert_string_equal(fix.o.probe_url, "https://h:9443");
	assert_string_equal(fix.o.probe_ca_secret, "ca");
	assert_string_equal(fix.o.probe_token_secret, "t.k");
	assert_string_equal(fix.o.probe_client_secret, "c");
	assert_string_equal(fix.o.gate_profile, "lupine");
	assert_string_equal(server_object_gate(&fix.o).url, "https://g:9447");
	assert_string_equal(server_object_gate(&fix.o).ca_secret, "gc");
	assert_string_equal(server_object_gate(&fix.o).token_secret, "gt");
	assert_string_equal(server_object_probe(&fix.o).client_secret, "c");
	assert_true(fix.o.gate_lets_strangers);
	assert_true(fix.o.gate_by_address);
	assert_int_equal(fix.o.n_declared, 0);
	assert_true(fix.o.drain);
	assert_int_equal(fix.o.n_launchers, 2);
	assert_string_equal(fix.o.launchers[1], "juice");
	assert_true(fix.o.deleting);
	assert_false(fix.o.finalizer);
	assert_int_equal(fix.o.n_labels, 2);
	assert_string_equal(fix.o.labels[0].key, "poolgate.io/zone");
	assert_string_equal(fix.o.labels[0].value, "lab");
}

/* Without a status: empty, and written as such. */
TEST(test_empty)
{
	static const char *const texts[] = {SERVER_STATUS("{}"), SERVER_STATUS("null"),
		SERVER_STATUS("{'version':null,'gpus':null,'claims':null,'conditions':null,"
			      "'summary':null}")};

	for (size_t i = 0; i < 3; i++) {
		server_fixture_load(&fix, texts[i]);
		assert_int_equal(fix.o.status.version, 0);
		assert_string_equal(server_fixture_status(&fix),
			"{\"version\":1,\"gpus\":[],\"claims\":[],\"conditions\":[],\"summary\":"
			"{\"gpus\":0,\"fit\":0,\"free\":0,\"claims\":0}}");
	}
}

/* A claim that names no servers is this one's alone. */
TEST(test_defaults)
{
	server_fixture_load(&fix,
		SERVER_STATUS(
			"{'gpus':[{'id':'g','memory':0}],'claims':[{'uid':'a','state':"
			"'adopted','gpus':[]}],'conditions':[{'type':'T','status':'False'}]}"));
	assert_string_equal(server_fixture_status(&fix),
		"{\"version\":1,\"gpus\":[{\"id\":\"g\",\"model\":\"\",\"memory\":0,\"fit\":false}]"
		","
		"\"claims\":[{\"uid\":\"a\",\"namespace\":\"\",\"name\":\"\",\"state\":\"adopted\","
		"\"plan\":\"0000000000000000\",\"take\":\"0000000000000000\",\"servers\":["
		"\"gpu-01\"],\"gpus\":[]}],\"conditions\":[{\"type\":\"T\",\"status\":\"False\","
		"\"reason\":\"\",\"message\":\"\"}],\"summary\":{\"gpus\":1,\"fit\":0,\"free\":0,"
		"\"claims\":1}}");
}

/* Unknown members of a claim's gpu stay with the GPU that they were read at. */
TEST(test_part_rests)
{
	struct claim *c;
	const char *text;

	server_fixture_load(&fix,
		SERVER_STATUS("{'claims':[{'uid':'a','state':'bound','gpus':[{'id':'x','bytes':1,"
			      "'n':1},{'id':'y','bytes':2},{'id':'x','bytes':3,'n':3},{'id':'z',"
			      "'bytes':4,'n':4}]}]}"));
	text = server_fixture_status(&fix);
	assert_non_null(
		strstr(text, "\"gpus\":[{\"id\":\"x\",\"bytes\":1,\"n\":1},{\"id\":\"y\",\"bytes\":"
			     "2},{\"id\":\"x\",\"bytes\":3,\"n\":3},{\"id\":\"z\",\"bytes\":4,\"n\""
			     ":4}]"));
	/* the first two are trimmed, and what is left changes places */
	c = &fix.o.status.claims[0].claim;
	c->parts[0] = c->parts[3];
	c->parts[1] = c->parts[2];
	c->n_parts = 2;
	text = server_fixture_status(&fix);
	assert_non_null(strstr(text, "\"gpus\":[{\"id\":\"z\",\"bytes\":4,\"n\":4},{\"id\":\"x\","
				     "\"bytes\":3,\"n\":1}]"));
}

TEST(test_refused_status)
{
	static const struct {
		const char *status, *path;
	} cases[] = {
		{"[]", "/status"},
		{"{'version':'1'}", "/status/version"},
		{"{'version':-1}", "/status/version"},
		{"{'version':1.5}", "/status/version"},
		{"{'observedGeneration':[]}", "/status/observedGeneration"},
		{"{'summary':3}", "/status/summary"},
		{"{'gpus':{}}", "/status/gpus"},
		{"{'gpus':[null]}", "/status/gpus/0"},
		{"{'gpus':[{'memory':1}]}", "/status/gpus/0/id"},
		{"{'gpus':[{'id':'','memory':1}]}", "/status/gpus/0/id"},
		{"{'gpus':[{'id':'a'}]}", "/status/gpus/0/memory"},
		{"{'gpus':[{'id':'a','memory':'16G'}]}", "/status/gpus/0/memory"},
		{"{'gpus':[{'id':'a','memory':9007199254740994}]}", "/status/gpus/0/memory"},
		{"{'gpus':[{'id':'a','memory':1,'fit':1}]}", "/status/gpus/0/fit"},
		{"{'gpus':[{'id':'a','memory':1,'missing':'no'}]}", "/status/gpus/0/missing"},
		{"{'gpus':[{'id':'a','memory':1,'reason':1}]}", "/status/gpus/0/reason"},
		{"{'gpus':[{'id':'a','memory':1,'model':{}}]}", "/status/gpus/0/model"},
		{"{'gpus':[{'id':'a','memory':1},{'id':'\\u0061','memory':1}]}",
			"/status/gpus/1/id"},
		{"{'claims':1}", "/status/claims"},
		{"{'claims':['a']}", "/status/claims/0"},
		{"{'claims':[{'state':'bound','gpus':[]}]}", "/status/claims/0/uid"},
		{"{'claims':[{'uid':'a','state':'Bound','gpus':[]}]}", "/status/claims/0/state"},
		{"{'claims':[{'uid':'a','gpus':[]}]}", "/status/claims/0/state"},
		{"{'claims':[{'uid':'a','state':'bound'}]}", "/status/claims/0/gpus"},
		{"{'claims':[{'uid':'a','state':'bound','gpus':[1]}]}", "/status/claims/0/gpus/0"},
		{"{'claims':[{'uid':'a','state':'bound','gpus':[{'bytes':1}]}]}",
			"/status/claims/0/gpus/0/id"},
		{"{'claims':[{'uid':'a','state':'bound','gpus':[{'id':'x','bytes':1},{'id':'x'}]}]"
		 "}",
			"/status/claims/0/gpus/1/bytes"},
		{"{'claims':[{'uid':'a','state':'bound','gpus':[{'id':'x','bytes':-1}]}]}",
			"/status/claims/0/gpus/0/bytes"},
		{"{'claims':[{'uid':'a','state':'bound','name':1,'gpus':[]}]}",
			"/status/claims/0/name"},
		{"{'claims':[{'uid':'a','state':'bound','namespace':[],'gpus':[]}]}",
			"/status/claims/0/namespace"},
		{"{'claims':[{'uid':'a','state':'bound','plan':'ab','gpus':[]}]}",
			"/status/claims/0/plan"},
		{"{'claims':[{'uid':'a','state':'bound','plan':1,'gpus':[]}]}",
			"/status/claims/0/plan"},
		{"{'claims':[{'uid':'a','state':'bound','take':'0000000000000:00','gpus':[]}]}",
			"/status/claims/0/take"},
		{"{'claims':[{'uid':'a','state':'bound','since':'now','gpus':[]}]}",
			"/status/claims/0/since"},
		{"{'claims':[{'uid':'a','state':'bound','servers':'x','gpus':[]}]}",
			"/status/claims/0/servers"},
		{"{'claims':[{'uid':'a','state':'bound','servers':[1],'gpus':[]}]}",
			"/status/claims/0/servers"},
		{"{'claims':[{'uid':'a','state':'bound','podIPs':'10.1.2.3','gpus':[]}]}",
			"/status/claims/0/podIPs"},
		{"{'claims':[{'uid':'a','state':'bound','podIPs':['10.1.2'],'gpus':[]}]}",
			"/status/claims/0/podIPs"},
		{"{'claims':[{'uid':'a','state':'bound','podIPs':['::1','::2','::3'],'gpus':[]}]}",
			"/status/claims/0/podIPs"},
		{"{'conditions':{}}", "/status/conditions"},
		{"{'conditions':[1]}", "/status/conditions/0"},
		{"{'conditions':[{'status':'True'}]}", "/status/conditions/0/type"},
		{"{'conditions':[{'type':'A'}]}", "/status/conditions/0/status"},
		{"{'conditions':[{'type':'A','status':true}]}", "/status/conditions/0/status"},
		{"{'conditions':[{'type':'A','status':'True','message':1}]}",
			"/status/conditions/0/message"},
		{"{'conditions':[{'type':'A','status':'True','lastTransitionTime':1}]}",
			"/status/conditions/0/lastTransitionTime"},
	};
	char text[1024];

	for (size_t i = 0; i < COUNT(cases); i++) {
		fix.o.name = "as it was";
		snprintf(text, sizeof(text), SERVER_STATUS("%s"), cases[i].status);
		if (server_fixture_read(&fix, text) != ERR_INVALID)
			fail_msg("accepted: %s", cases[i].status);
		assert_string_equal(fix.err.path, cases[i].path);
		assert_non_null(strstr(fix.err.msg, "found "));
		assert_non_null(strstr(fix.err.msg, ", expected "));
		assert_string_equal(fix.o.name, "as it was");
	}
}

#define GPU "'gpus':[{'model':'m','memory':'16G'}]"

TEST(test_refused_spec)
{
	static const struct {
		const char *metadata, *spec, *path;
	} cases[] = {
		{"'labels':[]", "{'address':'a:1'," GPU "}", "/metadata/labels"},
		{"'labels':{'a':1}", "{'address':'a:1'," GPU "}", "/metadata/labels"},
		{"'finalizers':[1]", "{'address':'a:1'," GPU "}", "/metadata/finalizers"},
		{"'finalizers':'x'", "{'address':'a:1'," GPU "}", "/metadata/finalizers"},
		{"'generation':'1'", "{'address':'a:1'," GPU "}", "/metadata/generation"},
		{"'deletionTimestamp':1", "{'address':'a:1'," GPU "}",
			"/metadata/deletionTimestamp"},
		{"'a':1", "[]", "/spec"},
		{"'a':1", "{" GPU "}", "/spec/address"},
		{"'a':1", "{'address':'a'," GPU "}", "/spec/address"},
		{"'a':1", "{'address':'a b:1'," GPU "}", "/spec/address"},
		{"'a':1", "{'address':'a:1'}", "/spec"},
		{"'a':1", "{'address':'a:1','probe':{'url':'http://a'}," GPU "}", "/spec"},
		{"'a':1", "{'address':'a:1','drain':'true'," GPU "}", "/spec/drain"},
		{"'a':1", "{'address':'a:1','launchers':'x'," GPU "}", "/spec/launchers"},
		{"'a':1", "{'address':'a:1','launchers':[]," GPU "}", "/spec/launchers"},
		{"'a':1", "{'address':'a:1','launchers':[7]," GPU "}", "/spec/launchers"},
		{"'a':1", "{'address':'a:1','gpus':{}}", "/spec/gpus"},
		{"'a':1", "{'address':'a:1','gpus':[]}", "/spec/gpus"},
		{"'a':1", "{'address':'a:1','gpus':[7]}", "/spec/gpus/0"},
		{"'a':1", "{'address':'a:1','gpus':[{'memory':'1G'}]}", "/spec/gpus/0/model"},
		{"'a':1", "{'address':'a:1','gpus':[{'model':'m'}]}", "/spec/gpus/0/memory"},
		{"'a':1", "{'address':'a:1','gpus':[{'model':'m','memory':'16'}]}",
			"/spec/gpus/0/memory"},
		{"'a':1", "{'address':'a:1','gpus':[{'model':'m','memory':'2Pi'}]}",
			"/spec/gpus/0/memory"},
		{"'a':1", "{'address':'a:1','gpus':[{'model':'m','memory':{}}]}",
			"/spec/gpus/0/memory"},
		{"'a':1", "{'address':'a:1'," GPU ",'gpus ':1,'probe':3}", "/spec/probe"},
		{"'a':1", "{'address':'a:1','gpus':[{'model':'m','memory':'1G','count':0}]}",
			"/spec/gpus/0/count"},
		{"'a':1",
			"{'address':'a:1','gpus':[{'model':'m','memory':'1G','count':256},"
			"{'model':'m','memory':'1G'}]}",
			"/spec/gpus/1"},
		{"'a':1", "{'address':'a:1','probe':'http://a'}", "/spec/probe"},
		{"'a':1", "{'address':'a:1','probe':{}}", "/spec/probe/url"},
		{"'a':1", "{'address':'a:1','probe':{'url':'file:///a'}}", "/spec/probe/url"},
		{"'a':1", "{'address':'a:1','probe':{'url':'http://a\\n'}}", "/spec/probe/url"},
		{"'a':1", "{'address':'a:1','probe':{'url':'http://a','caSecret':'../x'}}",
			"/spec/probe/caSecret"},
		{"'a':1", "{'address':'a:1','probe':{'url':'http://a','tokenSecret':{'name':'x'}}}",
			"/spec/probe/tokenSecret"},
		{"'a':1", "{'address':'a:1','probe':{'url':'http://a','clientSecret':'A'}}",
			"/spec/probe/clientSecret"},
		{"'a':1", "{'address':'a:1'," GPU ",'gate':'x'}", "/spec/gate"},
		{"'a':1", "{'address':'a:1'," GPU ",'gate':{'url':'https://a'}}",
			"/spec/gate/profile"},
		{"'a':1", "{'address':'a:1'," GPU ",'gate':{'profile':'A','url':'https://a'}}",
			"/spec/gate/profile"},
		{"'a':1", "{'address':'a:1'," GPU ",'gate':{'profile':'a'}}", "/spec/gate/url"},
		{"'a':1", "{'address':'a:1'," GPU ",'gate':{'profile':'a','url':'a'}}",
			"/spec/gate/url"},
		{"'a':1", "{'address':'a:1'," GPU ",'gate':{'profile':'a','url':'https://a'}}",
			"/spec/gate/tokenSecret"},
		{"'a':1",
			"{'address':'a:1'," GPU
			",'gate':{'profile':'a','url':'http://a','tokenSecret':'t'}}",
			"/spec/gate/url"},
		{"'a':1",
			"{'address':'a:1'," GPU
			",'gate':{'profile':'a','url':'https://','tokenSecret':'t'}}",
			"/spec/gate/url"},
		{"'a':1",
			"{'address':'a:1'," GPU ",'gate':{'profile':'a','url':'https://a',"
			"'tokenSecret':'t','strangers':'no'}}",
			"/spec/gate/strangers"},
		{"'a':1",
			"{'address':'a:1'," GPU ",'gate':{'profile':'a','url':'https://a',"
			"'tokenSecret':'t','mode':'session'}}",
			"/spec/gate/mode"},
	};
	char text[1024];

	for (size_t i = 0; i < COUNT(cases); i++) {
		snprintf(text, sizeof(text), SERVER_TEXT("%s", "%s", "null"), cases[i].metadata,
			cases[i].spec);
		if (server_fixture_read(&fix, text) != ERR_INVALID)
			fail_msg("accepted: %s", text);
		assert_string_equal(fix.err.path, cases[i].path);
	}
}

/* Rule R1: each server that it lists has a record with that list; R19: and none is open. */
TEST(test_a_whole_claim)
{
	const char *ab[] = {"a", "b"}, *ac[] = {"a", "c"};
	const struct claim_record r = {.servers = ab, .n_servers = 2}, none = {0};
	const struct claim_record open = {.servers = ab, .n_servers = 2, .open = true};
	const struct claim_record other = {.servers = ac, .n_servers = 2};
	const struct {
		struct claim_on on[3];
		size_t n;
		bool whole;
	} rows[] = {
		{{{"a", &r, false}, {"b", &r, false}}, 2, true},
		{{{"a", &r, false}, {"b", &r, false}, {"c", &other, false}}, 3, true},
		{{{"a", &open, false}, {"b", &r, false}}, 2, false},
		{{{"a", &other, false}, {"b", &r, false}}, 2, false},
		{{{"a", &r, false}, {"c", &r, false}}, 2, false},
		{{{"a", &r, true}, {"b", &r, false}}, 2, false},
		{{{"b", &r, false}}, 1, false},
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		assert_int_equal(claim_is_whole(rows[i].on, rows[i].n, &r), rows[i].whole);
	assert_false(claim_is_whole(rows[0].on, 2, &none));
}

/* What does not even say that it is a GPUServer; and names that are missing. */
TEST(test_no_server)
{
	static const char head[] = "'apiVersion':'poolgate.io/v1alpha1','kind':'GPUServer'";
	static const struct {
		const char *metadata, *path;
	} cases[] = {{"{'uid':'u','resourceVersion':'7'}", "/metadata/name"},
		{"{'name':'G','uid':'u','resourceVersion':'7'}", "/metadata/name"},
		{"{'name':'a/b','uid':'u','resourceVersion':'7'}", "/metadata/name"},
		{"{'name':'g','resourceVersion':'7'}", "/metadata/uid"},
		{"{'name':'g','uid':'u'}", "/metadata/resourceVersion"},
		{"{'name':'g','uid':'u','resourceVersion':7}", "/metadata/resourceVersion"},
		{"null", "/metadata"}};
	char text[512];

	assert_int_equal(server_fixture_read(&fix, "[]"), ERR_SYNTAX);
	assert_int_equal(server_fixture_read(&fix, "{'kind':'GPUServer'}"), ERR_SYNTAX);
	assert_int_equal(
		server_fixture_read(&fix, "{'kind':'Pod','apiVersion':'poolgate.io/v1alpha1'}"),
		ERR_SYNTAX);
	for (size_t i = 0; i < COUNT(cases); i++) {
		snprintf(text, sizeof(text), "{%s,'metadata':%s," SERVER_SPEC "}", head,
			cases[i].metadata);
		assert_int_equal(server_fixture_read(&fix, text), ERR_INVALID);
		assert_string_equal(fix.err.path, cases[i].path);
	}
}

TEST(test_too_many_gpus)
{
	struct buf b;

	for (size_t n = 1024; n <= 1025; n++) {
		char *text;

		buf_init(&b, 1u << 20);
		for (size_t i = 0; i < n; i++)
			buf_fmt(&b, "%s{'id':'g%zu','memory':1}", i ? "," : "", i);
		text = malloc(b.len + 1024);
		assert_non_null(text);
		snprintf(text, b.len + 1024, SERVER_STATUS("{'gpus':[%s]}"), b.data);
		assert_int_equal(server_fixture_read(&fix, text), n == 1024 ? 0 : ERR_INVALID);
		free(text);
		buf_release(&b);
	}
	assert_string_equal(fix.err.path, "/status/gpus");
}

TESTS_BETWEEN(set_up, tear_down, test_round_trip, test_no_count_beyond_what_is_read, test_values,
	test_probe, test_empty, test_defaults, test_part_rests, test_refused_status,
	test_refused_spec, test_no_server, test_too_many_gpus, test_a_whole_claim)
