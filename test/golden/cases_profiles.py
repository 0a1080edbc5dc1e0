# SPDX-License-Identifier: Apache-2.0
"""Golden cases of the launchers that are documents: Juice (wrap without --), LUPINE (variables and library path), cricket
(preload). They are the shipped documents of manifests/examples/launchers."""
from cases import CASES, case, create, mutate, patched, refused, untouched
from lib import reviews
from lib.pods import ask, container, pod

A = "10.117.32.177:56001"
B = "10.117.32.178:56001"
JUICE = ["/opt/juice/juice", "run"]
TOKEN = {"secretKeyRef": {"name": "juice-token", "key": "token"}}


def launcher(name, *containers, **kw):
    kw.setdefault("annotations", {})["poolgate.io/launcher"] = name
    return pod(*containers, os=None, version=None, **kw)


def has(name, about, p, then=True, warnings=(), config="launchers", **facts):
    """facts: members of the container `main` that must come out so; env is what is in force."""
    steps = [{"about": "mutating again changes nothing", "path": "/mutate", "expect": untouched()},
             {"about": "admitted", "path": "/validate", "expect": untouched()}] if then else []
    mutate(name, about, p, expect=patched(warnings), oracle=False, config=config, then=steps)
    CASES[name]["has"] = facts


def no(name, about, p, *words, code=422, reason="Invalid"):
    mutate(name, about, p, expect=refused(*words, code=code, reason=reason), oracle=False, config="launchers")


def juice():
    has("juice", "wrapped without --, its token out of a Secret", launcher("juice"), command=JUICE + ["python", "train.py"],
        env={"JUICE_TOKEN": f"<{sorted(TOKEN.items())!r}>"})
    has("juice-args", "args stay where they are", launcher("juice", container(args=["--", "a b"])),
        command=JUICE + ["python", "train.py"], args=["--", "a b"])
    has("juice-memory", "GiB, rounded up", launcher("juice", container(resources=ask(memory="4G"))),
        command=JUICE + ["--vram", "4", "python", "train.py"])
    has("juice-filter", "labels, joined by commas", launcher("juice", filter="zone=lab gpu.model=V100-PCIE-16GB"),
        command=JUICE + ["--match-labels", "zone=lab,gpu.model=V100-PCIE-16GB", "python", "train.py"])
    has("juice-one-string", "a shell line is run by sh -c", launcher("juice", container(command=["python a.py --x"])),
        command=JUICE + ["sh", "-c", "python a.py --x"])
    no("juice-half", "it has no option for a share", launcher("juice", container(resources=ask(percent="50"))), "percent")
    no("juice-two", "one session, one GPU", launcher("juice", container(resources=ask("2"))), "1")
    no("juice-no-command", "a wrapping launcher needs the command", launcher("juice", container(command=None)), "command")
    no("juice-dash-word", "without a separator a word with a dash would be the launcher's", launcher(
        "juice", container(command=["-x"])), "begins with '-'")
    own = {"name": "JUICE_TOKEN", "valueFrom": TOKEN}
    other = {"name": "JUICE_TOKEN", "valueFrom": {"secretKeyRef": {"name": "mine", "key": "token"}}}
    has("juice-own-token", "the same reference stays", launcher("juice", container(env=[own])),
        env={"JUICE_TOKEN": f"<{sorted(TOKEN.items())!r}>"})
    no("juice-other-token", "the user sets our variable", launcher("juice", container(env=[other])), "JUICE_TOKEN", code=403,
       reason="EnvCollision")
    mutate("juice-reapply", "the second apply is injected again from the live pod", launcher("juice"), expect=patched(),
           oracle=False, config="launchers", then=[
               {"about": "the second apply", "path": "/mutate", "reapply": True, "check": "live", "expect": patched()},
               {"about": "and admitted", "path": "/validate", "operation": "UPDATE", "expect": untouched()}])
    mutate("juice-forged-token", "the variable comes from elsewhere", launcher("juice"), expect=patched(), oracle=False,
           config="launchers", then=[{"about": "another key", "path": "/validate", "operation": "CREATE", "edit": [
               {"op": "replace", "path": "/spec/containers/0/env/0/valueFrom/secretKeyRef/key", "value": "other"}],
               "expect": refused("JUICE_TOKEN", code=403, reason="PlanMismatch")}])
    for label, more in {"variable": {"env": [own]}, "all-variables": {"envFrom": [{"secretRef": {"name": "juice-token"}}]}}.items():
        thief = pod(container("c", ["sh"], {}, **more), switch=None)
        case(f"secret-without-claim-{label}", "reads the client's secret and asks for nothing", create(
            reviews.stored(thief, uid=reviews.fixed_uid(label))), path="/validate", config="launchers",
            expect=refused("secret", code=403, reason="SecretWithoutClaim"))
    has("juice-injection", "all but the command", launcher("juice", switch="injection"), command=["python", "train.py"])


