# SPDX-License-Identifier: Apache-2.0
"""gate/main, gate/child*, gate/connect*, gate/process/account, gate/process/family, gate/process/keep: one server process for each claim, and what becomes of it."""
import json
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest
from test_guests import assert_cut, is_in
from world import GIB, GPUS, PROGRAM, WAIT_S, alive, servers, until


def test_each_claim_has_its_own(world):
    """Two claims of one GPU: two processes at two addresses, each with its own share; many connections of a pod share one."""
    a, b = world.holder(), world.holder(gpus=((GPUS[0], 2 * GIB),))
    told = [a.env(), b.env(), a.env()]
    assert told[0]["pid"] == told[2]["pid"] != told[1]["pid"] and told[1]["env"]["LIMIT"] == "2048"
    assert told[0]["env"]["PLACE"] != told[1]["env"]["PLACE"] and world.metric('servers{state="running"}') == 2
    # What the gate has open is not the server's: the streams, and what it opened itself, of which one may be closing.
    until(lambda: len(a.env()["fds"]) <= 6, "server without what its gate has open")


def test_claim_ends(world):
    """Connections are cut and the whole family is gone within two seconds of the write, also whom nobody's process group holds."""
    pod, other = world.holder(), world.holder()
    hidden = int(pod.ask("hide"))
    pid = pod.env()["pid"]
    assert alive(hidden) and alive(pid)
    with pod.dial("echo") as s, other.dial("echo") as t:
        for one in (s, t):
            is_in(one)
        began = world.api.release(pod.uid)
        assert_cut(s)
        until(lambda: not alive(pid) and not alive(hidden), "end of the server")
        took = time.monotonic() - began
        t.sendall(b"y")
        assert t.recv(1) == b"y"
    assert took < 2 * servers.SLOW, took
    until(lambda: not any(pod.uid in n for n in world.left()), "end of what it left")
    pod.process.until(lambda: "reset" in pod.process.log() or "not carried" in pod.process.log(), "word of it")


def test_claim_ends_amid_a_transfer(world):
    pod = world.holder()
    with pod.dial("pour 100000000000") as s:
        assert len(s.recv(65536)) > 0
        began = world.api.release(pod.uid)
        assert_cut(s)
        assert time.monotonic() - began < 2 * servers.SLOW
    until(lambda: world.left() == [], "end of the server")


def test_deaf_server_is_killed(make):
    """TERM is passed over: KILL comes after the grace, within two seconds of the write."""
    world = make("deaf", {"grace": "1s"})
    pod = world.holder()
    pid = pod.env()["pid"]
    began = world.api.release(pod.uid)
    until(lambda: not alive(pid), "end of the server")
    assert 0.9 < time.monotonic() - began < 2 * servers.SLOW


