"""When a job runs: the instants of `cron`, `every` or `at` with zone, daylight-saving policy, window and jitter.

Promise: `after`, `latest`, `count` and `occurrence_at` speak of one and the same set of instants, which depends on the
job alone: not on the process's zone, the host's zone files or the moment of asking.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from clawjob.domain.civil import CivilTimes
from clawjob.domain.cron import Cron, parse
from clawjob.domain.cron_timeline import CronTimeline, Missing, Repeated
from clawjob.domain.draw import draw
from clawjob.domain.errors import InvalidInputError, Problem
from clawjob.domain.schedule_spec import ScheduleSpec
from clawjob.domain.timeline import IntervalTimeline, SingleTimeline, Timeline
from clawjob.domain.zone import FAR_FUTURE, FAR_PAST, Zone, find_zone

__all__ = ["Missing", "Occurrence", "Repeated", "Schedule", "ScheduleSpec"]

SEARCH_LIMIT: Final = timedelta(days=28 * 365 + 7)
"""A schedule that does not fire within 28 years is refused when saved."""
LATE_LIMIT: Final = timedelta(seconds=60)
"""An `at` this far in the past is still taken."""

_SECOND: Final = timedelta(seconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_ZERO: Final = timedelta(0)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CIVIL_EPOCH: Final = _EPOCH.replace(tzinfo=None)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One time at which a job is to run."""

    scheduled_at: datetime
    """The nominal instant, aware UTC, whole seconds."""
    nominal_local: datetime
    """The civil time in the job's zone that the run stands for: 02:30 also where the clock jumped to 03:00."""
    moved: str | None
    """Why it does not run at its civil time, in words; None if it does."""


