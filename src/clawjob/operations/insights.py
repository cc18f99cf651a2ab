"""All reads for people: API, command line and pages ask here, so that none invents a query of its own."""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any, Generic, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from clawjob.aws.dynamo import Item
from clawjob.aws.table import ALL_JOBS, ALL_TOKENS, LIST_KEY, LIST_SORT, PK, SK, runs_of
from clawjob.domain.access import AccessToken
from clawjob.domain.definition import Definition
from clawjob.domain.errors import (
    InvalidInputError,
    NewerRecordError,
    RunNotFoundError,
    UnreadableRecordError,
    VersionNotFoundError,
)
from clawjob.domain.instants import from_text
from clawjob.domain.job_state import JobState
from clawjob.domain.job_version import Change, JobVersion
from clawjob.domain.run import Attempt, Run, State
from clawjob.domain.schedule import Occurrence
from clawjob.domain.wording import sentence_of_decision, sentence_of_run
from clawjob.operations.apply_job import JobView
from clawjob.operations.context import Context
from clawjob.operations.dispatch import schedule_of

T = TypeVar("T")

MAX_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list, and where the rest begins."""

    items: tuple[T, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class RunDetail:
    """A run with everything that belongs to it."""

    run: Run
    attempts: tuple[Attempt, ...]
    """All attempts in order, the present or last one included."""
    outputs: dict[str, Any]
    params: dict[str, Any]
    log_tail: str
    """The last output of the last attempt that failed."""


@dataclass(frozen=True, slots=True)
class WhyLine:
    """One fact about a job."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class WhyJob:
    """Why a job does or does not run, in plain words."""

    name: str
    lines: tuple[WhyLine, ...]


def get_job(ctx: Context, name: str) -> JobView:
    """Read a job.

    Raises:
        JobNotFoundError: there is no such job.
    """
    state = ctx.jobs.get(name)
    return JobView(state, ctx.jobs.definition(state.uid, state.version))


def list_jobs(ctx: Context, limit: int, cursor: str | None = None) -> Page[JobView]:
    """List jobs by name; one that cannot be read is left out of its page.

    Raises:
        InvalidInputError: the cursor is none of ours, or the limit is out of range.
    """
    states, last = ctx.jobs.list_all(_limit(limit), _start(cursor, ALL_JOBS))
    definitions = ctx.jobs.definitions((state.uid, state.version) for state in states)
    views = [
        JobView(state, definition)
        for state in states
        if isinstance(definition := definitions[state.uid, state.version], Definition)
    ]
    return Page(tuple(views), _cursor(last))


def list_runs(ctx: Context, name: str, limit: int, cursor: str | None = None) -> Page[Run]:
    """List a job's runs, newest first.

    Raises:
        JobNotFoundError: there is no such job.
        InvalidInputError: the cursor is none of ours, or the limit is out of range.
    """
    uid = ctx.jobs.get(name).uid
    runs, last = ctx.runs.list_of(uid, _limit(limit), _start(cursor, runs_of(uid)))
    return Page(tuple(run for run in runs if not _is_expired(ctx, run)), _cursor(last))


@dataclass(frozen=True, slots=True)
class VersionView:
    """A version of a job with its definition."""

    version: JobVersion
    definition: Definition


def list_versions(ctx: Context, name: str, limit: int, before: int | None = None) -> Page[JobVersion]:
    """List a job's versions, newest first.

    Args:
        ctx: the service.
        name: of the job.
        limit: of versions.
        before: only those with a lower number; None for all.

    Raises:
        JobNotFoundError: there is no such job.
        InvalidInputError: the limit is out of range.
    """
    versions, last = ctx.jobs.versions(ctx.jobs.uid_of(name), _limit(limit), before)
    return Page(versions, None if last is None else str(last))


def get_version(ctx: Context, name: str, number: int) -> VersionView:
    """Read a version of a job.

    Raises:
        JobNotFoundError: there is no such job.
        VersionNotFoundError: it never had this version.
    """
    uid = ctx.jobs.uid_of(name)
    version = ctx.jobs.version(uid, number)
    if version is None:
        raise VersionNotFoundError(name, number)
    return VersionView(version, ctx.jobs.definition(uid, number))


def list_tokens(ctx: Context, limit: int, cursor: str | None = None) -> Page[AccessToken]:
    """List access tokens, oldest first; revoked ones are not there any more.

    Raises:
        InvalidInputError: the cursor is none of ours, or the limit is out of range.
    """
    tokens, last = ctx.tokens.list_all(_limit(limit), _start(cursor, ALL_TOKENS))
    return Page(tokens, _cursor(last))


def get_run(ctx: Context, run_id: str) -> RunDetail:
    """Read a run with its attempts, outputs, params and last output.

    Raises:
        RunNotFoundError: there is no such run, or its retention is over.
    """
    run = ctx.runs.get(run_id)
    if run is None or _is_expired(ctx, run):
        raise RunNotFoundError(run_id)
    parts = ctx.runs.parts(run_id)
    closed = {attempt.number: attempt for attempt in parts.attempts}
    if run.attempt is not None:
        closed.setdefault(run.attempt.number, run.attempt)
    tails = sorted(parts.log_tails.items())
    return RunDetail(
        run=run,
        attempts=tuple(closed[number] for number in sorted(closed)),
        outputs=parts.outputs,
        params=parts.params,
        log_tail=tails[-1][1] if tails else "",
    )


def next_times(ctx: Context, name: str, count: int) -> tuple[Occurrence, ...]:
    """Tell a job's next instants, by the code that the scheduler uses; none while it is paused or has no schedule.

    Raises:
        JobNotFoundError: there is no such job.
        InvalidInputError: the count is out of range.
    """
    return _next(ctx, get_job(ctx, name), _limit(count, "count"))


