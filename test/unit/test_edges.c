/* SPDX-License-Identifier: Apache-2.0 */
/* test: who reads documents, names and tokens takes each byte that may stand there, as many of a
 * thing as there may be, and the least and the largest number; and none beside. */
#include "base/base64.h"
#include "base/json/json_read.h"
#include "base/quantity.h"
#include "base/text.h"
#include "base/yaml/yaml_scalar.h"
#include "gate/bearer.h"
#include "net/http_answer.h"
#include "test/unit/document_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/image/image_doc.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/queue_read.h"
#include "webhook/core/pool/inventory.h"

/* Each as it begins, and whole around what is tried. */
#define API "apiVersion: poolgate.io/v1alpha1\n"
#define CONFIG API "kind: Config\n"
#define PROFILE API "kind: LauncherProfile\nmetadata: {name: p}\nspec:\n  kind: wrap\n"
#define CLIENT "  clients: [{os: o, version: v, values: {}}]\n"
#define ENV_ PROFILE "  argv: [x]\n  env: ["
#define ENV(env) ENV_ env "]\n" CLIENT
#define GATE(port)                                                                                 \
	PROFILE "  argv: [\"{servers}\"]\n  placement: servers\n  gate: {image: g, port: " port    \
		", ca: \"-----BEGIN CERTIFICATE-----\"}\n" CLIENT
#define SERVER_ API "kind: GPUServer\nmetadata: {name: s}\nspec: {address: \""
#define GPU "{model: m, memory: 1Gi}"
#define SERVER(address) SERVER_ address "\", gpus: [" GPU "]}\n"
#define GPUS_ SERVER_ "a:1\", gpus: ["
#define GPUS(gpus) GPUS_ gpus "]}\n"
#define GATED_ API "kind: ServerProfile\nmetadata: {name: p}\nspec: {port: 1, "
#define GATED(spec) GATED_ "argv: [/x], " spec "}\n"
#define POLICY_                                                                                    \
	"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUPolicy\",\"metadata\":{\"name\":"  \
	"\""
#define POLICY(name) POLICY_ name "\"},\"spec\":{}}"
#define ALLOW_ POLICY_ "p\"},\"spec\":{\"allow\":{"
#define ALLOW(allow) ALLOW_ allow "}}}"
#define DEFAULTS(defaults) POLICY_ "p\"},\"spec\":{\"defaults\":{" defaults "}}}"
#define IMAGE_ "{\"os\":\"linux\",\"architecture\":\"amd64\",\"config\":{\"Entrypoint\":["
#define PLANNED(hash)                                                                              \
	"{\"v\":1,\"profile\":\"p\",\"hash\":\"" hash "\",\"mode\":\"full\",\"containers\":[{"     \
	"\"name\":\"a\",\"kind\":\"app\",\"amount\":1,\"percent\":100,\"units\":100,"              \
	"\"command\":\"none\"}]"
#define PLAN(hash) PLANNED(hash) "}"
#define PLAN_ PLANNED(HEX15 "f")
#define REVIEWED_                                                                                  \
	"{\"kind\":\"TokenReview\",\"status\":{\"authenticated\":true,\"audiences\":[\"gpugate\"]" \
	",\"user\":{\"extra\":{\"authentication.kubernetes.io/pod-uid\":[\""
#define REVIEWED(uid) REVIEWED_ uid "\"]}}}}"
#define GANG_ "{\"metadata\":{\"annotations\":{\"poolgate.io/gang-size\":\""
#define OBJECT_                                                                                    \
	"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUServer\",\"metadata\":{\"name\":"  \
	"\"g\",\"uid\":\"u\",\"resourceVersion\":\"1\"},\"spec\":{\"address\":\"a:1\","
#define WAITS(why)                                                                                 \
	"{\"status\":{\"phase\":\"Pending\",\"containerStatuses\":[{\"state\":{\"waiting\":{"      \
	"\"reason\":\"" why "\"}}}]}}"
#define HEX15 "0123456789abcde"
#define HEX63 HEX15 "f" HEX15 "f" HEX15 "f" HEX15

static struct arena arena;
static struct json json;
static char *copy;
static struct err wrong; /* of no interest here */

FIXTURE(set_up)
{
	arena_init(&arena, 1 << 22);
	json_init(&json);
	copy = NULL;
	return 0;
}

