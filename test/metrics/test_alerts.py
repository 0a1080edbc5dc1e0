# SPDX-License-Identifier: Apache-2.0
"""The alerts of the monitoring component: each fires when it should and not beside that (alerts.yaml says when)."""
import os
import re
import shutil

import pytest
import yaml

from lib.server import ROOT
from prometheus import promtool

HERE = os.path.dirname(os.path.abspath(__file__))
RULES = os.path.join(ROOT, "manifests/components/monitoring/rules.yaml")


def spec():
    with open(RULES, encoding="utf-8") as f:
        return yaml.safe_load(f)["spec"]


def alerts():
    return [r for g in spec()["groups"] for r in g["rules"] if "alert" in r]


@pytest.fixture(name="folder")
def fixture_folder(tmp_path):
    with open(tmp_path / "rules.yaml", "w", encoding="utf-8") as f:
        yaml.safe_dump(spec(), f)
    shutil.copy(os.path.join(HERE, "alerts.yaml"), tmp_path)
    return tmp_path


def test_rules_are_right(folder):
    status, said = promtool("check", "rules", "--lint-fatal", str(folder / "rules.yaml"))
    assert status == 0, said


def test_alerts_fire_when_they_should(folder):
    status, said = promtool("test", "rules", str(folder / "alerts.yaml"))
    assert status == 0, said


def test_every_alert_is_seen_firing():
    """And quiet somewhere, too: an alert that always fires would pass otherwise."""
    with open(os.path.join(HERE, "alerts.yaml"), encoding="utf-8") as f:
        cases = [c for t in yaml.safe_load(f)["tests"] for c in t.get("alert_rule_test", [])]
    for rule in alerts():
        mine = [c for c in cases if c["alertname"] == rule["alert"]]
        assert any(c.get("exp_alerts") for c in mine), f"{rule['alert']} never fires in alerts.yaml"


def test_broken_alerts_are_noticed(folder):
    """The same tests with every alert's expression made false: each is missed."""
    rules = spec()
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["expr"] = "vector(0) > 1"
    with open(folder / "rules.yaml", "w", encoding="utf-8") as f:
        yaml.safe_dump(rules, f)
    status, said = promtool("test", "rules", str(folder / "alerts.yaml"))
    assert status != 0
    assert set(re.findall(r"alertname: (\w+)", said)) == {r["alert"] for r in alerts()}


def test_the_scrape_of_usage_is_one(tmp_path):
    """What docs/operating.md tells Prometheus, less the search for pods, which the promtool that is built here knows nothing of."""
    with open(os.path.join(ROOT, "docs/operating.md"), encoding="utf-8") as f:
        config = re.search(r"^```yaml\n(scrape_configs:\n.*?)^```", f.read(), re.M | re.S)[1]
    config, searches = re.subn(r"^ *kubernetes_sd_configs: .*\n", "", config, flags=re.M)
    assert searches == 1
    path = tmp_path / "prometheus.yaml"
    path.write_text(config)
    status, said = promtool("check", "config", "--syntax-only", str(path))
    assert status == 0, said
    path.write_text(config.replace("tls_config", "tls"))
    assert promtool("check", "config", "--syntax-only", str(path))[0] != 0


def test_the_docs_name_every_alert():
    with open(os.path.join(ROOT, "docs/operating.md"), encoding="utf-8") as f:
        said = set(re.findall(r"`(Poolgate\w+)`", f.read()))
    assert said == {r["alert"] for r in alerts()}
