# SPDX-License-Identifier: Apache-2.0
"""Whatever ends a pod ends its claim, within 5 s and once; whatever keeps it keeps it. Controllers, quotas, other people's webhooks and
kubectl's rarer commands, with pods that really run."""
import contextlib
import json
import threading
import time

import kube
import product
import pytest
from hook import Hook
from product import ClaimLog, claims, gpu_pod, wait_for

SLEEP = ("/bin/sh", "-c", "sleep 300")
ANNOTATIONS = gpu_pod("x")["metadata"]["annotations"]
LAUNCHER = "/bitfusion/client-ubuntu2004_4.5.0-4_amd64.deb/usr/bin/bitfusion"


@pytest.fixture(name="log")
def fixture_log(pool):
    with ClaimLog(pool) as log:
        yield log


def template(percent=100, command=SLEEP, restart="Always", **labels):
    """A pod template that asks for a GPU."""
    pod = gpu_pod("x", percent, command=command)
    return {"metadata": {"annotations": ANNOTATIONS, "labels": labels}, "spec": {**pod["spec"], "restartPolicy": restart}}


def workload(kind, name, replicas, **kw):
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(app=name, **kw)}}


def job(name, percent=100, command=("/bin/sh", "-c", "sleep 1"), **spec):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"template": template(percent, command, "Never"), **spec}}


def uid_of(pod):
    return pod["metadata"]["uid"]


def held(cluster, uid):
    """What a pod's claim holds: {(server, GPU): bytes}."""
    return {(s["metadata"]["name"], g["id"]): g["bytes"] for s in cluster.client.items("gpuservers")
            for c in s.get("status", {}).get("claims", []) if c["uid"] == uid for g in c["gpus"]}


def lingering(cluster):
    """What servers say of pods that are gone and may still run."""
    return [c["message"] for s in cluster.client.items("gpuservers") for c in s["status"]["conditions"] if c["type"] == "Lingering"]


def refusals(cluster, ns, kind, name=""):
    """What the events of such objects say about pods that could not be created."""
    return [e["message"] for e in cluster.client.items("events", ns) if e["reason"] == "FailedCreate"
            and e["involvedObject"]["kind"] == kind and e["involvedObject"]["name"].startswith(name)]


def launched(cluster, name, ns, container="main"):
    """What launchers have printed in the container's log, and the rest of it."""
    lines = cluster.pod_log(name, ns, container).splitlines()
    return [json.loads(line)["launcher"] for line in lines if line.startswith('{"launcher"')], \
        [line for line in lines if not line.startswith('{"launcher"')]


