"""Kept logs come to a bounded number of bytes, and no run in execution loses its own."""

import os
from pathlib import Path

from clawjob.runner.log_folder import LogFolder


def keep(logs: LogFolder, run_id: str, at: int, size: int = 110) -> None:
    place = logs.of(run_id, 1)
    place.mkdir(parents=True)
    (place / "000001.log").write_bytes(b"x" * size)
    os.utime(place.parent, (at, at))


def kept(logs: LogFolder) -> list[str]:
    return sorted(path.name for path in logs.root.iterdir())


def test_the_oldest_runs_are_removed_beyond_the_bound(tmp_path: Path) -> None:
    logs = LogFolder(tmp_path, keep_bytes=250)
    for at, run_id in enumerate(["old", "mid", "new"]):
        keep(logs, run_id, at)
    assert logs.prune() == 220
    assert kept(logs) == ["mid", "new"]


def test_the_log_of_a_run_in_execution_stays(tmp_path: Path) -> None:
    logs = LogFolder(tmp_path, keep_bytes=0)
    for at, run_id in enumerate(["a", "b"]):
        keep(logs, run_id, at)
    with logs.in_use("a"), logs.in_use("a"):
        logs.prune()
        assert kept(logs) == ["a"]
    logs.prune()
    assert kept(logs) == []


def test_nothing_to_prune_is_fine(tmp_path: Path) -> None:
    assert LogFolder(tmp_path / "none", keep_bytes=1).prune() == 0


def test_pruning_is_done_at_most_once_a_minute(tmp_path: Path) -> None:
    now = [1000.0]
    logs = LogFolder(tmp_path, keep_bytes=0, monotonic=lambda: now[0])
    keep(logs, "a", 1)
    logs.prune_when_due()
    assert kept(logs) == []
    keep(logs, "b", 2)
    now[0] += 59
    logs.prune_when_due()
    assert kept(logs) == ["b"]
    now[0] += 1
    logs.prune_when_due()
    assert kept(logs) == []


def test_no_run_id_leads_out_of_the_folder(tmp_path: Path) -> None:
    logs = LogFolder(tmp_path, keep_bytes=0)
    for run_id in ("../../x", "..", "/etc", "a/b"):
        assert logs.of(run_id, 1).resolve().parent.parent == logs.root.resolve()
