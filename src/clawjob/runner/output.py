"""What a child writes to stdout and stderr, taken in without ever making it wait for us.

Work per read is a few operations on the whole block, whatever is in it: lines are not looked at one by one here, so a
flood costs little and a single endless line costs the same. Blocks of whole lines go to the pieces on disk and to the
shipper; the end of each stream is kept in memory for the run's record.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final, Protocol

from clawjob.runner.pieces import PieceLog

TAIL_BYTES: Final = 4096
MAX_LINE_BYTES: Final = 256 * 1024 - 26
"""A longer line is broken here; what CloudWatch Logs always took as one event."""
_BOUNDED_BACK: Final = 4
_CONTINUES: Final = range(0x80, 0xC0)


class Stream(IntEnum):
    """The two streams of a child."""

    OUT = 1
    ERR = 2


class BlockSink(Protocol):
    """Takes blocks of whole lines, at once and without waiting."""

    def offer(self, block: bytes, at_ms: int, /) -> None:
        """Take a block that was read at this instant."""


class _Lines:
    """Cuts one stream into blocks of whole lines."""

    def __init__(self) -> None:
        self._carry = bytearray()
        self.tail = b""

    def feed(self, data: bytes) -> bytes:
        self.tail = (self.tail + data if len(data) < TAIL_BYTES else data)[-TAIL_BYTES:]
        cut = data.rfind(b"\n") + 1
        block = b""
        if cut:
            block = bytes(self._carry) + data[:cut] if self._carry else data[:cut]
            self._carry = bytearray(data[cut:])
        else:
            self._carry += data
        while len(self._carry) > MAX_LINE_BYTES:
            end = _whole_characters(self._carry, MAX_LINE_BYTES)
            block += bytes(self._carry[:end]) + b"\n"
            del self._carry[:end]
        return block

    def rest(self) -> bytes:
        block = bytes(self._carry) + b"\n" if self._carry else b""
        self._carry.clear()
        return block


def _whole_characters(data: bytearray, end: int) -> int:
    """Move an end back to the beginning of the character that it would cut."""
    for back in range(_BOUNDED_BACK):
        if data[end - back] not in _CONTINUES:
            return end - back
    return end


class OutputCapture:
    """Takes in the output of one attempt."""

    def __init__(self, pieces: PieceLog, sink: BlockSink | None, now_ms: Callable[[], int]) -> None:
        self._pieces = pieces
        self._sink = sink
        self._now_ms = now_ms
        self._lines = {Stream.OUT: _Lines(), Stream.ERR: _Lines()}
        self.bytes_seen = 0

    def feed(self, stream: Stream, data: bytes) -> None:
        """Take what was read from one stream."""
        self.bytes_seen += len(data)
        self._keep(self._lines[stream].feed(data))

    def finish(self) -> None:
        """Take unfinished last lines as lines, and give the file back."""
        for lines in self._lines.values():
            self._keep(lines.rest())
        self._pieces.close()

    @property
    def dropped_bytes(self) -> int:
        """Bytes that are missing in the pieces on disk."""
        return self._pieces.dropped_bytes

    def tail(self) -> str:
        """The end of the output, at most 4 KiB of UTF-8; of both streams when both wrote something."""
        out, err = self._lines[Stream.OUT].tail, self._lines[Stream.ERR].tail
        if not (out.strip() and err.strip()):
            return last_text(err if err.strip() else out, TAIL_BYTES)
        # The error stream says more about a failure; what one does not need, the other gets.
        heads = ("[stderr]\n", "\n[stdout]\n")
        room = TAIL_BYTES - sum(map(len, heads))
        for_err = max(room - len(out), room * 3 // 4)
        error_text = last_text(err, for_err)
        return f"{heads[0]}{error_text}{heads[1]}{last_text(out, room - len(error_text.encode()))}"

    def _keep(self, block: bytes) -> None:
        if block:
            self._pieces.write(block)
            if self._sink is not None:
                self._sink.offer(block, self._now_ms())


def last_text(data: bytes, limit: int) -> str:
    """Read the last bytes as text of at most so many bytes, from the beginning of a line where there is one."""
    text = data.decode("utf-8", "replace")
    encoded = text.encode()
    if len(encoded) <= limit:
        return text if len(data) < TAIL_BYTES else _from_line_start(text)
    return _from_line_start(encoded[-limit:].decode("utf-8", "ignore"))


def _from_line_start(text: str) -> str:
    _, newline, rest = text.partition("\n")
    return rest if newline and rest.strip() else text
