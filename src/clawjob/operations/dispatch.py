"""Puts the due runs of jobs on their queues. Put, send, advance, in this order: a crash anywhere repeats harmlessly.

A job is advanced only past instants that its queue accepted, so nothing is lost; a run's id is made of its job and
instant, so nothing is doubled.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from itertools import islice

from clawjob.aws.job_item import item_of
from clawjob.aws.queues import BATCH, ToSend
from clawjob.aws.run_item import run_of
from clawjob.domain.definition import Definition, Overlap
from clawjob.domain.errors import NewerRecordError, UnavailableError, UnreadableRecordError, is_spoiled
from clawjob.domain.ids import gap_id, scheduled_run_id
from clawjob.domain.job_state import JobDecision, JobState
from clawjob.domain.planning import Gap, JobPlan, Planned, is_late, plan_job, rests
from clawjob.domain.planning import look_at as next_look
from clawjob.domain.priority import QueueClass, queue_class_of
from clawjob.domain.rescuing import delay_until
from clawjob.domain.run import Reason, Run, RunKind, State, close_run
from clawjob.domain.schedule import Schedule, ScheduleSpec
from clawjob.domain.times import Times
from clawjob.operations.context import Context

log = logging.getLogger(__name__)


@dataclass(slots=True)
class DispatchReport:
    """What a dispatch did."""

    dispatched: int = 0
    """Messages that queues accepted."""
    caught_up: int = 0
    missed: int = 0
    """Instants recorded as missed."""
    invalid: int = 0
    failed: int = 0
    """Jobs left for a later pass because a service refused, or for the newer version that wrote them."""
    late_seconds: list[float] = field(default_factory=list)
    """By how much each run was put on its queue after it was due; 0 for one in time."""


@dataclass(slots=True)
class _Work:
    """A job in the middle of its dispatch."""

    state: JobState
    definition: Definition
    schedule: Schedule
    plan: JobPlan
    runs: list[Run] = field(default_factory=list)
    to_send: list[Run] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)


@lru_cache(maxsize=4096)
def schedule_of(spec: ScheduleSpec, name: str) -> Schedule:
    """Return a job's schedule; parsing one costs more than asking it."""
    return Schedule(spec, name)


def dispatch(ctx: Context, states: Sequence[JobState]) -> DispatchReport:
    """Dispatch every instant of the jobs up to the look-ahead. One bad job never stops the others."""
    report = DispatchReport()
    definitions = ctx.jobs.definitions((state.uid, state.version) for state in states)
    works: list[_Work] = []
    for state in states:
        definition = definitions[state.uid, state.version]
        with _Fence(ctx, state, report):
            if isinstance(definition, UnreadableRecordError):
                raise definition
            work = _prepare(ctx, state, definition, report)
            if work is not None:
                _put_runs(ctx, work, report)
                works.append(work)
    _send(ctx, works, report)
    holders = _free_slots(ctx, works)
    for work in works:
        with _Fence(ctx, work.state, report):
            _advance(ctx, work, report, slot_is_free=work.state.active is None or work.state.active in holders)
    return report


class _Fence:
    """Keeps one job's trouble from the others: spoiled ones leave the index, the rest waits for a later pass."""

    def __init__(self, ctx: Context, state: JobState, report: DispatchReport) -> None:
        self._ctx = ctx
        self._state = state
        self._report = report

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, Exception):
            return False
        about = {"job": self._state.name, "uid": self._state.uid}
        if is_spoiled(error):
            self._report.invalid += 1
            log.error("job is invalid", extra={**about, "why": str(error)})
            try:
                self._ctx.jobs.set_aside(item_of(self._state), str(error), self._ctx.clock())
            except UnavailableError:
                log.warning("an invalid job stays in the index", extra=about)
        else:
            self._report.failed += 1
            log.warning("job is left for a later pass", extra=about, exc_info=error)
        return True


def _prepare(ctx: Context, state: JobState, definition: Definition, report: DispatchReport) -> _Work | None:
    now = ctx.clock()
    reason = rests(state, definition)
    if reason is not None or definition.schedule is None:
        reason = reason or Reason.NO_SCHEDULE
        ctx.jobs.advance(state, state.planned_until, None, JobDecision(reason=reason, at=now), None)
        return None
    schedule = schedule_of(definition.schedule, state.name)
    plan = plan_job(schedule, definition.catch_up, state.planned_until, now, ctx.times)
    while plan.gap is not None:
        after = _pass_gap(ctx, state, schedule, plan.gap, plan.look_at, now, report)
        if after is None:
            return None
        state = after
        plan = plan_job(schedule, definition.catch_up, state.planned_until, now, ctx.times)
    return _Work(state, definition, schedule, plan)


