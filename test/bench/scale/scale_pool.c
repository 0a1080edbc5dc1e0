/* SPDX-License-Identifier: Apache-2.0 */
/* bench: the objects of a large pool: servers with eight GPUs that a probe reports, and the pods
 * that hold claims on them. */
#include "base/text.h"
#include "test/bench/scale/scale.h"

#define PLAN                                                                                       \
	"{\"v\":1,\"profile\":\"p\",\"hash\":\"00000000000000aa\",\"mode\":\"full\","              \
	"\"containers\":[{\"name\":\"a\",\"kind\":\"app\",\"amount\":1,\"percent\":50,\"units\":"  \
	"100,"                                                                                     \
	"\"command\":\"wrapped\",\"argv\":7}]}"
#define UID "%08zx-%04zx-4000-8000-000000000000"

/* splitmix64 */
uint64_t dice(uint64_t *seed, uint64_t n)
{
	uint64_t x = *seed += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (x ^ (x >> 31)) % n;
}

/* The claims of one server, by GPU: percent of it. */
struct load {
	size_t n;
	struct {
		unsigned gpu;
		uint64_t bytes;
	} claim[GPUS * 3];
};

static void add(struct load *l, unsigned gpu, unsigned permille)
{
	l->claim[l->n].gpu = gpu;
	l->claim[l->n++].bytes = GPU_BYTES / 1000 * permille;
}

static void load_of(size_t i, int fill, struct load *l)
{
	static const unsigned whole[3][3] = {{1000, 0, 0}, {500, 500, 0}, {400, 350, 250}};
	uint64_t seed = i * 1000 + 7;

	l->n = 0;
	for (unsigned g = 0; g < GPUS; g++) {
		if (fill == FILL_RAGGED) {
			add(l, g, 100 + (unsigned)dice(&seed, 800));
		} else if ((int)dice(&seed, 100) < fill) {
			const unsigned *parts = whole[dice(&seed, 3)];

			for (int k = 0; k < 3 && parts[k]; k++)
				add(l, g, parts[k]);
		} else if (fill && dice(&seed, 3) == 0) {
			add(l, g, 50 + (unsigned)dice(&seed, 90) * 10);
		}
	}
}

void pool_status(struct buf *out, size_t i, int fill)
{
	struct load l;

	load_of(i, fill, &l);
	buf_str(out, "{\"version\":1,\"gpus\":[");
	for (unsigned g = 0; g < GPUS; g++)
		buf_fmt(out,
			"%s{\"id\":\"GPU-%08zx-%04x-4000-8000-000000000000\",\"model\":\"NVIDIA "
			"H100 80GB "
			"HBM3\",\"memory\":%llu,\"fit\":true}",
			g ? "," : "", i, g, GPU_BYTES);
	buf_str(out, "],\"claims\":[");
	for (size_t k = 0; k < l.n; k++)
		buf_fmt(out,
			"%s{\"uid\":\"" UID
			"\",\"namespace\":\"team-%zu\",\"name\":\"train-%zu-%zu\",\"state\":"
			"\"bound\",\"plan\":\"%016llx\",\"since\":\"2026-11-21T09:30:"
			"00Z\",\"take\":"
			"\"00000000000000bb\",\"servers\":[\"gpu-%05zu\"],\"gpus\":[{\"id\":\"GPU-%"
			"08zx-%04x-4000-"
			"8000-000000000000\",\"bytes\":%llu}]}",
			k ? "," : "", i, k, i % 50, i, k,
			(unsigned long long)text_hash64(SLICE(PLAN)), i, i, l.claim[k].gpu,
			(unsigned long long)l.claim[k].bytes);
	buf_str(out,
		"],\"conditions\":[{\"type\":\"Fresh\",\"status\":\"True\",\"observedGeneration\":"
		"1,"
		"\"lastTransitionTime\":\"2026-11-21T09:30:00Z\",\"reason\":\"Answered\","
		"\"message\":\"the "
		"probe answers\"},{\"type\":\"Ready\",\"status\":\"True\",\"observedGeneration\":1,"
		"\"lastTransitionTime\":\"2026-11-21T09:30:00Z\",\"reason\":\"TakesClaims\","
		"\"message\":\"\"}]}");
}

void pool_server(struct buf *out, size_t i, uint64_t version, struct slice status)
{
	buf_fmt(out,
		"{\"apiVersion\":\"poolgate.io/"
		"v1alpha1\",\"kind\":\"GPUServer\",\"metadata\":{\"name\":\"gpu-%05zu\","
		"\"uid\":\"5e000000-0000-4000-8000-%012zu\",\"resourceVersion\":\"%llu\","
		"\"generation\":1,"
		"\"creationTimestamp\":\"2026-11-20T09:30:00Z\",\"labels\":{\"zone\":\"%s\","
		"\"host\":\"host-%05zu\"},"
		"\"finalizers\":[\"poolgate.io/"
		"claims\"],\"managedFields\":[{\"manager\":\"kubectl\",\"operation\":"
		"\"Apply\",\"apiVersion\":\"poolgate.io/"
		"v1alpha1\",\"time\":\"2026-11-20T09:30:00Z\",\"fieldsType\":"
		"\"FieldsV1\",\"fieldsV1\":{\"f:metadata\":{\"f:labels\":{\"f:host\":{},\"f:zone\":"
		"{"
		"}}},\"f:spec\":{"
		"\"f:address\":{},\"f:probe\":{\"f:url\":{}}}}},{\"manager\":\"poolgate\","
		"\"operation\":\"Update\","
		"\"apiVersion\":\"poolgate.io/"
		"v1alpha1\",\"time\":\"2026-11-21T09:30:00Z\",\"fieldsType\":\"FieldsV1\","
		"\"fieldsV1\":{\"f:status\":{\".\":{},\"f:claims\":{},\"f:conditions\":{},\"f:"
		"gpus\":{},\"f:version\":{}}},"
		"\"subresource\":\"status\"}]},\"spec\":{\"address\":\"10.%zu.%zu.%zu:56001\","
		"\"probe\":{\"url\":"
		"\"https://10.%zu.%zu.%zu:9443\"}},\"status\":",
		i, i, (unsigned long long)version, i % 2 ? "lab" : "attic", i, i >> 16,
		i >> 8 & 255, i & 255, i >> 16, i >> 8 & 255, i & 255);
	buf_slice(out, status);
	buf_char(out, '}');
}

bool pool_pod(struct buf *out, size_t i, size_t k, int fill)
{
	struct load l;

	load_of(i, fill, &l);
	if (k >= l.n)
		return false;
	buf_fmt(out,
		"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"train-%zu-%zu\","
		"\"namespace\":\"team-%zu\",\"uid\":\"" UID
		"\",\"resourceVersion\":\"7\",\"labels\":{"
		"\"poolgate.io/injected\":\"true\"},\"annotations\":{\"poolgate.io/plan\":",
		i, k, i % 50, i, k);
	buf_json_str(out, SLICE(PLAN));
	buf_fmt(out,
		"}},\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"registry.example/"
		"train:1\","
		"\"command\":[\"bitfusion\",\"run\",\"-n\",\"1\",\"--\",\"python\",\"train.py\"],"
		"\"resources\":{\"limits\":{\"cpu\":\"4\",\"memory\":\"16Gi\"}}}],\"nodeName\":"
		"\"node-%zu\"},\"status\":{\"phase\":\"Running\"}}",
		i % 500);
	return true;
}
