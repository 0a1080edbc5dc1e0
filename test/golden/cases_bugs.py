# SPDX-License-Identifier: Apache-2.0
"""Golden cases: each bug of the origin that a review can show, with the right behaviour. Numbers are those of docs/migrating."""
from cases import invalid, mutate, patched, refused, untouched
from lib.pods import SWITCH, ask, container, pod

GPU = "bitfusion.io/gpu-amount"


def early():
    mutate("bug-01-mode-of-another-request", "one pod's mode is never used for another", pod(switch="injection"), then=[
        {"about": "the next pod's own mode", "path": "/mutate", "review": pod(switch="all", name="next"),
         "expect": patched(), "oracle": True}])
    big = container(resources={"limits": {GPU: "1", "cpu": "8", "memory": "32Gi"}, "requests": {"cpu": "6", "memory": "16Gi"}})
    mutate("bug-02-resources-of-another-request", "the configuration is not changed by a request", pod(big), then=[
        {"about": "the next pod's own resources", "path": "/mutate", "review": pod(
            container(resources=ask(cpu="1", memory="1Gi")), name="next"), "expect": patched(), "oracle": True}])
    mutate("bug-03-one-separator", "one -- for the whole argv", pod(container(command=["python", "train.py", "--lr", "0.1"])))
    mutate("bug-04-shell-line", "all of a shell's script runs on the GPU",
           pod(container(command=["/bin/bash", "-c", "cd /w && python t.py"])))
    mutate("bug-05-sh-keeps-its-flag", "sh -c stays whole", pod(container(command=["/bin/sh", "-c", "echo 'a b'"])))
    mutate("bug-06-args", "args stay behind the command", pod(container(command=["python"], args=["train.py", "a b", "--"])))
    mutate("bug-07-launcher-by-path", "the launcher is known by its basename",
           pod(container(command=["/usr/bin/bitfusion", "run", "-n", "1", "--", "nvidia-smi"])))
    mutate("bug-08-no-command", "said before anything is half done", pod(container(command=None)), expect=invalid("command"))
    mutate("bug-09-second-container", "the GPU container is not the first",
           pod(container("web", ["nginx"], {}), container("train")))
    mutate("bug-09-two-gpu-containers", "two GPU containers, each with its own request", pod(
        container("a", ["python", "a.py"], ask("1", percent="50")), container("b", ["python", "b.py"], ask("2", percent="25"))))
    mutate("bug-10-sidecar-with-command", "a sidecar without a GPU is left alone",
           pod(container("train"), container("logs", ["tail", "-F", "/var/log/x"], {"limits": {"cpu": "1"}})))
    wait = container("wait", ["sh", "-c", "sleep 1"], {})
    mutate("bug-11-user-init-containers", "ours come first, whole, and the user's follow", pod(inits=[wait]))
    mutate("bug-11-init-container-asks", "a user's init container may use the GPU, too", pod(
        inits=[wait, container("prepare", ["python", "prepare.py"], ask(percent="20"))]))
    mutate("bug-11-restartable-init-asks", "and a restartable one", pod(
        inits=[container("agent", ["agent"], ask(percent="20"), restartPolicy="Always")]))
    mutate("bug-12-user-annotations", "every annotation of the user stays", pod(
        annotations={"a": "1", "example.com/b~c": "2", "poolgate.example.com/x": "3"}, labels={"app": "x"}))