def evict(cluster, name, ns):
    cluster.client.call("POST", cluster.client.path("pods", ns, name, "eviction"),
                        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": ns}})


def test_ends(pool, ns, log):
    """Completed, failed, deleted, evicted, its namespace deleted: each claim ends within 5 s of its pod, not before it; force-deleted, it lingers
    for the pod's second of grace and fifteen more, which its server says; the one of a pod that runs on stays as it is."""
    with pool.namespace() as other:
        product.client_secrets(pool, other)
        commands = {"completed": ("/bin/sh", "-c", "sleep 1"), "failed": ("/bin/sh", "-c", "sleep 1; exit 3")}
        names = ("stays", "completed", "failed", "deleted", "forced", "evicted", "homeless")
        made = {n: pool.client.create(gpu_pod(n, 10, command=commands.get(n, SLEEP)), other if n == "homeless" else ns) for n in names}
        uids = {n: uid_of(p) for n, p in made.items()}
        assert len(set(uids.values())) == len(names)
        before = held(pool, uids["stays"])
        assert len(before) == 1
        for name in ("stays", "deleted", "forced", "evicted"):
            pool.wait_pod(name, ns, ("Running",))
        pool.wait_pod("homeless", other, ("Running",))
        for uid in uids.values():
            log.wait(uid, "bound")
        pool.client.delete("namespaces", other)
        evict(pool, "evicted", ns)
        pool.client.delete("pods", "deleted", ns)
        pool.client.delete("pods", "forced", ns, grace=0)
        said = wait_for(lambda: lingering(pool), 10, "a condition")
        assert said[0].startswith(f"pods that are gone may still run here: {ns}/forced until "), said
        for name in names[1:]:
            log.check_end(uids[name], lingers=16 if name == "forced" else 0)
        assert pool.client.get("pods", "completed", ns)["status"]["phase"] == "Succeeded"
        assert pool.client.get("pods", "failed", ns)["status"]["phase"] == "Failed"
        assert held(pool, uids["stays"]) == before and uids["stays"] not in log.ended
        assert all(states[-1] == "bound" for states in log.states.values()), log.states


def test_statefulset_pod_again(pool, ns, log):
    """web-0 holds every GPU of the pool, on two servers. Its successor has the same name and another uid, and takes the place at once: a
    ledger that goes by names believes that it holds already, one that frees late refuses it."""
    web = workload("StatefulSet", "web", 1)
    web["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["bitfusion.io/gpu-amount"] = "3"
    pool.client.create(web, ns)
    log.wait(uid_of(pool.wait_pod("web-0", ns, ("Running",))), "bound")
    for grace in (1, None):
        old = pool.client.get("pods", "web-0", ns)
        before = held(pool, uid_of(old))
        assert sum(before.values()) == 48 * 10 ** 9 and len(before) == 3
        pool.client.delete("pods", "web-0", ns, grace=grace)
        new = wait_for(lambda: (lambda p: p and uid_of(p) != uid_of(old) and p)(pool.client.find("pods", "web-0", ns)), 60, "another web-0")
        log.wait(uid_of(new), "bound")
        log.check_end(uid_of(old))
        assert held(pool, uid_of(new)) == before
        pool.wait_pod("web-0", ns, ("Running",))
    assert not refusals(pool, ns, "StatefulSet"), refusals(pool, ns, "StatefulSet")


def test_marks_are_held(pool, ns, log):
    """Nobody takes the label away or changes the plan, by the pod itself or by its status, and the claim stays what it was."""
    uid = uid_of(pool.client.create(gpu_pod("held", 50), ns))
    pod = pool.wait_pod("held", ns, ("Running",))
    log.wait(uid, "bound")
    before = held(pool, uid)
    plan = json.loads(pod["metadata"]["annotations"]["poolgate.io/plan"])
    plan["containers"][0].update({"percent": 1, "units": 1})
    forged = json.dumps(plan, separators=(",", ":"))
    plain = gpu_pod("plain", command=("/bin/true",))
    del plain["metadata"]["annotations"], plain["spec"]["containers"][0]["resources"]
    pool.client.create(plain, ns)
    for name, metadata in (("held", {"labels": {"poolgate.io/injected": None}}), ("held", {"labels": {"poolgate.io/injected": "false"}}),
                           ("held", {"annotations": {"poolgate.io/plan": forged}}), ("held", {"annotations": {"poolgate.io/plan": None}}),
                           ("held", {"annotations": {"poolgate.io/more": "x"}}), ("plain", {"annotations": {"poolgate.io/plan": forged}}),
                           ("plain", {"labels": {"poolgate.io/injected": "true"}})):
        for subresource in (None, "status"):
            with pytest.raises(kube.ApiError) as no:
                pool.client.patch("pods", name, {"metadata": metadata}, ns, subresource=subresource)
            assert no.value.status == 403 and "validate.poolgate.io" in no.value.message, (name, metadata, subresource, no.value)
    done = pool.kubectl("-n", ns, "patch", "pod", "held", "--subresource=status", "--type=merge", "-p",
                        json.dumps({"metadata": {"annotations": {"poolgate.io/plan": forged}}}), check=False)
    assert done.returncode and "PlanChanged" in done.stderr + done.stdout, done
    assert set(log.held) == {uid}
    now = pool.client.get("pods", "held", ns)["metadata"]
    assert now["annotations"] == pod["metadata"]["annotations"] and now["labels"] == pod["metadata"]["labels"]
    assert held(pool, uid) == before and log.states[uid][-1] == "bound"


def test_deployment_of_ten(pool, ns, log):
    """Six of ten halves fit: kubectl warns at once, six pods run, the ReplicaSet's events say what was asked and what is free; when the
    pool grows the other four come by themselves."""
    done = pool.kubectl("-n", ns, "apply", "-f", "-", input=json.dumps(workload("Deployment", "ten", 10, percent=50)))
    assert "Warning: 6 of 10 pods would be admitted now" in done.stderr, done.stderr
    done = pool.kubectl("-n", ns, "apply", "-f", "-", input=json.dumps(workload("Deployment", "never", 0, percent=50)))
    assert "Warning" not in done.stderr, done.stderr
    wait_for(lambda: len(claims(pool)) == 6, 30, "six claims")
    said = wait_for(lambda: refusals(pool, ns, "ReplicaSet", "ten-"), 30, "an event of the ReplicaSet")
    for message in said:
        assert 'admission webhook "validate.poolgate.io" denied the request' in message, message
        assert "asked 1 GPU with 50 %; of 3 GPUs that can be used, none has that much free (best: " in message, message
    time.sleep(1)
    pods = pool.client.items("pods", ns)
    assert len(pods) == 6 and {uid_of(p) for p in pods} == {u for u, _ in claims(pool)}
    # Fewer than before: those that run stay, nobody has to wait more.
    done = pool.kubectl("-n", ns, "apply", "--dry-run=server", "-f", "-", input=json.dumps(workload("Deployment", "ten", 9, percent=50)))
    assert "Warning" not in done.stderr, done.stderr
    huge = workload("Deployment", "huge", 1)
    huge["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["bitfusion.io/gpu-amount"] = "9"
    done = pool.kubectl("-n", ns, "apply", "--dry-run=server", "-f", "-", input=json.dumps(huge))
    assert "Warning: its pods would be refused now" in done.stderr, done.stderr
    with product.servers(pool, {"gpu-c": 2}):
        # A claim stands before its pod is there.
        wait_for(lambda: len(claims(pool)) == 10 and {uid_of(p) for p in pool.client.items("pods", ns)} == {u for u, _ in claims(pool)}, 90,
                 "ten claims of ten pods")
        pool.client.delete("deployments", "ten", ns)
        wait_for(lambda: not claims(pool), 60, "claims that end with the Deployment")
    for uid in log.states:
        log.check_end(uid)


def test_jobs(pool, ns, log):
    """An Indexed Job of four whole GPUs where three are there: the fourth index comes when one has ended. A job of a CronJob."""
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"},
            "spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": job("x", 100)["spec"]}}}
    pool.kubectl("-n", ns, "apply", "-f", "-", input=json.dumps(cron))
    done = pool.kubectl("-n", ns, "create", "-f", "-", input=json.dumps(
        job("four", 100, ("/bin/sh", "-c", "sleep 1; echo $JOB_COMPLETION_INDEX"), completionMode="Indexed", completions=4, parallelism=4)))
    assert "Warning: 3 of 4 pods would be admitted now" in done.stderr, done.stderr
    said = wait_for(lambda: refusals(pool, ns, "Job", "four"), 30, "an event of the Job")
    assert all("denied the request" in m for m in said), said
    pool.kubectl("-n", ns, "wait", "--for=condition=Complete", "job/four", "--timeout=90s")
    pods = pool.client.items("pods", ns, labelSelector="job-name=four")
    assert sorted(launched(pool, p["metadata"]["name"], ns)[1][0] for p in pods) == ["0", "1", "2", "3"]
    pool.kubectl("-n", ns, "create", "job", "tonight", "--from=cronjob/nightly")
    pool.kubectl("-n", ns, "wait", "--for=condition=Complete", "job/tonight", "--timeout=60s")
    pods += pool.client.items("pods", ns, labelSelector="job-name=tonight")
    assert len(pods) == 5
    for pod in pods:
        log.check_end(uid_of(pod))
        assert log.states[uid_of(pod)][-1] == "bound"


