"""The instants of a cron expression in a zone, with the rules for hours that do not exist or come twice.

Promise: one definition of which instants are meant; stepping, stepping back, counting and asking about one instant
read it from the same two numbers per segment of the zone, so they cannot disagree. Instants are epoch seconds.

It rests on one fact of the zone data: two changes of an offset are further apart than any change is large.
"""

from enum import StrEnum
from itertools import pairwise
from typing import Final

from clawjob.domain.civil import CivilTimes
from clawjob.domain.timeline import Firing
from clawjob.domain.zone import DAY, FAR_FUTURE, FAR_PAST, Segment, Zone

LARGEST_GAP: Final = 3 * 3600
"""A wall time that a larger jump leaves out (a whole day at the date line) gets no run."""
_MARGIN: Final = 2 * DAY
"""More than any two clocks of the world differ, changes of the clock included."""


class Missing(StrEnum):
    """What a fixed time of day does on a day that does not have it."""

    SHIFT = "shift"
    SKIP = "skip"


class Repeated(StrEnum):
    """What a fixed time of day does on a day that has it twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class CronTimeline:
    """The instants of a cron expression in a zone.

    A wildcard expression fires whenever the wall clock shows one of its times. A fixed-time one fires once per wall
    time: at the pass that the policy names where there are two, and at the end of the gap where there is none.
    """

    __slots__ = ("_civil", "_missing", "_repeated", "_zone")

    def __init__(
        self, civil: CivilTimes, zone: Zone, *, is_wildcard: bool, missing: Missing, repeated: Repeated
    ) -> None:
        self._civil = civil
        self._zone = zone
        self._missing = Missing.SKIP if is_wildcard else missing
        self._repeated = Repeated.BOTH if is_wildcard else repeated

    def first_from(self, instant: int) -> int | None:
        """The first instant of the set at or after this one."""
        instant = max(instant, FAR_PAST)
        while instant < FAR_FUTURE:
            segment = self._zone.segment_at(instant)
            if instant == segment.start and self._made_up_wall(segment) is not None:
                return instant
            low, high = self._walls(segment)
            wall = self._civil.first_from(max(instant + segment.offset, low))
            if wall is not None and wall < high:
                return wall - segment.offset
            if segment.offset_after < segment.offset:
                instant = segment.end  # the clock goes back over wall times that were passed already
            elif wall is None:
                return None
            else:
                instant = max(segment.end, wall - _MARGIN)
        return None

    def last_before(self, instant: int) -> int | None:
        """The last instant of the set before this one."""
        instant = min(instant, FAR_FUTURE)
        while instant > FAR_PAST:
            segment = self._zone.segment_at(instant - 1)
            low, high = self._walls(segment)
            wall = self._civil.last_before(min(instant + segment.offset, high))
            if wall is not None and wall >= low:
                return wall - segment.offset
            if self._made_up_wall(segment) is not None:
                return segment.start
            if segment.offset_before > segment.offset:
                instant = segment.start
            elif wall is None:
                return None
            else:
                instant = min(segment.start, wall + _MARGIN)
        return None

    def count(self, start: int, end: int) -> int:
        """How many instants of the set are at or after `start` and before `end`."""
        total = 0
        instant, end = max(start, FAR_PAST), min(end, FAR_FUTURE)
        while instant < end:
            segment = self._zone.segment_at(instant)
            low, high = self._walls(segment)
            first = max(instant + segment.offset, low)
            total += self._civil.count(first, min(end + segment.offset, high))
            if instant == segment.start and self._made_up_wall(segment) is not None:
                total += 1
            instant = segment.end
        return total

    def firing_at(self, instant: int) -> Firing | None:
        """What fires at this instant; None if it is not in the set."""
        if not FAR_PAST <= instant < FAR_FUTURE:
            return None
        segment = self._zone.segment_at(instant)
        low, high = self._walls(segment)
        wall = instant + segment.offset
        if low <= wall < high and self._civil.matches(wall):
            return Firing(instant, wall, is_moved=False)
        if instant == segment.start:
            missed = self._made_up_wall(segment)
            if missed is not None:
                return Firing(instant, missed, is_moved=True)
        return None

    def smallest_gap(self, start: int, end: int) -> int | None:
        """Seconds between the two closest neighbours from `start` to `end`; None if there are no two."""
        end = min(end, FAR_FUTURE)
        gaps = [self._civil.smallest_gap(start, end)]
        change = self._zone.segment_at(start).end
        while change < end:
            around = (
                self.last_before(change),
                following := self.first_from(change),
                self.first_from(following + 1) if following is not None else None,
            )
            gaps += [b - a for a, b in pairwise(around) if a is not None and b is not None and a >= start]
            change = self._zone.segment_at(change).end
        return min(gaps)

    def _walls(self, segment: Segment) -> tuple[int, int]:
        """The wall times of a segment that may fire in it: from the first number up to the second."""
        start = segment.start + segment.offset
        end = segment.end + segment.offset
        if self._repeated is Repeated.FIRST:
            start = max(start, segment.start + segment.offset_before)
        elif self._repeated is Repeated.SECOND:
            end = min(end, segment.end + segment.offset_after)
        return start, end

    def _made_up_wall(self, segment: Segment) -> int | None:
        """The first wall time in the gap before a segment, if it is to be made up for at the segment's start."""
        gap = segment.offset - segment.offset_before
        if self._missing is Missing.SKIP or not 0 < gap <= LARGEST_GAP:
            return None
        missed, start = segment.start + segment.offset_before, segment.start + segment.offset
        if self._civil.matches(start) or not self._civil.count(missed, start):
            return None  # it runs at this instant anyway, or the gap holds none of its times
        return self._civil.first_from(missed)
