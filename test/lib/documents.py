# SPDX-License-Identifier: Apache-2.0
"""Manifests as kubectl reads them, and the pods in them."""
import json
import re

import yaml

# What the plan does not remember, so that uninject gives the tree back but not the bytes: spellings of what asked for GPUs, and aliases and
# merge keys that had to be written out. A member that was null comes back absent: Kubernetes takes both as one.
SPELLINGS = {"explicit-keys.yaml", "quoted-words.yaml", "tags.yaml", "alias-containers.yaml", "alias-resources.yaml", "alias-pods.yaml",
             "merge-container.yaml", "merge-shared.yaml"}
NULLS = {"labels-null.yaml", "nulls.yaml"}


class Loader(yaml.CSafeLoader):
    """YAML as kubectl reads it, as far as the manifests here need it: 1:30 and dates are strings, 0o600 is a number."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in pairs if not tag.endswith((":timestamp", ":int"))]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()}
INT = r"(?:[-+]?0b[01_]+|[-+]?0o?[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$"
Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(INT), list("-+0123456789"))
Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int_of(node.value))


def int_of(text):
    text = text.replace("_", "").replace("0o", "0")
    return yaml.SafeLoader.construct_yaml_int(Loader(""), yaml.ScalarNode("tag:yaml.org,2002:int", text))


def parsed(data):
    """All documents that hold something. JSON is no subset of YAML: it is tried first."""
    try:
        return [json.loads(data)]
    except ValueError:
        pass
    return [unshared(d) for d in yaml.load_all(data.decode("utf-8-sig"), Loader) if d is not None]


def unshared(value):
    """Aliases written out, so that a patch changes one place."""
    if isinstance(value, dict):
        return {k: unshared(v) for k, v in value.items()}
    return [unshared(v) for v in value] if isinstance(value, list) else value


def pods_of(doc):
    """(pod-shaped object, is it a whole Pod) for every pod that a document bears."""
    if doc.get("kind") == "List":
        return [p for item in doc["items"] for p in pods_of(item)]
    if doc.get("kind") == "Pod":
        return [doc]
    return [{"kind": "Pod", "apiVersion": "v1", "metadata": {"generateName": "w-", "namespace": doc["metadata"].get("namespace", "default"),
             **(template.get("metadata") or {})}, "spec": template["spec"]} for template in templates_of(doc.get("spec"))]


def templates_of(value):
    """Every pod template in a value: what has a spec with containers."""
    if isinstance(value, list):
        return [t for element in value for t in templates_of(element)]
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("spec"), dict) and isinstance(value["spec"].get("containers"), list):
        return [value]
    return [t for member in value.values() for t in templates_of(member)]


def drop_nulls(value):
    """The API server's decoder treats null members as absent."""
    if isinstance(value, dict):
        return {k: drop_nulls(v) for k, v in value.items() if v is not None}
    return [drop_nulls(v) for v in value] if isinstance(value, list) else value
