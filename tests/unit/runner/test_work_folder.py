"""Working folders: one for each attempt, and none is left of a worker that died."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clawjob.runner.work_folder import WorkFolders, safe_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("7k2m0x9c4b1d-20240310T070000Z.1", "7k2m0x9c4b1d-20240310T070000Z.1"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("..", "_"),
        ("", "_"),
        (".hidden", "hidden"),
        ("a/b\0c\n", "a_b_c_"),
        ("名", "_"),
    ],
)
def test_names_stay_inside(text: str, name: str) -> None:
    assert safe_name(text) == name


def test_a_long_name_is_cut() -> None:
    assert len(safe_name("x" * 1000)) == 120


def test_an_attempt_gets_an_empty_folder_of_its_own(tmp_path: Path) -> None:
    folders = WorkFolders(tmp_path, "worker")
    folders.open()
    folder = Path(folders.make("run.1", None))
    assert [path.name for path in folder.iterdir()] == ["tmp"]
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "left").write_text("")
    assert [path.name for path in Path(folders.make("run.1", None)).iterdir()] == ["tmp"]
    folders.remove(str(folder), None)
    assert not folder.exists()
    folders.close()
    assert list((tmp_path / "work").iterdir()) == []


def test_a_folder_in_use_is_not_taken(tmp_path: Path) -> None:
    first, second = WorkFolders(tmp_path, "worker"), WorkFolders(tmp_path, "worker")
    first.open()
    with pytest.raises(OSError, match="temporarily unavailable"):
        second.open()
    first.close()
    second.open()
    second.close()


def test_what_a_dead_worker_left_is_removed_and_a_live_ones_is_kept(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib; from clawjob.runner.work_folder import WorkFolders;"
        "folders = WorkFolders(pathlib.Path(sys.argv[1]), 'dead'); folders.open();"
        "pathlib.Path(folders.make('run.1', None), 'file').write_text(''); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert len(list((tmp_path / "work").glob("dead.*/runs/run.1/file"))) == 1
    live = WorkFolders(tmp_path, "live")
    live.open()
    kept = Path(live.make("run.2", None))
    assert not list((tmp_path / "work").glob("dead*"))
    third = WorkFolders(tmp_path, "third")
    third.open()
    assert kept.exists()
    third.close()
    live.close()


def test_a_worker_with_the_process_id_of_a_dead_one_finds_an_empty_folder(tmp_path: Path) -> None:
    folders = WorkFolders(tmp_path, "worker")
    (folders.folder / "run.1/deep").mkdir(parents=True)
    folders.open()
    assert list(folders.runs.iterdir()) == []
    assert not (folders.folder / "run.1").exists()
    folders.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders to another user")
def test_a_slots_user_owns_its_folder_and_cannot_list_the_others(tmp_path: Path) -> None:
    folders = WorkFolders(tmp_path, "worker")
    folders.open()
    folder = Path(folders.make("run.1", 60_001))
    for path in (folder, folder / "tmp"):
        assert (path.stat().st_uid, path.stat().st_gid) == (60_001, 60_001)
    assert folder.parent.stat().st_mode & 0o777 == 0o711
    folders.remove(str(folder), 60_001)
    folders.close()


def test_a_folder_left_as_it_was_made_becomes_the_next_ones(tmp_path: Path) -> None:
    folders = WorkFolders(tmp_path, "worker")
    folders.open()
    first = Path(folders.make("run.1", None))
    number = first.stat().st_ino
    folders.remove(str(first), None)
    assert list(folders.runs.iterdir()) == []
    second = Path(folders.make("run.2", None))
    assert second.stat().st_ino == number
    assert [path.name for path in second.rglob("*")] == ["tmp"]
    folders.close()


def test_a_folder_that_a_child_changed_in_any_way_is_not_given_to_another(tmp_path: Path) -> None:
    folders = WorkFolders(tmp_path, "worker")
    folders.open()
    changes: list[Callable[[Path], object]] = [
        lambda folder: (folder / "file").write_text(""),
        lambda folder: (folder / ".hidden").mkdir(),
        lambda folder: (folder / "tmp/file").write_text(""),
        lambda folder: (folder / "tmp").rmdir(),
        lambda folder: ((folder / "tmp").rmdir(), (folder / "tmp").symlink_to("/")),
        lambda folder: folder.chmod(0o755),
        lambda folder: (folder / "tmp").chmod(0o1700),
        lambda folder: folder.chmod(0o2700),
        lambda folder: _set_attribute(folder),
    ]
    if os.geteuid() == 0:
        changes.append(lambda folder: os.chown(folder, 60_009, 0))
    for change in changes:
        folder = Path(folders.make("run.1", None))
        change(folder)
        folders.remove(str(folder), None)
        assert not folder.exists()
        assert list((folders.folder / "spare").iterdir()) == []
    folders.close()


def _set_attribute(folder: Path) -> None:
    try:
        os.setxattr(folder, "user.mark", b"x")
    except OSError:
        # A file system without attributes: nothing to be found there.
        folder.chmod(0o700 | 0o4000)


def test_a_spare_folder_does_not_take_the_place_of_one_that_is_there(tmp_path: Path) -> None:
    folders = WorkFolders(tmp_path, "worker")
    folders.open()
    for name in ("run.1", "run.2"):
        folder = folders.make(name, None)
    Path(folder, "left").write_text("")
    folders.remove(str(folders.runs / "run.1"), None)
    assert [path.name for path in Path(folders.make("run.2", None)).iterdir()] == ["tmp"]
    folders.close()


def test_few_spare_folders_are_kept(tmp_path: Path) -> None:
    folders = WorkFolders(tmp_path, "worker")
    folders.open()
    made = [folders.make(f"run.{number}", None) for number in range(20)]
    for folder in made:
        folders.remove(folder, None)
    assert len(list((folders.folder / "spare").iterdir())) == 4
    folders.close()
    assert list((tmp_path / "work").iterdir()) == []