FIXTURE(tear_down)
{
	json_release(&json);
	free(copy);
	arena_release(&arena);
	return 0;
}

static const struct json_node *parsed(struct slice text)
{
	free(copy);
	return json_read_copy(&json, text.at, text.len, 10000, &copy, NULL) == 0 ? json_root(&json)
										 : NULL;
}

static bool policy(struct slice text)
{
	return document_policy(text, &arena, &wrong) == 0;
}

static bool reviewed(struct slice text)
{
	char uid[BEARER_UID_MAX];

	return parsed(text) && bearer_reviewed(&json, uid, NULL) == 0;
}

static bool waits(struct slice text)
{
	const struct json_node *root = parsed(text);
	char why[POD_WHY_SIZE];

	if (!root)
		return false;
	pod_waits(&json, root, why);
	return strcmp(why, "Pending") != 0;
}

static bool plan(struct slice text)
{
	struct err err = {0};
	struct plan p;

	return plan_read(text, &arena, &p, &err) == 0;
}

static bool launcher(struct slice text)
{
	return document_launcher(text, &arena, &wrong) == 0;
}

static bool settings(struct slice text)
{
	return document_settings(text, &arena, &wrong) == 0;
}

static bool server(struct slice text)
{
	return document_pool(text, &arena, &wrong) == 0;
}

static bool server_object(struct slice text)
{
	return document_server_object(text, &arena, &wrong) == 0;
}

static bool gang(struct slice text)
{
	const struct json_node *root = parsed(text);
	struct pod p;

	pod_glance(&json, root, &p);
	return root && queue_check_gang(&p, &arena, &wrong) == 0;
}

static bool pod(struct slice text)
{
	const struct json_node *root = parsed(text);
	struct pod p;

	return root && pod_read(&json, root, &arena, &p, NULL) == 0;
}

static bool server_profile(struct slice text)
{
	return document_server_profile(text, &arena, &wrong) == 0;
}

static bool image_config(struct slice text)
{
	struct image_config c;

	return parsed(text) && image_config_read(&json, &arena, &c, NULL) == 0;
}

static bool image(struct slice text)
{
	struct image_name n;

	return image_name_read(text, &arena, &n, NULL) == 0;
}

static bool by_number(struct slice text)
{
	return inventory_family(arena_strdup(&arena, text)) == FAMILY_V4;
}

static bool whole(struct slice text)
{
	struct yaml_value v;

	yaml_resolve(text, &v);
	return v.type == YAML_INT;
}

static bool quantity(struct slice text)
{
	struct quantity q;

	return quantity_parse(text, &q, NULL) == 0;
}

static bool base64(struct slice text)
{
	struct buf out;
	bool good;

	buf_init(&out, 16);
	good = base64_decode(text, &out, NULL) == 0;
	buf_release(&out);
	return good;
}

/* As it stands, not as %XX. */
static bool in_url(struct slice text)
{
	struct buf out;
	bool good;

	buf_init(&out, 16);
	buf_percent(&out, text);
	good = out.len == 1;
	buf_release(&out);
	return good;
}

static bool ignore(void *ctx, struct slice piece)
{
	(void)ctx, (void)piece;
	return true;
}

static bool chunked(struct slice text)
{
	struct http_answer a;

	http_answer_init(&a, ignore, NULL);
	return http_answer_read(&a, &text, NULL) == 0;
}

/* The other case of it is the same letter. */
static bool has_case(struct slice text)
{
	char other = (char)(text.at[0] ^ 0x20);

	return text_ieq(text, (struct slice){&other, 1});
}

