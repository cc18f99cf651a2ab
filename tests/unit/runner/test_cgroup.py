"""Control groups of runs: which files are written, and that nothing fails where they are not to be had."""

from pathlib import Path

from clawjob.runner.cgroup import RunGroup, can_bound_memory, make_parent, own_group, remove


def test_the_own_group_is_found_where_it_is_mounted(tmp_path: Path) -> None:
    table = tmp_path / "cgroup"
    table.write_text("4:memory:/box\n0::/pod/one\n")
    root = tmp_path / "unified"
    (root / "pod/one").mkdir(parents=True)
    (root / "pod/one/cgroup.procs").write_text("")
    assert own_group(str(table), (str(tmp_path / "none"), str(root))) == f"{root}/pod/one"
    assert own_group(str(table), (str(tmp_path / "none"),)) == ""


def test_without_version_2_there_is_no_own_group(tmp_path: Path) -> None:
    table = tmp_path / "cgroup"
    table.write_text("4:memory:/box\n")
    assert own_group(str(table)) == ""
    assert own_group(str(tmp_path / "nothing")) == ""


def test_no_parent_is_made_where_that_is_not_allowed_or_groups_cannot_be_killed(tmp_path: Path) -> None:
    assert make_parent("x", "") == ""
    assert make_parent("x", str(tmp_path / "none")) == ""
    assert make_parent("x", str(tmp_path)) == ""
    assert list(tmp_path.iterdir()) == []


def test_memory_can_be_bounded_where_the_controller_is_handed_down(tmp_path: Path) -> None:
    assert not can_bound_memory(str(tmp_path))
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids\n")
    assert can_bound_memory(str(tmp_path))


def test_a_run_with_a_memory_limit_bounds_its_group_and_counts_the_kernels_kills(tmp_path: Path) -> None:
    group = RunGroup(str(tmp_path / "run"), str(tmp_path))
    group.make(123_456)
    written = {path.name: path.read_text() for path in (tmp_path / "run").iterdir()}
    assert written == {"memory.max": "123456", "memory.swap.max": "0", "memory.oom.group": "1"}
    assert group.memory_kills() == 0
    (tmp_path / "run/memory.events").write_text("max 9\noom 2\noom_kill 2\noom_group_kill 1\n")
    assert group.memory_kills() == 2
    group.enter()
    group.leave()
    group.kill()
    assert (tmp_path / "run/cgroup.procs").read_text() == "0"
    assert (tmp_path / "cgroup.procs").read_text() == "0"
    assert (tmp_path / "run/cgroup.kill").read_text() == "1"


def test_a_group_that_cannot_be_made_or_entered_is_done_without(tmp_path: Path) -> None:
    group = RunGroup(str(tmp_path / "none/run"), str(tmp_path))
    group.make(1)
    group.enter()
    group.leave()
    group.kill()
    group.remove()
    assert not group.made
    (tmp_path / "run").mkdir()
    (tmp_path / "run/cgroup.procs").mkdir()
    (tmp_path / "run").chmod(0o755)
    taken = RunGroup(str(tmp_path / "run"), str(tmp_path))
    taken.make(1)
    assert not taken.made


def test_an_empty_parent_goes_with_the_empty_groups_in_it(tmp_path: Path) -> None:
    (tmp_path / "parent/run").mkdir(parents=True)
    assert remove(str(tmp_path / "parent"))
    assert not (tmp_path / "parent").exists()
    assert not remove(str(tmp_path / "parent"))