def test_debug(pool, ns, log):
    """kubectl debug: a container more in a running pod changes nothing of its claim; a copy has a claim of its own, or is refused."""
    uid = uid_of(pool.client.create(gpu_pod("sick", 60), ns))
    pool.wait_pod("sick", ns, ("Running",))
    log.wait(uid, "bound")
    before = held(pool, uid)
    image = ["--image=localhost/busybox:e2e", "--image-pull-policy=Never"]
    pool.kubectl("-n", ns, "debug", "sick", *image, "--target=main", "--container=doctor", "--", "/bin/sh", "-c", "echo hello")

    def ended():
        statuses = pool.client.get("pods", "sick", ns)["status"].get("ephemeralContainerStatuses")
        return statuses and "terminated" in statuses[0]["state"]

    wait_for(ended, 60, lambda: pool.describe("pod", "sick", ns))
    assert pool.pod_log("sick", ns, "doctor").strip() == "hello"
    assert held(pool, uid) == before and log.states[uid][-1] == "bound"
    # What reads the client's Secrets is refused: it holds no claim.
    mounts = [v["name"] for v in pool.client.get("pods", "sick", ns)["spec"]["volumes"] if "secret" in v]
    assert mounts
    for more in ({"envFrom": [{"secretRef": {"name": "bitfusion-client-secret-ca.crt"}}]}, {"volumeMounts": [
            {"name": mounts[0], "mountPath": "/s"}]}):
        with pytest.raises(kube.ApiError) as no:
            pool.client.patch("pods", "sick", {"spec": {"ephemeralContainers": [{"name": "thief", "image": "x", **more}]}}, ns,
                              kind="strategic", subresource="ephemeralcontainers")
        assert no.value.status == 403 and no.value.reason == "SecretWithoutClaim", no.value.body
    # Without its marks the copy would compute on GPUs that nobody has promised to it.
    done = pool.kubectl("-n", ns, "debug", "sick", *image, "--copy-to=bare", "--container=doctor", "--", "/bin/sh", "-c", "sleep 300",
                        check=False)
    assert done.returncode and "denied the request" in done.stderr, done
    assert not pool.client.find("pods", "bare", ns)
    pool.kubectl("-n", ns, "debug", "sick", *image, "--copy-to=copy", "--keep-labels", "--keep-annotations", "--container=doctor", "--",
                 "/bin/sh", "-c", "sleep 300")
    copy = pool.wait_pod("copy", ns, ("Running",))
    log.wait(uid_of(copy), "bound")
    assert sum(held(pool, uid_of(copy)).values()) == sum(before.values()) and held(pool, uid) == before


