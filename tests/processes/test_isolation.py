"""What a child sees, may and cannot: environment, descriptors, user, limits, the worker's secrets (W-17)."""

import ast
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clawjob.domain.instants import to_text
from clawjob.domain.run import Outcome
from clawjob.runner import cgroup
from clawjob.runner.cgroup import GroupUse
from support.children import AT, PYTHON, marked, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.children import Runner

MIB = 2**20
# Killing a user's processes must not meet those of another test process.
UID = 61_234 + 100 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change user")


def told(runner: "Runner", expression: str, **more: object) -> object:
    """Let a child work something out, and read what it says."""
    end = runner.python(f"import os, sys, resource; print(({expression}))", **more)
    assert end.outcome is Outcome.SUCCEEDED, end
    return ast.literal_eval(runner.log().splitlines()[-1])


def test_the_environment_is_exactly_what_is_documented(runner: "Runner", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("CLAWJOB_RESULTS_QUEUE", "https://sqs")
    end = runner.run("/usr/bin/env", "-0", env={"SITE": "a b\nc", "CLAWJOB_TABLE": "x"}, timeout=60)
    found = dict(pair.split("=", 1) for pair in runner.log().rstrip("\0\n").split("\0"))
    folder = found.pop("HOME")
    assert folder == f"{runner.supervisor.folders.runs}/{runner.run_id}.1"
    assert found == {
        "PATH": runner.supervisor.settings.path,
        "LANG": "C.UTF-8",
        "TMPDIR": f"{folder}/tmp",
        "SITE": "a b\nc",
        "CLAWJOB_RUN_ID": runner.run_id,
        "CLAWJOB_JOB": "crawl",
        "CLAWJOB_ATTEMPT": "1",
        "CLAWJOB_SCHEDULED_AT": to_text(AT),
        "CLAWJOB_RESULT": f"{folder}/clawjob-result.json",
        "CLAWJOB_DEADLINE": to_text(end.started_at + timedelta(seconds=60)),
    }


def test_a_child_starts_in_its_own_empty_folder_which_is_gone_afterwards(runner: "Runner") -> None:
    runner.sh('pwd; ls -A; test -w "$TMPDIR" && echo more > "$TMPDIR/x" && echo more > y')
    folder, *names = runner.log().splitlines()
    assert folder == f"{runner.supervisor.folders.runs}/{runner.run_id}.1"
    assert names == ["tmp"]
    assert not Path(folder).exists()


def test_a_child_has_three_descriptors_and_no_input(runner: "Runner") -> None:
    extra = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(extra, True)
    try:
        listed = "[os.readlink(f'/proc/self/fd/{n}') for n in range(100) if os.path.exists(f'/proc/self/fd/{n}')]"
        found = told(runner, f"({listed}, sys.stdin.read())")
    finally:
        os.close(extra)
    assert isinstance(found, tuple)
    descriptors, read = found
    assert descriptors[0] == "/dev/null"
    assert [name[:5] for name in descriptors[1:]] == ["pipe:", "pipe:"]
    assert read == ""


def test_a_child_leads_a_session_and_group_of_its_own(runner: "Runner") -> None:
    assert told(runner, "os.getsid(0) == os.getpgid(0) == os.getpid()") is True


def test_a_child_begins_with_default_signals_and_none_blocked(runner: "Runner") -> None:
    """Python ignores SIGPIPE; a child must not inherit that."""
    runner.run("/bin/cat", "/proc/self/status")
    lines = dict(line.split(":") for line in runner.log().splitlines())
    ours_not = 1 << 31 | 1 << 32  # 32 and 33 belong to the C library, which ignores them until it needs them
    found = {name: int(lines[name], 16) & ~ours_not for name in ("SigBlk", "SigIgn", "SigCgt")}
    assert found == {"SigBlk": 0, "SigIgn": 0, "SigCgt": 0}


def test_the_kernel_takes_a_child_first_when_memory_is_short(runner: "Runner") -> None:
    """W-17: the fat child dies, not the worker, and not its warden."""
    script = "open('/proc/self/oom_score_adj').read(), open(f'/proc/{os.getppid()}/oom_score_adj').read()"
    child, warden = told(runner, script)  # type: ignore[misc]  # a pair
    assert int(child) == 1000
    assert int(warden) == int(Path("/proc/self/oom_score_adj").read_text())


def test_limits_of_the_job_hold(runner: "Runner") -> None:
    found = told(
        runner,
        "[resource.getrlimit(n) for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_DATA)]",
        open_files=123,
        cpu_seconds=77,
        memory_bytes=500 * MIB,
    )
    assert found == [(123, 123), (77, 82), (1000 * MIB, 1000 * MIB)]


def test_no_child_writes_a_core(runner: "Runner") -> None:
    assert told(runner, "resource.getrlimit(resource.RLIMIT_CORE)") == (0, 0)


def test_a_limit_above_the_workers_own_is_the_workers_own(runner: "Runner") -> None:
    _, hard = told(runner, "resource.getrlimit(resource.RLIMIT_NOFILE)")  # type: ignore[misc]  # a pair
    found = told(runner, "resource.getrlimit(resource.RLIMIT_NOFILE)", open_files=2**40)
    assert found == (hard, hard)


def test_too_much_processor_time_is_a_signal_with_a_name(runner: "Runner") -> None:
    end = runner.python("while True: pass", cpu_seconds=1)
    assert (end.outcome, end.signal) == (Outcome.SIGNALLED, "SIGXCPU")
    assert "over 1 s of processor time" in end.detail


def test_a_tree_over_its_memory_limit_is_killed_and_the_next_run_works(runner: "Runner") -> None:
    """W-17: two processes that are over the limit only together."""
    fat = "x = b'x' * 70_000_000; import time; time.sleep(300)"
    end = runner.python(f"import os\nos.fork()\n{fat}", memory_bytes=100 * MIB, timeout=20)
    assert (end.outcome, end.signal) == (Outcome.OUT_OF_MEMORY, "SIGKILL")
    assert "the limit is 100 MiB" in end.detail
    assert marked(runner.run_id) == []
    assert runner.sh("exit 0").outcome is Outcome.SUCCEEDED


def test_memory_shared_with_forks_counts_once(runner: "Runner") -> None:
    script = (
        "import os, time\nx = b'x' * 60_000_000\n"
        "children = [os.fork() or (time.sleep(1.5), os._exit(0)) for _ in range(3)]\n"
        "[os.waitpid(pid, 0) for pid in children]"
    )
    assert runner.python(script, memory_bytes=110 * MIB).outcome is Outcome.SUCCEEDED


def test_a_child_that_grabs_memory_faster_than_we_look_gets_no_more(runner: "Runner") -> None:
    """W-17."""
    end = runner.python("x = []\nwhile True: x.append(b'x' * 10_000_000)", memory_bytes=100 * MIB)
    assert end.outcome in {Outcome.FAILED, Outcome.OUT_OF_MEMORY}
    assert end.memory_peak_bytes < 300 * MIB
    assert "the limit is 100 MiB" in end.detail


@as_root
def test_each_slots_children_are_a_user_of_their_own(make_runner: "Callable[..., Runner]") -> None:
    runner = make_runner(changes_user=True)
    found = told(runner, "os.getresuid(), os.getresgid(), os.getgroups()", uid=UID)
    assert found == ((UID,) * 3, (UID,) * 3, [])
    runner.run("/bin/grep", "^Cap[IPEA]|^NoNew", "/proc/self/status", "-E", uid=UID)
    facts = dict(line.split(":\t") for line in runner.log().splitlines())
    assert facts.pop("NoNewPrivs") == "1"
    assert {int(value, 16) for value in facts.values()} == {0}


@as_root
def test_a_warden_is_never_its_childs_user_not_for_a_moment(make_runner: "Callable[..., Runner]") -> None:
    """On one processor the child runs before its warden comes back from starting it."""
    runner = make_runner(changes_user=True)
    runner.sh("exit 0", uid=UID)
    os.sched_setaffinity(runner.supervisor.wardens.pids()["0"], {min(os.sched_getaffinity(0))})
    for _ in range(30):
        end = runner.sh("kill -9 $PPID; exit 3", uid=UID)
        assert end.exit_code == 3, end


@as_root
def test_what_cannot_start_as_a_slots_user_is_told_and_the_next_run_starts(
    make_runner: "Callable[..., Runner]",
) -> None:
    runner = make_runner(changes_user=True)
    secret = runner.root / "private"
    secret.write_text("#!/bin/sh\n")
    secret.chmod(0o700)
    end = runner.run(str(secret), uid=UID)
    assert end.outcome is Outcome.CANNOT_START
    assert "may not be executed" in end.detail
    garbage = runner.root / "garbage"
    garbage.write_bytes(b"\0\1\2\3")
    garbage.chmod(0o755)
    assert runner.run(str(garbage), uid=UID).outcome is Outcome.CANNOT_START
    assert told(runner, "resource.getrlimit(resource.RLIMIT_NOFILE)", uid=UID, open_files=50) == (50, 50)


@as_root
def test_a_setuid_program_gives_no_rights_back(make_runner: "Callable[..., Runner]", root: Path) -> None:
    runner = make_runner(changes_user=True)
    copy = root / "id"
    copy.write_bytes(Path("/usr/bin/id").read_bytes())
    copy.chmod(0o4755)
    runner.run(str(copy), "-u", uid=UID)
    assert runner.log().strip() == str(UID)


@as_root
def test_a_slots_user_cannot_see_other_slots_folders_nor_signal_worker_or_wardens(
    make_runner: "Callable[..., Runner]",
) -> None:
    runner = make_runner(changes_user=True)
    other = runner.begin("sh", "-c", "echo secret > file; echo ready; sleep 300", uid=UID + 1, slot=1, run_id="other")
    until(lambda: runner.log("other") == "ready\n")
    script = (
        f"cat {runner.supervisor.folders.runs}/other.1/file; ls {runner.supervisor.folders.runs};"
        f"kill -9 {os.getpid()}; kill -9 $PPID; kill -9 {runner.supervisor.wardens.pids()['1']}; exit 3"
    )
    end = runner.sh(script, uid=UID)
    assert end.exit_code == 3
    assert "secret" not in runner.log()
    other.stop.cancel("enough")
    assert other.end().outcome is Outcome.CANCELLED


@as_root
def test_a_slots_user_can_leave_nothing_that_root_cannot_remove(make_runner: "Callable[..., Runner]") -> None:
    runner = make_runner(changes_user=True)
    end = runner.sh("mkdir -p a/b; touch a/b/c; chmod 0 a/b a; echo '{\"items\": 2}' > $CLAWJOB_RESULT", uid=UID)
    assert (end.outcome, end.items) == (Outcome.SUCCEEDED, 2)
    assert list(runner.supervisor.folders.runs.iterdir()) == []


@as_root
def test_a_fork_bomb_of_a_slots_user_is_bounded_and_ended(make_runner: "Callable[..., Runner]") -> None:
    runner = make_runner(changes_user=True)
    assert told(runner, "resource.getrlimit(resource.RLIMIT_NPROC)", uid=UID) == (4096, 4096)
    script = (
        "import os, resource, signal, time\n"
        "resource.setrlimit(resource.RLIMIT_NPROC, (100, 100))\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "while True:\n"
        "    try:\n"
        "        if os.fork() == 0: os.setsid()\n"
        "    except OSError: time.sleep(0.001)\n"
    )
    end = runner.python(script, uid=UID, timeout=0.5, grace=0.1)
    assert end.outcome is Outcome.TIMED_OUT
    assert marked(runner.run_id) == []


SPY = """
import os, sys
for pid in sys.argv[1:]:
    for name in ("environ", "mem", "maps", "fd", "cwd"):
        try:
            path = f"/proc/{pid}/{name}"
            got = os.listdir(path) if name == "fd" else os.readlink(path) if name == "cwd" else open(path, "rb").read(1)
            print(pid, name, "was read")
        except OSError as error:
            print(pid, name, "refused", error.errno)
"""

WORKER = """
import os, sys, time
from datetime import UTC, datetime
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from support.children import Runner
from clawjob.runner.child import Supervisor
from clawjob.runner.environment import hide_worker
root = Path(sys.argv[1])
supervisor = Supervisor(root, "w", clock=lambda: datetime.now(UTC))
open_book = os.fork()
if open_book == 0:
    time.sleep(60)
    os._exit(0)
hide_worker()
supervisor.start()
runner = Runner(supervisor, root, "spy")
for slot in range(2):
    runner.sh("exit 0", slot=slot, run_id="other")
pids = [os.getpid(), *supervisor.wardens.pids().values()]
end = runner.run("/usr/bin/python3", "-c", sys.argv[2], *map(str, pids))
print(runner.log(), end="")
print("score", Path(f"/proc/{os.getpid()}/oom_score_adj").read_text().strip(), flush=True)
runner.run("/usr/bin/python3", "-c", sys.argv[2], str(open_book), run_id="control")
print(runner.log("control"), end="")
runner.run("cat", "/proc/self/oom_score_adj", run_id="score")
print("child", runner.log("score"), end="")
os.kill(open_book, 9)
os.waitpid(open_book, 0)
supervisor.close()
"""


def test_a_child_of_the_same_user_can_read_neither_the_worker_nor_any_warden(root: Path) -> None:
    """The worker's environment and memory hold its credentials. The control: a process that did not hide is read."""
    python, user = sys.executable, None
    source = str(Path(__file__).parents[2] / "src")
    paths = [str(Path(__file__).parents[1]), source, *(path for path in sys.path if "site-packages" in path)]
    if os.geteuid() == 0:
        # root may read everything; so the worker is another user here.
        python, user = PYTHON, UID
        os.chown(root, UID, UID)
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        probe = f"import sys; sys.path[:0] = {paths}; import clawjob.runner.child; print(sys.version)"
        found = subprocess.run([python, "-c", probe], user=user, check=False, capture_output=True, text=True)
        if not found.stdout.startswith(version):
            pytest.skip("there is no Python here that another user may run")
    done = subprocess.run(
        [python, "-c", WORKER, str(root), SPY, *paths],
        user=user,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={"SECRET": "key", "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    spied, _, control = done.stdout.partition("score 0")
    assert spied.count("refused 13") == 4 * 5, done.stdout
    assert "was read" not in spied
    assert "environ was read" in control
    assert "child 1000" in control


def group_parent() -> str:
    """A control group (version 2) in which groups can be made; empty where there is none."""
    own = cgroup.own_group()
    made = cgroup.make_parent(f"clawjob-test-{os.getpid()}", own)
    if made:
        cgroup.remove(made)
    return own if made else ""


needs_groups = pytest.mark.skipif(not group_parent(), reason="no control group (version 2) can be made here")


@needs_groups
def test_with_control_groups_each_run_has_one_and_none_is_left(make_runner: "Callable[..., Runner]") -> None:
    runner = make_runner(group_use=GroupUse.ALWAYS)
    parent = runner.supervisor.wardens.group_for("x", bounds_memory=False).removesuffix("/x")
    assert Path(parent).is_dir()
    end = runner.sh("grep ^0:: /proc/self/cgroup; (setsid sleep 300 &); exit 2")
    assert end.exit_code == 2
    assert runner.log().strip().endswith(f"{Path(parent).name}/{runner.run_id}.1")
    assert [path for path in Path(parent).iterdir() if path.is_dir()] == []
    end = runner.sh("trap '' TERM; setsid sleep 300 & sleep 300", timeout=0.3, grace=0.2)
    assert end.outcome is Outcome.TIMED_OUT
    assert [path for path in Path(parent).iterdir() if path.is_dir()] == []
    for pid in runner.supervisor.wardens.pids().values():
        assert Path(parent).name not in Path(f"/proc/{pid}/cgroup").read_text()
    runner.supervisor.close()
    assert not Path(parent).exists()


@needs_groups
def test_with_control_groups_what_cannot_start_leaves_no_group(make_runner: "Callable[..., Runner]") -> None:
    runner = make_runner(group_use=GroupUse.ALWAYS)
    assert runner.run("/no/such").outcome is Outcome.CANNOT_START
    parent = runner.supervisor.wardens.group_for("x", bounds_memory=False).removesuffix("/x")
    assert [path for path in Path(parent).iterdir() if path.is_dir()] == []


def test_without_control_groups_runs_go_all_the_same(make_runner: "Callable[..., Runner]") -> None:
    runner = make_runner(group_use=GroupUse.ALWAYS, group_parent="/no/such/group")
    assert runner.sh("exit 6").exit_code == 6


def test_a_killed_worker_process_ignores_nothing_of_this(runner: "Runner") -> None:
    """The wardens themselves cannot be stopped by the signals that people send."""
    runner.sh("exit 0")
    status = Path(f"/proc/{runner.supervisor.wardens.pids()['0']}/status").read_text()
    ignored = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn")), 16)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        assert ignored >> (number - 1) & 1
