"""The log of one attempt on disk: pieces of a bounded size and number, first and last ones kept, the cut marked.

`cat *.log` in the attempt's folder shows the log in order, with the mark at the place where something is missing.
"""

import logging
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

_log = logging.getLogger(__name__)
_FIRST: Final = 1
_CUT: Final = 2
"""This number is kept free for the mark."""


def cut_mark(dropped: int) -> bytes:
    """The line that stands where output is missing."""
    return f"[clawjob] {dropped} bytes of output are missing here: the log is over its bound\n".encode()


class PieceLog:
    """Writes one attempt's log. It never raises: a full disk costs log, not the run."""

    def __init__(self, place: Callable[[], Path], *, piece_bytes: int, pieces: int) -> None:
        """Begin a log that makes its folder when something is written.

        Args:
            place: says where; asked at the first write, for most runs write nothing.
            piece_bytes: of one piece.
            pieces: kept at most, the first among them.
        """
        if pieces < 2 or piece_bytes < 1:
            raise ValueError("a log needs at least two pieces: the first stays, the last ones rotate")
        self._place = place
        self._folder = Path()
        self._piece_bytes = piece_bytes
        self._most = pieces - 1
        self._file: int | None = None
        self._size = 0
        self._number = 0
        self._later: deque[tuple[int, int]] = deque()
        """Number and size of the full pieces after the first."""
        self._broken = False
        self.dropped_bytes = 0
        """Bytes that were written and are not kept."""

    def write(self, block: bytes) -> None:
        """Append whole lines."""
        if self._file is None or self._size + len(block) > self._piece_bytes:
            self._turn()
        left = memoryview(block)
        while left and self._file is not None:
            try:
                written = os.write(self._file, left)
            except OSError as error:
                self._fail(error)
                break
            self._size += written
            left = left[written:]
        self.dropped_bytes += len(left)

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _turn(self) -> None:
        """Close the present piece and begin the next."""
        if self._file is not None:
            self.close()
            if self._number != _FIRST:
                self._later.append((self._number, self._size))
        try:
            if self._number == 0:
                self._folder = self._place()
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            while len(self._later) >= self._most:
                self._drop()
            self._number = _CUT + 1 if self._number == _FIRST else max(self._number + 1, _FIRST)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self._path(self._number), flags, 0o600)
            self._size = 0
        except OSError as error:
            self._fail(error)

    def _drop(self) -> None:
        number, size = self._later.popleft()
        self._path(number).unlink(missing_ok=True)
        self.dropped_bytes += size
        self._path(_CUT).write_bytes(cut_mark(self.dropped_bytes))

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06d}.log"

    def _fail(self, error: OSError) -> None:
        if not self._broken:
            self._broken = True
            _log.warning("log of %s is not written: %s", self._folder, error)


def read_log(folder: Path) -> bytes:
    """Read the whole kept log of an attempt; empty when there is none."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
