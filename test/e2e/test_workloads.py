# SPDX-License-Identifier: Apache-2.0
"""The five workloads of manifests/examples as their users create them: by kubectl, in namespaces and under image names of their own,
two to five where Pod Security enforces `restricted`. Each is injected, admitted, scheduled and run; the program gets the argv and the
environment that its manifest means; the claim is bound and ends with the pod. Changed is what the node of the tests cannot give: cpu and
memory are requested sparingly (limits stay), and VGG19 does not start over when it has finished."""
import contextlib
import json
import os

import images
import product
import pytest
import yaml
from product import ClaimLog, client_namespace, wait_for

NAMES = ("docker.io/bitfusiondeviceplugin/tensorflow:20.01-tf2-py3", "docker.io/tensorflow/tensorflow:2.15.0",
         "quay.io/jupyter/tensorflow-notebook:2024-03-14", "docker.io/mpioperator/openmpi:v0.5.0")
# What the notebook is: a server that answers its probes until it is told to end.
NOTEBOOK = "#!/bin/sh\nprint-argv \"$@\"\ntrap 'exit 0' TERM\nhttpd -f -p 8888 -h /www &\nwait\n"
ROOT = {"ubuntu18": "/bitfusion/client-ubuntu1804_4.0.0-12_amd64.deb", "ubuntu20": "/bitfusion/client-ubuntu2004_4.5.0-4_amd64.deb",
        "centos8": "/bitfusion/client-centos8-4.5.0-4.x86_64.rpm"}


def libraries(system):
    return ROOT[system] + "/opt/bitfusion/lib/x86_64-linux-gnu/bitfusion/lib/"


@contextlib.contextmanager
def prepared(cluster, folder):
    """The images of the manifests, and the namespaces that they name."""
    tar = images.workload(folder, NAMES, (*images.PROGRAMS, "/usr/sbin/sshd"),
                          ["E2E_ENV=LD_LIBRARY_PATH,CUDA_VISIBLE_DEVICES,NUM_GPUS,BASE_URL,WEIGHTS"],
                          {"/usr/local/bin/start-notebook.py": NOTEBOOK, "/www/notebooks/transfer/api": "{}\n"})
    assert set(NAMES) <= set(cluster.import_image(tar))
    if not os.path.exists("/home/workspace"):  # a hostPath that is not there is made by the runtime
        cluster.slot.journal.add("made", "/home/workspace")
    with client_namespace(cluster, name="bwki"), client_namespace(cluster, name="ml", restricted=True):
        yield


@pytest.fixture(scope="module", name="world")
def fixture_world(installed, tmp_path_factory):
    with prepared(installed, str(tmp_path_factory.mktemp("image"))):
        yield installed


@pytest.fixture(name="log")
def fixture_log(world):
    with product.servers(world, {"gpu-a": 2, "gpu-b": 1}), ClaimLog(world) as log:
        yield log


def objects(name):
    """The objects of an example, frugal."""
    with open(os.path.join(images.EXAMPLES, name), encoding="utf-8") as f:
        found = list(yaml.safe_load_all(f))
    for obj in found:
        spec = obj.get("spec", {})
        spec = spec.get("template", {}).get("spec", spec)
        for container in spec.get("containers", []):
            resources = container["resources"]
            if "cpu" in resources["limits"]:
                resources.setdefault("requests", {}).update({"cpu": "10m", "memory": "16Mi"})
    return found


def kubectl_create(cluster, found):
    cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(found, sort_keys=False))


def injected(pod, units):
    """The pod is injected, restricted to nothing but our resource, and scheduled; its uid."""
    assert pod["metadata"]["labels"]["poolgate.io/injected"] == "true"
    assert json.loads(pod["metadata"]["annotations"]["poolgate.io/plan"])["mode"] == "full"
    resources = pod["spec"]["containers"][0]["resources"]
    for part in ("limits", "requests"):
        assert {k: v for k, v in resources[part].items() if k.startswith("bitfusion.io/")} == {"bitfusion.io/gpu": str(units)}
    assert pod["spec"]["nodeName"] == "node-1"
    return pod["metadata"]["uid"]


