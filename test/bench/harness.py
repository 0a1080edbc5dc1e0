# SPDX-License-Identifier: Apache-2.0
"""What the benches share: a server with a large pool, and a client that checks every answer."""
import base64
import http.client
import json
import os
import ssl
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "test"), os.path.dirname(os.path.abspath(__file__))]
sys.dont_write_bytecode = True

import payload  # noqa: E402
from lib import server as test_server  # noqa: E402


def new_server():
    """A server that is not started yet, with a pool in which every document finds room."""
    server = test_server.Server(start=False, env={"TOTAL_GPU_MEMORY": "16160"})
    with open(server.path("pool.yaml"), "w", encoding="ascii") as file:
        file.write(payload.pool_text())
    return server


def connect(port, timeout_s=120):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout_s, context=context)


def post_raw(connection, path, body):
    """The bytes of an answer that must be a 200."""
    connection.request("POST", path + "?timeout=30s", body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    data = reply.read()
    if reply.status != 200:
        raise SystemExit(f"{path} answered {reply.status}: {data[:300].decode('utf-8', 'replace')}")
    return data


def post(connection, path, body):
    """The `response` in it."""
    return json.loads(post_raw(connection, path, body))["response"]


def patches(connection, reviews):
    """The mutating hook's patch for each review."""
    found = []
    for review in reviews:
        response = post(connection, "/mutate", payload.go_json(review))
        if "patch" not in response:
            raise SystemExit(f"/mutate gave no patch: {json.dumps(response)[:500]}")
        found.append(json.loads(base64.b64decode(response["patch"])))
    return found
