# SPDX-License-Identifier: Apache-2.0
"""The files of docs/quickstart.md, as its commands put them together."""
import os
import re

from lib.cli import run
from lib.server import ROOT, make_pair

QUICKSTART = os.path.join(ROOT, "manifests/examples/quickstart")


def test_files_fit_together(tmp_path):
    """The launcher profile with its CAs is one, the GPUServer says how its gate is asked, and such a pod waits for a guarded server."""
    ca, _ = make_pair(str(tmp_path), "gate")
    with open(os.path.join(QUICKSTART, "launcher.yaml"), encoding="utf-8") as f, open(ca, encoding="ascii") as pem:
        text = f.read() + re.sub("^", "      ", pem.read().strip(), flags=re.M) + "\n"
    launcher = tmp_path / "launcher.yaml"
    launcher.write_text(text)
    pool = os.path.join(QUICKSTART, "gpuserver.yaml")
    status, out, err = run("inject", "--launchers", str(launcher), "--pool", pool, os.path.join(QUICKSTART, "pod.yaml"))
    assert status == 1 and "asked 1 GPU with 50 %; none of the pool's 1 servers has reported a GPU yet" in err, (status, out, err)
    # Its GPUs known, it is no more guarded than before: nobody asks its gate here.
    with open(pool, encoding="utf-8") as f:
        listed = re.sub(r"probe: .*", "gpus: [{model: H100, memory: 80Gi}]", f.read())
    (tmp_path / "pool.yaml").write_text(listed)
    status, out, err = run("inject", "--launchers", str(launcher), "--pool", str(tmp_path / "pool.yaml"), os.path.join(QUICKSTART, "pod.yaml"))
    assert status == 1 and "1 server is not guarded (condition Guarded), which the launcher lupine needs" in err, (status, out, err)
