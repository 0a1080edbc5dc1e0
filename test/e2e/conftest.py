# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the end-to-end tests. Full cluster: `cluster`, and `namespace`, one of it for each test; the same with poolgate
installed: `installed`, with two GPUServers (three GPUs of 16 GB): `pool`, and a namespace with the client's Secrets: `ns`. Control plane only: `api`,
and `api_namespace`. Each cluster starts when the first test asks for it and lives until the last test has ended; its logs are in
build/e2e/logs. Tests that break more than they can mend start a cluster of their own."""
import os
import signal
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [p for p in (HERE, os.path.dirname(HERE)) if p not in sys.path]

import cluster as clusters  # noqa: E402
import kube  # noqa: E402
import product  # noqa: E402

# Names of tests that failed, for another try of these alone: `make e2e T="$(cat build/e2e/failed)"`.
FAILED = os.path.join(os.path.dirname(clusters.LOGS), "failed")

running = []
failed = []


def pytest_configure(config):
    """Ended by SIGTERM, the tests still clean up."""
    signal.signal(signal.SIGTERM, clusters.on_sigterm)


def pytest_sessionfinish():
    os.makedirs(os.path.dirname(FAILED), exist_ok=True)
    with open(FAILED, "w", encoding="utf-8") as f:
        f.write(" or ".join(sorted(set(failed))))


@pytest.fixture(scope="session", name="cluster")
def fixture_cluster():
    with clusters.Cluster() as one:
        running.append(one)
        yield one
        running.remove(one)


@pytest.fixture(scope="session", name="api")
def fixture_api():
    with clusters.Cluster.light() as one:
        running.append(one)
        yield one
        running.remove(one)


@pytest.fixture(name="namespace")
def fixture_namespace(cluster):
    with cluster.namespace() as name:
        yield name


@pytest.fixture(name="api_namespace")
def fixture_api_namespace(api):
    with api.namespace() as name:
        yield name


@pytest.fixture(scope="session", name="installed")
def fixture_installed(cluster):
    product.install(cluster)
    yield cluster


@pytest.fixture(name="pool")
def fixture_pool(installed):
    with product.servers(installed, {"gpu-a": 2, "gpu-b": 1}):
        yield installed


@pytest.fixture(name="ns")
def fixture_ns(installed):
    with product.client_namespace(installed) as name:
        yield name


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """While a failed test's pods are still there: their logs, and what happened last."""
    outcome = yield
    report = outcome.get_result()
    if not report.failed:
        return
    failed.append(item.originalname or item.name)
    for one in running:
        report.sections.append((f"logs of {one.name}", one.collect_logs()))
        try:
            events = sorted(one.client.items("events"), key=lambda e: e["metadata"]["creationTimestamp"])[-20:]
        except (kube.ApiError, kube.Unreachable, OSError) as e:
            report.sections.append((f"events of {one.name}", str(e)))
            continue
        lines = [f"{e['involvedObject'].get('kind')} {e['involvedObject'].get('namespace', '')}/{e['involvedObject'].get('name')}: "
                 f"{e.get('reason')}: {e.get('message')}" for e in events]
        report.sections.append((f"last events of {one.name}", "\n".join(lines)))
