# SPDX-License-Identifier: Apache-2.0
"""Policies as documents, and a server that is asked as an API server asks."""
import os

import yaml

from . import reviews

POLICY = "poolgate.io/policy"
DEFAULTS = {"os": "ubuntu20", "version": "450"}


def policy(name="research", **spec):
    return {"apiVersion": "poolgate.io/v1alpha1", "kind": "GPUPolicy", "metadata": {"name": name},
            "spec": {"inject": True, "defaults": DEFAULTS, **spec}}


def namespace(name="ml", picks="research"):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {POLICY: picks} if picks else {}}}


def write(path, *documents):
    with open(path + ".new", "w", encoding="utf-8") as f:
        yaml.safe_dump_all(documents, f)
    os.rename(path + ".new", path)


def mutate(server, one):
    return server.new_client().review("/mutate", reviews.review(one))


def validate(server, one):
    return server.new_client().review("/validate", reviews.review(reviews.stored(one)))