def why(ctx: Context, name: str) -> WhyJob:
    """Explain why a job does or does not run: switch, schedule, zone, last tick, next instant, last decision, last run.

    Raises:
        JobNotFoundError: there is no such job.
    """
    try:
        state = ctx.jobs.get(name)
    except NewerRecordError as error:
        return WhyJob(name, (WhyLine("newer", f"{error}; the version that wrote it goes on with it"),))
    except UnreadableRecordError as error:
        return WhyJob(name, (WhyLine("invalid", f"{error}; save the job again to heal it"),))
    found = ctx.jobs.definitions([(state.uid, state.version)])[state.uid, state.version]
    lines = [WhyLine("enabled", "yes" if state.enabled else _paused(ctx, state))]
    zone = ZoneInfo("UTC")
    try:
        if isinstance(found, UnreadableRecordError):
            raise found
        zone = ZoneInfo(found.zone)
        lines += _schedule_lines(ctx, JobView(state, found), zone)
    except (UnreadableRecordError, InvalidInputError, ZoneInfoNotFoundError) as error:
        lines.append(WhyLine("schedule", f"cannot be read: {error}"))
    if state.invalid:
        lines.append(WhyLine("invalid", f"the scheduler put the job aside: {state.invalid}"))
    lines.append(WhyLine("last tick", _last_tick(ctx)))
    if state.decision is not None:
        sentence = sentence_of_decision(state.decision, zone)
        lines.append(WhyLine("last decision", f"{_in_zone(state.decision.at, zone)}: {sentence}"))
    lines += _run_lines(ctx, state, zone)
    return WhyJob(name, tuple(lines))


def _paused(ctx: Context, state: JobState) -> str:
    version = ctx.jobs.version(state.uid, state.version)
    if version is None or version.change is not Change.PAUSED:
        return "no: the job is paused"
    who = version.editor.name or version.editor.by
    by = f" by {who}" if who else ""
    why = f": {version.editor.why}" if version.editor.why else ""
    return f"no: the job was paused{by} at {version.at:%Y-%m-%d %H:%M:%S} UTC{why}"


def _schedule_lines(ctx: Context, view: JobView, zone: ZoneInfo) -> list[WhyLine]:
    spec = view.definition.schedule
    if spec is None:
        return [WhyLine("schedule", "none: the job runs only when it is triggered")]
    following = next(iter(_next(ctx, view, 1)), None)
    if following is not None:
        text = _in_zone(following.scheduled_at, zone) + (f" ({following.moved})" if following.moved else "")
    else:
        text = "none while the job is paused" if not view.state.enabled else "none: the schedule has no more instants"
    return [
        WhyLine("schedule", spec.cron or (f"every {spec.every}" if spec.every else f"at {spec.at}")),
        WhyLine("time zone", spec.timezone),
        WhyLine("next due", text),
    ]


def _run_lines(ctx: Context, state: JobState, zone: ZoneInfo) -> list[WhyLine]:
    runs, _ = ctx.runs.list_of(state.uid, 10, None)
    now = ctx.clock()
    past = [run for run in runs if run.not_before <= now or run.state is not State.QUEUED]
    if not past:
        return [WhyLine("last run", "none yet")]
    run = past[0]
    sentence = sentence_of_run(run, zone) or _state_in_words(run, zone)
    return [
        WhyLine("last run", f"{run.run_id}, {_in_zone(run.scheduled_at, zone)}, {run.state.value}. {sentence}".strip())
    ]


def _state_in_words(run: Run, zone: ZoneInfo) -> str:
    if run.state is State.QUEUED:
        return f"It waits in the queue of pool {run.pool!r} since {_in_zone(run.queued_at, zone)}; is a worker running?"
    return f"Attempt {run.token} runs on {run.attempt.worker}." if run.attempt else ""


def _last_tick(ctx: Context) -> str:
    facts = ctx.jobs.last_tick()
    if "at" not in facts:
        return "none yet: is the scheduler running?"
    at = from_text(str(facts["at"]))
    ago = max(timedelta(0), ctx.clock() - at)
    warning = "; it should come more often: is the scheduler running?" if ago > 3 * ctx.times.tick else ""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC, {int(ago.total_seconds())} s ago{warning}"


def _next(ctx: Context, view: JobView, count: int) -> tuple[Occurrence, ...]:
    spec = view.definition.schedule
    if spec is None or not view.state.enabled:
        return ()
    return tuple(islice(schedule_of(spec, view.state.name).after(ctx.clock()), count))


def _in_zone(instant: Any, zone: ZoneInfo) -> str:
    return str(instant.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z"))


def _is_expired(ctx: Context, run: Run) -> bool:
    # The store removes expired items days late; they are gone for readers at once.
    return run.expires_at is not None and run.expires_at <= ctx.clock().timestamp()


def _limit(limit: int, field: str = "limit") -> int:
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInputError.of(field, f"{limit} is out of range.", f"Give a whole number from 1 to {MAX_LIMIT}.")
    return limit


def _cursor(last: Item | None) -> str | None:
    if last is None:
        return None
    text = json.dumps([last[LIST_SORT], last[PK], last[SK]], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _start(cursor: str | None, list_key: str) -> Item | None:
    """Read a cursor. The partition is ours, not the cursor's, so that a forged one cannot reach another list."""
    if cursor is None:
        return None
    try:
        parts = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        parts = None
    if not (isinstance(parts, list) and len(parts) == 3 and all(isinstance(part, str) and part for part in parts)):
        raise InvalidInputError.of("cursor", "It is none that this list gave.", "Begin again without a cursor.")
    return {LIST_KEY: list_key, LIST_SORT: parts[0], PK: parts[1], SK: parts[2]}
