"""Working folders: one for each attempt, and none is left of a worker that died."""

import os
import subprocess
import sys
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
    folder = folders.make("run.1", None)
    assert [path.name for path in folder.iterdir()] == ["tmp"]
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "left").write_text("")
    assert [path.name for path in folders.make("run.1", None).iterdir()] == ["tmp"]
    folders.remove(folder)
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
        "(folders.make('run.1', None) / 'file').write_text(''); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert len(list((tmp_path / "work").glob("dead.*/run.1/file"))) == 1
    live = WorkFolders(tmp_path, "live")
    live.open()
    kept = live.make("run.2", None)
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
    assert list(folders.folder.iterdir()) == []
    folders.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders to another user")
def test_a_slots_user_owns_its_folder_and_cannot_list_the_others(tmp_path: Path) -> None:
    folders = WorkFolders(tmp_path, "worker")
    folders.open()
    folder = folders.make("run.1", 60_001)
    for path in (folder, folder / "tmp"):
        assert (path.stat().st_uid, path.stat().st_gid) == (60_001, 60_001)
    assert folder.parent.stat().st_mode & 0o777 == 0o711
    folders.remove(folder)
    folders.close()
