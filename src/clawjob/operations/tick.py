"""One pass of the scheduler: everything whose instant has come gets its next step. Two at once are harmless."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from clawjob.aws.dynamo import Item
from clawjob.aws.job_item import state_of
from clawjob.aws.job_store import DuePage
from clawjob.domain.errors import NewerRecordError, UnavailableError, UnreadableRecordError
from clawjob.domain.ids import SHARDS
from clawjob.domain.instants import to_text
from clawjob.domain.job_state import JobState
from clawjob.operations.context import Context
from clawjob.operations.dispatch import DispatchReport, dispatch
from clawjob.operations.rescue import Rescuer, RescueReport

log = logging.getLogger(__name__)

PAGE = 100
_JOBS_AT_ONCE = 25
"""Jobs dispatched together: their messages share batches, and little is repeated after a crash."""


@dataclass(slots=True)
class TickReport:
    """What a tick saw and did."""

    started_at: datetime
    pages: int = 0
    items_read: int = 0
    jobs_seen: int = 0
    dispatch: DispatchReport = field(default_factory=DispatchReport)
    rescue: RescueReport = field(default_factory=RescueReport)
    failed_shards: int = 0
    finished: bool = True
    """False when the time was up before everything due was seen; the next tick goes on."""


def tick(
    ctx: Context,
    remaining: Callable[[], timedelta],
    reserve: timedelta = timedelta(seconds=10),
    function_version: str = "",
) -> TickReport:
    """Dispatch due jobs and rescue due runs, shard by shard, a page of each in turn.

    Args:
        ctx: the service.
        remaining: how much time is left.
        reserve: stop when no more than this is left.
        function_version: of the scheduler, for who reads the tick's record.
    """
    now = ctx.clock()
    report = TickReport(started_at=now)
    rescuer = Rescuer(ctx, report.rescue)
    first = int(now.timestamp() // 60) % SHARDS
    # Ticks begin at different shards, so that a time that is always up too early starves none.
    waiting: list[tuple[int, Item | None]] = [((first + step) % SHARDS, None) for step in range(SHARDS)]
    while waiting:
        following: list[tuple[int, Item | None]] = []
        for shard, start in waiting:
            if remaining() <= reserve:
                report.finished = False
                log.warning("tick stops before its end", extra={"items_read": report.items_read})
                return report
            try:
                page = ctx.jobs.due_page(shard, now, PAGE, start)
                _handle(ctx, page, report, rescuer)
            except UnavailableError as error:
                report.failed_shards += 1
                log.warning("shard is left for a later pass", extra={"shard": shard, "why": str(error)})
                continue
            if page.last is not None:
                following.append((shard, page.last))
        waiting = following
    ctx.jobs.record_tick(
        {
            "at": to_text(now),
            "dispatched": report.dispatch.dispatched,
            "missed": report.dispatch.missed,
            "items_read": report.items_read,
            "left": report.dispatch.failed + report.rescue.failed + report.failed_shards,
            "invalid": report.dispatch.invalid + report.rescue.invalid,
            "function_version": function_version,
        }
    )
    return report


def _handle(ctx: Context, page: DuePage, report: TickReport, rescuer: Rescuer) -> None:
    report.pages += 1
    report.items_read += len(page.uids) + len(page.run_ids) + len(page.others)
    for start in range(0, len(page.uids), _JOBS_AT_ONCE):
        states = _states(ctx, page.uids[start : start + _JOBS_AT_ONCE], report)
        report.jobs_seen += len(states)
        _add(report.dispatch, dispatch(ctx, states))
    if page.run_ids:
        rescuer.rescue(page.run_ids)
    for pk, sk in page.others:
        log.error("an item of no known kind is due", extra={"pk": pk, "sk": sk})


def _states(ctx: Context, uids: tuple[str, ...], report: TickReport) -> list[JobState]:
    items = ctx.jobs.get_items(uids)
    states: list[JobState] = []
    now = ctx.clock()
    for uid in uids:
        if uid not in items:
            continue
        try:
            state = state_of(items[uid])
        except NewerRecordError as error:
            report.dispatch.failed += 1
            log.warning("job is left to the newer version that wrote it", extra={"uid": uid, "why": error.why})
            continue
        except UnreadableRecordError as error:
            report.dispatch.invalid += 1
            log.warning("job is invalid", extra={"uid": uid, "why": error.why})
            ctx.jobs.set_aside(items[uid], error.why, now)
            continue
        # The index lags: another pass may have advanced the job already.
        if state.due_at is not None and state.due_at <= now:
            states.append(state)
    return states


def _add(total: DispatchReport, part: DispatchReport) -> None:
    total.dispatched += part.dispatched
    total.caught_up += part.caught_up
    total.missed += part.missed
    total.invalid += part.invalid
    total.failed += part.failed
    total.late_seconds.extend(part.late_seconds)
