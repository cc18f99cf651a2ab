"""The wish that a running child end, from any thread; it wakes the thread that looks after the child at once."""

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum


class StopKind(IntEnum):
    """Why a child is told to end; a higher one wins over a lower one."""

    INTERRUPT = 1
    """The worker drains: the run goes back and costs no retry."""
    CANCEL = 2
    """A person or a rule asked for it."""
    LEASE_LOST = 3
    """The run belongs to another worker now: end the tree at once and report nothing."""


@dataclass(frozen=True, slots=True)
class Stop:
    """What was asked for."""

    kind: StopKind
    reason: str
    grace: timedelta | None
    """Between TERM and KILL; None leaves it to the job."""


class StopRequest:
    """Made by who runs the child, triggered by anybody, any number of times."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop: Stop | None = None
        self._wake: int | None = None

    def cancel(self, reason: str, grace: timedelta | None = None) -> None:
        """Ask for the end of a run that is not wanted any more."""
        self._ask(Stop(StopKind.CANCEL, reason, grace))

    def interrupt(self, reason: str, grace: timedelta | None = None) -> None:
        """Ask for the end because the worker has to go; the run is handed back."""
        self._ask(Stop(StopKind.INTERRUPT, reason, grace))

    def lose_lease(self, reason: str = "the lease is lost") -> None:
        """Ask for the end because another worker may have the run."""
        self._ask(Stop(StopKind.LEASE_LOST, reason, timedelta(0)))

    def _ask(self, stop: Stop) -> None:
        with self._lock:
            before = self._stop
            if before is not None:
                stronger = max(before, stop, key=lambda one: one.kind)
                graces = [one.grace for one in (before, stop) if one.grace is not None]
                stop = Stop(stronger.kind, stronger.reason, min(graces, default=None))
            self._stop = stop
            if self._wake is not None:
                os.eventfd_write(self._wake, 1)

    @property
    def asked(self) -> Stop | None:
        """What was asked for so far; None for nothing."""
        with self._lock:
            return self._stop

    @contextlib.contextmanager
    def listening(self) -> Iterator[int]:
        """Give a descriptor that is readable from each request on until it is read; closed at the end."""
        wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        with self._lock:
            self._wake = wake
            if self._stop is not None:
                os.eventfd_write(wake, 1)
        try:
            yield wake
        finally:
            with self._lock:
                self._wake = None
            os.close(wake)
