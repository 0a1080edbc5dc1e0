# SPDX-License-Identifier: Apache-2.0
"""poolgate's replicas as processes of this host, for a cluster without nodes: tests stop, kill and count them one by one.

    with Cluster.light() as c, Replicas(c, 3) as r:
        r.kill(r.leader())                    # -9; r.restart(i) starts it again at the same address
        r.metrics(0)["poolgate_leader"]

The shipped manifests are applied as they are, but for the Deployment, which gets no pods. The processes have the shipped settings (changed
by `config`), the rights of the shipped service account, and are the endpoints of the shipped Service. Nobody takes one that does not
answer out of the endpoints, as a readiness probe would: use serve().
"""
import http.client
import json
import os
import signal

import yaml

from component import Component
from host import until
from product import ROOT, SYSTEM

LEASE = "poolgate-leader"
READY_S = 60


def program():
    """The program under test."""
    return os.path.join(ROOT, os.environ.get("POOLGATE") or "build/release/poolgate")


def _merge(into, changes):
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


class Replicas:
    """n of them, ready inside the block. config: changes to poolgate.yaml, such as {"log": {"level": "debug"}}. through_proxy: they reach
    the API server through cluster.proxy. `addresses` and `components` hold what each is; logs are poolgate-I.log in cluster.logs."""

    def __init__(self, cluster, n, config=None, through_proxy=False, path="manifests/base"):
        self.cluster, self.n, self.config, self.through_proxy, self.path = cluster, n, config or {}, through_proxy, path
        self.addresses, self.components = [], []

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for c in self.components:
            if c.alive():
                c.resume()
                c.send(signal.SIGTERM)
        for c in self.components:
            c.stop()

    def _start(self):
        objects = self.cluster.apply_kustomize(os.path.join(ROOT, self.path), change=self._no_pods)
        maps = {o["metadata"]["name"].rsplit("-", 1)[0]: o["data"] for o in objects if o["kind"] == "ConfigMap"}
        kubeconfig = self.cluster.account_kubeconfig(SYSTEM, "poolgate", self.through_proxy)
        for i in range(self.n):
            self.addresses.append(self.cluster.add_address())
            folder = self._settings(i, maps)
            argv = [program(), "serve", "--config", f"{folder}/poolgate.yaml", "--kubeconfig", kubeconfig]
            self.components.append(Component(f"poolgate-{i}", argv, self.cluster.log_path(f"poolgate-{i}"), self.cluster.slot.journal,
                                             lambda i=i: self.ready(i), {"POD_NAME": f"poolgate-{i}"}))
        for c in self.components:
            c.start(wait=False)
        self.serve(*range(self.n))
        self.wait_ready()
        until(self._published, READY_S, "a caBundle in every hook")

    @staticmethod
    def _no_pods(obj):
        if obj["kind"] == "Deployment":
            obj["spec"]["replicas"] = 0

    def _settings(self, i, maps):
        """A folder as the Deployment's volumes make it."""
        folder = f"{self.cluster.dir}/poolgate-{i}"
        os.makedirs(folder + "/launchers", exist_ok=True)
        config = yaml.safe_load(maps["poolgate-config"]["poolgate.yaml"])
        _merge(config, {"listen": self.addresses[i] + ":8443", "listenPlain": self.addresses[i] + ":8080", "listenAdmin": self.addresses[i] + ":8081",
                        "launchers": ["launchers"], "drainDelay": "0s"})
        if config["cluster"]["usage"]["listen"] != "off":
            config["cluster"]["usage"]["listen"] = self.addresses[i] + ":8444"
        _merge(config, self.config)
        files = {**maps["poolgate-client"], "poolgate.yaml": yaml.safe_dump(config),
                 **{"launchers/" + name: text for name, text in maps["poolgate-launchers"].items()}}
        for name, text in files.items():
            with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
                f.write(text)
        return folder

    def _published(self):
        return all(h["clientConfig"].get("caBundle") for kind in ("mutating", "validating")
                   for h in self.cluster.client.get(f"{kind}webhookconfigurations", "poolgate")["webhooks"])

    # ---- one replica ----

    def kill(self, i, sig=signal.SIGKILL):
        """Send the signal at once, and wait for its end."""
        self.components[i].stop(sig)

    def stop(self, i):
        """SIGSTOP: it neither answers nor closes its connections, until cont(i)."""
        self.components[i].pause()

    def cont(self, i):
        self.components[i].resume()

    def restart(self, i, sig=signal.SIGTERM, wait=True):
        """End it, if it runs, and start it again; wait: until it is ready."""
        self.components[i].restart(sig, wait=wait)

    def serve(self, *which):
        """The Service's endpoints are these replicas."""
        self.cluster.host_service("poolgate", SYSTEM, [(self.addresses[i], 8443) for i in which])

    def leader(self):
        """Who holds the Lease, by its number; None: nobody, or one that is not ours."""
        lease = self.cluster.client.find("leases.coordination.k8s.io", LEASE, SYSTEM)
        holder = (lease or {}).get("spec", {}).get("holderIdentity") or ""
        names = [c.name for c in self.components]
        return names.index(holder.rpartition("_")[0]) if holder.rpartition("_")[0] in names else None

    def wait_leader(self, other_than=None, seconds=60):
        """Until one that runs leads, other than this one; its number."""
        def check():
            i = self.leader()
            return i if i is not None and i != other_than and self.components[i].alive() else None

        return until(lambda: [i] if (i := check()) is not None else None, seconds, "a leader")[0]

    def wait_ready(self):
        """Until all of them are ready; none may have ended."""
        for c in self.components:
            c.wait_ready(READY_S)

    def ready(self, i):
        try:
            return self._get(i, "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def metrics(self, i):
        """What it counts: "name" or 'name{label="x"}' -> value."""
        lines = [line.rpartition(" ") for line in self._get(i, "/metrics")[1].splitlines() if line and line[0] != "#"]
        return {name: float(value) for name, _, value in lines}

    def pool(self, i):
        """What its page draws of the pool."""
        status, text = self._get(i, "/v1/pool?servers=1&claims=1", 8081)
        assert status == 200, text
        return json.loads(text)

    def _get(self, i, path, port=8080):
        connection = http.client.HTTPConnection(self.addresses[i], port, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()