def sidecar(pod):
    """As a mesh or a log collector would: a container beside, here one that wants a tenth of a GPU itself."""
    if all(c["name"] != "later" for c in pod["spec"]["containers"]):
        pod["spec"]["containers"] += [
            {"name": "plain", "image": "localhost/busybox:e2e", "imagePullPolicy": "Never", "command": ["/bin/sh", "-c", "echo plain"]},
            {"name": "later", "image": "localhost/busybox:e2e", "imagePullPolicy": "Never", "command": ["/bin/echo", "later"],
             "resources": {"limits": {"bitfusion.io/gpu-amount": "1", "bitfusion.io/gpu-percent": "10"}}}]


def wrapper(pod):
    """As a tracer would: one more program around the command; for "args" all words become that program's arguments."""
    main = pod["spec"]["containers"][0]
    if main["command"][0] != "/bin/env":
        if pod["metadata"]["name"] == "args":
            main["command"], main["args"] = ["/bin/env"], ["TRACED=a b", *main["command"], *main.get("args", [])]
        else:
            main["command"] = ["/bin/env", "TRACED=a b", *main["command"]]


def test_other_mutating_hooks(pool, ns, log):
    """Webhooks after ours, with reinvocation: a container that is added and asks for a GPU is injected, too; a command that is wrapped once
    more goes through the launcher once. The same manifest may be applied again."""
    command = ("/bin/sh", "-c", "sleep 3; printf '<%s>' \"$TRACED\" \"$@\"", "sh", "a b", "$(NO)", "$$x", "")
    changes = {"sidecar": (sidecar,), "wrapped": (wrapper,), "both": (sidecar, wrapper), "args": (wrapper,)}

    def mutate(pod):
        for change in changes[pod["metadata"]["name"]]:
            change(pod)

    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": [gpu_pod(n, 50, command=command) for n in changes]})
    with Hook(pool, ns, mutate=mutate) as hook:
        for words in ((), (), ("--server-side", "--force-conflicts")):
            pool.kubectl("-n", ns, "apply", *words, "-f", "-", input=manifest)
        assert sum(a.patched for a in hook.answers) == 4
    made = {n: pool.client.get("pods", n, ns) for n in changes}
    for name, pod in made.items():
        log.wait(uid_of(pod), "bound")
        assert sum(log.held[uid_of(pod)].values()) == (9600 if sidecar in changes[name] else 8000) * 10 ** 6, name
    for name, pod in made.items():
        plan = json.loads(pod["metadata"]["annotations"]["poolgate.io/plan"])
        assert [c["name"] for c in plan["containers"]] == (["main", "later"] if sidecar in changes[name] else ["main"])
        assert [c["name"] for c in pod["spec"]["initContainers"]] == ["populate"]
        log.check_end(uid_of(pod))
        calls, rest = launched(pool, name, ns)
        assert calls == [[LAUNCHER, "run", "-n", "1", "-p", "0.500000", "--", *command[:-2], "$x", ""]], calls
        assert rest == [f"<{'a b' if wrapper in changes[name] else ''}><a b><$(NO)><$x><>"]
        if sidecar in changes[name]:
            assert launched(pool, name, ns, "plain") == ([], ["plain"])
            calls, rest = launched(pool, name, ns, "later")
            assert calls == [[LAUNCHER, "run", "-n", "1", "-p", "0.100000", "--", "/bin/echo", "later"]] and rest == ["later"]
    assert len(log.states) == 4, log.names


