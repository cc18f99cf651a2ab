"""The memory limit of the worker's control group, in both versions, and what it allows."""

from pathlib import Path

import pytest

from clawjob.runner.memory import MemoryGate, OomCounter, memory_in_use, memory_limit

GIB = 2**30
MACHINE = "MemTotal:        8388608 kB\n"


def machine(tmp_path: Path, table: str, files: dict[str, str]) -> tuple[Path, Path]:
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text(table)
    (proc / "meminfo").write_text(MACHINE)
    (proc / "vmstat").write_text("nr_free_pages 1\noom_kill 7\n")
    cgroups.mkdir()
    for name, text in files.items():
        (cgroups / name).parent.mkdir(parents=True, exist_ok=True)
        (cgroups / name).write_text(text)
    return cgroups, proc


@pytest.mark.parametrize(
    ("table", "files", "limit"),
    [
        # version 2, seen from inside a container
        ("0::/\n", {"memory.max": "2147483648\n"}, 2 * GIB),
        # version 2, the parent bounds more than the own group
        ("0::/pod/one\n", {"pod/one/memory.max": "max\n", "pod/memory.max": "1073741824\n"}, GIB),
        # version 2, a path of the host that is not mounted in the container
        ("0::/docker/abc\n", {"memory.max": "1073741824\n"}, GIB),
        # version 2, path outside of the name space's root
        ("0::/../other\n", {"memory.max": "1073741824\n"}, GIB),
        # version 1, beside an empty version 2
        ("4:memory:/box\n0::/\n", {"memory/box/memory.limit_in_bytes": "3221225472\n"}, 3 * GIB),
        # version 1 with several controllers in one hierarchy, container's mount
        ("4:cpu,memory:/docker/x\n", {"memory/memory.limit_in_bytes": "1073741824\n"}, GIB),
        # no limit in either way
        ("0::/\n", {"memory.max": "max\n"}, 8 * GIB),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 8 * GIB),
        # a limit above the machine
        ("0::/\n", {"memory.max": str(64 * GIB)}, 8 * GIB),
        # nothing at all, and garbage
        ("", {}, 8 * GIB),
        ("nonsense\n", {"memory.max": "1\n"}, 8 * GIB),
        ("0::/\n", {"memory.max": "garbage\n"}, 8 * GIB),
    ],
)
def test_the_lowest_limit_that_holds_is_found(tmp_path: Path, table: str, files: dict[str, str], limit: int) -> None:
    assert memory_limit(*machine(tmp_path, table, files)) == limit


def test_the_real_machine_has_a_limit() -> None:
    assert memory_limit() > 16 * 2**20


def test_use_is_read_where_it_is_known(tmp_path: Path) -> None:
    places = machine(tmp_path, "0::/\n", {"memory.current": "123\n"})
    assert memory_in_use(*places) == 123


def test_use_is_unknown_without_control_groups(tmp_path: Path) -> None:
    assert memory_in_use(*machine(tmp_path, "", {})) is None


class Limit:
    """A limit that somebody changes, and a clock that somebody moves."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.now = 1000.0
        self.reads = 0

    def read(self) -> int:
        self.reads += 1
        return self.limit

    def monotonic(self) -> float:
        return self.now


def gate(limit: Limit, slot_bytes: int | None = None) -> MemoryGate:
    return MemoryGate(
        slots=5, reserve_bytes=GIB, slot_bytes=slot_bytes, read_limit=limit.read, monotonic=limit.monotonic
    )


def test_all_slots_are_used_while_the_limit_stays() -> None:
    gate_now = gate(Limit(6 * GIB))
    for used in range(5):
        assert gate_now.refusal([None] * used) == ""
    assert gate_now.refusal([None] * 5)


def test_a_limit_lowered_from_outside_is_noticed_within_a_minute_and_fewer_runs_are_taken() -> None:
    limit = Limit(6 * GIB)
    gate_now = gate(limit)
    limit.limit = 3 * GIB
    limit.now += 59
    assert not gate_now.refresh()
    limit.now += 1
    assert gate_now.refresh()
    assert gate_now.limit_bytes == 3 * GIB
    assert gate_now.refusal([None]) == ""
    assert str(3 * GIB) in gate_now.refusal([None, None])


def test_no_run_is_taken_below_the_reserve() -> None:
    limit = Limit(6 * GIB)
    gate_now = gate(limit)
    limit.limit = GIB // 2
    limit.now += 60
    assert gate_now.refresh()
    assert gate_now.refusal([])


def test_the_limit_is_not_read_more_than_once_a_minute() -> None:
    limit = Limit(6 * GIB)
    gate_now = gate(limit)
    for _ in range(100):
        limit.now += 1
        gate_now.refresh()
    assert limit.reads == 2


def test_a_runs_own_memory_limit_counts_instead_of_the_share() -> None:
    gate_now = gate(Limit(6 * GIB))
    assert gate_now.refusal([4 * GIB]) == ""
    assert gate_now.refusal([4 * GIB], wanted=2 * GIB)


def test_a_configured_share_counts() -> None:
    gate_now = gate(Limit(6 * GIB), slot_bytes=3 * GIB)
    assert gate_now.refusal([]) == ""
    assert gate_now.refusal([None])


@pytest.mark.parametrize(
    ("table", "files", "count"),
    [
        ("0::/\n", {"memory.events": "low 0\nmax 12\noom 3\noom_kill 2\n"}, 2),
        ("4:memory:/box\n", {"memory/box/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"}, 4),
        ("", {}, 7),
    ],
)
def test_kills_for_memory_are_counted(tmp_path: Path, table: str, files: dict[str, str], count: int) -> None:
    counter = OomCounter(*machine(tmp_path, table, files))
    counter.open()
    assert counter.count() == count
    counter.close()
    assert counter.count() is None


def test_a_count_is_read_anew_each_time(tmp_path: Path) -> None:
    cgroups, proc = machine(tmp_path, "0::/\n", {"memory.events": "oom_kill 1\n"})
    counter = OomCounter(cgroups, proc)
    counter.open()
    assert counter.count() == 1
    (cgroups / "memory.events").write_text("oom_kill 12\noom_group_kill 99\n")
    assert counter.count() == 12
    counter.close()


def test_a_machine_that_counts_nothing_has_no_count(tmp_path: Path) -> None:
    counter = OomCounter(tmp_path, tmp_path)
    counter.open()
    assert counter.count() is None