def test_next_one_waits_for_the_last(make):
    """A GPU's next server starts when the last one is reaped."""
    world = make("deaf", {"grace": "1500ms"})
    first, second = world.holder(), world.holder()
    pid = first.env()["pid"]
    world.api.release(first.uid)
    told = json.loads(second.ask("env"))
    assert not alive(pid) and told["pid"] != pid
    with open(f"/proc/{told['pid']}/stat", encoding="ascii") as f:
        began = int(f.read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
    log = world.gate.log()
    assert log.index("a server has ended") < log.rindex("a server is up")
    assert began > 0


@pytest.mark.parametrize("mode,spec,why", [
    ("exit", {}, "it has ended while it was starting"), ("never", {"readiness": "500ms"}, "it does not listen at 127.91.0.1"),
    ("open", {}, "it listens on all addresses, expected {address} alone"),
    ("never", {"readiness": "500ms", "socket": "inherited"}, "it does not take connections at 127.91.0.1"),
    ("open", {"socket": "inherited"}, "it has ended while it was starting"),
    ("up", {"argv": ["/nowhere/server"]}, "it cannot be started")])
def test_server_that_does_not_start(make, mode, spec, why):
    """The pod is told, nothing stays, and the next try waits longer than the last."""
    world = make(mode, spec)
    pod = world.holder()
    pod.refused(why)
    assert world.refused("server") == 1
    until(lambda: world.left() == [], "end of what it left")
    pod.refused(why)
    until(lambda: world.metric("server_starts_total") <= 2, "rest")
    assert world.metric("server_failures_total") in (1, 2)


def test_server_that_comes_late(make):
    world = make("late")
    pod = world.holder()
    with pod.dial("env") as s, pod.dial("env") as t:
        assert s.recv(1) == t.recv(1) == b"{"
    assert world.metric("server_starts_total") == 1


def test_inherited_socket(make):
    """It listens at what it was given, and is up when it takes connections from there. The next gate keeps it; no other process has its socket, so
    that nobody listens when it is gone, and the next server is given a new one."""
    world = make("late", {"socket": "inherited"})
    pod = world.holder()
    told = pod.env()
    assert told["env"]["LISTEN_PID"] == str(told["pid"]) and told["env"]["LISTEN_FDS"] == "1" and 3 in told["fds"]
    world.gate.kill()
    world.start()
    assert pod.env()["pid"] == told["pid"]
    with pod.dial("die") as s:
        assert_cut_or_end(s)
    world.gate.until(lambda: "it has ended by itself" in world.gate.log(), "word of it")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.91.0.1", world.server_port))
    after = until(lambda: again(pod), "new server")
    assert after["env"]["LISTEN_PID"] == str(after["pid"]) != str(told["pid"])


def test_server_that_dies(world):
    """Its connections break, and the next one gets a new process."""
    pod = world.holder()
    pid = pod.env()["pid"]
    with pod.dial("echo") as s:
        is_in(s)
        with pod.dial("die") as t:
            assert_cut_or_end(t)
        assert_cut_or_end(s)
    world.gate.until(lambda: "it has ended by itself" in world.gate.log(), "word of it")
    told = until(lambda: again(pod), "new server")
    assert told["pid"] != pid and world.metric("server_starts_total") == 2


def again(pod):
    try:
        return pod.env()
    except (OSError, ValueError):
        return None


def assert_cut_or_end(s):
    try:
        while s.recv(65536):
            pass
    except ConnectionResetError:
        pass


def test_linger(make):
    """Without a connection it is ended after the profile's time, though its claim lives; with one it stays."""
    world = make("up", {"linger": "300ms"})
    pod = world.holder()
    with pod.dial("echo") as s:
        is_in(s)
        pid = pod.env()["pid"]
        time.sleep(0.6)
        assert alive(pid)
    until(lambda: not alive(pid), "end of the idle server")
    assert pod.env()["pid"] != pid


def test_gate_killed_and_restarted(world):
    """What it left is found: kept where the claim lives, ended where it does not. The pods' connections break."""
    kept, ended = world.holder(), world.holder()
    pids = [p.env()["pid"] for p in (kept, ended)]
    with kept.dial("echo") as s:
        is_in(s)
        world.gate.kill()
        assert_cut_or_end(s)
    assert all(alive(p) for p in pids)
    world.api.release(ended.uid)
    world.start()
    until(lambda: not alive(pids[1]), "end of the server without a claim")
    assert kept.env()["pid"] == pids[0] and world.metric("server_starts_total") == 0


def test_another_profile_ends_what_was_left(world):
    pod = world.holder()
    pid = pod.env()["pid"]
    world.gate.kill()
    world.profile("up", {"env": {"NEW": "1"}})
    world.start()
    until(lambda: not alive(pid), "end of the old server")
    assert pod.env()["env"]["NEW"] == "1"


def test_claim_that_becomes_another(world):
    """Same pod, another share: the process of the old one does not serve it, and whoever it served sees that it broke off."""
    pod = world.holder()
    pid = pod.env()["pid"]
    with pod.dial("echo") as s:
        is_in(s)
        with world.api.lock:
            world.api.claims[pod.uid]["gpus"] = ((GPUS[2], GIB),)
            world.api.tell()
        assert_cut(s)
    until(lambda: not alive(pid), "end of the old server")
    assert pod.env()["env"]["CUDA_VISIBLE_DEVICES"] == GPUS[2]


def test_somebody_listens_there_already(world):
    """Nobody's connection goes to whom it is not for."""
    with socket.socket() as s:
        s.bind(("0.0.0.0", world.server_port))
        s.listen(1)
        world.holder().refused("somebody else listens at 127.91.0.1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has accounts to give")
def test_account_for_each_claim(make):
    """No server can touch another's folder or process; when there are no more accounts the pod is told."""
    world = make("up", {"user": "200000-200001"})
    told = [world.holder().env() for _ in range(2)]
    assert [t["uid"] for t in told] == [200000, 200001]
    assert [os.stat(t["env"]["PLACE"]).st_uid for t in told] == [200000, 200001]
    world.holder().refused("no room for one more server")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has what others could remove")
def test_folder_is_removed_as_its_owner(make, tmp_path):
    """A link in a claim's folder leads nobody's rights anywhere."""
    world = make()
    pod = world.holder()
    place = pod.env()["env"]["PLACE"]
    kept = tmp_path / "kept"
    kept.write_text("kept")
    os.mkdir(os.path.join(place, "deep"))
    os.chown(os.path.join(place, "deep"), 0, 0)
    (tmp_path / "roots").mkdir()
    os.symlink(kept, os.path.join(place, "link"))
    with open(os.path.join(place, "deep/roots"), "w", encoding="ascii") as f:
        f.write("root's")
    world.api.release(pod.uid)
    # In this order: it is the one, then the other.
    until(lambda: world.metric('servers{state="running"}') == 0 and world.metric('servers{state="ending"}') == 0, "end")
    assert kept.read_text() == "kept" and os.path.exists(os.path.join(place, "deep/roots")) and not os.path.lexists(os.path.join(place, "link"))
    shutil.rmtree(place)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has accounts to give")
def test_machine_that_was_off(make):
    """Nothing runs any more, and what stood in the folders of claims is removed, whoever's account it was: the pods come again in another order."""
    world = make("up", {"user": "200000-200001"})
    pods = [world.holder(), world.holder(gpus=((GPUS[1], GIB),))]
    told = [p.env() for p in pods]
    for one in told:
        cache = os.path.join(one["env"]["PLACE"], "cache")
        os.mkdir(cache)
        os.chown(cache, one["uid"], one["uid"])
    keepers = world.keepers()
    world.gate.kill()
    for pid in keepers:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(alive(p) for p in [*keepers, *(t["pid"] for t in told)]), "end of the servers")
    # After a boot their pids are nobody's, or others'.
    for pod in pods:
        path = os.path.join(world.state, f"{pod.uid}.json")
        with open(path, encoding="ascii") as f:
            was = json.load(f)
        with open(path, "w", encoding="ascii") as f:
            json.dump({**was, "began": was["began"] + 1}, f)
    world.start()
    assert world.left() == []
    assert pods[1].env()["uid"] == 200000 and pods[0].env()["uid"] == 200001


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has accounts to give")
def test_fewer_accounts_than_servers(world):
    """What another profile has left is ended, also where this one has no account for it; and its folder is in nobody's way."""
    pods = [world.holder(gpus=((g, GIB),)) for g in GPUS[:3]]
    told = [p.env() for p in pods]
    for one in told:
        cache = os.path.join(one["env"]["PLACE"], "cache")
        os.mkdir(cache)
        os.chown(cache, one["uid"], one["uid"])
    world.gate.kill()
    world.profile("up", {"user": "200000-200001"})
    world.start()
    until(lambda: not any(alive(t["pid"]) for t in told), "end of the old servers")
    until(lambda: world.left() == [], "end of what they left")
    assert pods[2].env()["uid"] == 200000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to do without")