@contextlib.contextmanager
def updates_unseen(cluster, ns):
    """For the block nobody guards our marks against updates, as when an administrator edits the webhook's rules."""
    def operations(value):
        path = "/webhooks/0/rules/0/operations"
        cluster.client.patch("validatingwebhookconfigurations", "poolgate", [{"op": "replace", "path": path, "value": value}], kind="json")

    def guarded():
        try:
            cluster.client.patch("pods", "stripped", {"metadata": {"labels": {"poolgate.io/injected": "x"}}}, ns, dry_run=True)
        except kube.ApiError:
            return True
        return False

    operations(["CREATE"])
    try:
        wait_for(lambda: not guarded(), 30, "updates that nobody sees")
        yield
    finally:
        operations(["CREATE", "UPDATE"])
        wait_for(guarded, 30, "updates that are seen again")


def bind(cluster, name, ns):
    """As a scheduler may, with a label and an annotation on top: no webhook of ours is asked."""
    plan = json.loads(cluster.client.get("pods", name, ns)["metadata"]["annotations"]["poolgate.io/plan"])
    plan["containers"][0].update({"percent": 1, "units": 1})
    metadata = {"name": name, "labels": {"poolgate.io/injected": "no"}, "annotations": {"poolgate.io/plan": json.dumps(plan)}}
    cluster.client.call("POST", cluster.client.path("pods", ns, name, "binding"), {
        "apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": "node-1"}})


