"""Working folders are removed with all that a child may leave in them."""

import os
from pathlib import Path

import pytest

from clawjob.runner.removal import remove_folder


def test_an_empty_or_missing_folder_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert remove_folder(str(tmp_path / "a")) == ""
    assert remove_folder(str(tmp_path / "a")) == ""
    assert not (tmp_path / "a").exists()


def test_files_links_pipes_sockets_and_odd_names_go(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "-rf").write_text("")
    (folder / "new\nline").write_text("")
    (folder / "\udcff").write_text("")
    (folder / "link").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    assert remove_folder(str(folder)) == ""
    assert not folder.exists()
    assert Path("/etc/passwd").exists()


def test_no_link_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "precious").write_text("")
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    assert remove_folder(str(folder)) == ""
    assert (outside / "precious").exists()


def test_a_link_in_the_folders_own_place_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "precious").write_text("")
    (tmp_path / "a").symlink_to(tmp_path / "real")
    assert remove_folder(str(tmp_path / "a")) == ""
    assert (tmp_path / "real" / "precious").exists()
    assert not (tmp_path / "a").is_symlink()


@pytest.mark.parametrize("mode", [0o000, 0o400, 0o500, 0o300])
def test_folders_whose_owner_took_all_rights_away_go(tmp_path: Path, mode: int) -> None:
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    (inner / "file").write_text("")
    inner.chmod(mode)
    inner.parent.chmod(mode)
    (tmp_path / "a").chmod(mode)
    assert remove_folder(str(tmp_path / "a")) == ""
    assert not (tmp_path / "a").exists()


def test_a_folder_deeper_than_any_path_goes(tmp_path: Path) -> None:
    top = tmp_path / "a"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d" * 100, dir_fd=here)
        os.close(os.open("file", os.O_CREAT, dir_fd=here))
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert remove_folder(str(top)) == ""
    assert not top.exists()


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b").chmod(0)
    before = len(list(Path("/proc/self/fd").iterdir()))
    remove_folder(str(tmp_path / "a"))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
