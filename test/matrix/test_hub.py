# SPDX-License-Identifier: Apache-2.0
"""A real JupyterHub whose KubeSpawner makes users' pods, with the settings that docs/compatibility.md tells its operator to write. Its proxy,
a program of Node.js, is left out, and the notebook in the pod is played: a server that answers."""
import os
import re
import sys
import urllib.error
import urllib.request

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [p for p in (HERE, os.path.join(ROOT, "test/e2e")) if p not in sys.path]

import controllers  # noqa: E402
import images  # noqa: E402
from cluster import free_port  # noqa: E402
from component import Component  # noqa: E402
from product import ClaimLog, wait_for  # noqa: E402

NOTEBOOK = "localhost/notebook:matrix"
SETTINGS = """
from jupyterhub.proxy import Proxy

class NoProxy(Proxy):
    should_start = False
    async def get_all_routes(self): return {{}}
    async def add_route(self, routespec, target, data): pass
    async def delete_route(self, routespec): pass

def as_shipped(spawner):
    if spawner.user.name == "shipped":
        spawner.cmd, spawner.extra_container_config = ["jupyterhub-singleuser"], {{}}

c.JupyterHub.proxy_class = NoProxy
c.JupyterHub.spawner_class = "kubespawner.KubeSpawner"
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.services = [{{"name": "test", "api_token": "only-for-this-test"}}]
c.JupyterHub.load_roles = [{{"name": "test", "services": ["test"], "scopes": ["admin:users", "admin:servers"]}}]
c.Spawner.pre_spawn_hook = as_shipped
c.KubeSpawner.namespace = "{namespace}"
c.KubeSpawner.image = "{image}"
c.KubeSpawner.image_pull_policy = "Never"
c.KubeSpawner.port = 8888
c.KubeSpawner.delete_grace_period = 1
"""


class Hub(Component):
    """JupyterHub as a process of this host."""

    def __init__(self, cluster, namespace):
        folder = os.path.join(cluster.dir, "hub")
        os.makedirs(folder)
        self.url = f"http://127.0.0.1:{free_port()}"
        with open(os.path.join(ROOT, "docs/compatibility.md"), encoding="utf-8") as f:
            documented = re.search(r"```python\n(c\.KubeSpawner.*?)```", f.read(), re.S).group(1)
        with open(os.path.join(folder, "jupyterhub_config.py"), "w", encoding="utf-8") as f:
            f.write(SETTINGS.format(public=free_port(), port=self.url.rpartition(":")[2], namespace=namespace, image=NOTEBOOK) + documented)
        super().__init__("jupyterhub", [os.path.join(controllers.BUILT["kubespawner"], "bin/jupyterhub")], cluster.log_path("jupyterhub"),
                         cluster.slot.journal, lambda: self.call("GET", "/")[0] == 200, {"KUBECONFIG": cluster.kubeconfig()}, folder)

    def call(self, method, path):
        """(status, text); status 0: nobody listens."""
        request = urllib.request.Request(f"{self.url}/hub/api{path}", method=method, headers={"Authorization": "token only-for-this-test"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except OSError as e:
            return 0, str(e)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


@pytest.mark.skipif("kubespawner" not in controllers.BUILT, reason="kubespawner is not built: make matrix builds it")
def test_kubespawner(pool, ns, tmp_path):
    """A user's pod that says its command is wrapped, runs, and its claim ends with the server that he stops. As shipped, KubeSpawner gives
    `args` alone, which is refused with what to write."""
    script = '#!/bin/sh\nprint-argv "$@"\nexec httpd -f -p 8888 -h /tmp\n'
    pool.import_image(images.workload(str(tmp_path), [NOTEBOOK], (), scripts={"/usr/local/bin/jupyterhub-singleuser": script}))
    with ClaimLog(pool, ns) as log, Hub(pool, ns) as hub:
        for user in ("shipped", "alice"):
            assert hub.call("POST", "/users/" + user)[0] == 201
        status, text = hub.call("POST", "/users/shipped/servers/")
        assert status == 500 and "ENTRYPOINT here as command and keep args" in hub.log(), (status, text, hub.log()[-3000:])
        assert not pool.client.items("pods", ns)
        status, text = hub.call("POST", "/users/alice/servers/")
        assert status in (201, 202), (status, text)
        wait_for(lambda: '"ready": true' in hub.call("GET", "/users/alice")[1], 90, lambda: f"alice's server\n{hub.log()[-3000:]}")
        pod, = pool.client.items("pods", ns)
        main = pod["spec"]["containers"][0]
        assert main["command"][0].endswith("/bitfusion") and main["command"][-2:] == ["--", "jupyterhub-singleuser"], main["command"]
        assert main["resources"]["limits"]["bitfusion.io/gpu"] == "50", main["resources"]
        log.wait(pod["metadata"]["uid"], "bound")
        assert hub.call("DELETE", "/users/alice/server")[0] in (202, 204)
        log.check_end(pod["metadata"]["uid"])
