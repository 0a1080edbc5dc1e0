# SPDX-License-Identifier: Apache-2.0
"""edge/admission/engine: `poolgate inject` and `uninject` on manifests of every style: twice is once, undone is equal, the server agrees."""
import copy
import difflib
import glob
import json
import os
import pty
import re
import subprocess

import jsonpatch
import pytest

from lib import cli, reviews
from lib.documents import NULLS, SPELLINGS, drop_nulls, parsed, pods_of
from lib.server import ROOT
from oracle import quantity

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "manifests")
PLAN = "poolgate.io/plan"


def names(*prefixes, other=()):
    every = sorted(os.path.basename(p) for p in glob.glob(os.path.join(FOLDER, "*")))
    if prefixes:
        return [n for n in every if n.startswith(prefixes)]
    return [n for n in every if not n.startswith(other)]


INJECTED = names(other=("untouched-", "refused-", "unreadable-"))
EXAMPLES = sorted(glob.glob(os.path.join(ROOT, "manifests/examples/workload-*.yaml")))


def read(name):
    with open(name if os.path.isabs(name) else os.path.join(FOLDER, name), "rb") as f:
        return f.read()


def run_inject(data, *args):
    status, out, err = cli.inject(data, *args)
    assert status == 0, err
    return out


def without_plan(pod):
    pod = reviews.default_resources(drop_nulls(copy.deepcopy(pod)))
    plan = (pod["metadata"].get("annotations") or {}).pop(PLAN, None)
    for container in pod["spec"]["containers"] + pod["spec"].get("initContainers", []):
        for side in ("limits", "requests"):
            if side in container["resources"]:
                container["resources"][side] = {k: quantity.parse(v) for k, v in container["resources"][side].items()}
    return pod, plan


@pytest.mark.parametrize("name", INJECTED)
def test_twice_is_once(name):
    once = run_inject(read(name))
    assert PLAN.encode() in once, "nothing was injected"
    twice = run_inject(once)
    assert parsed(twice) == parsed(once)
    assert twice == once, "what is done already must come out byte for byte"


@pytest.mark.parametrize("name", INJECTED + names("untouched-") + EXAMPLES)
def test_undone_is_as_it_was(name):
    data = read(name)
    status, out, err = cli.uninject(run_inject(data))
    assert status == 0, err
    if name in NULLS:
        assert drop_nulls(parsed(out)) == drop_nulls(parsed(data))
    elif name in SPELLINGS:
        assert parsed(out) == parsed(data)
    else:
        assert out == data


@pytest.mark.parametrize("name", INJECTED + EXAMPLES)
def test_server_agrees(name, server):
    before = [p for d in parsed(read(name)) for p in pods_of(d)]
    after = [p for d in parsed(run_inject(read(name))) for p in pods_of(d)]
    assert len(before) == len(after) and before
    for user, ours in zip(before, after):
        user = reviews.default_resources(drop_nulls(copy.deepcopy(user)))
        got = server.review("/mutate", reviews.review(user))
        assert got["allowed"], got["message"]
        theirs, _ = without_plan(got["pod"] or user)
        mine, _ = without_plan(ours)
        assert mine == theirs


@pytest.mark.parametrize("name", names("untouched-"))
def test_untouched(name):
    data = read(name)
    assert run_inject(data) == data


@pytest.mark.parametrize("name", names("refused-"))
def test_refused(name):
    status, out, err = cli.inject(os.path.join(FOLDER, name))
    assert status == 1, (status, out, err)
    assert name in err
    assert PLAN.encode() not in out


@pytest.mark.parametrize("name", names("unreadable-"))
def test_unreadable(name):
    status, out, err = cli.inject(os.path.join(FOLDER, name))
    assert status == 3 and name in err and out == b"", (status, out, err)


def test_enough_styles():
    assert len(INJECTED) >= 40


@pytest.mark.parametrize("name", ["block.yaml", "crlf.yaml", "pod.json", "octal.yaml", "list.yaml", "quoted-words.yaml"])
def test_output_forms(name):
    data = read(name)
    want = parsed(run_inject(data, "-o", "yaml"))
    assert parsed(run_inject(data, "-o", "json")) == want
    lines = run_inject(data, "-o", "diff").decode()
    assert "+" in lines and "bitfusion.io/gpu" in lines and "\n-" in "\n" + lines


