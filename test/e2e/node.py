# SPDX-License-Identifier: Apache-2.0
"""The node of a full cluster: containerd, a CNI bridge and a kubelet, all with folders, names and a cgroup of their own."""
import glob
import json
import os
import threading

import host
import images
from component import Component
from host import until

NAME = "node-1"
GPU_UNITS = "1000"
# What a kubelet remembers of device plugins; every kubelet of this machine has it there, whatever its root is.
DEVICES = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"

CONTAINERD = """version = 2
root = "{dir}/containerd/root"
state = "{dir}/containerd/state"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{dir}/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Without CAP_SYS_RESOURCE the kernel refuses the score that the CRI asks for, and no container starts.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_bin}"
    conf_dir = "{dir}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = "{dir}/runc"
"""


class Node:
    """cluster.node; node.containerd and node.kubelet are components."""

    def __init__(self, cluster):
        self.cluster, self.dir, self.journal = cluster, cluster.dir, cluster.slot.journal
        self.bridge = f"pge2e{cluster.slot.number}"
        self.cgroup = f"poolgate-e2e-{cluster.slot.number}"
        self.subnet = f"10.244.{cluster.slot.number}.0/24"
        self.gateway = f"10.244.{cluster.slot.number}.1"
        self.ended = threading.Event()
        self.socket = f"{self.dir}/containerd.sock"
        self.containerd = Component("containerd", ["containerd", "--config", f"{self.dir}/containerd.toml"],
                                    cluster.log_path("containerd"), self.journal,
                                    lambda: self.ctr("version", check=False) and os.path.exists(self.socket))
        self.kubelet = Component("kubelet", self.kubelet_argv, cluster.log_path("kubelet"), self.journal, self._kubelet_ready)

    # ---- containerd ----

    def ctr(self, *args, check=True):
        return host.run("ctr", "--address", self.socket, "-n", "k8s.io", *args, check=check)

    def write_containerd(self):
        os.makedirs(f"{self.dir}/cni", exist_ok=True)
        cni_bin = next((p for p in ("/usr/lib/cni", "/opt/cni/bin") if os.path.exists(p + "/bridge")), "/usr/lib/cni")
        with open(f"{self.dir}/containerd.toml", "w", encoding="utf-8") as f:
            f.write(CONTAINERD.format(dir=self.dir, socket=self.socket, pause=images.PAUSE, cni_bin=cni_bin))
        # No masquerading: pods talk to each other and to this host alone, and no rule of a firewall is made.
        conf = {"cniVersion": "0.4.0", "name": self.bridge, "plugins": [{
            "type": "bridge", "bridge": self.bridge, "isGateway": True, "ipMasq": False, "hairpinMode": True,
            "ipam": {"type": "host-local", "dataDir": f"{self.dir}/cni-addresses", "ranges": [[{"subnet": self.subnet}]],
                     "routes": [{"dst": "0.0.0.0/0"}]}}]}
        with open(f"{self.dir}/cni/10-e2e.conflist", "w", encoding="utf-8") as f:
            json.dump(conf, f)

    def import_image(self, tar, name=None):
        """Import a docker or OCI archive; `name` is given to its image besides the names that it has. Returns its names."""
        def load(*options):
            said = self.ctr("images", "import", "--all-platforms", *options, tar)
            return [line.split()[1] for line in said.splitlines() if line.startswith("unpacking ")]

        # An OCI archive need not say a name: then it is called by its digest.
        names = load() or load("--digests", "--base-name", "localhost/nameless")
        assert names, f"{tar} holds no image"
        if name and name not in names:
            self.ctr("images", "tag", "--force", names[0], name)
            names.append(name)
        return names

    # ---- kubelet ----

    def kubelet_argv(self):
        return [self.cluster.program("kubelet"), "--config", f"{self.dir}/kubelet.json", "--kubeconfig",
                self.cluster.kubeconfig("kubelet"), "--root-dir", f"{self.dir}/kubelet", "--cert-dir", f"{self.dir}/kubelet/pki",
                "--hostname-override", NAME, "--node-ip", self.cluster.address, "--v", "2"]

    def write_kubelet(self):
        with open(f"{self.dir}/resolv.conf", "w", encoding="utf-8") as f:
            f.write("search invalid\n")
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": self.cluster.address, "port": 10250, "readOnlyPort": 0, "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}, "x509": {}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs", "failCgroupV1": False, "failSwapOn": False, "makeIPTablesUtilChains": False,
            "containerRuntimeEndpoint": f"unix://{self.socket}", "podLogsDir": f"{self.dir}/pods",
            "volumePluginDir": f"{self.dir}/volume-plugins", "resolvConf": f"{self.dir}/resolv.conf",
            "staticPodPath": "", "maxPods": 240, "kubeAPIQPS": 200, "kubeAPIBurst": 400, "eventRecordQPS": 0,
            "nodeStatusUpdateFrequency": "5s", "syncFrequency": "10s", "volumeStatsAggPeriod": "0s",
            # A full disk of the machine is not what is tested; images cannot be pulled again.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%",
                             "imagefs.available": "1%"},
        }
        if not host.cgroup_is_v2():
            config["cgroupRoot"] = "/" + self.cgroup
        with open(f"{self.dir}/kubelet.json", "w", encoding="utf-8") as f:
            json.dump(config, f)

    def _kubelet_ready(self):
        node = self.cluster.client.find("nodes", NAME)
        if not node:
            return False
        # The node-lifecycle controller, which would take it away, is off.
        if node["spec"].get("taints"):
            self.cluster.client.patch("nodes", NAME, {"spec": {"taints": None}})
        conditions = {c["type"]: c["status"] for c in node["status"].get("conditions", [])}
        return conditions.get("Ready") == "True"

    def offer(self, resource="bitfusion.io/gpu", amount=GPU_UNITS):
        """Make the node offer so much of an extended resource, as a device plugin would; None takes it away."""
        node = self.cluster.client.patch("nodes", NAME, {"status": {"capacity": {resource: amount}, "allocatable": {resource: amount}}},
                                         subresource="status")
        written = node["status"]["capacity"].get(resource)  # 1000 is written as 1k
        until(lambda: self.cluster.client.get("nodes", NAME)["status"]["allocatable"].get(resource) == written, 20,
              f"{amount} {resource} on the node")

    # ---- both ----

    def _keep_logs(self):
        """The kubelet removes the logs of a deleted pod: a second link to each keeps them for collect_logs()."""
        while not self.ended.wait(0.25):
            for path in glob.glob(f"{self.dir}/pods/*/*/*.log"):
                kept = path.replace(f"{self.dir}/pods/", f"{self.dir}/kept/", 1)
                try:
                    if not os.path.exists(kept):
                        os.makedirs(os.path.dirname(kept), exist_ok=True)
                        os.link(path, kept)
                except OSError:  # the pod has just gone, or the cluster
                    pass

    def prepare(self):
        """Everything before the API server is there: folders, containerd, images."""
        add = self.journal.add
        with open("/proc/sys/net/ipv4/ip_forward", encoding="utf-8") as f:
            if f.read().strip() == "0":  # the bridge plugin sets it
                add("sysctl", "/proc/sys/net/ipv4/ip_forward", "0")
        for path in ("/var/lib/kubelet", "/var/lib/cni", "/run/containerd", "/run/netns", "/var/log/containers",
                     "/usr/libexec/kubernetes"):
            if not os.path.exists(path):  # made by programs that do not ask where
                add("made", path)
        add("file", DEVICES)
        add("cni", self.bridge)
        add("link", self.bridge)
        add("cgroup", self.cgroup)
        host.make_cgroup(self.cgroup)
        self.write_containerd()
        self.containerd.start()
        work = f"{self.dir}/images"
        os.makedirs(work)
        for tar in (images.pause(work), images.busybox(work), images.client(work)):
            self.import_image(tar)

    def start(self):
        self.write_kubelet()
        host.run("rm", "-f", DEVICES)  # else it would zero what another run's plugin offered
        self.kubelet.start(seconds=90)
        threading.Thread(target=self._keep_logs, name="keep logs", daemon=True).start()
        if self.cluster.with_units:
            self.offer()