def test_rights_of_the_unit_are_enough(make):
    """Under what the unit leaves of root's rights: a deaf server of another account is started, lives in its folder, is killed and tidied away,
    and another gate finds what the last one has left."""
    with open(os.path.join(servers.ROOT, "share/systemd/gpugate.service"), encoding="utf-8") as f:
        rights = next(line for line in f if line.startswith("CapabilityBoundingSet=")).partition("=")[2].split()
    world = make("deaf", {"user": "200000-200001"}, wrap=["/usr/bin/setpriv", "--no-new-privs", "--bounding-set", ",".join(
        ["-all", *(r.replace("CAP_", "+").lower() for r in rights)])])
    pods = [world.holder(), world.holder(gpus=((GPUS[1], GIB),))]
    told = [p.env() for p in pods]
    assert [t["uid"] for t in told] == [200000, 200001] and [os.stat(t["env"]["PLACE"]).st_uid for t in told] == [200000, 200001]
    world.api.release(pods[0].uid)
    until(lambda: not alive(told[0]["pid"]) and not os.path.exists(told[0]["env"]["PLACE"]), "end of the server")
    world.gate.kill()
    world.start()
    assert pods[1].env()["pid"] == told[1]["pid"]


def test_addresses_without_a_host(world):
    """As the DaemonSet says them: at all addresses."""
    world.gate.end()
    world.options = ("--listen", f":{world.port}", "--status", f":{world.status}")
    world.start()
    world.holder().env()


