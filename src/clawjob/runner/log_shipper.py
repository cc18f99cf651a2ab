"""Ships the output of all runs of a worker to the log service, by one thread, from a bounded buffer.

Promises: handing over a block never waits; a service that fails or hangs costs log lines, not runs; what was dropped
stands in the log with its number of bytes, where it is missing; the end of a run's output is what is kept longest.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from clawjob.runner.log_events import LogEvent, batches, events_of, missing_mark, text_bytes

_log = logging.getLogger(__name__)
_TAKE_BYTES: Final = 512 * 1024
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0


class EventSink(Protocol):
    """The log service."""

    def put_events(self, stream: str, events: list[LogEvent]) -> int | None:
        """Store events, oldest first, within the limits of one request.

        Returns how many of them the service refused for good; raises when it should be tried again.
        """


@dataclass(frozen=True, slots=True)
class ShipperLimits:
    """Bounds of the buffer and patience with the service."""

    buffer_bytes: int = 8 * 1024 * 1024
    """Of all runs of the worker together."""
    run_bytes: int = 1024 * 1024
    """Waiting of one run; the oldest goes first."""
    budget_bytes: int = 64 * 1024 * 1024
    """Shipped of one run while it runs; after that only the end of its output is."""
    linger: float = 1.0
    """Seconds that a line waits for more to come, so that a request carries many."""
    patience: float = 120.0
    """Seconds for which one request is tried again."""


class ShippedLog:
    """The log of one attempt on its way. `offer` and `finish` are for the run's thread, the rest for the shipper's."""

    def __init__(self, stream: str, shipper: "LogShipper") -> None:
        self.stream = stream
        self._shipper = shipper
        self.blocks: deque[tuple[int, bytes]] = deque()
        self.waiting = 0
        self.missing = 0
        """Bytes dropped just before the first waiting block."""
        self.dropped = 0
        self.shipped = 0
        self.last_ms = 0
        self.listed = False
        self.due_at = 0.0
        self.finished = False
        self.in_hand: deque[list[LogEvent]] = deque()
        self.in_hand_bytes = 0
        self.in_hand_missing: int | None = 0
        """What the mark in hand speaks of; None once the first request of what is in hand was taken."""
        self.pause = _FIRST_PAUSE
        self.failing_since: float | None = None

    def offer(self, block: bytes, at_ms: int) -> None:
        """Take a block of whole lines."""
        self._shipper.take(self, block, at_ms)

    def finish(self) -> None:
        """Say that nothing more comes; what waits is shipped soon."""
        self._shipper.finish(self)

    @property
    def dropped_bytes(self) -> int:
        """Bytes that were dropped so far."""
        return self.dropped

    def lose(self, size: int) -> None:
        """Count bytes that are dropped after all that waits."""
        self.missing += size
        self.dropped += size

    def forget_oldest(self) -> int:
        """Drop the first waiting block; returns its size."""
        size = len(self.blocks.popleft()[1])
        self.waiting -= size
        self.lose(size)
        return size


class LogShipper:
    """One for each worker."""

    def __init__(
        self, sink: EventSink, limits: ShipperLimits | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._sink = sink
        self._limits = limits or ShipperLimits()
        self._monotonic = monotonic
        self._change = threading.Condition()
        self._logs: list[ShippedLog] = []
        self._held = 0
        self._closing = False
        self._give_up_at = float("inf")
        self._thread = threading.Thread(target=self._work, name="log-shipper", daemon=True)
        self.dropped_bytes = 0
        """Of all runs since the start, for the worker's metrics."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def open(self, stream: str) -> ShippedLog:
        """Begin the log of an attempt; costs nothing until something is written."""
        return ShippedLog(stream, self)

    def close(self, timeout: float) -> int:
        """Ship what waits, for so many seconds at most; returns the bytes that were left behind."""
        with self._change:
            self._closing = True
            self._give_up_at = self._monotonic() + timeout
            for log in self._logs:
                self._hasten(log)
            self._change.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)
        with self._change:
            left = self._held
            if left:
                _log.warning("%d bytes of output were not shipped: the worker ends", left)
            return left

    def take(self, log: ShippedLog, block: bytes, at_ms: int) -> None:
        """Take a block of a log; drops older ones of it, or this one, when there is no room."""
        size = len(block)
        limits = self._limits
        with self._change:
            self._list(log)
            while log.blocks and (log.waiting + size > limits.run_bytes or self._held + size > limits.buffer_bytes):
                gone = log.forget_oldest()
                self._held -= gone
                self.dropped_bytes += gone
            log.last_ms = max(log.last_ms, at_ms)
            if size > limits.run_bytes or self._held + size > limits.buffer_bytes:
                log.lose(size)
                self.dropped_bytes += size
                return
            log.blocks.append((log.last_ms, block))
            log.waiting += size
            self._held += size
            if log.waiting >= _TAKE_BYTES and log.failing_since is None:
                self._hasten(log)

    def finish(self, log: ShippedLog) -> None:
        """Take no more of a log."""
        with self._change:
            log.finished = True
            if log.listed and log.failing_since is None:
                self._hasten(log)

    def _list(self, log: ShippedLog) -> None:
        """Plan when what a log gets now is shipped, unless that is planned."""
        if not log.listed:
            log.listed = True
            self._logs.append(log)
        elif log.blocks or log.in_hand:
            return
        log.due_at = self._monotonic() + self._limits.linger
        self._change.notify()

    def _hasten(self, log: ShippedLog) -> None:
        now = self._monotonic()
        if log.due_at > now:
            log.due_at = now
            self._change.notify()

    def _work(self) -> None:
        while True:
            log = self._next()
            if log is None:
                return
            try:
                self._ship(log)
            except Exception:
                # Nothing that one log does may end the thread that serves all.
                _log.exception("the log of %s was not shipped", log.stream)
                self._put_off(log)

    def _next(self) -> ShippedLog | None:
        """Wait for the next log that has something to ship; None when all is done."""
        with self._change:
            while True:
                now = self._monotonic()
                if self._closing and (not self._logs or now >= self._give_up_at):
                    return None
                ready = [log for log in self._logs if self._wants(log)]
                log = min(ready, key=_due, default=None)
                if log is None:
                    if self._closing:
                        return None
                    self._change.wait()
                elif log.due_at <= now:
                    return log
                else:
                    self._change.wait(min(log.due_at, self._give_up_at) - now)

    def _wants(self, log: ShippedLog) -> bool:
        """Over its budget, a log waits for its end."""
        over = log.shipped >= self._limits.budget_bytes
        return bool(log.in_hand) or log.finished or self._closing or (bool(log.blocks) and not over)

    def _ship(self, log: ShippedLog) -> None:
        if not log.in_hand:
            self._take_in_hand(log)
        while log.in_hand:
            batch = log.in_hand[0]
            try:
                refused = self._sink.put_events(log.stream, batch) or 0
            except Exception as error:
                self._put_off(log, error)
                return
            log.in_hand.popleft()
            log.in_hand_missing = None
            log.failing_since, log.pause = None, _FIRST_PAUSE
            if refused:
                _log.warning("the log service refused %d events of %s", refused, log.stream)
        with self._change:
            self._held -= log.in_hand_bytes
            log.shipped += log.in_hand_bytes
            log.in_hand_bytes = 0
            at_once = log.finished or self._closing or log.waiting >= _TAKE_BYTES
            log.due_at = self._monotonic() + (0.0 if at_once else self._limits.linger)
            self._unlist_if_done(log)

    def _take_in_hand(self, log: ShippedLog) -> None:
        blocks = []
        size = 0
        with self._change:
            missing, log.missing = log.missing, 0
            while log.blocks and size < _TAKE_BYTES:
                block = log.blocks.popleft()
                size += len(block[1])
                blocks.append(block)
            log.waiting -= size
            log.in_hand_bytes = size
            log.in_hand_missing = missing
        events: list[LogEvent] = []
        if missing:
            events.append((blocks[0][0] if blocks else log.last_ms, missing_mark(missing)))
        for at_ms, block_bytes in blocks:
            events += events_of(block_bytes, at_ms)
        log.in_hand.extend(batches(events))

    def _put_off(self, log: ShippedLog, error: Exception | None = None) -> None:
        """Try what is in hand again later; without patience left, drop it."""
        with self._change:
            now = self._monotonic()
            if log.failing_since is None:
                log.failing_since = now
                _log.warning("the log service does not take the log of %s: %s", log.stream, error)
            if now - log.failing_since >= self._limits.patience:
                self._drop_in_hand(log)
                log.failing_since = now
            log.due_at = now + log.pause
            log.pause = min(log.pause * 2, _LONGEST_PAUSE)

    def _drop_in_hand(self, log: ShippedLog) -> None:
        if log.in_hand_missing is None:
            lost = sum(text_bytes(event) + 1 for batch in log.in_hand for event in batch)
        else:
            lost = log.in_hand_bytes
            log.missing += log.in_hand_missing
        self._held -= log.in_hand_bytes
        log.in_hand.clear()
        log.in_hand_bytes = 0
        log.lose(lost)
        self.dropped_bytes += lost
        if log.finished and not log.blocks:
            _log.warning("%d bytes of output of %s are lost", log.missing, log.stream)
            log.missing = 0
            self._unlist_if_done(log)

    def _unlist_if_done(self, log: ShippedLog) -> None:
        if log.finished and not log.blocks and not log.missing:
            self._logs.remove(log)
            log.listed = False


def _due(log: ShippedLog) -> float:
    return log.due_at
