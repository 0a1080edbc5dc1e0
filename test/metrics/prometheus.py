# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus over a folder of its own, that scrapes what it is told every second."""
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

from lib.server import free_ports

# Nothing but loopback is asked, whatever the environment says of proxies.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def promtool(*args, text=None):
    """(exit status, what it said)."""
    done = subprocess.run(["promtool", *args], input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                          check=False)
    return done.returncode, done.stdout


class Prometheus:
    def __init__(self, targets, rules=None):
        self.dir = tempfile.mkdtemp(prefix="poolgate-prometheus-")
        self.port, = free_ports(1)
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
                  "rule_files": [rules] if rules else [],
                  "scrape_configs": [{"job_name": "poolgate", "static_configs": [
                      {"targets": [t], "labels": {"instance": f"replica-{i}"}} for i, t in enumerate(targets)]}]}
        path = os.path.join(self.dir, "prometheus.yml")
        with open(path, "w", encoding="utf-8") as f:
            yaml.safe_dump(config, f)
        status, said = promtool("check", "config", path)
        assert status == 0, said
        with open(os.path.join(self.dir, "log"), "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={self.dir}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir)

    def ask(self, path, **query):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with OPENER.open(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as e:
            if e.code == 503:  # it is starting
                raise
            raise AssertionError(f"{query}: {e.read().decode()}") from None

    def query(self, expression):
        """[(labels, value)] as of now."""
        return [(r["metric"], float(r["value"][1])) for r in self.ask("query", query=expression)["result"]]

    def value(self, expression):
        found = self.query(expression)
        assert len(found) == 1, f"{expression}: {found}"
        return found[0][1]

    def range(self, expression, start, end, step):
        """[(labels, [(time, value)])]"""
        return [(r["metric"], [(float(t), float(v)) for t, v in r["values"]])
                for r in self.ask("query_range", query=expression, start=start, end=end, step=step)["result"]]

    def wait(self, expression, condition=bool, seconds=40):
        """Until condition(results of the expression) holds; the results."""
        end = time.monotonic() + seconds
        found = None
        while time.monotonic() < end:
            try:
                found = self.query(expression)
            except OSError:
                found = None  # not up yet
            if found is not None and condition(found):
                return found
            assert self.process.poll() is None, self.log()
            time.sleep(0.2)
        raise AssertionError(f"{expression}: {found}\n{self.log()[-2000:]}")

    def log(self):
        with open(os.path.join(self.dir, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