@pytest.mark.parametrize("user,said", [("0", "other than root"), ("root", "other than root"), ("nobody-here", "there is no account"),
                                       ("200-100", "FIRST-LAST")])
def test_accounts_that_are_none(world, user, said):
    world.profile("up", {"user": user})
    done = subprocess.run(world.gate.process.args, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 2 and said in done.stderr, done
    world.profile("up", {})


def test_gpus_listed_by_hand(world):
    with world.api.lock:
        GPUS.append("gpu-7")
    try:
        world.holder(gpus=(("gpu-7", GIB),)).refused("GPU gpu-7 is listed by hand")
    finally:
        GPUS.remove("gpu-7")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_keeper_that_is_killed_or_stopped(world, how):
    """Without its parent the server does not live on; one that does not answer is ended by force."""
    pod = world.holder()
    pid = pod.env()["pid"]
    keeper = world.keepers()[0]
    os.kill(keeper, how)
    if how == signal.SIGSTOP:
        world.api.release(pod.uid)
    until(lambda: not alive(pid) and not alive(keeper), "end of the server")


@pytest.fixture(name="apart")
def fixture_apart(make):
    """A world whose servers have cgroups of their own; the gate has nobody else in its own."""
    world = make(options=("--look", "0"))
    if not world.cgroup:
        pytest.skip("cgroup v2 cannot be written here")
    return world


def cgroup_of(pid):
    with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
        return next(line.rstrip("\n")[3:] for line in f if line.startswith("0::"))


def test_cgroup_for_each_claim(apart):
    """The server and what comes of it are in their claim's, the keeper is in the gate's; and it goes with the claim."""
    pods = [apart.holder(), apart.holder(gpus=((GPUS[1], GIB),))]
    told = [p.env() for p in pods]
    hidden = int(pods[0].ask("hide"))
    below = cgroup_of(apart.gate.process.pid)
    assert [cgroup_of(t["pid"]) for t in told] == [f"{below}/claim-{p.uid}" for p in pods] and cgroup_of(hidden) == cgroup_of(told[0]["pid"])
    assert {cgroup_of(k) for k in apart.keepers()} == {below} and apart.cgroups() == sorted(f"claim-{p.uid}" for p in pods)
    apart.api.release(pods[0].uid)
    until(lambda: apart.cgroups() == [f"claim-{pods[1].uid}"], "end of the cgroup")
    assert not alive(hidden) and pods[1].env()["pid"] == told[1]["pid"]
    assert apart.gate.log().count("each server has a cgroup of its own") == 1


def test_nothing_outruns_the_end(make):
    """What is never there long enough to be found by its pid ends with its claim all the same, within two seconds of the write."""
    apart = make(spec={"grace": "100ms"}, options=("--look", "0"))
    if not apart.cgroup:
        pytest.skip("cgroup v2 cannot be written here")
    pod = apart.holder()
    for _ in range(3):
        pod.ask("run")
    began = apart.api.release(pod.uid)
    until(lambda: apart.keepers() == [] and apart.cgroups() == [], "end of what runs on")
    assert time.monotonic() - began < 2 * servers.SLOW
    with open(os.path.join(apart.cgroup, "cgroup.procs"), encoding="ascii") as f:
        assert f.read().split() == [str(apart.gate.process.pid)]


@pytest.mark.parametrize("gate_dies", [False, True])
def test_what_a_killed_keeper_leaves(apart, gate_dies):
    """Its server dies with it; a process that had left that one is nobody's child any more, and is ended too, by this gate or by the next."""
    pod = apart.holder()
    pid, hidden = pod.env()["pid"], int(pod.ask("hide"))
    if gate_dies:
        apart.gate.kill()
    os.kill(apart.keepers()[0], signal.SIGKILL)
    until(lambda: not alive(pid), "end of the server")
    if gate_dies:
        assert alive(hidden)
        apart.start()
    until(lambda: not alive(hidden), "end of what it had left")
    until(lambda: apart.cgroups() == [] and apart.left() == [], "end of their cgroup")
    assert until(lambda: again(pod), "new server")["pid"] not in (pid, hidden)


def test_cgroup_of_somebody_else(apart):
    """Whoever is in a cgroup of that name is not ended, and the pod is told."""
    uid = apart.api.claim()
    folder = os.path.join(apart.cgroup, f"claim-{uid}")
    os.mkdir(folder)
    with subprocess.Popen(["/bin/sleep", "600"]) as other:
        try:
            with open(os.path.join(folder, "cgroup.procs"), "w", encoding="ascii") as f:
                f.write(str(other.pid))
            apart.pod(apart.api.token(uid)).refused("processes of others are in its cgroup")
            assert other.poll() is None
        finally:
            other.kill()
    until(lambda: not os.path.exists(folder) or not os.rmdir(folder), "end of it")
    assert apart.holder(gpus=((GPUS[1], GIB),)).env()


@pytest.mark.skipif(subprocess.call(["/usr/bin/unshare", "--mount", "true"], stderr=subprocess.DEVNULL) != 0, reason="mounts are not ours to take away")
def test_gate_without_cgroups(make):
    """Where none can be made that is said once, and servers are ended as ever."""
    world = make(wrap=["/usr/bin/unshare", "--mount", "/bin/sh", "-c", "umount -l -a -t cgroup2; exec \"$@\"", "sh"])
    assert world.gate.log().count("servers have no cgroup of their own") == 1
    pod = world.holder()
    pid, hidden = pod.env()["pid"], int(pod.ask("hide"))
    world.api.release(pod.uid)
    until(lambda: not alive(pid) and not alive(hidden), "end of the server")


@pytest.mark.skipif(subprocess.call(["/usr/bin/unshare", "--mount", "--cgroup", "true"], stderr=subprocess.DEVNULL) != 0,
                    reason="mounts are not ours to make")
@pytest.mark.parametrize("writable", [False, True])
def test_gate_in_a_container(make, writable):
    """Which sees its own cgroup alone: read-only as a rule, and then servers have none. Where it may write there, with no more rights than the
    DaemonSet gives, each has one."""
    world = make(wrap=["/usr/bin/unshare", "--mount", "--cgroup", "/bin/sh", "-ec", "umount -l -a -t cgroup2; mount -t cgroup2 cgroup /sys/fs/cgroup; "
                       + ("" if writable else "mount -o remount,bind,ro /sys/fs/cgroup; ") + "exec \"$@\"", "sh", "/usr/bin/setpriv", "--no-new-privs",
                       "--bounding-set", "-all,+chown,+kill,+setgid,+setuid"])
    if not world.cgroup:
        pytest.skip("cgroup v2 cannot be written here")
    said = "each server has a cgroup of its own below=/sys/fs/cgroup\n" if writable else "Read-only file system"
    assert said in world.gate.log()
    pod = world.holder()
    pid, hidden = pod.env()["pid"], int(pod.ask("hide"))
    assert world.cgroups() == ([f"claim-{pod.uid}"] if writable else [])
    world.api.release(pod.uid)
    until(lambda: not alive(pid) and not alive(hidden) and world.cgroups() == [], "end of the server")


def test_keeper_without_a_word(tmp_path):
    """A gate that dies before its file stands leaves nothing behind: its keeper hears the end, and starts nothing."""
    made = tmp_path / "made"
    argv = [PROGRAM, "keep", "-", "0", "100", "-", "-", "-", "-", "/usr/bin/touch", str(made)]
    assert subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=WAIT_S, check=False).returncode == 0 and not made.exists()
    assert subprocess.run(argv, input=b"x", timeout=WAIT_S, check=False).returncode == 1 and made.exists()