static const struct {
	const char *what, *format;
	bool (*takes)(struct slice text);
	const char *ranges, *others;
} letters[] = {
	{"a letter", "%c", has_case, "azAZ", ""},
	{"a label", "a%cb", text_dns_label, "az09", "-"},
	{"a label's end", "%c", text_dns_label, "az09", ""},
	{"an object's name", "a%cb", text_dns_subdomain, "az09", "-."},
	{"an object's name's end", "%c", text_dns_subdomain, "az09", ""},
	{"a URL", "%c", in_url, "azAZ09", "-._~"},
	{"base64", "AAA%c", base64, "azAZ09", "+/="},
	{"a quantity", "1%c", quantity, "09", ".numkMGTPE"},
	{"a whole number in YAML", "1%c", whole, "09", "_"},
	{"hexadecimal YAML", "0x1%c", whole, "09afAF", "_"},
	{"plain YAML", "a%cb", yaml_plain_safe, "azAZ09", "_/.@%$()=+-: "},
	{"plain YAML behind a blank", "a %c", yaml_plain_safe, "azAZ09", "/"},
	{"plain YAML behind a colon", "a:%c", yaml_plain_safe, "azAZ09", "/"},
	{"plain YAML behind a hyphen", "-%cb", yaml_plain_safe, "azAZ09", ""},
	{"a chunk's size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1%c\r\n", chunked,
		"09afAF", ";\t \n"},
	{"an image's repository", "r.x/a%cb", image, "az09", "-_./:"},
	{"an image's repository's ends", "r.x/%c", image, "az09", ""},
	{"an image's tag's begin", "r.x/a:%c", image, "azAZ09", "_"},
	{"an image's host's ends", "%c.c:1/x", image, "az09", ""},
	{"an image's tag", "r.x/a:b%cc", image, "azAZ09", "-_."},
	{"an image's host", "a%cb.c/x", image, "az09", "-./"},
	{"an image's digest", "r.x/a@sha256:" HEX63 "%c", image, "09af", ""},
	{"a policy's name", POLICY("a%cb"), policy, "az09", "-."},
	{"a policy's name's end", POLICY("%c"), policy, "az09", ""},
	{"a variable", ENV("{name: \"a%cb\", value: v}"), launcher, "azAZ09", "_"},
	{"a variable's begin", ENV("{name: \"%c\", value: v}"), launcher, "azAZ", "_"},
	{"a Secret's name", ENV("{name: A, secret: {name: \"a%cb\", key: k}}"), launcher, "az09",
		"-."},
	{"a Secret's key", ENV("{name: A, secret: {name: s, key: \"a%cb\"}}"), launcher, "azAZ09",
		"-_."},
	{"a plan's hash", PLAN(HEX15 "%c"), plan, "09af", ""},
	{"why a container waits", WAITS("A%cb"), waits, "azAZ", ""},
	{"an address in numbers", "1%c2", by_number, "09", ".:"},
	{"a server's address", SERVER("a%cb:1"), server, "azAZ09", "-._"},
	{"a server's address of the sixth version", SERVER("[a%cb]:1"), server, "azAZ09", "-.:%"},
	{"a namespace", CONFIG "cluster: {namespace: \"a%cb\"}\n", settings, "az09", "-."},
	{"a pod's uid", REVIEWED("a%cb"), reviewed, "azAZ09", "-"},
};

static bool stands_in(char c, const char *ranges)
{
	for (; *ranges; ranges += 2)
		if (c >= ranges[0] && c <= ranges[1])
			return true;
	return false;
}

TEST(each_byte)
{
	for (size_t i = 0; i < COUNT(letters); i++)
		for (int c = 1; c < 256; c++) {
			bool may = stands_in((char)c, letters[i].ranges) ||
				   strchr(letters[i].others, c);
			char text[512];
			int n = snprintf(text, sizeof(text), letters[i].format, c);

			assert_true(n > 0 && (size_t)n < sizeof(text));
			if (letters[i].takes((struct slice){text, (size_t)n}) != may)
				fail_msg("%s: the byte %d is %s", letters[i].what, c,
					may ? "not taken" : "taken");
			arena_reset(&arena);
		}
}