@pytest.mark.parametrize("name", ["block.yaml", "pod.json", "two-containers.yaml", "value-from.yaml"])
def test_patch_form(name):
    data = read(name)
    ops = json.loads(run_inject(data, "-o", "patch"))
    # Values of the patch are JSON: compare with the manifest as parsed.
    assert jsonpatch.apply_patch(parsed(data)[0], ops) == parsed(run_inject(data))[0]


@pytest.mark.parametrize("name,kept", [
    ("octal.yaml", [b"defaultMode: 0400", b"mode: 0644", b"0o600"]), ("numbers.yaml", [b"0x1F", b"1_000", b"12345678901234567890", b"1e9"]),
    ("quoted-words.yaml", [b"'it''s'", b'"yes"', b'"0644"']), ("block-scalar-literal.yaml", [b"- |", b'--name "a b"']),
    ("booleans.yaml", [b"no", b"Yes", b"off"]), ("json-spellings.json", [b"1.0", b"1e3", b"12345678901234567890", b"1.10"]),
    ("folded.yaml", [b">-"]), ("utf8.yaml", ["模型".encode()]), ("crlf-block-scalar.yaml", [b"- |"])])
def test_spelling_stays(name, kept):
    out = run_inject(read(name))
    for piece in kept:
        assert piece in out, out.decode()


PLACE = ("bitfusion.io/gpu", "command: ", "requests: {", "labels: {")


@pytest.mark.parametrize("name", ["comments.yaml", "crlf.yaml", "block-scalar-keep.yaml", "pod.json", "list.yaml", "utf8.yaml"])
def test_only_lines_of_the_place_go(name):
    before, after = (text.decode().splitlines(keepends=True) for text in (read(name), run_inject(read(name))))
    gone = [line[2:] for line in difflib.ndiff(before, after) if line.startswith("- ")]
    other = [line for line in gone if not any(place in line for place in PLACE) and line.rstrip() + ",\n" not in after]
    assert gone and not other


def test_aliases_are_written_out_at_the_place():
    """The anchor stays as it is; what a sidecar shows of it stays, too."""
    text = read("alias-resources.yaml").decode().replace("- name: main\n", "- name: main\n      env: &e [{name: A, value: b}]\n") + (
        "    - {name: other, image: x, resources: {}, env: *e} # theirs\n")
    out = run_inject(text.encode()).decode()
    assert "resources: &r {limits: {bitfusion.io/gpu: 100}, requests: {bitfusion.io/gpu: 100}}" in out
    assert "resources: {limits: {bitfusion.io/gpu: 100}, requests: {bitfusion.io/gpu: 100}}" in out
    assert "- {name: other, image: x, resources: {}, env: [{name: A, value: b}]} # theirs\n" in out


@pytest.fixture(name="folder")
def folder_fixture(tmp_path):
    for name in ("comments.yaml", "pod.json", "untouched-no-gpu.yaml"):
        (tmp_path / name).write_bytes(read(name))
    (tmp_path / "notes.txt").write_text("kind: Pod\n")
    (tmp_path / "comments.yaml").chmod(0o640)
    return tmp_path


def test_folder_in_place(folder):
    """All or none; what does not change is not touched; modes and links stay."""
    link = folder / "link.yaml"
    (folder / "far").mkdir()
    (folder / "comments.yaml").rename(folder / "far/real")
    link.symlink_to("far/real")
    old = {p.name: p.stat().st_ino for p in folder.iterdir()}
    bad = folder / "z.yaml"
    bad.write_bytes(read("refused-amount.yaml"))
    args = cli.profile_args()
    assert cli.run("inject", *args, "-w", str(folder))[0] == 1
    assert link.read_bytes() == read("comments.yaml") and {p.name for p in folder.iterdir()} == {*old, "z.yaml"}
    bad.unlink()
    assert cli.run("inject", *args, "-w", str(folder))[:2] == (0, b"")
    assert link.is_symlink() and link.stat().st_mode & 0o777 == 0o640
    assert link.read_bytes() == run_inject(read("comments.yaml")) and (folder / "pod.json").read_bytes() == run_inject(read("pod.json"))
    assert (folder / "untouched-no-gpu.yaml").stat().st_ino == old["untouched-no-gpu.yaml"] and {p.name for p in folder.iterdir()} == set(old)
    new = (folder / "pod.json").stat().st_ino
    assert cli.run("inject", *args, "-w", str(folder))[0] == 0 and (folder / "pod.json").stat().st_ino == new, "twice is once"
    status, _, err = cli.run("uninject", "-w", "-v", str(folder))
    assert status == 0 and f"{link}: written" in err and link.read_bytes() == read("comments.yaml")


