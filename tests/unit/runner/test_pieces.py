"""Logs on disk: bounded, first and last pieces kept, the cut marked in words."""

import os
import re
from pathlib import Path

import pytest

from clawjob.runner.pieces import PieceLog, cut_mark, read_log


def line(number: int) -> bytes:
    return b"line %05d\n" % number


def written(folder: Path, lines: int, piece_bytes: int = 110, pieces: int = 3) -> PieceLog:
    log = PieceLog(lambda: folder, piece_bytes=piece_bytes, pieces=pieces)
    for number in range(lines):
        log.write(line(number))
    log.close()
    return log


def test_no_output_makes_no_folder(tmp_path: Path) -> None:
    written(tmp_path / "a", 0)
    assert not (tmp_path / "a").exists()
    assert read_log(tmp_path / "a") == b""


@pytest.mark.parametrize("lines", [1, 10, 11, 20, 21, 30])
def test_a_log_within_its_bound_is_whole(tmp_path: Path, lines: int) -> None:
    log = written(tmp_path / "a", lines)
    assert read_log(tmp_path / "a") == b"".join(map(line, range(lines)))
    assert log.dropped_bytes == 0


@pytest.mark.parametrize("lines", [31, 40, 41, 50, 51, 5000])
def test_a_log_over_its_bound_keeps_its_first_and_last_lines_and_says_how_much_is_missing(
    tmp_path: Path, lines: int
) -> None:
    log = written(tmp_path / "a", lines)
    text = read_log(tmp_path / "a")
    head, mark, tail = text.partition(cut_mark(log.dropped_bytes))
    assert mark
    assert head == b"".join(map(line, range(10)))
    assert tail.endswith(line(lines - 1))
    assert log.dropped_bytes == lines * len(line(0)) - len(head) - len(tail)
    assert len(list((tmp_path / "a").iterdir())) <= 4


def test_the_mark_is_there_while_the_run_goes_on(tmp_path: Path) -> None:
    log = PieceLog(lambda: tmp_path, piece_bytes=20, pieces=2)
    for number in range(100):
        log.write(line(number))
    found = re.search(rb"\[clawjob\] (\d+) bytes of output are missing here", read_log(tmp_path))
    assert found
    assert int(found[1]) == log.dropped_bytes
    log.close()


def test_files_belong_to_the_worker_alone(tmp_path: Path) -> None:
    written(tmp_path / "run" / "1", 1)
    assert (tmp_path / "run" / "1").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "run" / "1" / "000001.log").stat().st_mode & 0o777 == 0o600


def test_a_disk_that_takes_nothing_costs_the_log_and_not_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = PieceLog(lambda: tmp_path / "file" / "log", piece_bytes=100, pieces=2)
    log.write(b"one\n")
    log.write(b"three\n")
    log.close()
    assert log.dropped_bytes == 10


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_disk_counts_what_was_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = PieceLog(lambda: tmp_path, piece_bytes=100, pieces=2)
    log.write(b"one\n")
    assert log._file is not None
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._file)
    os.close(full)
    log.write(b"lost\n")
    log.close()
    assert log.dropped_bytes == 5


def test_one_piece_is_refused() -> None:
    with pytest.raises(ValueError, match="two pieces"):
        PieceLog(Path, piece_bytes=100, pieces=1)