class Schedule:
    """The occurrences of one job."""

    def __init__(self, spec: ScheduleSpec, job_name: str) -> None:
        """Take a specification.

        Args:
            spec: what the job document says.
            job_name: seeds `H` and jitter.

        Raises:
            InvalidInputError: naming each wrong field, such as `schedule.cron`.
        """
        problems = _problems_of(spec)
        zone, cron = None, None
        try:
            zone = find_zone(spec.timezone)
        except InvalidInputError as error:
            problems += error.problems
        try:
            cron = None if spec.cron is None else parse(spec.cron, job_name)
        except InvalidInputError as error:
            problems += error.problems
        if zone is None or problems:
            raise InvalidInputError(problems)
        self.spec = spec
        self._job_name = job_name
        self._zone = zone
        self._timeline = _timeline(spec, zone, cron)
        self._start = FAR_PAST if spec.start_at is None else max(FAR_PAST, _ceiling(spec.start_at))
        self._end = FAR_FUTURE if spec.end_at is None else min(FAR_FUTURE, _floor(spec.end_at) + 1)

    def validate(self, now: datetime) -> None:
        """Refuse what may be stored already but must not be saved anew.

        Raises:
            InvalidInputError: it does not fire within 28 years, its `at` is past, or its jitter is too large.
        """
        problems = list(self._problems_at(now))
        if problems:
            raise InvalidInputError(problems)

    def after(self, instant: datetime) -> Iterator[Occurrence]:
        """All occurrences strictly after an instant, in order, until there are no more."""
        found = self._timeline.first_from(max(_floor(instant) + 1, self._start))
        while found is not None and found < self._end:
            yield self._occurrence(found)
            found = self._timeline.first_from(found + 1)

    def latest(self, after: datetime, until: datetime) -> Occurrence | None:
        """The last occurrence after the first instant and not after the second; found by jumping."""
        start, end = self._window(after, until)
        found = self._timeline.last_before(end) if start < end else None
        return None if found is None or found < start else self._occurrence(found)

    def count(self, after: datetime, until: datetime) -> int:
        """How many occurrences are after the first instant and not after the second; without listing them."""
        start, end = self._window(after, until)
        return self._timeline.count(start, end) if start < end else 0

    def occurrence_at(self, scheduled_at: datetime) -> Occurrence | None:
        """The occurrence at exactly this instant; None if the instant is none of this schedule."""
        found = _floor(scheduled_at)
        if scheduled_at.microsecond or not self._start <= found < self._end:
            return None
        return self._occurrence_or_none(found)

    def due_at(self, scheduled_at: datetime) -> datetime:
        """When the run of a nominal instant is to start: the instant and its share of the jitter, always the same."""
        if not self.spec.jitter:
            return scheduled_at
        drawn = draw("jitter", self._job_name, str(_floor(scheduled_at)))
        return scheduled_at + drawn % (self.spec.jitter // _MILLISECOND + 1) * _MILLISECOND

    def local_time(self, instant: datetime) -> datetime:
        """The instant in the job's zone, with the offset of that moment."""
        offset = timedelta(seconds=self._zone.offset_at(_floor(instant)))
        return instant.astimezone(timezone(offset))

    def _window(self, after: datetime, until: datetime) -> tuple[int, int]:
        return max(_floor(after) + 1, self._start), min(_floor(until) + 1, self._end)

    def _occurrence(self, found: int) -> Occurrence:
        occurrence = self._occurrence_or_none(found)
        if occurrence is None:
            raise AssertionError(f"{found} is an instant of {self.spec} by one way of asking only")
        return occurrence

    def _occurrence_or_none(self, found: int) -> Occurrence | None:
        firing = self._timeline.firing_at(found)
        if firing is None:
            return None
        civil = _CIVIL_EPOCH + timedelta(seconds=firing.wall)
        moved = None
        if firing.is_moved:
            moved = (
                f"{civil:%H:%M} does not exist on {civil:%Y-%m-%d} in {self.spec.timezone}; first instant after the gap"
            )
        return Occurrence(_EPOCH + timedelta(seconds=found), civil, moved)

    def _problems_at(self, now: datetime) -> Iterator[Problem]:
        start, end = _floor(now) + 1, _floor(now) + SEARCH_LIMIT // _SECOND
        if self.spec.at is not None:
            start = _ceiling(now) - LATE_LIMIT // _SECOND
            if _floor(self.spec.at) < start:
                yield Problem("schedule.at", "This instant is in the past.", "Name one that is still to come.")
                return
        first = self._timeline.first_from(max(start, self._start))
        if first is None or first > end or first >= self._end:
            yield self._never(first, end)
        gap = self._timeline.smallest_gap(start, end) if self.spec.jitter else None
        if gap is not None and self.spec.jitter * 2 >= timedelta(seconds=gap):
            yield Problem(
                "schedule.jitter",
                f"It is not less than half of the shortest time between two runs, {gap} seconds.",
                f"Use at most {(gap - 1) // 2} seconds.",
            )

    def _never(self, first: int | None, end: int) -> Problem:
        """What to say of a schedule whose first instant is not in its window or after `end`."""
        if self.spec.at is not None:
            if self.spec.start_at is not None or self.spec.end_at is not None:
                return Problem("schedule.at", "It lies outside start_at and end_at.", "Move it between them.")
            return Problem("schedule.at", "It is more than 28 years away.", "Name an earlier instant.")
        if first is not None and first >= self._end:
            return Problem("schedule.end_at", "There is no run up to this instant.", "Name a later one.")
        if self._start > end:
            return Problem("schedule.start_at", "It is more than 28 years away.", "Name an earlier instant.")
        if self.spec.every is not None:
            return Problem("schedule.every", "It does not come round in 28 years.", "Use a shorter time.")
        return Problem("schedule.cron", "It does not fire within 28 years.", "Name a date and time of day that exist.")


def _timeline(spec: ScheduleSpec, zone: Zone, cron: Cron | None) -> Timeline:
    if cron is not None:
        return CronTimeline(
            CivilTimes(cron),
            zone,
            is_wildcard=cron.is_wildcard,
            missing=spec.missing,
            repeated=spec.repeated,
        )
    if spec.every is not None:
        return IntervalTimeline(spec.every // _SECOND, spec.offset // _SECOND, zone)
    if spec.at is not None:
        return SingleTimeline(_floor(spec.at), zone)
    raise AssertionError("a specification without cron, every and at was refused before")


def _problems_of(spec: ScheduleSpec) -> list[Problem]:
    problems = []
    given = [name for name in ("cron", "every", "at") if getattr(spec, name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        problems.append(Problem("schedule", f"It has {found} of cron, every and at.", "Give exactly one of the three."))
    problems += _duration_problems(spec)
    for name in ("at", "start_at", "end_at"):
        instant: datetime | None = getattr(spec, name)
        if instant is not None and instant.utcoffset() is None:
            problems.append(Problem(f"schedule.{name}", "It has no zone.", "End it with Z or an offset."))
    if spec.at is not None and spec.at.microsecond:
        problems.append(Problem("schedule.at", "It is no whole second.", "Leave out the fraction."))
    if not problems and spec.start_at and spec.end_at and spec.end_at < spec.start_at:
        problems.append(Problem("schedule.end_at", "It is before start_at.", "Name a later instant."))
    return problems


def _duration_problems(spec: ScheduleSpec) -> Iterator[Problem]:
    for name in ("every", "offset", "jitter"):
        duration: timedelta | None = getattr(spec, name)
        if duration is not None and (duration < _ZERO or duration % _SECOND):
            yield Problem(f"schedule.{name}", "It is no whole number of seconds.", "Give whole seconds, 0 or more.")
    if spec.every is not None and spec.every < _SECOND:
        yield Problem("schedule.every", "It is less than a second.", "Use 1 second or more.")
    if spec.offset and (spec.every is None or spec.offset >= spec.every):
        yield Problem("schedule.offset", "It is not less than every.", "Use it with every, and smaller.")


def _floor(instant: datetime) -> int:
    return (instant - _EPOCH) // _SECOND


def _ceiling(instant: datetime) -> int:
    return -((_EPOCH - instant) // _SECOND)