def test_in_place_is_refused_where_it_cannot_be(folder):
    args = cli.profile_args()
    assert cli.run("inject", *args, "-w", data=read("block.yaml"))[0] == 2
    assert cli.run("inject", *args, "-w", "--diff", str(folder))[0] == 2
    if os.geteuid() != 0:
        (folder / "pod.json").chmod(0o440)
        status, _, err = cli.run("inject", *args, "-w", str(folder / "pod.json"))
        assert status == 3 and "pod.json: Permission denied" in err and (folder / "pod.json").read_bytes() == read("pod.json")


@pytest.mark.parametrize("env, coloured", [({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_diff_has_colours_on_a_terminal_alone(folder, env, coloured):
    plain = cli.run("inject", *cli.profile_args(), "--diff", str(folder / "comments.yaml"))[1]
    assert b"\033" not in plain and b"-          bitfusion.io/gpu-amount: 1 # behind\n+          bitfusion.io/gpu: 100 # behind\n" in plain
    master, terminal = pty.openpty()
    with subprocess.Popen([cli.PROGRAM, "inject", *cli.profile_args(), "--diff", str(folder / "comments.yaml")], stdout=terminal,
                          env={**os.environ, "TOTAL_GPU_MEMORY": "16000", "TERM": "xterm", **env}) as done:
        os.close(terminal)
        shown = b""
        while chunk := read_terminal(master):
            shown += chunk
    os.close(master)
    assert done.returncode == 0 and (b"\033[32m+" in shown) == coloured
    assert re.sub(rb"\033\[[0-9]*m", b"", shown).replace(b"\r\n", b"\n") == plain


def read_terminal(fd):
    try:
        return os.read(fd, 65536)
    except OSError:  # the other side is closed
        return b""


def test_pod_templates_of_any_kind():
    """Where each kind's template is, its patch goes to; a template that does not ask stays as it is."""
    ops = [json.loads(line) for line in run_inject(read("frameworks.yaml"), "-o", "patch").splitlines()]
    paths = [{"/".join(op["path"].split("/")[:n]) for op in each} for each, n in zip(ops, (5, 7, 4, 3, 5), strict=True)]
    assert paths == [{"/spec/workerGroupSpecs/0/template"}, {"/spec/replicatedJobs/0/template/spec/template"},
                     {"/spec/leaderWorkerTemplate/workerTemplate"}, {"/spec/template"}, {"/spec/mpiReplicaSpecs/Worker~1odd~0name/template"}]
    docs = parsed(run_inject(read("frameworks.yaml")))
    argv = docs[1]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert argv[1:] == ["run", "-n", "1", "-p", "1.000000", "--", "python", "train.py"]


WORKFLOW = """apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: w-}
spec:
  templates:
    - name: train
      metadata:
        annotations:
          auto-management/bitfusion: all
      container: {image: i, command: [python], resources: {limits: {bitfusion.io/gpu-amount: 1}}}
"""


def test_what_holds_no_template_is_named():
    """A document in which a key of ours has no effect, without -v; every other one without a pod, with it."""
    others = "---\nkind: Service\nmetadata: {name: s}\n---\n- 5\n"
    status, out, err = cli.inject((WORKFLOW + others).encode())
    warning = ("poolgate inject: standard input:9: Workflow/w-: warning: auto-management/bitfusion has no effect here: it belongs into a "
               "pod or a pod template ({metadata, spec: {containers: […]}}), annotations into its metadata")
    assert status == 0 and out.decode() == WORKFLOW + others and err.splitlines() == [warning]
    _, _, err = cli.inject((WORKFLOW + others).encode(), "-v")
    assert err.splitlines() == [warning, "poolgate inject: standard input:12: Service/s: unchanged: no pod template in it",
                                "poolgate inject: standard input:15: document: unchanged: no pod template in it"]


def test_annotation_beside_the_template_is_said():
    text = ("kind: Deployment\nmetadata:\n  name: d\n  annotations: {auto-management/bitfusion: all}\nspec:\n  template:\n"
            "    spec: {containers: [{name: c, image: i}]}\n")
    _, _, err = cli.inject(text.encode())
    assert err.startswith("poolgate inject: standard input:4: Deployment/d: warning: auto-management/bitfusion has no effect here") and len(err.splitlines()) == 1


BASE = os.path.join(ROOT, "manifests/base/config/poolgate.yaml")
ONE_V100 = """kind: Pod
metadata: {name: a, annotations: {auto-management/bitfusion: all, bitfusion-client/os: ubuntu20, bitfusion-client/version: "450"}}
spec:
  containers: [{name: c, image: i, command: [x], resources: {limits: {bitfusion.io/gpu-amount: 1, bitfusion.io/gpu-memory: 16160Mi}}}]
"""


def test_installed_settings_work_outside_of_the_pod():
    """The base's own settings, with the client and the profiles that are installed beside them; the example's whole GPU by memory."""
    status, out, err = cli.run("inject", "--config", BASE, data=ONE_V100.encode(), env={"TOTAL_GPU_MEMORY": ""})
    assert status == 0, err
    container = parsed(out)[0]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"bitfusion.io/gpu": 100} and container["command"][1:5] == ["run", "-n", "1", "-m"]
    lupine = ONE_V100.replace("annotations: {", "annotations: {poolgate.io/launcher: lupine, ").replace(", bitfusion.io/gpu-memory: 16160Mi", "")
    status, out, err = cli.run("inject", "--config", BASE, "--pool", os.path.join(ROOT, "manifests/examples/pool.yaml"),
                               data=lupine.encode(), env={"TOTAL_GPU_MEMORY": ""})
    assert status == 0 and b"LUPINE_SERVER" in out, err


SERVERS = """apiVersion: poolgate.io/v1alpha1
kind: GPUServer
metadata: {{name: gpu-{name}}}
spec: {{address: "{address}", gpus: [{{model: a, memory: 16Gi}}]}}
"""


@pytest.mark.parametrize("addresses, says", [
    (["[2001:db8::1]:14833", "10.0.0.2:14833"], "10.0.0.2:14833"), (["[2001:db8::1]:14833", "gpu.lab:14833"], "gpu.lab:14833"),
    (["[2001:db8::1]:14833"], "the launcher cannot use the IPv6 address of 1 server: ask the operator for an address that it can")])
def test_servers_that_a_client_cannot_reach_are_not_chosen(tmp_path, addresses, says):
    """LUPINE's client knows IPv4 alone."""
    pool = tmp_path / "pool.yaml"
    pool.write_text("---\n".join(SERVERS.format(name=n, address=a) for n, a in enumerate(addresses)))
    lupine = ONE_V100.replace("annotations: {", "annotations: {poolgate.io/launcher: lupine, ").replace(", bitfusion.io/gpu-memory: 16160Mi", "")
    status, out, err = cli.run("inject", "--config", BASE, "--pool", str(pool), data=lupine.encode())
    assert status == (0 if len(addresses) > 1 else 1) and says in (out.decode() if status == 0 else err), err


ARM = "requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ["
ARCH = "{key: kubernetes.io/arch, operator: "


@pytest.mark.parametrize("spec, where", [
    ("nodeSelector: {kubernetes.io/arch: amd64}", None), ("nodeSelector: {kubernetes.io/arch: arm64}", "/spec/nodeSelector/kubernetes.io~1arch"),
    ("affinity: {nodeAffinity: {" + ARM + "{matchExpressions: [" + ARCH + "In, values: [arm64]}]}]}}}", "/spec/affinity/nodeAffinity"),
    ("affinity: {nodeAffinity: {" + ARM + "{matchExpressions: [" + ARCH + "NotIn, values: [amd64]}]}]}}}", "/spec/affinity/nodeAffinity"),
    ("affinity: {nodeAffinity: {" + ARM + "{matchExpressions: [" + ARCH + "In, values: [arm64, amd64]}]}]}}}", None),
    ("affinity: {nodeAffinity: {" + ARM + "{matchExpressions: [" + ARCH + "In, values: [arm64]}]}, "
     "{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}", None)])
def test_pod_for_another_architecture_is_refused(spec, where):
    for launcher in ("bitfusion", "lupine"):
        text = ONE_V100.replace("annotations: {", f"annotations: {{poolgate.io/launcher: {launcher}, ").replace(", bitfusion.io/gpu-memory: 16160Mi", "")
        status, out, err = cli.run("inject", "--config", BASE, "--pool", os.path.join(ROOT, "manifests/examples/pool.yaml"),
                                   data=(text + "  " + spec + "\n").encode())
        assert status == (1 if where else 0), err
        if where:
            assert f"{where}: the launcher \"{launcher}\" has programs for amd64, and the pod excludes such nodes" in err


def test_stdin_and_files():
    status, out, _ = cli.run("inject", *cli.profile_args(), data=read("block.yaml"))
    assert status == 0 and parsed(out) == parsed(run_inject(read("block.yaml")))
    status, out, err = cli.run("inject", *cli.profile_args(), os.path.join(FOLDER, "block.yaml"),
                               os.path.join(FOLDER, "deployment.yaml"))
    assert status == 0 and [d["kind"] for d in parsed(out)] == ["Pod", "Deployment"], err


@pytest.mark.parametrize("args", [["--nonesuch"], ["-o", "xml"], ["-o"]])
def test_usage(args):
    status, out, err = cli.run("inject", *args, data=b"")
    assert status == 2 and err and out == b""


def test_missing_file():
    status, _, err = cli.inject("/nonexistent/pod.yaml")
    assert status == 3 and "/nonexistent/pod.yaml" in err


def test_uninject_of_what_was_never_injected():
    data = read("block.yaml")
    status, out, _ = cli.uninject(data)
    assert status == 0 and out == data


def test_annotations_that_are_no_strings_are_said():
    """Without -v too: the commonest mistake, on which the API server refuses the manifest."""
    text = ("kind: Pod\nmetadata:\n  name: a\n  annotations:\n    auto-management/bitfusion: on\n"
            "    bitfusion-client/version: 400\n    poolgate.io/launcher: [x]\n    poolgate.io/gpu-model: 1.5\n"
            "    auto-management/status: null\n    other/key: 1\nspec:\n  containers: [{name: c, image: i}]\n---\n"
            "kind: Pod\nmetadata: {name: b, annotations: {auto-management/bitfusion: 'off', 3: x}}\n"
            "spec:\n  containers: [{name: c, image: i}]\n")
    status, _, err = cli.inject(text.encode())
    said = err.splitlines()
    tail = "; the API server accepts strings alone: quote it"
    assert status == 0, said
    assert said == [f"poolgate inject: standard input:{line}: Pod/a: warning: annotation {words}{tail}" for line, words in (
        (5, "auto-management/bitfusion is a boolean"), (6, "bitfusion-client/version is a whole number"),
        (7, "poolgate.io/launcher is a sequence"), (8, "poolgate.io/gpu-model is a number"))]


def test_warnings_of_the_webhook_are_said():
    """All that the API server's client would be told, each on a line of its own that names the pod."""
    on = "auto-management/bitfusion: all"
    pods = [(f"{{name: a, annotations: {{{on}}}}}", "", "auto-management/bitfusion is on, but no container asks for bitfusion.io/gpu-amount; nothing is injected"),
            (f"{{name: b, annotations: {{{on}}}}}", ", resources: {limits: {bitfusion.io/gpu-amount: 1}}",
             "not injected: set the annotations bitfusion-client/os and bitfusion-client/version")]
    text = "---\n".join(f"kind: Pod\nmetadata: {meta}\nspec:\n  containers: [{{name: c, image: i, command: [x]{more}}}]\n" for meta, more, _ in pods)
    status, out, err = cli.inject(text.encode())
    assert (status, out.decode()) == (0, text)
    assert err.splitlines() == [f"poolgate inject: standard input:{line}: Pod/{name}: warning: {says}" for line, name, (_, _, says) in zip((1, 6), "ab", pods)]


def test_names_of_others_are_safe_to_print():
    """No text of a manifest moves the cursor or changes colours."""
    for verb, plan in ((cli.inject, ""), (cli.inject, '"poolgate.io/plan": "{\\u001b", '), (cli.uninject, '"poolgate.io/plan": "{\\u001b", ')):
        text = ('{"kind": "Pod", "metadata": {"name": "a\\u001b[31m\\u009b2J\\u202e", "annotations": '
                '{"auto-management/bitfusion": "all", ' + plan + '"poolgate.io/launcher": "\\u001b[2J"}}, '
                '"spec": {"containers": [{"name": "c\\u001b]0;x\\u0007", "image": "i", "resources": {"limits": '
                '{"bitfusion.io/gpu-amount": "\\u001b[1m"}}}]}}')
        status, _, err = verb(text.encode(), "-v")
        assert (status or plan) and "Pod/a?[31m?2J?" in err, err
        assert all(c == "\n" or c.isprintable() for c in err), ascii(err)
