# SPDX-License-Identifier: Apache-2.0
"""test/run, over programs that only say what a unit test would say: what is counted, what the last lines are, and that no file is left out."""
import glob
import os
import runpy
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SAY = 'printf "[==========] Running 1 test(s).\\n[ RUN      ] a\\n[  %s ] a\\n" "$1"; exit "$2"\n'
PASSES = "#!/bin/sh\nset -- '     OK' 0\n" + SAY
FAILS = "#!/bin/sh\nset -- 'FAILED ' 1\n" + SAY
# Fails where it has not run before.
UNSTEADY = "#!/bin/sh\nif [ -e \"$0.ran\" ]; then set -- '     OK' 0; else >\"$0.ran\"; set -- 'FAILED ' 1; fi\n" + SAY


def run(folder, ci="true", **programs):
    """The last two lines and the status of a run over unit tests of these names, which exist."""
    place = folder / "build/test/unit"
    place.mkdir(parents=True, exist_ok=True)
    for name, text in programs.items():
        (place / f"test_{name}").write_text(text, encoding="ascii")
        (place / f"test_{name}").chmod(0o755)
        (place / f"test_{name}.ran").unlink(missing_ok=True)
    env = {**os.environ, "CI": ci, "UNSTEADY": str(folder / "unsteady")}
    done = subprocess.run(["/usr/bin/python3", "-B", os.path.join(ROOT, "test/run"), "--build", str(folder / "build"), "unit"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, env=env)
    lines = done.stdout.decode().splitlines()
    return lines[-2], lines[-1], done.returncode


def test_a_run_of_what_passes(tmp_path):
    before, last, status = run(tmp_path, buf=PASSES, err=PASSES)
    assert before.startswith("unit ") and (last, status) == ("2 passed, 0 failed", 0)
    assert not (tmp_path / "unsteady").exists()


def test_what_fails_twice_has_failed(tmp_path):
    assert run(tmp_path, buf=PASSES, err=FAILS)[1:] == ("1 passed, 1 failed", 1)


def test_unsteady_is_counted_named_and_kept(tmp_path):
    assert run(tmp_path, buf=PASSES, err=UNSTEADY) == ("1 unsteady: test_err", "2 passed, 0 failed", 0)
    assert (tmp_path / "unsteady").read_text(encoding="utf-8").startswith("test_err 20")


def test_unsteady_a_second_time_fails(tmp_path):
    run(tmp_path, err=UNSTEADY)
    assert run(tmp_path, buf=UNSTEADY, err=UNSTEADY) == ("2 unsteady: test_buf, test_err", "1 passed, 1 failed", 1)
    names = [line.split()[0] for line in (tmp_path / "unsteady").read_text(encoding="utf-8").splitlines()]
    assert names == ["test_err", "test_buf"]


def test_no_second_try_beside_ci(tmp_path):
    assert run(tmp_path, ci="", err=UNSTEADY)[1:] == ("0 passed, 1 failed", 1)


def test_no_file_of_a_suite_is_forgotten():
    """Where files are named one by one each is in one pattern; those that run side by side compute too little to be more than seven."""
    suites = runpy.run_path(os.path.join(ROOT, "test/run"))
    elsewhere = {"test/probe/test_build.py"}  # by make probe-check
    for name in suites["TOGETHER"]:
        named = sorted(f for pattern in suites["SUITES"][name] for f in glob.glob(pattern, root_dir=ROOT))
        assert named == sorted(set(glob.glob(f"test/{name}/test_*.py", root_dir=ROOT)) - elsewhere), name
        assert len(suites["SUITES"][name]) <= 7, name