/* n of these between head and tail are taken where n is not more than most. */
static const struct {
	const char *what, *head, *unit, *tail;
	bool (*takes)(struct slice text);
	size_t most;
} lengths[] = {
	{"plain YAML", "", "a", "", yaml_plain_safe, 128},
	{"a policy's name", POLICY_, "a", "\"},\"spec\":{}}", policy, 63},
	{"a policy's launchers", ALLOW_ "\"launchers\":[", "\"l\",", "\"l\"]}}}", policy, 63},
	{"a policy's models", ALLOW_ "\"models\":[", "\"l\",", "\"l\"]}}}", policy, 63},
	{"a policy's labels", ALLOW_ "\"servers\":{", "\"k%zu\":\"v\",", "\"z\":\"v\"}}}}", policy,
		63},
	{"an image's repository", "r.x/", "a", "", image, 255},
	{"an image's tag", "r.x/a:", "b", "", image, 128},
	{"an image's host", "", "a", ".c/x", image, 251},
	{"an image's port", "r.x:", "1", "/a", image, 5},
	{"an image's words", IMAGE_, "\"a\",", "\"z\"]}}", image_config, 1023},
	{"bytes of an image's words", IMAGE_ "\"", "a", "\"]}}", image_config, 32767},
	{"a Secret's key", ENV_ "{name: A, secret: {name: s, key: ", "a", "}}]\n" CLIENT, launcher,
		253},
	{"a profile's words", PROFILE "  argv: [", "x, ", "]\n" CLIENT, launcher, 256},
	{"words of a group", PROFILE "  argv: [x, {if: fraction, words: [", "x, ", "]}]\n" CLIENT,
		launcher, 256},
	{"a profile's variables", ENV_, "{name: A%zu, value: v}, ", "]\n" CLIENT, launcher, 64},
	{"a profile's clients", PROFILE "  argv: [x]\n  clients: [",
		"{os: o, version: v%zu, values: {}}, ", "]\n", launcher, 1024},
	{"a GPU's model", GPUS_ "{memory: 1Gi, model: ", "m", "}]}\n", server, 128},
	{"a server's GPUs", GPUS_, GPU ", ", "]}\n", server, 256},
	{"a server's GPUs by four", GPUS_, "{model: m, memory: 1Gi, count: 4}, ", "]}\n", server,
		64},
	{"a server's launchers", GPUS_ GPU "], launchers: [", "a%zu, ", "]}\n", server, 64},
	{"a server's host", SERVER_, "a", ":1\", gpus: [" GPU "]}\n", server, 253},
	{"a namespace", CONFIG "cluster: {namespace: ", "a", "}\n", settings, 253},
	{"a client's name", CONFIG "tls: {clientNames: [", "a", "]}\n", settings, 255},
	{"clients' names", CONFIG "tls: {clientNames: [", "a%zu, ", "]}\n", settings, 32},
	{"launchers", CONFIG "launchers: [", "a%zu, ", "]\n", settings, 64},
	{"a gated program's words", GATED_ "argv: [/x, ", "a, ", "]}\n", server_profile, 255},
	{"a gated program's variables", GATED_ "argv: [/x], env: {", "A%zu: v, ", "}}\n",
		server_profile, 256},
	{"a pod's uid", REVIEWED_, "a", "\"]}}}}", reviewed, 63},
	{"a gang's name", GANG_ "2\",\"poolgate.io/gang\":\"", "g", "\"}}}", gang, 63},
	{"a pod's containers", "{\"spec\":{\"containers\":[", "{\"name\":\"c%zu\"},",
		"{\"name\":\"z\"}]}}", pod, 1023},
	{"a plan's tolerations", PLAN_ ",\"ties\":{\"tolerations\":[", "{\"at\":%zu,\"was\":{}},",
		"{\"at\":9999,\"was\":{}}]}}", plan, 255},
	{"a probe's URL", OBJECT_ "\"probe\":{\"url\":\"http://", "a", "\"}}}", server_object,
		2041},
	{"a GPU's model in a cluster", OBJECT_ "\"gpus\":[{\"memory\":\"1G\",\"model\":\"", "m",
		"\"}]}}", server_object, 512},
};

TEST(each_length)
{
	for (size_t i = 0; i < COUNT(lengths); i++)
		for (size_t n = lengths[i].most; n <= lengths[i].most + 1; n++) {
			struct buf text;

			buf_init(&text, 1 << 20);
			buf_str(&text, lengths[i].head);
			for (size_t k = 0; k < n; k++)
				buf_fmt(&text, lengths[i].unit, k);
			buf_str(&text, lengths[i].tail);
			if (lengths[i].takes(buf_as_slice(&text)) != (n == lengths[i].most))
				fail_msg("%s: %zu are %s", lengths[i].what, n,
					n == lengths[i].most ? "not taken" : "taken");
			buf_release(&text);
			arena_reset(&arena);
		}
}

#define YEAR_MS INT64_C(31622400000) /* a leap year's */
#define DAY_MS INT64_C(86400000)

