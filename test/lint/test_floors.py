# SPDX-License-Identifier: Apache-2.0
"""The house rules hold in this tree, and each check finds a planted breach."""
import os
import subprocess

import pytest

import floors

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("POOLGATE_BUILD", os.path.join(ROOT, "build/release"))
# Instrumented objects call their sanitizer and keep its counters.
RELEASE = os.path.basename(BUILD) == "release"


def kept(breaches):
    if breaches:
        pytest.fail("\n".join(breaches), pytrace=False)


def test_includes():
    kept(floors.check_includes(ROOT))


def test_text():
    kept(floors.check_text(ROOT))


def test_objects():
    if RELEASE:
        kept(floors.check_objects(ROOT, BUILD))


def plant(tmp_path, files):
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text.encode())
    return str(tmp_path)


CLEAN = {
    "base/a.h": "int a(void);\n",
    "net/n.h": "#include <poll.h>\n",
    "kube/k.h": '#include "net/n.h"\n',
    "kube/k_impl.h": '#include "kube/k.h"\n',
    "kube/k.c": '#include "kube/k_impl.h"\n',
    "deviceplugin/d.c": '#include "kube/k.h"\n',
    "certs/x.c": '#include <openssl/evp.h>\n#include "base/a.h"\n',
    "webhook/core/pool/c.c": '#include <string.h>\n\n#include "base/a.h"\n#include "webhook/core/pool/c.h"\n',
    "webhook/core/pool/c.h": "int c(void);\n",
    "webhook/edge/admin/e.h": '#include "net/n.h"\n#include "webhook/core/pool/c.h"\n',
    "webhook/cli/k.h": '#include "webhook/edge/admin/e.h"\n',
    "webhook/main.c": '#include "webhook/cli/k.h"\n',
    "net/http_server.c": "#include <gnutls/gnutls.h>\n#include <microhttpd.h>\n",
    "net/http_client.c": "#include <curl/curl.h>\n",
    "base/yaml/yaml.c": "#include <yaml.h>\n",
    "test/unit/test_k.c": '#include "kube/k.h"\n#include "test/unit/fixture_impl.h"\n',
    "test/unit/fixture_impl.h": "struct fixture;\n",
    "test/fuzz/fuzz_k.c": '#include "kube/k_impl.h"\n',
}


def test_includes_clean_house(tmp_path):
    assert not floors.check_includes(plant(tmp_path, CLEAN))


@pytest.mark.parametrize("path, line, said", [
    ("base/b.c", '#include "net/n.h"', "may include base, not net"),
    ("base/b.c", '#include "webhook/core/pool/c.h"', "not webhook/core"),
    ("net/b.c", '#include "webhook/core/pool/c.h"', "not webhook/core"),
    ("net/b.c", '#include "kube/k.h"', "not kube"),
    ("kube/b.c", '#include "webhook/core/pool/c.h"', "not webhook/core"),
    ("deviceplugin/b.c", '#include "webhook/edge/admin/e.h"', "not webhook/edge"),
    ("deviceplugin/b.c", '#include "kube/k_impl.h"', "for kube alone"),
    ("webhook/core/pool/b.c", '#include "net/n.h"', "not net"),
    ("webhook/core/pool/b.c", '#include "webhook/edge/admin/e.h"', "not webhook/edge"),
    ("webhook/edge/admin/b.c", '#include "webhook/cli/k.h"', "not webhook/cli"),
    ("certs/b.c", '#include "net/n.h"', "not net"),
    ("certs/b.c", '#include "webhook/core/pool/c.h"', "not webhook/core"),
    ("net/b.c", '#include "n.h"', "write it from the root"),
    ("net/b.c", '#include "net/gone.h"', "no such file"),
    ("net/b.c", "#include NAME", "not a plain name"),
    ("net/b.c", "#include <microhttpd.h>", "belongs in net/http_server"),
    ("net/b.c", "#  include  <curl/curl.h>", "belongs in net/http_client"),
    ("net/b.c", "#include <openssl/ssl.h>", "belongs in certs/"),
    ("webhook/edge/admin/b.c", "#include <gnutls/gnutls.h>", "belongs in net/"),
    ("base/b.c", "#include <cjson/cJSON.h>", "not among the known headers"),
    ("webhook/core/pool/b.h", "#include <yaml.h>", "belongs in base/yaml/"),
    ("base/b.c", "#include <jansson.h>", "not among the known headers"),
    ("webhook/core/pool/b.c", "#include <time.h>", "no I/O, clock"),
    ("webhook/core/pool/b.c", "#include <unistd.h>", "no I/O, clock"),
    ("kube/lease_record.c", "#include <time.h>", "no I/O, clock"),
    ("test/unit/test_b.c", '#include "kube/k_impl.h"', "asks by public headers"),
    ("test/unit/b_fixture.h", '#  include "kube/k_impl.h"', "asks by public headers"),
])
def test_includes_finds(tmp_path, path, line, said):
    breaches = floors.check_includes(plant(tmp_path, {**CLEAN, path: line + "\n"}))
    assert len(breaches) == 1 and breaches[0].startswith(path + ":1: ") and said in breaches[0]


