# SPDX-License-Identifier: Apache-2.0
"""The device plugin under the real kubelet, on a node whose status nobody patches: units appear with the pool and go with it, the five
workloads are scheduled by them, and what can break comes back within ten seconds: the plugin, the kubelet, its folder, the API server.
The program runs as a process of this host, with the rights of the component's service account, and reaches the API server through the
tests' proxy; the DaemonSet runs its image."""
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import time

import pytest
import test_workloads as workloads
from cluster import ROOT, Cluster, free_port
from component import Component
from product import ClaimLog, client_namespace, gpu_pod, install, servers, wait_for

RESOURCE = "bitfusion.io/gpu"
SPACE = "poolgate-device-plugin"
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(os.environ.get("POOLGATE") or os.path.join(ROOT, "build/release/poolgate"))),
                       "poolgate-device-plugin")
IMAGE = os.environ.get("POOLGATE_DEVICE_IMAGE") or os.path.join(ROOT, "build/device-plugin-image/poolgate-device-plugin.oci.tar")
REGISTRY = "/var/lib/kubelet/plugins_registry"
# What the node may take, and what a slow machine may need to show it.
BACK_S, WAIT_S = 10, 60
RSS_MAX_KB = 6 * 1024


def number(quantity):
    """3k is 3000."""
    return int(quantity[:-1]) * 1000 if quantity.endswith("k") else int(quantity)


class Plugin:
    """poolgate-device-plugin as a process; `lines(text)` are the times (seconds since 1970) of its log's lines with this text."""

    def __init__(self, cluster, *options, name="device-plugin", socket="bitfusion.io-gpu.sock", away="60s"):
        self.cluster, self.port = cluster, free_port()
        self.socket = f"{cluster.dir}/kubelet/plugins_registry/{socket}"
        kubeconfig = cluster.account_kubeconfig(SPACE, "device-plugin", through_proxy=True)
        argv = [PROGRAM, "--socket", self.socket, "--kubeconfig", kubeconfig, "--status", f"127.0.0.1:{self.port}", "--away", away,
                *options]
        self.process = Component(name, argv, cluster.log_path(name), cluster.slot.journal, self.listened)
        self.started = None

    def start(self, wait=True):
        self.started = time.time()
        self.process.start(wait=wait)
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.process.stop()

    def get(self, path):
        """(status, text)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def listened(self):
        try:
            return self.get("/readyz") == (200, "ok\n")
        except OSError:
            return False

    def metric(self, name):
        status, text = self.get("/metrics")
        assert status == 200
        return int(re.search(rf"^poolgate_device_plugin_{name} (\d+)$", text, re.M).group(1))

    def lines(self, text):
        return [kube_time(line.split(" ", 1)[0]) for line in self.process.log().splitlines() if text in line]

    def heard_within(self, began, seconds=BACK_S):
        """A kubelet listens again: when that was, at most so many seconds after `began`."""
        wait_for(lambda: [t for t in self.lines("the kubelet listens ") if t > began], WAIT_S,
                 lambda: "a kubelet\n" + self.process.log()[-2000:])
        took = min(t for t in self.lines("the kubelet listens ") if t > began) - began
        assert took <= seconds, f"a kubelet listens after {took:.1f} s"
        return took

    def memory_kb(self, what="VmRSS"):
        return memory_kb(self.process.pid, what)

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            words = f.read().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def memory_kb(pid, what="VmRSS"):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(rf"^{what}:\s+(\d+) kB", f.read(), re.M).group(1))


def kube_time(text):
    """Seconds since 1970 of a time in the log."""
    base, fraction = text.rstrip("Z").split(".")
    return time.mktime(time.strptime(base, "%Y-%m-%dT%H:%M:%S")) - time.timezone + float("0." + fraction)


def offered(cluster):
    """(capacity, allocatable) of the node; None for what it does not name."""
    status = cluster.client.get("nodes", "node-1")["status"]
    return tuple(number(status[part][RESOURCE]) if RESOURCE in status[part] else None for part in ("capacity", "allocatable"))


def wait_offer(cluster, allocatable, seconds=WAIT_S):
    wait_for(lambda: offered(cluster)[1] == allocatable, seconds, lambda: f"{allocatable} {RESOURCE}: {offered(cluster)}")


def wait_all(cluster, plugin):
    """Everything that the plugin lists is there to be had."""
    wait_for(lambda: plugin.metric("healthy") == 1 and offered(cluster) == (plugin.metric("devices"),) * 2, WAIT_S,
             lambda: f"all devices: {offered(cluster)}")


def fit_daemons(cluster, obj, image):
    """The DaemonSet's image by the name that it has here, and the folder of this kubelet, which is not where kubelets have theirs."""
    if obj["kind"] == "DaemonSet":
        spec = obj["spec"]["template"]["spec"]
        spec["containers"][0]["image"] = image
        for part in ("containers", "volumes"):
            spec[part] = json.loads(json.dumps(spec[part]).replace(REGISTRY, f"{cluster.dir}/kubelet/plugins_registry"))