static const struct {
	const char *what, *format;
	bool (*takes)(struct slice text);
	int64_t least, most;
} numbers[] = {
	{"a claim's time", CONFIG "claimTtl: %lldms\n", settings, 0, 10 * YEAR_MS},
	{"drainDelay", CONFIG "drainDelay: %lldms\n", settings, 0, 600000},
	{"reloadInterval", CONFIG "reloadInterval: %lldms\n", settings, 100, 3600000},
	{"workers", CONFIG "workers: %lld\n", settings, 0, 64},
	{"maxConnections", CONFIG "maxConnections: %lld\n", settings, 1, 65536},
	{"totalGpuMemory", CONFIG "totalGpuMemory: %lld\n", settings, 1, 1000000000},
	{"totalGpuMemory in millions", CONFIG "totalGpuMemory: %lldM\n", settings, 1, 1000000000},
	{"pendingShare", CONFIG "cluster: {pendingShare: %lld}\n", settings, 1, 100},
	{"maxGracePeriod", CONFIG "cluster: {maxGracePeriod: %lldms}\n", settings, 1000, DAY_MS},
	{"caValidity", CONFIG "cluster: {tls: {caValidity: %lldms}}\n", settings, 1000,
		100 * YEAR_MS},
	{"validity", CONFIG "cluster: {tls: {validity: %lldms}}\n", settings, 1000, 100 * YEAR_MS},
	{"publishWait", CONFIG "cluster: {tls: {publishWait: %lldms}}\n", settings, 0, 30 * DAY_MS},
	{"dropWait", CONFIG "cluster: {tls: {dropWait: %lldms}}\n", settings, 0, 30 * DAY_MS},
	{"reserveAfter", CONFIG "cluster: {waiting: {reserveAfter: %lldms}}\n", settings, 1000,
		30 * DAY_MS},
	{"eviction", CONFIG "cluster: {eviction: {after: %lldms}}\n", settings, 1000, 30 * DAY_MS},
	{"a probe's interval", CONFIG "cluster: {probe: {interval: %lldms}}\n", settings, 1000,
		DAY_MS},
	{"percent", DEFAULTS("\"percent\":%lld"), policy, 1, 100},
	{"priority", DEFAULTS("\"priority\":%lld"), policy, -1000000000, 1000000000},
	{"a policy's GPUs", ALLOW("\"gpus\":%lld"), policy, 0, 1000000},
	{"who may wait", ALLOW("\"waiting\":%lld"), policy, 0, 1000000},
	{"a server's port", SERVER("a:%lld"), server, 1, 65535},
	{"a GPU's memory", GPUS("{model: m, memory: %lld}"), server, 1000000, INT64_C(1) << 50},
	{"GPUs alike", GPUS("{model: m, memory: 1Gi, count: %lld}"), server, 1, 64},
	{"maxAmount", PROFILE "  argv: [x]\n  can: {maxAmount: %lld}\n" CLIENT, launcher, 1, 10000},
	{"a gate's port in the pod", GATE("%lld"), launcher, 1024, 65519},
	{"a gated program's port",
		API "kind: ServerProfile\nmetadata: {name: p}\nspec: {argv: [/x], port: %lld}\n",
		server_profile, 1, 65535},
	{"readiness", GATED("readiness: %lldms"), server_profile, 100, 600000},
	{"linger", GATED("linger: %lldms"), server_profile, 0, 365 * DAY_MS},
	{"grace", GATED("grace: %lldms"), server_profile, 0, 1500},
	{"margin", GATED("usage: {margin: %lld}"), server_profile, 0, 100},
	{"a gang's size", GANG_ "%lld\",\"poolgate.io/gang\":\"g\"}}}", gang, 1, 4096},
	{"a GPU's memory in a cluster",
		OBJECT_ "\"gpus\":[{\"model\":\"m\",\"memory\":\"%lld\"}]}}", server_object,
		1000000, INT64_C(1) << 50},
};

TEST(each_number)
{
	for (size_t i = 0; i < COUNT(numbers); i++) {
		const int64_t tried[] = {numbers[i].least, numbers[i].most, numbers[i].least - 1,
			numbers[i].most + 1};

		for (size_t k = 0; k < COUNT(tried); k++) {
			char text[512];
			int n = snprintf(
				text, sizeof(text), numbers[i].format, (long long)tried[k]);

			assert_true(n > 0 && (size_t)n < sizeof(text));
			if (numbers[i].takes((struct slice){text, (size_t)n}) != (k < 2))
				fail_msg("%s: %lld is %s", numbers[i].what, (long long)tried[k],
					k < 2 ? "not taken" : "taken");
			arena_reset(&arena);
		}
	}
}

TESTS_BETWEEN(set_up, tear_down, each_byte, each_length, each_number)
