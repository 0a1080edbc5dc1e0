/* SPDX-License-Identifier: Apache-2.0 */
/* test: YAML of every style, for all tests that need documents. test/fuzz/corpus/yaml holds the
 * same. */
#ifndef TEST_UNIT_YAML_DOCUMENTS_H
#define TEST_UNIT_YAML_DOCUMENTS_H

#include <stddef.h>

static const struct yaml_document {
	const char *name;
	const char *text;
	size_t len;
} yaml_documents[] = {
	{"flow",
		"{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {b: \"c\"}}, spec: "
		"{containers: ["
		"{name: x, image: y}]}}\n",
		110},
	{"flow_lines",
		"a: [1, 2,\n"
		"  3, {x: y,\n"
		"  z: [ ]}]\n"
		"b: {}\n",
		39},
	{"literal",
		"a: |\n"
		"  one\n"
		"   two\n"
		"\n"
		"  three\n",
		27},
	{"literal_strip",
		"a: |-\n"
		"  one\n"
		"  two\n",
		18},
	{"literal_keep",
		"a: |+\n"
		"  one\n"
		"\n"
		"\n"
		"b: 1\n",
		19},
	{"literal_keep_end",
		"a: |+\n"
		"  one\n"
		"\n",
		13},
	{"literal_indent",
		"a: |2\n"
		"   one\n"
		"  two\n",
		19},
	{"literal_indent_strip",
		"a: |1-\n"
		"  one\n"
		" two\n",
		18},
	{"literal_empty",
		"a: |\n"
		"b: |+\n"
		"\n"
		"c: |-\n",
		18},
	{"literal_seq",
		"- |\n"
		" a\n"
		"- |+\n"
		" b\n"
		"\n"
		"- >-\n"
		" c\n",
		24},
	{"literal_tab",
		"a: |2\n"
		"  \tone\n"
		"  two\n",
		19},
	{"literal_emoji",
		"a: |\n"
		"  echo \360\237\230\200 done\n",
		22},
	{"folded",
		"a: >\n"
		"  one\n"
		"  two\n"
		"\n"
		"  three\n"
		"    more\n"
		"  four\n",
		42},
	{"folded_strip",
		"a: >-\n"
		"  one\n"
		"  two\n",
		18},
	{"folded_keep",
		"a: >+\n"
		"  one\n"
		"\n"
		"  two\n"
		"\n"
		"\n"
		"b: 1\n",
		26},
	{"folded_indent",
		"a: >2\n"
		"    one\n"
		"\n"
		"  two\n",
		21},
	{"crlf",
		"a: 1\r\n"
		"b: |\r\n"
		"  x\r\n"
		"  y\r\n"
		"c: \"q\"\r\n",
		30},
	{"two_documents",
		"a: 1\n"
		"---\n"
		"b: 2\n",
		14},
	{"marked",
		"---\n"
		"a: 1\n"
		"...\n"
		"---\n"
		"b: 2\n"
		"...\n",
		26},
	{"empty_documents",
		"---\n"
		"---\n"
		"# c\n"
		"---\n"
		"a: 1\n",
		21},
	{"document_end_bare",
		"a: 1\n"
		"...\n"
		"---\n"
		"b: 2\n",
		18},
	{"root_scalar",
		"--- 0644\n"
		"--- |\n"
		"  text\n"
		"--- \"q\"\n"
		"--- plain text\n"
		"  over lines\n",
		58},
	{"anchors",
		"base: &base\n"
		"  x: 1\n"
		"use: *base\n"
		"list: &l [1, 2]\n"
		"more: *l\n"
		"s: &s text\n"
		"t: *s\n",
		72},
	{"merge",
		"base: &base {x: 1, y: 2}\n"
		"use:\n"
		"  <<: *base\n"
		"  y: 3\n"
		"two:\n"
		"  <<: [*base, {z: 1}]\n",
		76},
	{"anchor_again",
		"a: &x 1\n"
		"b: *x\n"
		"c: &x 2\n"
		"d: *x\n",
		28},
	{"anchor_seq",
		"- &a\n"
		"  k: v\n"
		"- &b\n"
		"  - 1\n"
		"- *a\n"
		"- &e\n"
		"- *e\n",
		38},
	{"yaml_directive",
		"%YAML 1.1\n"
		"---\n"
		"a: 1\n",
		19},
	{"yaml_12",
		"%YAML 1.2\n"
		"---\n"
		"a: yes\n"
		"...\n"
		"%YAML 1.2\n"
		"---\n"
		"b: 1\n",
		44},
	{"tag_directive",
		"%TAG !e! tag:example.com,2000:\n"
		"---\n"
		"a: !e!thing 1\n"
		"b: !e!x {c: d}\n",
		64},
	{"tags",
		"a: !!str 5\n"
		"b: !!int \"5\"\n"
		"c: !mine x\n"
		"d: !<tag:example.com,2000:x> y\n"
		"e: !!map {x: !!seq [1]}\n"
		"f: ! \"5\"\n"
		"g: !!null\n"
		"h: !!str\n"
		"i: [!!str , b]\n"
		"j: !a%21b c\n",
		145},
	{"tagged_blocks",
		"a: !!map\n"
		"  b: 1\n"
		"c: !!seq\n"
		"- 1\n"
		"- !x\n"
		"  y: z\n"
		"d: !!str |\n"
		"  text\n",
		59},
	{"no_final_newline",
		"a: 1\n"
		"b: text",
		12},
	{"comments",
		"# head\n"
		"a: 1 # tail\n"
		"# middle\n"
		"b:\n"
		"  # in\n"
		"  - 1 # x\n"
		"\n"
		"  # y\n"
		"  - 2\n",
		61},
	{"octal",
		"mode: 0644\n"
		"modes: [0o755, 0600, 0x1F, 0b11]\n",
		44},
	{"numbers",
		"a: 12345678901234567890\n"
		"b: 1e3\n"
		"c: 3.10\n"
		"d: 1_000\n"
		"e: .5\n"
		"f: -0.0\n"
		"g: 0o17\n"
		"h: 08\n"
		"i: +1\n"
		"j: 9007199254740993\n",
		102},
	{"booleans",
		"yes: no\n"
		"No: off\n"
		"a: [y, n, TRUE, on]\n",
		36},
	{"nulls",
		"a:\n"
		"b: ~\n"
		"c: null\n"
		"d: ''\n"
		"e: \"\"\n"
		"f: {x: , y}\n"
		"g: [~, null]\n"
		"h:\n"
		"-\n"
		"-\n",
		60},
	{"unicode",
		"\303\244: \303\266\n"
		"emoji: \360\237\230\200\n"
		"q: \"\\U0001F600 \\u00e9\"\n"
		"zh: \344\270\255\346\226\207\n"
		"s: '\360\237\232\200'\n",
		63},
	{"escapes",
		"a: \"tab\\t nl\\n nul\\0 bell\\a q\\\" b\\\\ x\\x41 ls\\L ps\\P nel\\N nb\\_ "
		"slash\\/ esc"
		"\\e\"\n",
		78},
	{"double_lines",
		"a: \"one\n"
		"  two\n"
		"\n"
		"  three \\\n"
		"  four\"\n",
		33},
	{"single",
		"a: 'it''s'\n"
		"b: 'one\n"
		"  two\n"
		"\n"
		"  three'\n"
		"c: ''\n"
		"d: '  x  '\n",
		52},
	{"plain_lines",
		"a: one\n"
		"  two\n"
		"\n"
		"  three\n"
		"b: x\n",
		27},
	{"plain_hard",
		"a: http://x:80/y?z#w\n"
		"b: a:b\n"
		"c: -x\n"
		"d: x - y\n"
		"e: \"a: b\"\n"
		"f: a#b\n"
		"g: x,y\n"
		"h: '[x]'\n"
		"i: x]\n"
		"j: ?x\n"
		"k: :x\n",
		94},
	{"explicit_key",
		"? a\n"
		": b\n"
		"? 'q'\n"
		": - 1\n"
		"  - 2\n"
		"? |\n"
		"  lines\n"
		"  two\n"
		": x\n",
		48},
	{"long_key",
		"? "
		"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
		"kkkkk"
		"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
		"kkkkkkk"
		"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
		"kkkkkkk"
		"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
		"kkkkkkk"
		"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
		"kkkkkkk"
		"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
		"kkkkkkk"
		"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
		"kkkkkkk"
		"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
		"kkkkkkk"
		"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
		"kkkkkkk"
		"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
		"kkkkkkk"
		"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
		"kkkkkkk"
		"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
		"kkkkkkk"
		"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\n"
		": v\n"
		"b: {? "
		"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj"
		"j"
		"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj"
		"jjjjjjj"
		"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj"
		"jjjjjjj"
		"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj"
		"jjjjjjj"
		"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj"
		"jjjjjjj"
		"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj"
		"jjjjjjj"
		"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj"
		"jjjjjjj"
		"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj"
		"jjjjjjj"
		"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj"
		"jjjjjjj"
		"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj"
		"jjjjjjj"
		"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj"
		"jjjjjjj"
		"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj"
		"jjjjjjj"
		"jjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjjj : w}\n",
		2219},
	{"indent4",
		"a:\n"
		"    b:\n"
		"        c: 1\n"
		"    d:\n"
		"        - x\n"
		"        - y:  1\n"
		"          z: 2\n",
		73},
	{"indent_mixed",
		"a:\n"
		"   - b\n"
		"   -   c: 1\n"
		"       d: 2\n"
		"   - - e\n"
		"     - f\n"
		"g:\n"
		"- h\n",
		59},
	{"nested_seq",
		"- - - a\n"
		"    - b\n"
		"  - c\n"
		"-\n"
		"  - d\n"
		"-\n"
		"  x: y\n",
		39},
	{"flow_in_block",
		"a: {b: [c, {d: e}], \"f\": 'g'}\n"
		"h:\n"
		"- [i, j]\n"
		"- {k: l}\n",
		51},
	{"flow_pairs", "[a: b, c, {d: e}]\n", 18},
	{"flow_plain", "{a:b: 1, c: d:e, \"x\":y, z: -1, w: a b}\n", 39},
	{"json", "{\"a\": [1, 2.50, 1e3, true, null, \"x\\u0041\\ud83d\\ude00\"], \"b\": {}}\n",
		66},
	{"json_pod",
		"{\n"
		"  \"kind\": \"Pod\",\n"
		"  \"spec\": {\"containers\": [{\"name\": \"a\", \"args\": [\"yes\", \"1\", \"a: "
		"b\", \"\""
		"]}]}\n"
		"}\n",
		97},
	{"bom", "\357\273\277a: 1\n", 8},
	{"dates",
		"a: 2001-01-01\n"
		"b: 2001-12-14t21:59:43.10-05:00\n"
		"c: 1:30\n",
		54},
	{"pod",
		"apiVersion: v1\n"
		"kind: Pod\n"
		"metadata:\n"
		"  name: vgg\n"
		"  annotations:\n"
		"    auto-management/bitfusion: \"all\"\n"
		"spec:\n"
		"  containers:\n"
		"  - name: c\n"
		"    image: x\n"
		"    command: [\"python\", \"a.py\"]\n"
		"    resources:\n"
		"      limits:\n"
		"        bitfusion.io/gpu-amount: 1\n",
		240},
	{"list",
		"apiVersion: v1\n"
		"kind: List\n"
		"items:\n"
		"- kind: Pod\n"
		"  metadata: {name: a}\n"
		"- kind: Service\n",
		83},
	{"cronjob",
		"kind: CronJob\n"
		"spec:\n"
		"  schedule: \"*/5 * * * *\"\n"
		"  jobTemplate:\n"
		"    spec:\n"
		"      template:\n"
		"        spec: {containers: []}\n",
		118},
	{"configmap",
		"kind: ConfigMap\n"
		"data:\n"
		"  pod.yaml: |\n"
		"    kind: Pod\n"
		"    spec: {}\n"
		"  x: \"1\"\n",
		72},
	{"script",
		"command:\n"
		"- sh\n"
		"- -c\n"
		"- |\n"
		"  set -e\n"
		"  if [ \"$A\" = \"b\" ]; then\n"
		"    echo 'x: y' # no comment\n"
		"  fi\n",
		92},
	{"deep", "a: {a: {a: {a: {a: {a: {a: [[[[[[[[1]]]]]]]]}}}}}}\n", 51},
	{"percent",
		"a: 50%\n"
		"b: '%x'\n",
		15},
	{"quotes_as_keys",
		"\"a b\": 1\n"
		"'c: d': 2\n"
		"\"\": 3\n",
		25},
	{"null_document", "~\n", 2},
	{"empty", "", 0},
	{"only_comment", "# nothing\n", 10},
	{"indented_root",
		"  a: 1\n"
		"  b:\n"
		"    c: 2\n",
		21},
	{"root_flow_marked",
		"--- {a: b}\n"
		"---\n"
		"[c]\n",
		19},
	{"root_seq",
		"- a\n"
		"- b: 1\n",
		11},
	{"windows_tabs",
		"a:\t1\n"
		"b:\t\"x\"\n",
		12},
	{"trailing_blanks",
		"a: 1   \n"
		"b: |\n"
		"  x  \n"
		"  y\n",
		23},
	{"literal_blank_first",
		"a: |2\n"
		"\n"
		"   x\n"
		"  y\n"
		"b: |\n"
		"\n"
		"\n"
		"  z\n",
		27},
	{"star_strings",
		"a: '*x'\n"
		"b: \"&y\"\n"
		"c: '!z'\n"
		"d: '@w'\n",
		32},
};

#endif