def _pass_gap(
    ctx: Context,
    state: JobState,
    schedule: Schedule,
    gap: Gap,
    look_at: datetime | None,
    now: datetime,
    report: DispatchReport,
) -> JobState | None:
    """Record a gap and advance past it; None when another pass was quicker.

    A pass that crashed between put and advance has made runs of the gap's first instants: they are no gap.
    """
    put_before = _runs_put_before(ctx, state, schedule, gap)
    if put_before:
        return _pass_earlier_runs(ctx, state, schedule, put_before, now)
    record = Run(
        run_id=gap_id(state.uid, gap.from_at),
        uid=state.uid,
        job=state.name,
        kind=RunKind.SCHEDULED,
        state=State.MISSED,
        version=state.version,
        pool="",
        scheduled_at=gap.from_at,
        not_before=gap.from_at,
        queued_at=now,
        gap_until=gap.to_at,
        gap_count=gap.count,
    )
    record = close_run(record, State.MISSED, gap.reason, now, ctx.times.retention)
    first = ctx.runs.put_new(record)
    if first is not None and first.gap_until is None:
        # Another pass, which still sees the first instant as one to run, put it this moment.
        return None
    if first is not None and first.gap_until is not None and first.gap_until != gap.to_at:
        # The first written decision stands: an earlier pass recorded a shorter gap and crashed.
        record, look_at = first, None
        gap = Gap(gap.from_at, first.gap_until, first.gap_count, gap.reason)
    decision = JobDecision(reason=Reason.MISSED, at=now, scheduled_at=gap.to_at, count=gap.count)
    after = _moved(ctx, state, schedule, gap.to_at, look_at, decision)
    if after is not None:
        report.missed += gap.count
        log.warning(
            "instants missed",
            extra={
                "job": state.name,
                "from": str(gap.from_at),
                "to": str(gap.to_at),
                "count": gap.count,
                "reason": gap.reason.value,
            },
        )
    return after


def _moved(
    ctx: Context, state: JobState, schedule: Schedule, end: datetime, look_at: datetime | None, decision: JobDecision
) -> JobState | None:
    if look_at is None:
        look_at = next_look(schedule, end, ctx.times)
    if not ctx.jobs.advance(state, end, look_at, decision, None):
        return None
    return replace(state, planned_until=end, due_at=look_at, decision=decision)


def _runs_put_before(ctx: Context, state: JobState, schedule: Schedule, gap: Gap) -> list[Run]:
    instants = [
        occurrence.scheduled_at
        for occurrence in islice(schedule.after(state.planned_until), ctx.times.pass_limit)
        if occurrence.scheduled_at <= gap.to_at
    ]
    ids = [scheduled_run_id(state.uid, instant) for instant in instants]
    items = ctx.runs.get_items(ids)
    found: list[Run] = []
    for run_id in ids:
        run = run_of(items[run_id]) if run_id in items else None
        # A record of many instants, whose pass crashed before it advanced, is found when ours is put.
        if run is None or _is_long(run):
            break
        found.append(run)
    return found


def _is_long(run: Run) -> bool:
    """Whether it is the record of a gap that holds more than its first instant."""
    return run.gap_until is not None and run.gap_until > run.scheduled_at


def _pass_earlier_runs(
    ctx: Context, state: JobState, schedule: Schedule, runs: Sequence[Run], now: datetime
) -> JobState | None:
    waiting = [run for run in runs if run.state is State.QUEUED and run.token == 0]
    for run in waiting:
        ctx.queues.send_run(run)
    decision = JobDecision(reason=Reason.DISPATCHED, at=now, scheduled_at=runs[-1].scheduled_at, count=len(runs))
    return _moved(ctx, state, schedule, runs[-1].scheduled_at, None, decision)


def _put_runs(ctx: Context, work: _Work, report: DispatchReport) -> None:
    now = ctx.clock()
    for planned in work.plan.runs:
        run = _new_run(work, planned, now, ctx.times)
        try:
            first = ctx.runs.put_new(run)
        except (UnavailableError, NewerRecordError) as error:
            report.failed += 1
            log.warning("run is left for a later pass", extra={"run_id": run.run_id, "why": str(error)})
            return
        except UnreadableRecordError as error:
            # Somebody wrote the run, and nobody can read it: the job goes on without it.
            log.warning("run is invalid", extra={"run_id": run.run_id, "why": error.why})
            work.runs.append(run)
            work.accepted.add(run.run_id)
            report.invalid += 1
            continue
        if first is not None and _is_long(first):
            # Another pass recorded a gap from here on: what it holds is not ours to put.
            return
        work.runs.append(first or run)
        if first is None and run.is_final:
            report.missed += 1
            work.accepted.add(run.run_id)
        elif first is None or (first.state is State.QUEUED and first.token == 0):
            work.to_send.append(first or run)
        else:
            work.accepted.add(run.run_id)