@pytest.fixture(scope="module", name="world")
def fixture_world(tmp_path_factory):
    """poolgate, the component's account, the workloads' images and namespaces, on a node that offers nothing by itself."""
    assert os.path.exists(PROGRAM), f"{PROGRAM} is missing: `make` builds it"
    with Cluster(name="device-plugin", units=False) as c:
        image = c.import_image(IMAGE)[0]
        install(c, "manifests/overlays/device-plugin", lambda obj: fit_daemons(c, obj, image))
        assert offered(c) == (None, None)
        with workloads.prepared(c, str(tmp_path_factory.mktemp("image"))):
            yield c


@pytest.fixture(scope="module", name="plugin")
def fixture_plugin(world):
    with Plugin(world) as plugin:
        yield plugin


@pytest.fixture(name="nobody")
def fixture_nobody(plugin):
    """No plugin during the test; afterwards there is one again."""
    plugin.process.stop()
    yield
    plugin.start()


@pytest.fixture(name="log")
def fixture_log(world):
    with servers(world, {"gpu-a": 2, "gpu-b": 1}), ClaimLog(world) as log:
        yield log


@pytest.fixture(name="ns")
def fixture_ns(world):
    with client_namespace(world) as name:
        yield name


def runs(cluster, ns, name, percent=10):
    """A pod that asks for GPUs is admitted, scheduled and started; the pod."""
    cluster.client.create(gpu_pod(name, percent=percent), ns)
    return cluster.wait_pod(name, ns, ("Running",), 90)


# ---- what it offers ----

def test_units_follow_the_pool(world, plugin):
    """No pool: registered, and nothing to give. A pool: ten devices for each of its units, 1000 at least. It drains: none."""
    wait_for(lambda: offered(world)[0] is not None, WAIT_S, "a kubelet that knows the resource")
    assert offered(world) == (1000, 0)
    with servers(world, {"gpu-a": 2, "gpu-b": 1}):
        wait_offer(world, 3000)
        assert offered(world) == (3000, 3000)
        assert plugin.metric("registered") == plugin.metric("healthy") == plugin.metric("streams") == 1
        world.client.patch("gpuservers", "gpu-a", {"spec": {"drain": True}})
        wait_for(lambda: plugin.metric("pool_units") == 100, WAIT_S, "a pool without gpu-a")
        assert offered(world) == (3000, 3000), "pods may hold units: their number does not shrink"
        world.client.patch("gpuservers", "gpu-b", {"spec": {"drain": True}})
        wait_offer(world, 0)
        assert offered(world) == (3000, 0)
        world.client.patch("gpuservers", "gpu-b", {"spec": {"drain": False}})
        wait_offer(world, 3000)
    wait_offer(world, 0)
    assert not plugin.process.log().count("error")


@pytest.mark.parametrize("test", [workloads.test_vgg19, workloads.test_mirrored, workloads.test_notebook, workloads.test_mpi,
                                  workloads.test_memory_share], ids=lambda t: t.__name__[5:])
def test_workload(world, plugin, log, test):
    """Scheduled by what the plugin offers, and what Allocate answers changes nothing of what the program gets."""
    wait_all(world, plugin)
    before = plugin.metric("allocated_total")
    test(world, log)
    assert plugin.metric("allocated_total") > before


def test_memory_and_idle(world, plugin):
    """After all that: 6 MB at most, and nothing done while nothing happens."""
    with servers(world, {"gpu-a": 2}):
        wait_all(world, plugin)
        before = plugin.cpu_s()
        time.sleep(10)
        used = plugin.cpu_s() - before
        rss, peak = plugin.memory_kb(), plugin.memory_kb("VmHWM")
        print(f"VmRSS {rss} kB, VmHWM {peak} kB, {used} s of CPU in 10 s")
        assert rss <= RSS_MAX_KB, f"{rss} kB"
        assert used <= 0.01, f"{used} s of CPU in 10 idle seconds"


# ---- what breaks ----