def compile_house(tmp_path, files):
    """Compile each file as the release build does; returns the build folder."""
    root = plant(tmp_path, files)
    for path in files:
        target = os.path.join(root, "build", path[:-2] + ".o")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        subprocess.run(["gcc", "-std=gnu17", "-O2", "-fPIE", "-fno-common", "-fno-builtin", "-w", "-iquote", ".", "-c",
                        "-o", target, path], cwd=root, check=True)
    return os.path.join(root, "build")


PURE = {
    "base/text.c": "#include <string.h>\nunsigned long text_len(const char *s) { return strlen(s); }\n",
    "base/log.c": "#include <unistd.h>\nvoid log_line(const char *s) { write(2, s, 1); }\n",
    "base/wrap.c": "void log_line(const char *);\nvoid wrap(void) { log_line(\"\"); }\n",
    "webhook/core/pool/d.c": "int decide(const char *s);\n",
    "webhook/core/pool/c.c": "#include <stdlib.h>\n#include <string.h>\n"
                        "unsigned long text_len(const char *s);\nint decide(const char *s);\n"
                        'static const char *const words[] = {"a", "b"};\n'
                        "const char *word(int i) { return words[i]; }\n"
                        "int other(const char *s) { return decide(s); }\n"
                        "int decide(const char *s) { char *t = malloc(text_len(s)); free(t); return !t; }\n",
}


def test_objects_clean_house(tmp_path):
    build = compile_house(tmp_path, PURE)
    assert not floors.check_objects(str(tmp_path), build)


@pytest.mark.parametrize("code, said", [
    ("long time(long *); long now(void) { return time(0); }", "calls time;"),
    ("char *getenv(const char *); char *e(void) { return getenv(\"X\"); }", "calls getenv;"),
    ("int puts(const char *); void p(void) { puts(\"\"); }", "calls puts;"),
    ("int open(const char *, int, ...); int o(void) { return open(\"/\", 0); }", "calls open;"),
    ("long random(void); long r(void) { return random(); }", "calls random;"),
    ("int pthread_mutex_lock(void *); int l(void *m) { return pthread_mutex_lock(m); }", "calls pthread_mutex_lock;"),
    ("#include <ctype.h>\nint a(int c) { return (*__ctype_b_loc())[c]; }", "calls __ctype_b_loc;"),
    ("void log_line(const char *); void w(void) { log_line(\"\"); }", "log_line of base/log.o, which calls write"),
    ("void wrap(void); void w(void) { wrap(); }", "wrap of base/wrap.o, which calls log_line, which calls write"),
    ("static int n; int count(void) { return ++n; }", "n can be written"),
    ("int shared;", "shared can be written"),
    ("int started = 1;", "started can be written"),
    ("int count(void) { static int calls = 3; return ++calls; }", "can be written"),
    ("_Thread_local int mine;", "mine can be written"),
    ("const char *name[] = {\"a\"};", "name can be written"),
])
def test_objects_finds_in_core(tmp_path, code, said):
    build = compile_house(tmp_path, {**PURE, "webhook/core/pool/bad.c": code + "\n"})
    breaches = floors.check_objects(str(tmp_path), build)
    assert breaches and all("webhook/core/pool/bad.o" in b for b in breaches)
    assert any(said in b for b in breaches), breaches