@contextlib.contextmanager
def dead_node(cluster, name):
    """A node without a kubelet, which the scheduler leaves alone."""
    cluster.client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                           "spec": {"taints": [{"key": "test", "effect": "NoSchedule"}]}})
    try:
        yield
    finally:
        cluster.client.delete("nodes", name)


def test_a_secret_that_the_hooks_do_not_know(pool, ns):
    """Whoever reads it would not be sent to us, so the profile is left out until the conditions name it, which is looked at each minute."""
    hooks, path = "validatingwebhookconfigurations", "/webhooks/0/matchConditions/1/expression"
    client = pool.client
    knows = client.get(hooks, "poolgate")["webhooks"][0]["matchConditions"][1]["expression"]
    assert knows.count("'bitfusion-client-secret-ca.crt'") == 8

    def answer():
        try:
            client.create(gpu_pod("asks"), ns, dry_run=True)
        except kube.ApiError as e:
            return e.reason
        return "allowed"

    def conditions(value):
        client.patch(hooks, "poolgate", [{"op": "replace", "path": path, "value": value}], kind="json")

    assert answer() == "allowed"
    conditions(knows.replace("bitfusion-client-secret-ca.crt", "another"))
    try:
        wait_for(lambda: answer() == "NoLauncher", 90, "a profile that is left out")
    finally:
        conditions(knows)
    wait_for(lambda: all(answer() == "allowed" for _ in range(8)), 90, "a profile that is back")