def _new_run(work: _Work, planned: Planned, now: datetime, times: Times) -> Run:
    occurrence = planned.occurrence
    run = Run(
        run_id=scheduled_run_id(work.state.uid, occurrence.scheduled_at),
        uid=work.state.uid,
        job=work.state.name,
        kind=RunKind.SCHEDULED,
        state=State.QUEUED,
        version=work.state.version,
        pool=work.definition.pool,
        queue=queue_class_of(work.definition.priority),
        scheduled_at=occurrence.scheduled_at,
        not_before=planned.not_before,
        queued_at=now,
        nominal_local=occurrence.nominal_local if occurrence.moved else None,
        due_at=max(planned.not_before, now) + times.check,
    )
    if planned.missed is None:
        return run
    record = replace(run, gap_until=occurrence.scheduled_at, gap_count=1)
    return close_run(record, State.MISSED, planned.missed, now, times.retention)


def _send(ctx: Context, works: Sequence[_Work], report: DispatchReport) -> None:
    by_queue: dict[tuple[str, QueueClass], list[tuple[_Work, Run]]] = defaultdict(list)
    for work in works:
        for run in work.to_send:
            by_queue[run.pool, run.queue].append((work, run))
    for (pool, _), entries in by_queue.items():
        for start in range(0, len(entries), BATCH):
            batch = entries[start : start + BATCH]
            # The clock is read at each send: delays of a long list would be too long by the end of it.
            now = ctx.clock()
            messages = [ToSend(run, delay_until(run.not_before, now)) for _, run in batch]
            for (work, run), accepted in zip(batch, ctx.queues.send(messages), strict=True):
                if accepted:
                    work.accepted.add(run.run_id)
                    report.dispatched += 1
                    report.late_seconds.append(max(0.0, (now - run.not_before).total_seconds()))
                    log.info("run queued", extra={"run_id": run.run_id, "job": run.job, "due_at": str(run.not_before)})
                else:
                    report.failed += 1
                    log.warning("queue refused a run", extra={"run_id": run.run_id, "pool": pool})


def _free_slots(ctx: Context, works: Sequence[_Work]) -> set[str]:
    """Ids of the slot holders that keep nobody out any more."""
    wanted = {
        work.state.active: work
        for work in works
        if work.state.active is not None and work.definition.overlap is Overlap.SKIP and work.accepted
    }
    if not wanted:
        return set()
    items = ctx.runs.get_items(wanted)
    free: set[str] = set()
    for run_id in wanted:
        try:
            if run_id not in items or run_of(items[run_id]).is_final:
                free.add(run_id)
        except UnreadableRecordError:
            continue
    return free


def _advance(ctx: Context, work: _Work, report: DispatchReport, *, slot_is_free: bool) -> None:
    done: list[Run] = []
    for run in work.runs:
        if run.run_id not in work.accepted:
            break
        done.append(run)
    now = ctx.clock()
    complete = len(done) == len(work.plan.runs)
    if not done and not complete:
        return
    end = done[-1].scheduled_at if done else work.state.planned_until
    look_at = work.plan.look_at if complete else work.plan.runs[len(done)].not_before - ctx.times.look_ahead
    to_run = [planned for planned in work.plan.runs[: len(done)] if planned.missed is None]
    late = sum(is_late(planned.not_before, now, ctx.times) for planned in to_run)
    report.caught_up += late
    decision = _decision(work.state, done, late, look_at, now)
    # An earlier run that waits for its instant would only have to take the slot back.
    slot = _slot(work, done) if slot_is_free and work.state.planned_until <= now else None
    ctx.jobs.advance(work.state, end, look_at, decision, slot)


def _decision(state: JobState, done: Sequence[Run], late: int, look_at: datetime | None, now: datetime) -> JobDecision:
    started = [run for run in done if run.state is not State.MISSED]
    if started:
        reason = Reason.CAUGHT_UP if late else Reason.DISPATCHED
        return JobDecision(reason=reason, at=now, scheduled_at=started[-1].scheduled_at, count=len(started))
    if done:
        return JobDecision(reason=Reason.MISSED, at=now, scheduled_at=done[-1].scheduled_at, count=len(done))
    if look_at is None:
        return JobDecision(reason=Reason.SCHEDULE_ENDED, at=now)
    return state.decision or JobDecision(reason=Reason.CHANGED, at=now)


def _slot(work: _Work, done: Sequence[Run]) -> str | None:
    if work.definition.overlap is not Overlap.SKIP:
        return None
    first = next((run for run in done if not run.is_final and run.token == 0), None)
    return None if first is None or first.run_id == work.state.active else first.run_id
