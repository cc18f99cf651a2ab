"""Creates, replaces, pauses, resumes and deletes jobs. What a change makes due is dispatched at once.

A new schedule, a resume or a new job never runs an instant from before it.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from clawjob.domain.definition import Definition
from clawjob.domain.errors import NewerRecordError, StaleVersionError, UnavailableError, UnreadableRecordError
from clawjob.domain.job_state import JobDecision, JobState
from clawjob.domain.job_version import NOBODY, Change, Editor
from clawjob.domain.planning import look_at, resumed_cursor
from clawjob.domain.run import Reason
from clawjob.domain.schedule import LATE_LIMIT
from clawjob.operations.context import Context
from clawjob.operations.dispatch import dispatch, schedule_of

log = logging.getLogger(__name__)

_TRIES = 5


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as people see it: where it is, and the definition in force."""

    state: JobState
    definition: Definition


def create_job(ctx: Context, definition: Definition, editor: Editor = NOBODY) -> JobView:
    """Create a job and dispatch what is due.

    Args:
        ctx: the service.
        definition: of the job.
        editor: who asks for it; kept with the version.

    Raises:
        DuplicateJobError: the name is taken.
    """
    now = ctx.clock()
    cursor = _cursor(definition, now, is_new=True)
    state = JobState(
        uid=ctx.new_uid(),
        name=definition.name,
        version=1,
        enabled=definition.enabled,
        planned_until=cursor,
        created_at=now,
        changed_at=now,
        due_at=_due(ctx, definition, cursor),
        decision=_decision(definition, Reason.CREATED, now),
    )
    ctx.jobs.create(state, definition, Change.CREATED, editor)
    _log("job created", state)
    return _dispatched(ctx, state, definition)


def replace_job(
    ctx: Context,
    name: str,
    definition: Definition,
    expected_version: int | None = None,
    editor: Editor = NOBODY,
    change: Change = Change.REPLACED,
) -> JobView:
    """Put another definition in force and dispatch what it makes due.

    Args:
        ctx: the service.
        name: which job; the definition has the same name.
        definition: the new one.
        expected_version: the version that the caller changed; None takes whatever is there.
        editor: who asks for it; kept with the version.
        change: how it comes about.

    Raises:
        JobNotFoundError: there is no such job.
        StaleVersionError: the job is at another version than expected.
    """
    for _ in range(_TRIES - 1):
        try:
            return _replace_once(ctx, name, definition, expected_version, change, editor)
        except StaleVersionError:
            if expected_version is not None:
                raise
    return _replace_once(ctx, name, definition, expected_version, change, editor)


def set_enabled(ctx: Context, name: str, enabled: bool, editor: Editor = NOBODY) -> JobView:
    """Pause or resume a job; a job that is so already stays as it is.

    Raises:
        JobNotFoundError: there is no such job.
    """
    for attempt in range(_TRIES):
        state = ctx.jobs.get(name)
        definition = ctx.jobs.definition(state.uid, state.version)
        if definition.enabled is enabled:
            return JobView(state, definition)
        try:
            switched = replace(definition, enabled=enabled)
            return _replace_once(
                ctx, name, switched, state.version, Change.RESUMED if enabled else Change.PAUSED, editor
            )
        except StaleVersionError:
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable")


def delete_job(ctx: Context, name: str) -> None:
    """Delete a job. Its name is free at once; runs that wait end SKIPPED or CANCELLED at their next claim.

    Raises:
        JobNotFoundError: there is no such job.
    """
    for attempt in range(_TRIES):
        state = _readable(ctx, name)
        now = ctx.clock()
        after = replace(state, enabled=False, due_at=None, deleted_at=now, changed_at=now, version=state.version + 1)
        try:
            ctx.jobs.delete(state, after)
        except StaleVersionError:
            if attempt == _TRIES - 1:
                raise
        else:
            _log("job deleted", after)
            ctx.jobs.forget_definitions(after)
            return