def test_quota_zero_locks_nobody_out(pool, ns, log):
    """One create a second by a namespace whose quota refuses each of them behind us. The first hold what they get for 45 s; from then on the
    namespace holds no more than one of them pending, and others get the pool's GPUs."""
    client, said = pool.client, []
    gpus = sum(s["status"]["summary"]["fit"] for s in client.items("gpuservers"))

    def attack():
        with pytest.raises(kube.ApiError) as no:
            client.create(gpu_pod(f"never-{len(said)}"), poor)
        said.append(no.value.message)
        time.sleep(1)

    with product.client_namespace(pool) as poor:
        client.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
                       "spec": {"hard": {"requests.bitfusion.io/gpu": "0"}}}, poor)
        wait_for(lambda: client.get("resourcequotas", "none", poor).get("status", {}).get("hard"), 30, "a quota in force")
        until = time.monotonic() + 120
        while time.monotonic() < until and (not log.ended or len(claims(pool)) > max(gpus // 4, 1)):
            attack()
        assert any("exceeded quota" in m for m in said)
        assert len(claims(pool)) <= max(gpus // 4, 1), "the first burst has ended"
        free = gpus - max(gpus // 4, 1)
        for i in range(free):
            attack()
            client.create(gpu_pod(f"others-{i}"), ns)
        attack()
        assert any("may hold at most" in m for m in said)
        assert len([u for u, n in log.names.items() if n[0] == ns and u in log.on]) == free


def test_what_takes_a_minute(pool, ns, log):
    """Refused after us, by a quota or by somebody else's webhook, or because the name was taken meanwhile: nobody tells us, so the claim stays
    pending until no create can be on its way any more (45 s), and is gone within 60 s. Nothing else is freed meanwhile, not even a claim
    whose pod has lost its label. A node that goes takes its pod's claim along once the pod garbage collector has seen it."""
    client = pool.client
    clashes = {"once-": 1, "always-": 99}
    lost = {}

    def refuse(request):
        """Takes the name of a pod away under the API server's hands; refuses one."""
        meta = request["object"]["metadata"]
        if not meta.get("annotations"):
            return None
        kind = meta.get("generateName", meta["name"])
        if kind == "refused" or clashes.get(kind, 0) > 0:
            lost.setdefault(kind, []).append(meta["uid"])
        if clashes.get(kind, 0) > 0:
            clashes[kind] -= 1
            plain = gpu_pod(meta["name"])
            del plain["metadata"]["annotations"], plain["spec"]["containers"][0]["resources"]
            pool.client.create({**plain, "spec": {**plain["spec"], "schedulerName": "nobody"}}, ns)
        return "not this one" if kind == "refused" else None

    with product.client_namespace(pool) as counted, Hook(pool, ns, refuse=refuse), dead_node(pool, "gone-1"):
        client.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"},
                       "spec": {"hard": {"requests.bitfusion.io/gpu": "50"}}}, counted)
        settings = {"stripped": {}, "orphan": {"nodeName": "gone-1"}, "rebound": {"schedulerName": "nobody"}}
        kept = [uid_of(client.create(gpu_pod(n, 10, **kw), ns)) for n, kw in settings.items()]
        stripped, orphan, rebound = kept
        for uid in kept:
            log.wait(uid, "bound")
        before = held(pool, stripped), held(pool, rebound)
        client.delete("nodes", "gone-1")
        bind(pool, "rebound", ns)
        with updates_unseen(pool, ns):
            client.patch("pods", "stripped", {"metadata": {"labels": {"poolgate.io/injected": None}}}, ns)
        # The quota counts what was injected.
        wait_for(lambda: client.get("resourcequotas", "gpus", counted).get("status", {}).get("hard"), 30, "a quota in force")
        kept += [uid_of(client.create(gpu_pod(f"counts-{p}", p), counted)) for p in (30, 20)]
        with pytest.raises(kube.ApiError) as no:
            client.create(gpu_pod("beyond", 10), counted)
        assert no.value.status == 403 and "exceeded quota: gpus, requested: requests.bitfusion.io/gpu=10" in no.value.message
        assert client.get("resourcequotas", "gpus", counted)["status"]["used"] == {"requests.bitfusion.io/gpu": "50"}
        lost["beyond"] = [wait_for(lambda: [u for u, n in log.names.items() if n == (counted, "beyond")], 10, "the pending claim")[0]]
        # Somebody else's webhook.
        with pytest.raises(kube.ApiError) as no:
            client.create(gpu_pod("refused", 10), ns)
        assert no.value.status == 403 and "not this one" in no.value.message
        # One name twice; names that were generated and are taken meanwhile: another try of the API server is another uid, after eight it gives up.
        kept.append(uid_of(client.create(gpu_pod("twice", 10), ns)))
        with pytest.raises(kube.ApiError) as no:
            client.create(gpu_pod("twice", 10), ns)
        assert no.value.reason == "AlreadyExists"
        kept.append(uid_of(client.create(gpu_pod("once-", 10), ns)))
        with pytest.raises(kube.ApiError) as no:
            client.create(gpu_pod("always-", 1), ns)
        assert no.value.reason == "AlreadyExists"
        # Of a name that holds a claim the pod is seen first: nothing is taken for another of that name.
        assert not [u for u, n in log.names.items() if n == (ns, "twice") and u not in kept]
        assert {kind: len(uids) for kind, uids in lost.items()} == {"refused": 1, "beyond": 1, "once-": 1, "always-": 8}
        for kind, uids in lost.items():
            for uid in uids:
                log.wait(uid, "ended", 90)
                took = log.ended[uid] - log.taken[uid]
                assert 44.5 <= took <= 60.5 and log.states[uid] == ["pending"], (kind, took, log.states[uid])
        log.check_end(orphan, 150)
        kept.remove(orphan)
        assert not set(kept) & set(log.ended) and set(kept) == {u for u, _ in claims(pool)}
        assert before == (held(pool, stripped), held(pool, rebound))
        for name in ("stripped", "rebound"):
            assert client.get("pods", name, ns)["metadata"].get("labels", {}).get("poolgate.io/injected") != "true"
            client.delete("pods", name, ns, grace=1)
        for uid in (stripped, rebound):
            log.wait(uid, "ended", 40)
