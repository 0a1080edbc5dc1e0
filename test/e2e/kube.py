# SPDX-License-Identifier: Apache-2.0
"""A small client of the Kubernetes API on Python's own library: one connection a thread, a tenth of kubectl's time.

    api.create({"apiVersion": "v1", "kind": "Pod", ...}, namespace="ml")
    api.get("pods", "a", "ml"); api.items("gpuservers"); api.delete("pods", "a", "ml", grace=0)
    for kind, obj in api.watch("pods", "ml", seconds=10): ...

A resource is named by its plural, its kind or a short name ("po"), with its group where that is needed ("leases.coordination.k8s.io").
"""
import http.client
import json
import select
import socket
import ssl
import threading
import time
import urllib.parse

PATCHES = {"merge": "application/merge-patch+json", "json": "application/json-patch+json",
           "strategic": "application/strategic-merge-patch+json", "apply": "application/apply-patch+yaml"}
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class ApiError(Exception):
    """The API server said no: status (number), reason, message, body (the Status object, or text)."""

    def __init__(self, method, path, status, body):
        self.status, self.body = status, body
        self.reason = body.get("reason", "") if isinstance(body, dict) else ""
        self.message = body.get("message", "") if isinstance(body, dict) else str(body)
        super().__init__(f"{method} {path}: {status} {self.reason}: {self.message}")


class Unreachable(Exception):
    """No answer: whether the API server did it is not known."""


class Discovery:
    """What the API server serves; shared by the clients of one cluster."""

    def __init__(self):
        self.found = []
        self.lock = threading.Lock()

    def load(self, client):
        found = []
        for root in ("/api", "/apis"):
            answer = client.call("GET", root, accept=DISCOVERY)
            for group in answer["items"]:
                name = group["metadata"].get("name", "")
                for version in group["versions"]:
                    prefix = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
                    for r in version.get("resources", []):
                        found.append({"prefix": prefix, "group": name, "version": version["version"], "plural": r["resource"],
                                      "kind": r["responseKind"]["kind"], "namespaced": r["scope"] == "Namespaced",
                                      "verbs": r.get("verbs", []), "names": {r["resource"], r["responseKind"]["kind"], r.get("singularResource"),
                                                *r.get("shortNames", [])}})
        self.found = found

    def _find(self, name, group, version):
        for r in self.found:
            if name in r["names"] and group in (None, r["group"]) and version in (None, r["version"]):
                return r
        return None

    def find(self, client, name, group=None, version=None):
        if group is None and "." in name:
            name, group = name.split(".", 1)
        for attempt in (0, 1):
            r = self._find(name, group, version)
            if r:
                return r
            if attempt == 0:
                with self.lock:
                    self.load(client)
        raise KeyError(f"the API server has no resource {name}" + (f" in {group}" if group else ""))