def _replace_once(
    ctx: Context, name: str, definition: Definition, expected: int | None, change: Change, editor: Editor
) -> JobView:
    seen = _readable(ctx, name)
    if expected is not None and seen.version != expected:
        raise StaleVersionError(name, expected, seen.version)
    now = ctx.clock()
    keeps_plan = _keeps_plan(ctx, seen, definition)
    cursor = seen.planned_until if keeps_plan else _cursor(definition, now, is_new=False)
    after = replace(
        seen,
        version=seen.version + 1,
        enabled=definition.enabled,
        planned_until=cursor,
        due_at=seen.due_at if keeps_plan and seen.due_at else _due(ctx, definition, cursor),
        changed_at=now,
        invalid=None,
        decision=seen.decision if keeps_plan else _decision(definition, Reason.CHANGED, now),
    )
    ctx.jobs.change(seen, after, definition, change, editor)
    _log("job changed", after)
    return _dispatched(ctx, after, definition)


def _keeps_plan(ctx: Context, seen: JobState, definition: Definition) -> bool:
    """Whether instants that passed already are still wanted: the schedule is the same and was never off."""
    if seen.invalid is not None or not (seen.enabled and definition.enabled):
        return False
    before = ctx.jobs.definitions([(seen.uid, seen.version)])[seen.uid, seen.version]
    if isinstance(before, NewerRecordError):
        raise before
    return isinstance(before, Definition) and before.schedule == definition.schedule


def _readable(ctx: Context, name: str) -> JobState:
    """Read a state row; one that is spoiled is written anew, paused, from what is left of it.

    Raises:
        JobNotFoundError: there is no such job.
        NewerRecordError: a newer version wrote it.
    """
    uid = ctx.jobs.uid_of(name)
    try:
        return ctx.jobs.get(name)
    except NewerRecordError:
        raise
    except UnreadableRecordError as error:
        now = ctx.clock()
        version = ctx.jobs.last_version(uid)
        state = JobState(
            uid=uid,
            name=name,
            version=max(version, 1),
            enabled=False,
            planned_until=now,
            created_at=now,
            changed_at=now,
            decision=JobDecision(reason=Reason.INVALID, at=now),
            invalid=error.why[:200],
        )
        ctx.jobs.rewrite(state)
        log.warning("state row written anew", extra={"job": name, "uid": uid, "why": error.why})
        return state


def _cursor(definition: Definition, now: datetime, *, is_new: bool) -> datetime:
    """Where planning starts. An `at` that is just past, as accepted when saved, still runs."""
    spec = definition.schedule
    if spec is None:
        return now
    if spec.at is not None:
        return spec.at - timedelta(seconds=1) if now - LATE_LIMIT <= spec.at <= now else now
    return now if is_new else resumed_cursor(schedule_of(spec, definition.name), now)


def _due(ctx: Context, definition: Definition, cursor: datetime) -> datetime | None:
    if definition.schedule is None or not definition.enabled:
        return None
    return look_at(schedule_of(definition.schedule, definition.name), cursor, ctx.times)


def _decision(definition: Definition, otherwise: Reason, now: datetime) -> JobDecision:
    if not definition.enabled:
        return JobDecision(reason=Reason.PAUSED, at=now)
    return JobDecision(reason=Reason.NO_SCHEDULE if definition.schedule is None else otherwise, at=now)


def _dispatched(ctx: Context, state: JobState, definition: Definition) -> JobView:
    if state.due_at is not None and state.due_at <= ctx.clock():
        # The job is stored; what is not dispatched now is dispatched by the next tick.
        with suppress(UnavailableError):
            dispatch(ctx, [state])
            state = ctx.jobs.get_by_uid(state.uid) or state
    return JobView(state, definition)


def _log(message: str, state: JobState) -> None:
    about = {"job": state.name, "uid": state.uid, "version": state.version, "enabled": state.enabled}
    log.info(message, extra={**about, "reason": state.decision.reason.value if state.decision else None})