def printed(cluster, pod):
    """What launcher and program have printed: (argv, argv, environment)."""
    text = cluster.pod_log(pod["metadata"]["name"], pod["metadata"]["namespace"], pod["spec"]["containers"][0]["name"])
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) == 2, text
    return lines[0]["launcher"], lines[1]["program"], lines[1]["env"]


def ended(cluster, log, pod):
    """The pod has succeeded, its claim was pending, bound and has ended with it."""
    uid = pod["metadata"]["uid"]
    pod = cluster.wait_pod(pod["metadata"]["name"], pod["metadata"]["namespace"], seconds=120)
    assert pod["status"]["phase"] == "Succeeded", cluster.describe("pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
    log.check_end(uid)
    assert log.states[uid][-1] == "bound", log.states[uid]
    return pod


def job_pods(cluster, job, count):
    """The pods of a Job in the order of their index, once all are there."""
    pods = wait_for(lambda: (lambda p: len(p) == count and p)(cluster.client.items("pods", "ml", labelSelector=f"job-name={job}")), 60,
                    lambda: f"{count} pods of job {job}\n{cluster.describe('job', job, 'ml')}")
    return sorted(pods, key=lambda p: p["metadata"]["labels"].get("batch.kubernetes.io/job-completion-index", ""))


def test_vgg19(world, log):
    """A command that is one string with blanks is a shell line; a hostPath; the oldest client."""
    pod, = objects("workload-1-vgg19.yaml")
    pod["spec"]["restartPolicy"] = "Never"
    kubectl_create(world, [pod])
    pod = ended(world, log, world.client.get("pods", "newtrain", "bwki"))
    injected(pod, 100)
    launcher, program, env = printed(world, pod)
    script = "python /home/workspace/training/train.py"
    assert launcher == [ROOT["ubuntu18"] + "/usr/bin/bitfusion", "run", "-n", "1", "-p", "1.000000", "--", "sh", "-c", script]
    assert program == script.split()
    assert env == {"LD_LIBRARY_PATH": libraries("ubuntu18")}


def test_mirrored(world, log):
    """Two distinct GPUs for one container of a Job, options in args."""
    world.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fashion-mnist"},
                         "data": {"estimator.py": "print()"}}, "ml")
    job, = objects("workload-2-mirrored.yaml")
    kubectl_create(world, [job])
    pod, = job_pods(world, "fashion-mnist", 1)
    uid = pod["metadata"]["uid"]
    log.wait(uid, "bound")
    assert len(log.held[uid]) == 2 and set(log.held[uid].values()) == {16 * 10 ** 9}, log.held[uid]
    pod = ended(world, log, pod)
    injected(pod, 200)
    launcher, program, env = printed(world, pod)
    words = "python /workspace/estimator.py --dataset fashion-mnist --strategy=mirrored --batch-size 512 --epochs 5".split()
    assert launcher == [ROOT["ubuntu20"] + "/usr/bin/bitfusion", "run", "-n", "2", "-p", "1.000000", "--", *words]
    assert program == words
    assert env == {"NUM_GPUS": "2", "LD_LIBRARY_PATH": libraries("ubuntu20")}
    world.kubectl("-n", "ml", "wait", "--for=condition=Complete", "job/fashion-mnist", "--timeout=30s")


@contextlib.contextmanager
def k80_and_disk(cluster):
    """What the notebook wants: a K80, and 100 GB that its volume claim finds without a storage class."""
    server = product.gpu_server("k80", 1, "11441Mi")
    server["spec"]["gpus"][0]["model"] = "Tesla K80"
    cluster.client.create(server)
    cluster.client.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "notebook"},
                           "spec": {"capacity": {"storage": "100G"}, "accessModes": ["ReadWriteOnce"],
                                    "hostPath": {"path": cluster.dir + "/notebook", "type": "DirectoryOrCreate"}}})
    try:
        yield
    finally:
        cluster.client.delete("persistentvolumes", "notebook")
        cluster.client.delete("deployments", "notebook", "ml")
        cluster.client.delete("gpuservers", "k80")


