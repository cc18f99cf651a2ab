"""Look after one running child: its output, its time, the wish to stop, and what its warden says.

One poll for everything: it wakes when there is something to do and at the deadline, never to look around.
"""

import contextlib
import os
import select
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from clawjob.runner.outcome import Cause, over_memory
from clawjob.runner.output import OutputCapture, Stream
from clawjob.runner.stop import StopKind, StopRequest
from clawjob.runner.wardens import WardenLink, WardenLostError
from clawjob.runner.wire import LEFTOVER_GRACE, STUCK_AFTER

_READ_BYTES: Final = 1 << 16
_LAST_READS: Final = 64
"""Reads of a stream when the tree is gone: more than a pipe holds. Who else got hold of the pipe cannot hold us."""
_LONGEST_PAUSE: Final = 3600.0
_KILLING: Final = LEFTOVER_GRACE + STUCK_AFTER + 20.0
"""Seconds after the grace when the warden must have said that all is over, on however busy a machine."""
_CAUSES: Final = {
    StopKind.INTERRUPT: Cause.INTERRUPTED,
    StopKind.CANCEL: Cause.CANCELLED,
    StopKind.LEASE_LOST: Cause.LEASE_LOST,
}


class Pipes:
    """The read ends of a child's two output pipes; closed one by one at their end, and all at the end of `with`."""

    def __init__(self) -> None:
        self._streams: dict[int, Stream] = {}

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[int, int]]:
        """Open both; gives the write ends, which are closed at the end of `with` and belong to the child alone then."""
        writes = []
        try:
            for stream in Stream:
                read, write = os.pipe2(os.O_CLOEXEC)
                self._streams[read] = stream
                writes.append(write)
                os.set_blocking(read, False)
            yield writes[0], writes[1]
        finally:
            for write in writes:
                os.close(write)

    def descriptors(self) -> list[int]:
        """The read ends that are open."""
        return list(self._streams)

    def read(self, descriptor: int, capture: OutputCapture) -> bool:
        """Read once; False when there is nothing now, or for ever (then the end is closed)."""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            capture.feed(self._streams[descriptor], data)
            return True
        del self._streams[descriptor]
        os.close(descriptor)
        return False

    def close(self) -> None:
        """Close what is open."""
        for descriptor in self._streams:
            os.close(descriptor)
        self._streams.clear()


@dataclass(slots=True)
class Ending:
    """What came out of the watch."""

    status: int | None = None
    cause: Cause | None = None
    why: str = ""
    at: float = 0.0
    """On the monotonic clock."""
    cpu_seconds: float = 0.0
    memory_peak_bytes: int = 0
    memory_kills: int = 0
    left_behind: int = 0
    stuck: int = 0
    cannot: tuple[str, int] | None = None
    """Stage and error number, for a child that was not started."""


def cause_of(stop: StopKind) -> Cause:
    """Return the cause of an end that was asked for."""
    return _CAUSES[stop]


@dataclass(slots=True)
class Watch:
    """The watch over one child that was ordered from a warden."""

    link: WardenLink
    pipes: Pipes
    capture: OutputCapture
    stop: StopRequest
    deadline: float
    grace: timedelta
    timeout_text: str
    memory_limit: int | None
    monotonic: Callable[[], float]
    ending: Ending = field(default_factory=Ending)
    _gone: bool = False
    _give_up_at: float = float("inf")

    def until_gone(self, wake: int) -> None:
        """Watch until no process of the run is left; `wake` is readable when a stop was asked for.

        Raises:
            WardenLostError: the warden was killed or does not answer; its processes may still be there.
        """
        poll = select.poll()
        for descriptor in (*self.pipes.descriptors(), wake, self.link.fileno()):
            poll.register(descriptor, select.POLLIN)
        outputs = set(self.pipes.descriptors())
        while not self._gone:
            for descriptor, _ in poll.poll(self._pause_ms()):
                if descriptor in outputs:
                    self.pipes.read(descriptor, self.capture)
                    if descriptor not in self.pipes.descriptors():
                        outputs.discard(descriptor)
                        poll.unregister(descriptor)
                elif descriptor == wake:
                    os.eventfd_read(wake)
                    self._heed()
                else:
                    self._hear()
            self._check_time()

    def read_rest(self) -> None:
        """Read what the pipes still hold after the tree's end."""
        for descriptor in self.pipes.descriptors():
            for _ in range(_LAST_READS):
                if not self.pipes.read(descriptor, self.capture):
                    break

    def _pause_ms(self) -> float:
        until = self._give_up_at if self._is_ending() else self.deadline
        # Rounded up, so that it does not wake just before the moment and find nothing to do.
        return max(0.0, min(until - self.monotonic(), _LONGEST_PAUSE)) * 1000 + 1

    def _is_ending(self) -> bool:
        return self.ending.cause is not None or self.ending.status is not None

    def _check_time(self) -> None:
        now = self.monotonic()
        if not self._gone and now >= self._give_up_at:
            raise WardenLostError("it does not answer")
        if not self._is_ending() and now >= self.deadline:
            self._end(Cause.TIMED_OUT, f"over its timeout of {self.timeout_text}", self.grace)

    def _heed(self) -> None:
        stop = self.stop.asked
        if stop is None:
            return
        cause = cause_of(stop.kind)
        now = self.ending.cause
        if self.ending.status is not None and now is None and cause is not Cause.LEASE_LOST:
            # It has ended by itself, and its leftovers are being ended.
            return
        if now is None or cause is Cause.LEASE_LOST or (now, cause) == (Cause.INTERRUPTED, Cause.CANCELLED):
            why = stop.reason
        else:
            cause, why = now, self.ending.why
        self._end(cause, why, self.grace if stop.grace is None else stop.grace)

    def _end(self, cause: Cause, why: str, grace: timedelta) -> None:
        self.ending.cause, self.ending.why = cause, why
        seconds = max(0.0, grace.total_seconds())
        self._give_up_at = min(self._give_up_at, self.monotonic() + seconds + _KILLING)
        self.link.end(seconds)

    def _hear(self) -> None:
        for kind, *words in self.link.hear():
            if kind == "ended":
                self._ended(words)
            elif kind == "gone":
                self.ending.left_behind, self.ending.stuck = int(words[0]), int(words[1])
                self._gone = True
            else:
                self.ending.cannot = words[0], int(words[1])
                self._gone = True
        if self._gone and not self.ending.at:
            self.ending.at = self.monotonic()

    def _ended(self, words: list[str]) -> None:
        ending = self.ending
        ending.at = self.monotonic()
        ending.status = int(words[0])
        asked, over = words[1] == "1", int(words[2])
        ending.memory_kills = int(words[3])
        ending.memory_peak_bytes = int(words[4]) * 1024
        ending.cpu_seconds = float(words[5])
        if not asked and ending.cause is not Cause.LEASE_LOST:
            # It had ended by itself when the wish reached its warden.
            ending.cause, ending.why = None, ""
        if over and ending.cause is None:
            ending.cause, ending.why = Cause.OVER_MEMORY, over_memory(over, self.memory_limit or 0)
        if not asked:
            self._give_up_at = ending.at + _KILLING
