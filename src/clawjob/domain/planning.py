"""What a pass of the scheduler does with one job: the gap it records, what it dispatches, when it looks again.

Pure: the same job, instant and times always give the same plan, so a dry run is free and a repeated pass is harmless.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from clawjob.domain.definition import CatchUp, CatchUpMode, Definition
from clawjob.domain.job_state import JobState
from clawjob.domain.run import Reason
from clawjob.domain.schedule import Occurrence, Schedule
from clawjob.domain.times import Times

_SECOND: Final = timedelta(seconds=1)
_INSTANT: Final = timedelta(microseconds=1)
_LIVES_OF_A_TICK: Final = 2
"""No pass lives so many ticks. Younger instants may be in the hands of another pass this moment, so each gets a record
under its run's own id, which that pass cannot take too; older ones share the record of the gap."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Instants that passed while nothing dispatched them and that the catch-up policy drops."""

    from_at: datetime
    to_at: datetime
    count: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Planned:
    """One instant to dispatch."""

    occurrence: Occurrence
    not_before: datetime
    """The due instant: nominal plus jitter."""
    missed: Reason | None = None
    """Why it is recorded as missed, not run; None for a run."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What to do with a job now. A gap is recorded alone; the job is then planned again from its end."""

    gap: Gap | None
    runs: tuple[Planned, ...]
    """In order; those that are missed come first."""
    look_at: datetime | None
    """When a tick must look again after all this is done; None when the schedule has no more instants."""


def rests(state: JobState, definition: Definition) -> Reason | None:
    """Tell why nothing is planned of a job, whatever its schedule; None when it is planned."""
    if definition.schedule is None:
        return Reason.NO_SCHEDULE
    return None if state.enabled and state.deleted_at is None else Reason.PAUSED


def plan_job(schedule: Schedule, catch_up: CatchUp, planned_until: datetime, now: datetime, times: Times) -> JobPlan:
    """Plan a job up to the look-ahead.

    Args:
        schedule: the job's.
        catch_up: what to do with instants that passed.
        planned_until: all instants up to here are settled.
        now: the present instant.
        times: look-ahead, tick, and how many instants a pass may plan.
    """
    end, reason = _dropped_until(schedule, catch_up, planned_until, now, times)
    if end is not None:
        old = _latest_due(
            schedule, planned_until, min(schedule.due_at(end.scheduled_at), now - _LIVES_OF_A_TICK * times.tick)
        )
        if old is not None:
            return JobPlan(_gap(schedule, planned_until, old, reason), (), look_at(schedule, old.scheduled_at, times))
    horizon = now + times.look_ahead
    planned: list[Planned] = []
    for occurrence in islice(schedule.after(planned_until), times.pass_limit):
        due = schedule.due_at(occurrence.scheduled_at)
        if due > horizon:
            return JobPlan(None, tuple(planned), due - times.look_ahead)
        dropped = end is not None and occurrence.scheduled_at <= end.scheduled_at
        planned.append(Planned(occurrence, due, reason if dropped else None))
    last = planned[-1].occurrence.scheduled_at if planned else planned_until
    return JobPlan(None, tuple(planned), look_at(schedule, last, times))


def look_at(schedule: Schedule, planned_until: datetime, times: Times) -> datetime | None:
    """Tell when a tick must look at a job whose instants are settled up to here: look-ahead before the next one."""
    following = next(schedule.after(planned_until), None)
    return None if following is None else schedule.due_at(following.scheduled_at) - times.look_ahead


def is_late(due: datetime, now: datetime, times: Times) -> bool:
    """Whether an instant is dispatched so late that it was missed: more than a tick after it was due."""
    return due < now - times.tick


def resumed_cursor(schedule: Schedule, now: datetime) -> datetime:
    """Where planning starts after a resume or an edit: before an instant that is past but, with jitter, not yet due."""
    latest = schedule.latest(now - schedule.spec.jitter - _SECOND, now)
    if latest is not None and schedule.due_at(latest.scheduled_at) > now:
        return latest.scheduled_at - _SECOND
    return now


def _gap(schedule: Schedule, planned_until: datetime, end: Occurrence, reason: Reason) -> Gap:
    first = next(schedule.after(planned_until))
    return Gap(first.scheduled_at, end.scheduled_at, schedule.count(planned_until, end.scheduled_at), reason)


def _dropped_until(
    schedule: Schedule, catch_up: CatchUp, planned_until: datetime, now: datetime, times: Times
) -> tuple[Occurrence | None, Reason]:
    """The last instant that the catch-up policy drops, and why; None when it drops none."""
    match catch_up.mode:
        case CatchUpMode.NONE:
            return _latest_due(schedule, planned_until, now - times.tick - _INSTANT), Reason.CATCH_UP_NONE
        case CatchUpMode.LAST:
            return _before_newest(schedule, catch_up, planned_until, now)
        case CatchUpMode.ALL:
            return _before_kept(schedule, catch_up, planned_until, now)


def _before_newest(
    schedule: Schedule, catch_up: CatchUp, planned_until: datetime, now: datetime
) -> tuple[Occurrence | None, Reason]:
    newest = _latest_due(schedule, planned_until, now)
    if newest is None:
        return None, Reason.CATCH_UP_LAST
    if now - schedule.due_at(newest.scheduled_at) > catch_up.window:
        return newest, Reason.CATCH_UP_WINDOW
    return schedule.latest(planned_until, newest.scheduled_at - _SECOND), Reason.CATCH_UP_LAST


def _before_kept(
    schedule: Schedule, catch_up: CatchUp, planned_until: datetime, now: datetime
) -> tuple[Occurrence | None, Reason]:
    too_old = _latest_due(schedule, planned_until, now - catch_up.window - _INSTANT)
    start = too_old.scheduled_at if too_old else planned_until
    newest = _latest_due(schedule, start, now)
    if newest is None or schedule.count(start, newest.scheduled_at) <= catch_up.max:
        return too_old, Reason.CATCH_UP_WINDOW
    end: Occurrence | None = newest
    for _ in range(catch_up.max):
        if end is None:
            break
        end = schedule.latest(start, end.scheduled_at - _SECOND)
    return end, Reason.CATCH_UP_MAX


def _latest_due(schedule: Schedule, after: datetime, until: datetime) -> Occurrence | None:
    """Last occurrence after one instant that is due by another; jitter is under half a gap: one step back is enough."""
    if until <= after:
        return None
    latest = schedule.latest(after, until)
    if latest is not None and schedule.due_at(latest.scheduled_at) > until:
        return schedule.latest(after, latest.scheduled_at - _SECOND)
    return latest