@pytest.mark.parametrize("symbol", sorted(floors.BANNED))
def test_objects_finds_banned(tmp_path, symbol):
    code = f"long {symbol}(); long f(void) {{ return {symbol}(); }}\n"
    build = compile_house(tmp_path, {"webhook/edge/admin/bad.c": code})
    assert floors.check_objects(str(tmp_path), build)[0].startswith(f"webhook/edge/admin/bad.o: calls {symbol};")


def test_objects_finds_fortified_and_foreign(tmp_path):
    build = compile_house(tmp_path, {
        "net/bad.c": "long __strcpy_chk(); long f(void) { return __strcpy_chk(); }\n",
        "net/tree.c": "long cJSON_Print(); long g(void) { return cJSON_Print(); }\n"})
    breaches = floors.check_objects(str(tmp_path), build)
    assert [b.split(";")[0] for b in breaches] == ["net/bad.o: calls strcpy", "net/tree.o: calls cJSON_Print"]


def test_objects_finds_what_is_there_twice(tmp_path):
    build = compile_house(tmp_path, {"net/a.c": "int say(void) { return 1; }\nint main(void) { return say(); }\n",
                                     "webhook/cli/b.c": "int say(void) { return 2; }\nint main(void) { return say(); }\n"})
    assert floors.check_objects(str(tmp_path), build) == ["webhook/cli/b.o: defines say, as net/a.o does"]


def test_objects_finds_a_call_upwards(tmp_path):
    build = compile_house(tmp_path, {"net/a.c": "int lead(void); int say(void) { return lead(); }\n",
                                     "webhook/cluster/leader/b.c": "int lead(void) { return 2; }\n"})
    assert floors.check_objects(str(tmp_path), build) == ["net/a.o: calls lead of webhook/cluster/leader, which net may not include"]


def test_objects_finds_nothing_built(tmp_path):
    assert "build first" in floors.check_objects(str(tmp_path), str(tmp_path / "build"))[0]


LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"


@pytest.mark.parametrize("path, text, said", [
    ("base/a.c", LICENCE + "/* TO" "DO: later */\n", ":2: a leftover"),
    ("docs/a.md", "FIX" "ME\n", ":1: a leftover"),
    ("README.md", "a HA" "CK.\n", ":1: a leftover"),
    ("base/a.c", LICENCE + "int a; \n", ":2: blanks"),
    ("docs/a.md", "word\t\n", ":1: blanks"),
    ("base/a.c", LICENCE + "int a;", "no newline"),
    ("base/a.c", "int a;\n", "no SPDX"),
    ("tools/run", "#!/bin/sh\ntrue\n", "no SPDX"),
    ("docs/a.md", "see /Use" "rs/somebody\n", ":1: a path of one machine"),
])
def test_text_finds(tmp_path, path, text, said):
    breaches = floors.check_text(plant(tmp_path, {"base/ok.c": LICENCE, path: text}))
    assert len(breaches) == 1 and breaches[0].startswith(path) and said in breaches[0], breaches


def test_text_finds_own_folder(tmp_path):
    breaches = floors.check_text(plant(tmp_path, {"docs/a.md": f"built in {tmp_path}/build\n"}))
    assert breaches == ["docs/a.md:1: a path of one machine"]


def test_text_leaves_alone(tmp_path):
    assert not floors.check_text(plant(tmp_path, {
        "base/ok.c": LICENCE + "mkstemp(\"poolgate-XXXXXX\");\n", "test/fuzz/corpus/yaml/1": "a: \nTO" "DO",
        "test/golden/configs/crlf.yaml": "a: b \r\n"}))
