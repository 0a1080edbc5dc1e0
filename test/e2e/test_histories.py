# SPDX-License-Identifier: Apache-2.0
"""The recorded answers of an API server by which the simulator's model is judged (test/sim/faithful) are those of the real one.
RECORD=1 writes them anew."""
import base64
import http.client
import json
import os
import sys

import cluster as clusters

HISTORIES = os.path.join(clusters.ROOT, "test/sim/histories")
sys.path[:0] = [p for p in (os.path.dirname(HISTORIES),) if p not in sys.path]

import edges  # noqa: E402
import histories  # noqa: E402


def forget(token):
    """The token of a list of before all that etcd has kept: the API server's own cache goes on with any other one."""
    token = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return base64.urlsafe_b64encode(json.dumps({**token, "rv": 1}).encode()).decode().rstrip("=")


def compact(api):
    """etcd forgets what was before now, as the API server tells it to every five minutes."""
    port = int(next(a for a in api.apiserver.argv if a.startswith("--etcd-servers=")).rsplit(":", 1)[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def ask(path, body):
        connection.request("POST", path, json.dumps(body))
        return json.loads(connection.getresponse().read())

    revision = ask("/v3/kv/range", {"key": "YQ=="})["header"]["revision"]
    ask("/v3/kv/compaction", {"revision": revision, "physical": True})
    connection.close()


def test_edges(api):
    def ask(method, path, body, content_type):
        code, _, data = api.client.request(method, path, body, content_type)
        return code, data.decode()

    crd = os.path.join(clusters.ROOT, "manifests/base/crd.yaml")
    api.kubectl("apply", "--server-side", "-f", crd)
    api.kubectl("wait", "--for=condition=established", "crd/gpuservers.poolgate.io")
    try:
        with api.namespace(edges.NAMESPACE):
            compact(api)
            found = histories.comparable(edges.play(ask, forget))
    finally:
        api.kubectl("delete", "crd", "gpuservers.poolgate.io")
    path = os.path.join(HISTORIES, "edges.jsonl")
    if os.environ.get("RECORD"):
        histories.write(path, found)
    assert found == histories.read(path)