class Client:
    """Thread-safe. `user` names it in errors only; the token says who it is."""

    def __init__(self, host, port, cafile, token=None, discovery=None, timeout=40, user_agent="e2e"):
        self.host, self.port, self.token, self.timeout = host, port, token, timeout
        self.context = ssl.create_default_context(cafile=cafile)
        self.discovery = discovery or Discovery()
        self.user_agent = user_agent
        self.local = threading.local()

    # ---- bytes ----

    def connect(self, timeout=None):
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=timeout or self.timeout, context=self.context)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _connection(self):
        connection = getattr(self.local, "connection", None)
        # An idle connection that has something to read was closed by the other side.
        if connection and (not connection.sock or select.select([connection.sock], [], [], 0)[0]):
            self.close()
            connection = None
        if not connection:
            connection = self.local.connection = self.connect()
        return connection

    def close(self):
        """Close this thread's connection."""
        connection = getattr(self.local, "connection", None)
        if connection:
            connection.close()
        self.local.connection = None

    def headers(self, accept="application/json", content_type=None):
        headers = {"Accept": accept, "User-Agent": self.user_agent}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        if content_type:
            headers["Content-Type"] = content_type
        return headers

    def request(self, method, path, body=None, content_type="application/json", accept="application/json"):
        """(status, headers, bytes); body is bytes or is made JSON. Raises Unreachable."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body, separators=(",", ":")).encode()
        try:
            connection = self._connection()
            connection.request(method, path, body, self.headers(accept, content_type if body is not None else None))
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as e:
            self.close()
            raise Unreachable(f"{method} {path}: {e!r}") from e
        if response.will_close:
            self.close()
        self.local.warnings = [w.split('"', 1)[1].rstrip('"').replace('\\"', '"') if '"' in w else w
                               for w in response.headers.get_all("Warning", [])]
        return response.status, response.headers, data

    @property
    def warnings(self):
        """The warnings of this thread's last answer."""
        return getattr(self.local, "warnings", [])

    def call(self, method, path, body=None, content_type="application/json", accept="application/json", params=None):
        """The answer as an object (or text). Raises ApiError for a status of 400 and more; a GET that comes too early or among
        too many is repeated for 5 s."""
        params = {k: v for k, v in (params or {}).items() if v is not None}
        if params:
            path += "?" + urllib.parse.urlencode(params)
        for _ in range(20):
            status, headers, data = self.request(method, path, body, content_type, accept)
            if status != 429 or method != "GET":
                break
            time.sleep(0.25)
        text = data.decode("utf-8", "replace")
        answer = json.loads(text) if "json" in headers.get("Content-Type", "") and text else text
        if status >= 400:
            raise ApiError(method, path, status, answer)
        return answer

    # ---- objects ----

    def path(self, resource, namespace=None, name=None, subresource=None, group=None, version=None):
        r = self.discovery.find(self, resource, group, version)
        path = r["prefix"]
        if r["namespaced"] and namespace:
            path += "/namespaces/" + namespace
        path += "/" + r["plural"]
        for part in (name, subresource):
            if part:
                path += "/" + part
        return path

    def path_of(self, obj, namespace=None, name=None, subresource=None):
        group, _, version = obj["apiVersion"].rpartition("/")
        return self.path(obj["kind"], namespace or obj["metadata"].get("namespace"), name, subresource, group, version)

    def get(self, resource, name, namespace=None, subresource=None):
        return self.call("GET", self.path(resource, namespace, name, subresource))

    def find(self, resource, name, namespace=None):
        """get, or None when there is none."""
        try:
            return self.get(resource, name, namespace)
        except ApiError as e:
            if e.status != 404:
                raise
            return None

    def list(self, resource, namespace=None, **params):
        """The whole list object; params such as labelSelector, limit, resourceVersion."""
        return self.call("GET", self.path(resource, namespace), params=params)

    def items(self, resource, namespace=None, **params):
        return self.list(resource, namespace, **params)["items"]

    def create(self, obj, namespace=None, dry_run=False, subresource=None, name=None):
        params = {"dryRun": "All"} if dry_run else {}
        return self.call("POST", self.path_of(obj, namespace, name, subresource), obj, params=params)

    def replace(self, obj, subresource=None, dry_run=False):
        return self.call("PUT", self.path_of(obj, None, obj["metadata"]["name"], subresource), obj,
                         params={"dryRun": "All"} if dry_run else {})

    def patch(self, resource, name, patch, namespace=None, kind="merge", subresource=None, dry_run=False):
        """kind: merge, json, strategic, apply."""
        params = {"fieldManager": "e2e", "force": "true" if kind == "apply" else None, "dryRun": "All" if dry_run else None}
        return self.call("PATCH", self.path(resource, namespace, name, subresource), patch, PATCHES[kind], params=params)

    def apply(self, obj, namespace=None, manager="e2e", dry_run=False):
        """Server-side apply."""
        params = {"fieldManager": manager, "force": "true", "dryRun": "All" if dry_run else None}
        return self.call("PATCH", self.path_of(obj, namespace, obj["metadata"]["name"]), obj, PATCHES["apply"], params=params)

    def delete(self, resource, name, namespace=None, grace=None, propagation=None, missing_ok=True):
        body = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        if propagation:
            body["propagationPolicy"] = propagation
        try:
            return self.call("DELETE", self.path(resource, namespace, name), body)
        except ApiError as e:
            if e.status != 404 or not missing_ok:
                raise
            return None

    def delete_all(self, resource, namespace=None, selector=None, grace=None):
        body = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        return self.call("DELETE", self.path(resource, namespace), body, params={"labelSelector": selector})

    def allowed(self, verb, resource, namespace=None, user=None, groups=None, group="", subresource=None, name=None):
        """What a SubjectAccessReview says: may the user do it?"""
        attributes = {"verb": verb, "resource": resource, "group": group, "namespace": namespace or "",
                      "subresource": subresource or "", "name": name or ""}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
                  "spec": {"user": user, "groups": groups or [], "resourceAttributes": attributes}}
        return self.create(review)["status"]["allowed"]

    # ---- watch ----

    def watch(self, resource, namespace=None, resource_version=None, seconds=60, bookmarks=False, opened=None, **params):
        """Yield (type, object) until the API server ends the watch after `seconds`; on a connection of its own. `opened` is called
        with that connection. Ends silently when the connection breaks: whoever wants to go on resumes from the last version."""
        query = {"watch": "true", "timeoutSeconds": max(1, int(seconds)), "resourceVersion": resource_version,
                 "allowWatchBookmarks": "true" if bookmarks else None, **params}
        path = self.path(resource, namespace) + "?" + urllib.parse.urlencode({k: v for k, v in query.items() if v is not None})
        try:
            connection = self.connect(seconds + 10)
        except OSError as e:
            raise Unreachable(f"watch {path}: {e!r}") from e
        try:
            if opened:
                opened(connection)
            connection.request("GET", path, headers=self.headers())
            response = connection.getresponse()
            if response.status != 200:
                data = response.read()
                raise ApiError("WATCH", path, response.status, json.loads(data) if data[:1] == b"{" else data.decode())
            while True:
                line = response.readline()
                if not line.endswith(b"\n"):
                    return
                event = json.loads(line)
                yield event["type"], event["object"]
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            return  # AttributeError: closed by another thread while reading
        finally:
            connection.close()