def test_state_folder_is_ours_alone(world):
    os.chmod(world.state, 0o777)
    done = subprocess.run(world.gate.process.args, capture_output=True, text=True, timeout=WAIT_S, check=False)
    os.chmod(world.state, 0o711)
    assert done.returncode == 2 and "nobody else may write to" in done.stderr


def test_another_gate_at_the_same_folder(world):
    """It does not begin, and the first goes on. Is that killed, the next one takes its place, though what the first has started lives."""
    pod = world.holder()
    pid = pod.env()["pid"]
    words = list(world.gate.process.args)
    for word, port in zip(("--listen", "--status"), servers.free_ports(2)):
        words[words.index(word) + 1] = f"127.0.0.1:{port}"
    done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 1 and f"{world.state}: another gpugate has its servers there: end that one, or start this one" in done.stderr
    assert pod.env()["pid"] == pid and world.left() == sorted([pod.uid, f"{pod.uid}.json"])
    world.gate.kill()
    world.start()
    assert until(lambda: again(pod), "connection")["pid"] == pid


def test_servers_of_the_environment(world):
    """As in a pod, where a kubelet expands nothing in a probe's command."""
    port = str(world.holder().port)
    for servers, status in (("x:1", 0), ("", 2), (",".join(["x:1"] * 17), 2)):
        done = subprocess.run([PROGRAM, "check", "--port", port], env={**os.environ, "POOLGATE_SERVERS": servers}, capture_output=True,
                              text=True, timeout=WAIT_S, check=False)
        assert done.returncode == status, done


def test_words_that_are_wrong(world):
    argv = world.gate.process.args
    for args, said in (([], "expected serve, connect, check or gpus"), (["serve"], "--server is missing"), (["serve", "--tries", "x"], "--tries takes a"),
                       (["connect"], "--servers is missing"), (["connect", "--servers", "a"], "expected HOST:PORT"),
                       (["check", "--servers", "a:1", "--port", "0"], "--port takes a number"), (["keep"], "for gpugate itself"),
                       (["serve", "--bad", "x"], 'unknown word "--bad"'), (["connect", "--servers", ",".join(["a:1"] * 17)], "more than 16")):
        done = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert done.returncode == 2 and said in done.stderr, done
    assert subprocess.run([PROGRAM, "--version"], check=True, capture_output=True, text=True).stdout.startswith("gpugate ")
    with open(argv[argv.index("--profile") + 1], "a", encoding="ascii") as f:
        f.write("x")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 2 and "profile.yaml" in done.stderr
