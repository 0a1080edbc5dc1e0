# SPDX-License-Identifier: Apache-2.0
"""No program of CLOCK_BIN naps or waits in a way that test/unit/virtual_clock.c does not know: a loop of such until a time has come never
ends there."""
import glob
import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNKNOWN = re.compile(r"\b(u?sleep|p?select|epoll_p?wait|clock_nanosleep|sem_timedwait|timerfd_settime|pthread_cond_clockwait|"
                     r"pthread_mutex_timedlock)\(")
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def shown(variable):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(["make", "--no-print-directory", "--eval", f"show: ; @echo $({variable})", "show"],
                          cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout.split()


def waits(text):
    return UNKNOWN.findall(COMMENT.sub("", text))


def test_no_wait_that_the_clock_does_not_know():
    programs = [f"test/unit/{os.path.basename(path)}.c" for path in shown("CLOCK_BIN")]
    # What these programs are linked with: gate, probe and device plugin have tests of their own, by the real clock.
    product = [path for room in ("base", "net", "kube", "certs", "webhook") for path in glob.glob(f"{room}/**/*.c", root_dir=ROOT, recursive=True)]
    assert programs and product
    found = {}
    for path in (*programs, *shown("UNIT_LIB_SRC"), *product):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            found[path] = waits(file.read())
    assert not {path: names for path, names in found.items() if names}


@pytest.mark.parametrize("text, names", [("\tusleep(1000);\n", ["usleep"]), ("n = epoll_wait(loop, e, 1, ms);", ["epoll_wait"]),
                                         ("/* no usleep() here,\n * no select() */ nanosleep(&t, NULL);", []), ("api_sleep(1);", [])])
def test_what_is_found(text, names):
    assert waits(text) == names