def test_plugin_is_killed(world, plugin, log, ns):
    """kill -9: what runs goes on; the next one is taken up at once, and pods start again."""
    wait_all(world, plugin)
    first = runs(world, ns, "before")
    plugin.process.kill()
    assert os.path.exists(plugin.socket)
    plugin.start()
    print(f"a kubelet listens {plugin.heard_within(plugin.started):.2f} s after the start")
    wait_all(world, plugin)
    runs(world, ns, "after")
    assert world.client.get("pods", "before", ns)["status"]["phase"] == "Running"
    assert not first["status"]["containerStatuses"][0]["restartCount"]


def test_kubelet_restarts(world, plugin, log, ns):
    """The new one finds the socket by itself; what runs keeps its units, and new pods get others."""
    wait_all(world, plugin)
    runs(world, ns, "before")
    for sig in (signal.SIGTERM, signal.SIGKILL):
        world.node.kubelet.stop(sig)
        wait_for(lambda: plugin.metric("streams") == 0, WAIT_S, "a plugin that nobody listens to")
        assert plugin.get("/readyz")[0] == 503 and plugin.get("/livez")[0] == 200
        began = time.time()
        world.node.kubelet.start(seconds=90)
        print(f"a kubelet listens {plugin.heard_within(began):.2f} s after its start")
    wait_all(world, plugin)
    runs(world, ns, "after")
    assert world.client.get("pods", "before", ns)["status"]["phase"] == "Running"


def test_socket_is_deleted(world, plugin, log):
    """Alone, and with everything else in the folder."""
    wait_all(world, plugin)
    for _ in range(2):
        began = time.time()
        os.unlink(plugin.socket)
        print(f"a kubelet listens {plugin.heard_within(began):.2f} s after the socket was deleted")
        wait_all(world, plugin)
    # The node may show the units of before until the kubelet has asked for them again.
    wait_for(lambda: plugin.metric("streams") == 1, WAIT_S, "a kubelet that listens")


@pytest.mark.usefixtures("nobody", "log")
def test_api_server_away(world):
    """Away for longer than --away: nothing is offered, and the program lives on; back by itself. A short break is none."""
    with Plugin(world, socket="away.sock", name="device-plugin-away", away="3s") as plugin:
        wait_for(lambda: plugin.metric("healthy") == 1, WAIT_S, "a pool")
        lists = plugin.metric("lists_total")
        world.proxy.cut()
        wait_for(lambda: plugin.metric("watch_breaks_total") == 1 and plugin.metric("pool_watched") == 1, WAIT_S, "a new watch")
        assert plugin.metric("lists_total") == lists and plugin.metric("pool_known") == 1
        with world.proxy.refusing():
            broke = wait_for(lambda: plugin.metric("watch_breaks_total") == 2 and time.time(), WAIT_S, "a broken watch")
            wait_for(lambda: plugin.metric("healthy") == 0, WAIT_S, "devices that are withdrawn")
            assert plugin.lines("the pool is not known")[-1] - broke > 2
            wait_offer(world, 0)
        wait_for(lambda: plugin.metric("healthy") == 1, WAIT_S, "devices")
        wait_all(world, plugin)


@pytest.mark.usefixtures("nobody", "log")
def test_sigterm_withdraws(world):
    """SIGTERM: the kubelet is told before the program ends, its socket is gone, and the status is 0."""
    plugin = Plugin(world, socket="ends.sock", name="device-plugin-ends").start()
    wait_all(world, plugin)
    began = time.monotonic()
    assert plugin.process.stop() == 0
    assert time.monotonic() - began < 5 and not os.path.exists(plugin.socket)
    wait_offer(world, 0)
    assert plugin.lines("no device is offered")


@pytest.mark.usefixtures("log")
def test_two_plugins(world, plugin):
    """The kubelet would take the later one, and none when that ends: the second says so and ends, whatever its socket is called."""
    wait_all(world, plugin)
    for socket in ("bitfusion.io-gpu.sock", "other.sock"):
        done = subprocess.run(Plugin(world, "--units", "5000", socket=socket).process.argv, capture_output=True, text=True, timeout=30,
                              check=False)
        assert done.returncode == 1 and "another device plugin offers bitfusion.io/gpu" in done.stderr, done
    assert plugin.metric("streams") == 1 and offered(world)[1] >= 3000


