"""W-11: what comes out of a child is cut into whole lines, whatever is in it and however it is split over reads."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawjob.runner.log_events import events_of
from clawjob.runner.output import MAX_LINE_BYTES, TAIL_BYTES, OutputCapture, Stream, last_text
from clawjob.runner.pieces import PieceLog, read_log


class Blocks:
    """Keeps what is offered."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []

    def offer(self, block: bytes, _at_ms: int) -> None:
        self.blocks.append(block)

    @property
    def lines(self) -> list[str]:
        return [text for block in self.blocks for _, text in events_of(block, 0)]


class Taken:
    """A capture with its log and its blocks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blocks = Blocks()
        self.capture = OutputCapture(PieceLog(lambda: folder, piece_bytes=10**9, pieces=2), self.blocks, lambda: 0)

    def feed(self, *reads: bytes, stream: Stream = Stream.OUT) -> "Taken":
        for read in reads:
            self.capture.feed(stream, read)
        return self

    def finish(self) -> list[str]:
        self.capture.finish()
        assert b"".join(self.blocks.blocks) == read_log(self.folder)
        return self.blocks.lines


@pytest.fixture
def taken(tmp_path: Path) -> Taken:
    return Taken(tmp_path / "log")


def test_a_character_split_over_two_reads_is_intact(taken: Taken) -> None:
    text = "größe 😀 名前\n".encode()
    for byte in text:
        taken.feed(bytes([byte]))
    assert taken.finish() == ["größe 😀 名前"]


def test_bad_bytes_are_replaced_only_when_read_as_text(taken: Taken) -> None:
    taken.feed(b"\xff\xfe caf\xe9\n", b"after \x97\n")
    assert taken.finish() == ["\ufffd\ufffd caf\ufffd", "after \ufffd"]
    assert read_log(taken.folder) == b"\xff\xfe caf\xe9\nafter \x97\n"


def test_an_unfinished_last_line_is_a_line(taken: Taken) -> None:
    taken.feed(b"one\ntwo")
    assert taken.blocks.lines == ["one"]
    assert taken.finish() == ["one", "two"]


def test_lines_of_the_two_streams_are_never_mixed(taken: Taken) -> None:
    taken.feed(b"out begins ").feed(b"err begins ", stream=Stream.ERR).feed(b"out ends\n")
    taken.feed(b"err ends\n", stream=Stream.ERR)
    assert taken.finish() == ["out begins out ends", "err begins err ends"]


def test_an_endless_line_is_broken_at_the_bound_between_characters(taken: Taken) -> None:
    line = "ä😀" * 200_000
    data = line.encode()
    taken.feed(*(data[at : at + 65536] for at in range(0, len(data), 65536)))
    lines = taken.finish()
    assert "".join(lines) == line
    assert all(len(part.encode()) <= MAX_LINE_BYTES for part in lines)


def test_continuation_bytes_without_end_are_broken_too(taken: Taken) -> None:
    taken.feed(b"\x80" * (MAX_LINE_BYTES * 2 + 100))
    assert len("".join(taken.finish())) == MAX_LINE_BYTES * 2 + 100


def test_all_bytes_are_counted(taken: Taken) -> None:
    taken.feed(b"12345\n").feed(b"678", stream=Stream.ERR)
    assert taken.capture.bytes_seen == 9


def test_the_tail_of_one_stream_is_its_end(taken: Taken) -> None:
    taken.feed(*(b"line %d\n" % number for number in range(10_000)))
    tail = taken.capture.tail()
    assert tail.endswith("line 9998\nline 9999\n")
    assert tail.startswith("line ")
    assert TAIL_BYTES - 20 < len(tail.encode()) <= TAIL_BYTES


def test_the_tail_holds_the_end_of_both_streams_after_a_flood_of_one(taken: Taken) -> None:
    taken.feed(b"Traceback: the reason\n", stream=Stream.ERR)
    taken.feed(*(b"noise %d\n" % number for number in range(10_000)))
    tail = taken.capture.tail()
    assert "Traceback: the reason" in tail
    assert "noise 9999" in tail
    assert len(tail.encode()) <= TAIL_BYTES


def test_the_tail_favours_the_error_stream_when_both_are_long(taken: Taken) -> None:
    taken.feed(b"o" * 79 + b"\n", *(b"out %d\n" % number for number in range(5000)))
    taken.feed(*(b"err %d\n" % number for number in range(5000)), stream=Stream.ERR)
    tail = taken.capture.tail()
    assert len(tail.encode()) <= TAIL_BYTES
    assert tail.count("err ") > 2 * tail.count("out ") > 0


def test_a_blank_stream_takes_no_room(taken: Taken) -> None:
    taken.feed(b"\n\n").feed(b"reason\n", stream=Stream.ERR)
    assert taken.capture.tail() == "reason\n"


@given(st.binary(max_size=6000))
def test_the_tail_is_text_within_its_bound(data: bytes) -> None:
    text = last_text(data[-TAIL_BYTES:], 1000)
    assert len(text.encode()) <= 1000


@given(st.lists(st.binary(max_size=30), max_size=30))
def test_nothing_is_lost_however_the_reads_are_cut(reads: list[bytes]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        taken = Taken(Path(folder) / "log")
        taken.feed(*reads)
        taken.finish()
        whole = b"".join(reads)
        assert read_log(taken.folder) == (whole if whole.endswith(b"\n") or not whole else whole + b"\n")
