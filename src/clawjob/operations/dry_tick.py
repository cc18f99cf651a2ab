"""A tick that only tells what ticks will decide. It reads what a tick reads, further ahead, and writes nothing."""

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

from clawjob.aws.dynamo import Item
from clawjob.aws.job_item import state_of
from clawjob.aws.run_item import run_of
from clawjob.domain.definition import Definition
from clawjob.domain.errors import NewerRecordError, UnreadableRecordError, is_spoiled
from clawjob.domain.foresight import LEFT_TO_NEWER, foresee_job, foresee_run
from clawjob.domain.ids import SHARDS
from clawjob.domain.job_state import JobState
from clawjob.operations.context import Context
from clawjob.operations.dispatch import schedule_of

log = logging.getLogger(__name__)

JOBS_OF_A_SHARD: Final = 64
RUNS_OF_A_SHARD: Final = 8
DECISIONS_OF_A_JOB: Final = 10
_PAGE: Final = 100
_PAGES_OF_A_SHARD: Final = 5
"""Read at most: runs that wait by the thousand stand before the jobs of tomorrow."""
_EVER: Final = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Subject:
    """A job or an open run, and what the ticks to come will decide about it."""

    id: str
    """Its key in the table."""
    name: str
    """Of the job."""
    seen: str
    """Digest of the item that was read: only decisions made from the same can be compared."""
    decisions: tuple[str, ...]


@dataclass(slots=True)
class DryReport:
    """What a dry tick told."""

    at: datetime
    subjects: list[Subject] = field(default_factory=list)
    finished: bool = True
    """False when the time was up before the whole sample was read."""


def dry_tick(
    ctx: Context, at: datetime, remaining: Callable[[], timedelta], reserve: timedelta = timedelta(seconds=10)
) -> DryReport:
    """Tell the decisions about the jobs and open runs that are due first, of each shard of the due index.

    How far ahead this looks is a matter of their number, not of time: at a calm instant the next daily jobs are told.

    Args:
        ctx: the service.
        at: the instant for which it is told.
        remaining: how much time is left.
        reserve: stop when no more than this is left.

    Raises:
        UnavailableError: the table refused a read.
    """
    report = DryReport(at)
    for shard in range(SHARDS):
        if remaining() <= reserve:
            report.finished = False
            log.warning("dry tick stops before its end", extra={"subjects": len(report.subjects)})
            return report
        uids, run_ids = _first_of(ctx, shard)
        report.subjects += _jobs(ctx, uids, at)
        report.subjects += _runs(ctx, run_ids, at)
    return report


def _first_of(ctx: Context, shard: int) -> tuple[list[str], list[str]]:
    uids: list[str] = []
    run_ids: list[str] = []
    start: Item | None = None
    for _ in range(_PAGES_OF_A_SHARD):
        page = ctx.jobs.due_page(shard, _EVER, _PAGE, start)
        uids += page.uids
        run_ids += page.run_ids
        start = page.last
        if start is None or len(uids) >= JOBS_OF_A_SHARD:
            break
    return uids[:JOBS_OF_A_SHARD], run_ids[:RUNS_OF_A_SHARD]


def _jobs(ctx: Context, uids: Iterable[str], at: datetime) -> list[Subject]:
    items = ctx.jobs.get_items(uids)
    states: dict[str, JobState] = {}
    told: dict[str, tuple[str, ...]] = {}
    for uid, item in items.items():
        try:
            states[uid] = state_of(item)
        except UnreadableRecordError as error:
            told[uid] = _trouble(error)
    definitions = ctx.jobs.definitions((state.uid, state.version) for state in states.values())
    for uid, state in states.items():
        told[uid] = _of_job(ctx, state, definitions[state.uid, state.version], at)
    return [Subject(f"JOB#{uid}", str(item.get("name", "")), digest(item), told[uid]) for uid, item in items.items()]


def _of_job(
    ctx: Context, state: JobState, definition: Definition | UnreadableRecordError, at: datetime
) -> tuple[str, ...]:
    if isinstance(definition, UnreadableRecordError):
        return _trouble(definition)
    try:
        schedule = None if definition.schedule is None else schedule_of(definition.schedule, state.name)
        found = foresee_job(state, definition, schedule, at, ctx.times, DECISIONS_OF_A_JOB)
    except Exception as error:
        return _trouble(error)
    return tuple(one.line for one in found)


def _runs(ctx: Context, run_ids: Iterable[str], at: datetime) -> list[Subject]:
    items = ctx.runs.get_items(run_ids)
    return [
        Subject(f"RUN#{run_id}", str(item.get("job", "")), digest(item), _of_run(ctx, item, at))
        for run_id, item in items.items()
    ]


def _of_run(ctx: Context, item: Item, at: datetime) -> tuple[str, ...]:
    try:
        return tuple(foresee_run(run_of(item), at, ctx.times))
    except Exception as error:
        return _trouble(error)


def _trouble(error: Exception) -> tuple[str, ...]:
    """What a tick does about an error with one job or run; the words of the error are no decision."""
    if isinstance(error, NewerRecordError):
        return (LEFT_TO_NEWER,)
    if is_spoiled(error):
        return ("set aside",)
    log.warning("decision cannot be told", exc_info=error)
    return (f"left for a later tick: {type(error).__name__}",)


def digest(item: Item) -> str:
    """Make a short mark of an item that differs when anything in it does."""
    return sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()[:16]
