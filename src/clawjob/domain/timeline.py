"""Sets of instants that a schedule can be made of: every so often, and once.

Promise: stepping, stepping back, counting and asking about one instant agree with each other.
Instants are epoch seconds.
"""

from typing import NamedTuple, Protocol

from clawjob.domain.zone import FAR_FUTURE, FAR_PAST, Zone


class Firing(NamedTuple):
    """An instant and the wall time that it stands for."""

    instant: int
    wall: int
    is_moved: bool


class Timeline(Protocol):
    """A set of instants between FAR_PAST and FAR_FUTURE."""

    def first_from(self, instant: int) -> int | None:
        """The first instant of the set at or after this one."""

    def last_before(self, instant: int) -> int | None:
        """The last instant of the set before this one."""

    def count(self, start: int, end: int) -> int:
        """How many instants of the set are at or after `start` and before `end`."""

    def firing_at(self, instant: int) -> Firing | None:
        """What fires at this instant; None if it is not in the set."""

    def smallest_gap(self, start: int, end: int) -> int | None:
        """Seconds between the two closest neighbours from `start` to `end`; None if there are no two."""


class IntervalTimeline:
    """Every so many seconds, counted from the epoch plus an offset."""

    __slots__ = ("_every", "_offset", "_zone")

    def __init__(self, every: int, offset: int, zone: Zone) -> None:
        self._every = every
        self._offset = offset
        self._zone = zone

    def first_from(self, instant: int) -> int | None:
        """The first instant of the set at or after this one."""
        found = instant + (self._offset - instant) % self._every
        return found if found < FAR_FUTURE else None

    def last_before(self, instant: int) -> int | None:
        """The last instant of the set before this one."""
        found = instant - 1 - (instant - 1 - self._offset) % self._every
        return found if found >= FAR_PAST else None

    def count(self, start: int, end: int) -> int:
        """How many instants of the set are at or after `start` and before `end`."""
        return max(0, (end - 1 - self._offset) // self._every - (start - 1 - self._offset) // self._every)

    def firing_at(self, instant: int) -> Firing | None:
        """What fires at this instant; None if it is not in the set."""
        if (instant - self._offset) % self._every:
            return None
        return Firing(instant, instant + self._zone.offset_at(instant), is_moved=False)

    def smallest_gap(self, start: int, end: int) -> int | None:
        """Seconds between the two closest neighbours from `start` to `end`; None if there are no two."""
        return self._every if self.count(start, end) > 1 else None


class SingleTimeline:
    """One instant."""

    __slots__ = ("_at", "_zone")

    def __init__(self, at: int, zone: Zone) -> None:
        self._at = at
        self._zone = zone

    def first_from(self, instant: int) -> int | None:
        """The first instant of the set at or after this one."""
        return self._at if instant <= self._at else None

    def last_before(self, instant: int) -> int | None:
        """The last instant of the set before this one."""
        return self._at if self._at < instant else None

    def count(self, start: int, end: int) -> int:
        """How many instants of the set are at or after `start` and before `end`."""
        return int(start <= self._at < end)

    def firing_at(self, instant: int) -> Firing | None:
        """What fires at this instant; None if it is not in the set."""
        if instant != self._at:
            return None
        return Firing(instant, instant + self._zone.offset_at(instant), is_moved=False)

    def smallest_gap(self, start: int, end: int) -> int | None:
        """Seconds between the two closest neighbours from `start` to `end`; None if there are no two."""
        del start, end  # one instant has no neighbours
        return None