def lupine():
    env = {"LUPINE_SERVER": A, "LD_LIBRARY_PATH": "/opt/lupine/lib", "LUPINE_DISABLE_LOCAL": "1",
           "LUPINE_SESSION": "<[('fieldRef', {'fieldPath': 'metadata.uid'})]>"}
    has("lupine", "variables alone; command and args stay", launcher("lupine"), command=["python", "train.py"], env=env)
    has("lupine-no-command", "no command is needed", launcher("lupine", container(command=None, args=["x"])), args=["x"],
        command=None, env=env)
    has("lupine-one-string-with-args", "nor looked at", launcher("lupine", container(command=["a b"], args=["x"])),
        command=["a b"], args=["x"], env=env)
    has("lupine-two", "two GPUs of one server", launcher("lupine", container(resources=ask("2"))), env={**env, "LUPINE_SERVER": B})
    has("lupine-three", "two servers, in the order of their names", launcher("lupine", container(resources=ask("3"))),
        env={**env, "LUPINE_SERVER": f"{A},{B}"})
    has("lupine-filter", "the filter chooses among the servers", launcher("lupine", filter="gpu.model=K80"),
        env={**env, "LUPINE_SERVER": B})
    has("lupine-library-path", "in front of the container's own", launcher("lupine", container(env=[
        {"name": "LD_LIBRARY_PATH", "value": "/own"}])), env={**env, "LD_LIBRARY_PATH": "/opt/lupine/lib:/own"})
    no("lupine-half", "it cannot take half a GPU", launcher("lupine", container(resources=ask(percent="50"))), "percent")
    no("lupine-memory", "nor a share of memory", launcher("lupine", container(resources=ask(memory="4G"))), "memory")
    no("lupine-four", "more than the pool has", launcher("lupine", container(resources=ask("4"))), "4", code=403, reason="NoCapacity")
    no("lupine-own-variable", "the user sets our variable", launcher("lupine", container(env=[
        {"name": "LUPINE_SERVER", "value": "elsewhere:1"}])), "LUPINE_SERVER", code=403, reason="EnvCollision")


def cricket():
    env = {"REMOTE_GPU_ADDRESS": "10.117.32.177", "LD_PRELOAD": "/opt/cricket/cricket-client.so", "LD_LIBRARY_PATH": "/opt/cricket"}
    has("cricket", "a library is preloaded", launcher("cricket"), command=["python", "train.py"], env=env)
    has("cricket-own-preload", "in front of the container's own", launcher("cricket", container(command=None, env=[
        {"name": "LD_PRELOAD", "value": "/lib/own.so"}])), command=None,
        env={**env, "LD_PRELOAD": "/opt/cricket/cricket-client.so:/lib/own.so"})
    two = [container(), container("second")]
    has("cricket-two-containers", "both on one server, though the smallest holds but one", launcher("cricket", *two),
        env={**env, "REMOTE_GPU_ADDRESS": "10.117.32.178"})
    no("cricket-three-containers", "three GPUs are there, but on two servers", launcher("cricket", *two, container("third")),
       "not on one server", "one GPU server per pod", code=403, reason="NoCapacity")
    no("cricket-two", "one server, one GPU", launcher("cricket", container(resources=ask("2"))), "1")


def variables():
    preload = {"LD_PRELOAD": "/opt/limits/limits.so"}
    own = {"name": "HINTS", "value": "own"}

    def limits(name, about, p, **env):
        has("variables-" + name, about, p, config="variables", env={**preload, **env})

    limits("fraction", "by percent, also when nothing is said", launcher("limits"), SHARE="100")
    limits("half", "by percent", launcher("limits", container(resources=ask(percent="50"))), SHARE="50")
    limits("memory", "by memory", launcher("limits", container(resources=ask(memory="4G"))), MEMORY_LIMIT="4000000000",
           HINTS="memory=4")
    limits("memory-own", "in front of the container's own", launcher("limits", container(
        resources=ask(memory="4G"), env=[own])), MEMORY_LIMIT="4000000000", HINTS="memory=4,own")
    limits("fraction-own", "the container's own is nobody else's", launcher("limits", container(env=[
        own, {"name": "MEMORY_LIMIT", "value": "1"}])), SHARE="100", HINTS="own", MEMORY_LIMIT="1")
    limits("filter", "with filter tokens", launcher("limits", filter="zone=lab"), SHARE="100", SELECT="zone=lab")


def fill():
    variables()
    juice()
    lupine()
    cricket()
    mutate("launcher-beside-others", "the default stays Bitfusion", pod(), config="launchers")
    mutate("launcher-bitfusion-by-name", "by its name", pod(annotations={"poolgate.io/launcher": "bitfusion"}),
           config="launchers")