def later():
    for value in ("pending", "", "not injected", "injected "):
        label = {"": "empty", "not injected": "two-words", "injected ": "blank-behind"}.get(value, value)
        mutate(f"bug-13-status-{label}", "an unknown status is not done", pod(annotations={"auto-management/status": value}))
    mutate("bug-14-request-without-limit", "the init container's limits are left out, not 0", pod(
        container(resources={"limits": {GPU: "1"}, "requests": {"cpu": "500m"}})))
    mutate("bug-14-request-above-limit", "maxima of several containers never cross", pod(
        container("a", resources={"limits": {GPU: "1", "cpu": "1"}, "requests": {"cpu": "1"}}),
        container("b", ["x"], {"requests": {"cpu": "4", "memory": "1Gi"}})))
    mutate("bug-14-no-cpu-at-all", "nothing is made up", pod(container(resources=ask())))
    mutate("bug-14-spellings", "quantities are compared, not strings", pod(
        container("a", resources=ask(cpu="900m", memory="1Gi")), container("b", ["x"], {"limits": {
            "cpu": "1", "memory": "1025Mi"}, "requests": {"cpu": "0.25", "memory": "1e9"}})))
    mutate("bug-15-requests-only", "a pod with requests alone", pod(container(resources={"requests": {GPU: "1"}})))
    mutate("bug-15-total-unset", "no total: a sentence", pod(container(resources=ask(memory="4G"))),
           expect=invalid("TOTAL_GPU_MEMORY"), config="no-total")
    mutate("bug-16-total-with-unit", "TOTAL_GPU_MEMORY=16G is 16000 MB", pod(container(resources=ask(memory="8000M"))),
           config="total-16G")
    mutate("bug-17-whole-gpu-by-memory", "all of the memory may be asked", pod(container(resources=ask(memory="16000M"))))
    mutate("bug-18-integer-ceil", "1120M of 16000 are 7 units", pod(container(resources=ask(memory="1120M"))))
    mutate("bug-19-fraction-by-memory", "container and field are named", pod(
        container("trainer", resources=ask("1500m", memory="1120M"))), expect=invalid("containers/0", "gpu-amount"))
    claims = ask()
    claims["claims"] = [{"name": "dra"}]
    mutate("bug-20-resource-claims", "resources.claims stay", pod(
        container(resources=claims), resourceClaims=[{"name": "dra", "resourceClaimName": "x"}]))
    bare = container()
    del bare["volumeMounts"]
    p = pod(bare)
    del p["spec"]["volumes"]
    mutate("bug-21-absent-parents", "parents that do not exist are added", p)
    mutate("bug-22-value-from", "a valueFrom library path stays behind ours", pod(container(env=[
        {"name": "LD_LIBRARY_PATH", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}])))
    mutate("bug-22-empty-element", "no empty element: it would mean the current directory",
           pod(container(env=[{"name": "LD_LIBRARY_PATH", "value": "/a:"}])),
           expect={"allowed": True, "patched": True, "warnings": ["empty elements of LD_LIBRARY_PATH"]}, oracle=True)
    collisions()
    mutate("bug-24-asks-nothing", "nothing is injected, with a warning", pod(container(resources={"limits": {"cpu": "1"}})))
    mutate("bug-25-filter-tokens", "no shell sees them", pod(filter="zone=lab;reboot `id` $(id) |x > /y"))
    mutate("bug-28-version-echoed", "apiVersion, kind and uid", pod(name="echo"))
    mutate("bug-29-code", "a refusal always has code, reason and message", pod(version="999"),
           expect=invalid("Could not find Bitfusion client info"), oracle=True)


def collisions():
    mutate("bug-23-volume-name", "the user has a volume of that name", pod(
        volumes=[{"name": "client-dir", "emptyDir": {}}]), expect=refused("client-dir", code=403, reason="VolumeCollision"), oracle=True)
    mutate("bug-23-mount-path", "the user mounts something there", pod(
        container(volumeMounts=[{"name": "x", "mountPath": "/opt/bitfusion"}]), volumes=[{"name": "x", "emptyDir": {}}]),
        expect=refused("/opt/bitfusion", code=403, reason="MountCollision"), oracle=True)
    mutate("bug-23-mount-path-slash", "the same path with a slash behind it", pod(
        container(volumeMounts=[{"name": "x", "mountPath": "/opt/bitfusion/"}]), volumes=[{"name": "x", "emptyDir": {}}]),
        expect=refused("/opt/bitfusion", code=403, reason="MountCollision"), oracle=True)
    mutate("bug-23-init-name", "the user has a container of that name", pod(inits=[container("populate", ["x"], {})]),
           expect=refused("populate", code=403, reason="ContainerCollision"), oracle=True)
    mutate("bug-23-app-name", "an app container of that name", pod(container(), container("populate", ["x"], {})),
           expect=refused("populate", code=403, reason="ContainerCollision"), oracle=True)
    mutate("bug-23-elsewhere", "a path that is only used in a container without a GPU", pod(container(), container(
        "other", ["x"], {}, volumeMounts=[{"name": "x", "mountPath": "/opt/bitfusion"}]),
        volumes=[{"name": "x", "emptyDir": {}}]))


def off():
    for value in ("none", "no"):
        mutate(f"off-{value}-with-injected-status", "off stays off", pod(annotations={
            "auto-management/status": "x", SWITCH: value}), expect=untouched(),
            oracle=True, then=[{"about": "allowed, with a warning that the pod will wait", "path": "/validate",
                                "expect": {**untouched(), "warnings": ["gpu-amount"]}}])


def fill():
    early()
    later()
    off()