class Observer:
    """A thread that sees every version of every object of a resource, across broken connections and restarts of the API server:
    `events` holds (monotonic seconds, type, object), `latest` the living objects by (namespace, name). on_event(type, object)
    is called in the thread; what it raises is kept in `errors` and raised by stop(). `relists` counts the times when
    versions may have been missed."""

    def __init__(self, client, resource, namespace=None, on_event=None, **params):
        self.client, self.resource, self.namespace, self.params = client, resource, namespace, params
        self.on_event = on_event
        self.events, self.latest, self.errors, self.relists = [], {}, [], -1
        self.changed = threading.Condition()
        self.connection = None
        self.stopping = False
        self.synced = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"observe {resource}", daemon=True)

    def start(self, seconds=30):
        self.thread.start()
        assert self.synced.wait(seconds), f"no list of {self.resource} within {seconds} s"
        return self

    def _record(self, kind, obj):
        key = (obj["metadata"].get("namespace"), obj["metadata"]["name"])
        with self.changed:
            self.events.append((time.monotonic(), kind, obj))
            if kind == "DELETED":
                self.latest.pop(key, None)
            else:
                self.latest[key] = obj
            self.changed.notify_all()
        if self.on_event:
            try:
                self.on_event(kind, obj)
            except Exception as e:  # pylint: disable=broad-except
                self.errors.append(e)

    def _relist(self):
        listed = self.client.list(self.resource, self.namespace, **self.params)
        self.relists += 1
        found = {(o["metadata"].get("namespace"), o["metadata"]["name"]): o for o in listed["items"]}
        for key, obj in list(self.latest.items()):
            if key not in found:
                self._record("DELETED", obj)
        for key, obj in found.items():
            old = self.latest.get(key)
            if not old or old["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                self._record("MODIFIED" if old else "ADDED", obj)
        self.synced.set()
        return listed["metadata"]["resourceVersion"]

    def _run(self):
        version = None
        while not self.stopping:
            try:
                version = version or self._relist()
                for kind, obj in self.client.watch(self.resource, self.namespace, version, 300, True, self._opened, **self.params):
                    if kind == "ERROR":
                        version = None
                        break
                    version = obj["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        self._record(kind, obj)
            except ApiError as e:
                if e.status == 410:
                    version = None
                time.sleep(0.1)
            except Unreachable:
                time.sleep(0.1)

    def _opened(self, connection):
        self.connection = connection
        if self.stopping:
            self._cut()

    def _cut(self):
        try:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        except (OSError, AttributeError):
            pass

    def wait(self, check, seconds, what):
        """Until check(latest) is true; its value."""
        end = time.monotonic() + seconds
        with self.changed:
            while True:
                found = check(self.latest)
                if found:
                    return found
                left = end - time.monotonic()
                assert left > 0, f"{what}: not within {seconds} s"
                self.changed.wait(min(left, 1))

    def stop(self):
        """End the thread; raises the first error of on_event."""
        self.stopping = True
        self._cut()
        self.thread.join(20)
        if self.errors:
            raise self.errors[0]

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        try:
            self.stop()
        except Exception:  # an error on the way out must not hide the first one
            if kind is None:
                raise