def test_large_pool(world, nobody):
    """200 GPUs, 20 000 units: as many devices as a message may hold; a pod gets its share, and the memory is given back."""
    del nobody
    with servers(world, {f"big-{i}": 50 for i in range(4)}), Plugin(world, socket="big.sock", name="device-plugin-big") as plugin, \
            client_namespace(world) as ns:
        wait_offer(world, 150000, 120)
        assert offered(world) == (150000, 150000)
        runs(world, ns, "small", 50)
        print(f"150 000 devices: VmRSS {plugin.memory_kb()} kB, VmHWM {plugin.memory_kb('VmHWM')} kB, {plugin.cpu_s()} s of CPU in all")


def test_pool_changes_each_second(world, nobody):
    """A pool that comes and goes: what the kubelet is told is bounded, and so is what it costs."""
    del nobody
    with servers(world, {"gpu-a": 1}), Plugin(world, socket="busy.sock", name="device-plugin-busy") as plugin:
        wait_offer(world, 1000)
        lists, cpu, began = plugin.metric("lists_total"), plugin.cpu_s(), time.monotonic()
        for i in range(50):
            world.client.patch("gpuservers", "gpu-a", {"spec": {"drain": i % 2 == 0}})
            time.sleep(0.2)
        took = time.monotonic() - began
        lists, cpu = plugin.metric("lists_total") - lists, plugin.cpu_s() - cpu
        print(f"{50 / took:.1f} changes a second for {took:.0f} s: {lists} lists, {cpu:.2f} s of CPU")
        assert 2 <= lists <= 2 * took + 2
        assert cpu < 0.02 * took + 0.1
        wait_offer(world, 1000)


# ---- the DaemonSet ----

def daemon(cluster):
    """The one pod of the DaemonSet that is not on its way out."""
    pods = [p for p in cluster.client.items("pods", SPACE) if not p["metadata"].get("deletionTimestamp")]
    return pods[0] if len(pods) == 1 else None


def daemon_is_ready(cluster):
    pod = daemon(cluster)
    return pod and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", [])) and pod


def daemon_pid(cluster):
    """Its process, as this host sees it."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
            argv = f.read().decode("utf-8", "replace").split("\0")
            if argv[0] == "/usr/bin/poolgate-device-plugin" and any(a.startswith(cluster.dir) for a in argv):
                return int(pid)
    return None


@pytest.mark.usefixtures("nobody", "log")
def test_daemon_set(world, ns):
    """The shipped image by the shipped manifest, on a node from when it has the label to when it has it no more: ready once the kubelet
    listens, back after kill -9 and after an update, and what runs goes on."""
    world.client.patch("nodes", "node-1", {"metadata": {"labels": {"poolgate.io/gpu-client": ""}}})
    try:
        wait_for(lambda: daemon_is_ready(world), 2 * WAIT_S, lambda: world.describe("pods", "", SPACE))
        wait_offer(world, 3000)
        runs(world, ns, "before")
        print(f"in its container: VmRSS {memory_kb(daemon_pid(world))} kB, VmHWM {memory_kb(daemon_pid(world), 'VmHWM')} kB")
        assert memory_kb(daemon_pid(world)) <= RSS_MAX_KB
        os.kill(daemon_pid(world), signal.SIGKILL)
        killed = time.time()
        name = daemon(world)["metadata"]["name"]
        wait_for(lambda: "the kubelet listens " in again(world, name), WAIT_S, lambda: again(world, name))
        line = next(x for x in again(world, name).splitlines() if "the kubelet listens " in x)
        took = kube_time(line.split(" ", 1)[0]) - killed
        print(f"a kubelet listens {took:.2f} s after kill -9")
        assert took <= BACK_S
        wait_for(lambda: daemon_is_ready(world), WAIT_S, "a pod that is ready again")
        wait_offer(world, 3000)
        world.kubectl("-n", SPACE, "rollout", "restart", "daemonset/device-plugin")
        world.kubectl("-n", SPACE, "rollout", "status", "daemonset/device-plugin", "--timeout=90s")
        assert daemon(world)["metadata"]["name"] != name
        wait_offer(world, 3000)
        runs(world, ns, "after")
        assert world.client.get("pods", "before", ns)["status"]["phase"] == "Running"
    finally:
        world.client.patch("nodes", "node-1", {"metadata": {"labels": {"poolgate.io/gpu-client": None}}})
    wait_for(lambda: not world.client.items("pods", SPACE), WAIT_S, "a node without the pod")
    wait_offer(world, 0)


def again(cluster, name):
    """The log of the container that was started after the first; "" before that."""
    pod = cluster.client.get("pods", name, SPACE)
    if not any(s["restartCount"] and "running" in s["state"] for s in pod["status"].get("containerStatuses", [])):
        return ""
    return cluster.pod_log(name, SPACE)