def test_notebook(world, log):
    """A Deployment on the one K80 that answers its probes until it is scaled down; $(VAR) in the arguments, one of them of a Secret."""
    world.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "notebook"}, "stringData": {"token": "a $(b) c"}}, "ml")
    with k80_and_disk(world):
        wait_for(lambda: world.client.get("gpuservers", "k80").get("status", {}).get("summary", {}).get("fit") == 1, 30, "the K80")
        kubectl_create(world, objects("workload-3-notebook.yaml"))
        world.kubectl("-n", "ml", "rollout", "status", "deployment/notebook", "--timeout=90s")
        pod, = world.client.items("pods", "ml", labelSelector="app=notebook")
        uid = injected(pod, 100)
        log.wait(uid, "bound")
        assert log.held[uid] == {("k80", "gpu-0"): 11441 * 2 ** 20}
        launcher, program, env = printed(world, pod)
        words = ["--ServerApp.base_url=/notebooks/transfer/", "--ServerApp.port=8888", "--IdentityProvider.token=a $(b) c"]
        assert launcher == [ROOT["ubuntu20"] + "/usr/bin/bitfusion", "run", "-n", "1", "-p", "1.000000", "--filter", "gpu.model=K80", "--",
                            "start-notebook.py", *words]
        assert program[1:] == words
        assert env == {"BASE_URL": "/notebooks/transfer/", "WEIGHTS": "gs://weights/vgg16.h5", "LD_LIBRARY_PATH": libraries("ubuntu20")}
        world.kubectl("-n", "ml", "scale", "deployment/notebook", "--replicas=0")
        log.check_end(uid, 90)


def test_mpi(world, log):
    """A gang of four, half a GPU each: rank 0 calls mpirun, the others wait for it as servers."""
    kubectl_create(world, objects("workload-4-mpi.yaml"))
    pods = [ended(world, log, pod) for pod in job_pods(world, "ranks", 4)]
    for rank, pod in enumerate(pods):
        injected(pod, 50)
        launcher, program, env = printed(world, pod)
        assert launcher == [ROOT["centos8"] + "/usr/bin/bitfusion", "run", "-n", "1", "-p", "0.500000", "--",
                            "/bin/sh", "-c", ". /training/start"]
        if rank == 0:
            assert program == "mpirun -n 4 --machinefile machinefile -x LD_LIBRARY_PATH python SchedulerWithoutTest.py".split()
        else:
            assert program == "/usr/sbin/sshd -De -p 2222".split()
        assert env == {"LD_LIBRARY_PATH": libraries("centos8")}
    world.kubectl("-n", "ml", "wait", "--for=condition=Complete", "job/ranks", "--timeout=30s")


def test_memory_share(world, log):
    """Asked for in bytes; a script of several lines; its own LD_LIBRARY_PATH stays behind ours, slash and all."""
    pod, = objects("workload-5-memory-share.yaml")
    script = pod["spec"]["containers"][0]["args"][0]
    assert script.count("\n") == 4
    kubectl_create(world, [pod])
    made = world.client.get("pods", "keras-share", "ml")
    uid = made["metadata"]["uid"]
    log.wait(uid, "bound")
    assert list(log.held[uid].values()) == [4 * 10 ** 9]
    made = ended(world, log, made)
    injected(made, 24)  # of 16160Mi
    launcher, program, env = printed(world, made)
    assert launcher == [ROOT["ubuntu20"] + "/usr/bin/bitfusion", "run", "-n", "1", "-m", "4000", "--", "python", "-c", script]
    assert program == ["python", "-c", script]
    assert env == {"CUDA_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": libraries("ubuntu20") + ":/usr/local/cuda/extras/CUPTI/lib64/"}
