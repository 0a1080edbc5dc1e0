# SPDX-License-Identifier: Apache-2.0
"""An API server of a few objects, for subcommands that read a cluster."""
import contextlib
import http.server
import json
import os
import threading

import yaml

from lib.server import ROOT

NOT_FOUND = {"kind": "Status", "reason": "NotFound", "code": 404}
FORBIDDEN = {"kind": "Status", "reason": "Forbidden", "message": "may not", "code": 403}


@contextlib.contextmanager
def served(answer, folder):
    """Answers each GET with what answer(path) returns: an object, a Status with its code, or None. Yields the kubeconfig that names it."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # noqa: N802
            said = answer(self.path) or {**NOT_FOUND, "message": self.path.rpartition("/")[2] + " not found"}
            body = json.dumps(said).encode()
            self.send_response(said["code"] if said.get("kind") == "Status" else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps({
        "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}]}))
    try:
        yield str(kubeconfig)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


DEPLOYMENT = "/apis/apps/v1/namespaces/poolgate-system/deployments/poolgate"
MAPS = "/api/v1/namespaces/poolgate-system/configmaps/"


def read(path):
    with open(os.path.join(ROOT, "manifests", path), encoding="utf-8") as f:
        return f.read()


def the_cluster():
    """What the base installs, with settings by flag and environment on top."""
    pod = yaml.safe_load(read("base/deployment.yaml"))["spec"]["template"]["spec"]
    pod["containers"][0]["args"] += ["--node-resource=false", "--listen", ":9443"]
    pod["containers"][0]["env"].append({"name": "TOTAL_GPU_MEMORY", "value": "8000M"})
    config = read("base/config/poolgate.yaml").replace("totalGpuMemory: 16160Mi", "")
    sidecar = read("examples/sidecar.yaml").replace("images.invalid", "images.example")
    profiles = {name: read(f"examples/launchers/{name}") for name in os.listdir(os.path.join(ROOT, "manifests/examples/launchers"))}
    return {DEPLOYMENT: {"spec": {"template": {"spec": pod}}}, MAPS + "poolgate-config": {"data": {"poolgate.yaml": config}},
            MAPS + "poolgate-client": {"data": {"catalogue.yaml": read("examples/catalogue.yaml"), "sidecar.yaml": sidecar}},
            MAPS + "poolgate-launchers": {"data": profiles}}
