"""Jobs and runs as the API shows them: plain JSON values, instants in ISO 8601 and UTC, reasons in words."""

import signal
from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Final, cast
from zoneinfo import ZoneInfo

from clawjob.api import shapes
from clawjob.api.documents import document_of
from clawjob.domain.definition import Definition
from clawjob.domain.instants import to_text
from clawjob.domain.job_state import JobDecision
from clawjob.domain.run import Attempt, Run, State
from clawjob.domain.schedule import Occurrence, Schedule
from clawjob.domain.wording import sentence_of_decision, sentence_of_run
from clawjob.operations.apply_job import JobView
from clawjob.operations.dispatch import schedule_of
from clawjob.operations.insights import RunDetail

_UTC: Final = ZoneInfo("UTC")
_EXITS: Final = {
    0: "0: success",
    126: "126: the command cannot be executed",
    127: "127: the command was not found",
}


def job_json(view: JobView, now: datetime, next_runs: int) -> shapes.Job:
    """Show a job: its document in full form, and under `state` what the service knows of it."""
    state, definition = view.state, view.definition
    status: shapes.JobStatus = {
        "uid": state.uid,
        "version": state.version,
        "enabled": state.enabled,
        "created_at": to_text(state.created_at),
        "changed_at": to_text(state.changed_at),
        "next_runs": _next_runs(definition, now, next_runs) if state.enabled else [],
        "active_run": state.active,
        "last_decision": _decision(state.decision, definition.zone),
        "invalid": state.invalid,
    }
    return cast("shapes.Job", {**document_of(definition), "state": status})


def occurrences_json(occurrences: Iterable[Occurrence], schedule: Schedule) -> list[shapes.Occurrence]:
    """Show instants of a schedule, in UTC and in its zone, with the reason where a change of the clock moved one."""
    return [
        {
            "scheduled_at": to_text(one.scheduled_at),
            "local": schedule.local_time(one.scheduled_at).isoformat(),
            "nominal_local": one.nominal_local.isoformat(),
            "moved": one.moved,
        }
        for one in occurrences
    ]


def run_json(run: Run) -> shapes.Run:
    """Show a run, with its present or last attempt."""
    attempt = run.attempt
    return {
        "run_id": run.run_id,
        "job": run.job,
        "kind": run.kind,
        "state": run.state,
        "is_final": run.is_final,
        "reason": run.reason,
        "explanation": sentence_of_run(run, _UTC),
        "version": run.version,
        "pool": run.pool,
        "scheduled_at": to_text(run.scheduled_at),
        "due_at": to_text(run.not_before),
        "queued_at": to_text(run.queued_at),
        "nominal_local": run.nominal_local.isoformat() if run.nominal_local else None,
        "attempt": run.token,
        "retry": run.retry,
        **_attempt_fields(attempt),
        "lateness_seconds": _lateness(run),
        "final_at": _instant(run.final_at),
        "cancel": {"at": to_text(run.cancel.at), "by": run.cancel.by, "why": run.cancel.why} if run.cancel else None,
        "missed": {"until": to_text(run.gap_until), "count": run.gap_count} if run.gap_until else None,
    }


def run_detail_json(detail: RunDetail) -> shapes.RunDetail:
    """Show a run with all its attempts and what it was given and gave."""
    return {
        **run_json(detail.run),
        "attempts": [{"number": one.number, **_attempt_fields(one)} for one in detail.attempts],
        "params": detail.params,
        "outputs": detail.outputs,
        "log_tail": detail.log_tail,
    }


def exit_in_words(code: int | None) -> str | None:
    """Say what an exit code means."""
    if code is None:
        return None
    if code in _EXITS:
        return _EXITS[code]
    if 128 < code < 128 + 65:
        try:
            return f"{code}: a child of the command was ended by {signal.Signals(code - 128).name}"
        except ValueError:
            pass
    return f"{code}: failure"


def _attempt_fields(attempt: Attempt | None) -> shapes.AttemptFields:
    if attempt is None:
        return _NO_ATTEMPT
    return {
        "worker": attempt.worker,
        "started_at": to_text(attempt.started_at),
        "ended_at": _instant(attempt.ended_at),
        "duration_seconds": attempt.duration_seconds,
        "outcome": attempt.outcome,
        "exit_code": attempt.exit_code,
        "exit": exit_in_words(attempt.exit_code),
        "signal": attempt.signal,
        "detail": attempt.detail,
        "items": attempt.items,
        "log_bytes": attempt.log_bytes,
        "log_dropped_bytes": attempt.log_dropped_bytes,
    }


_NO_ATTEMPT: Final[shapes.AttemptFields] = {
    "worker": None,
    "started_at": None,
    "ended_at": None,
    "duration_seconds": None,
    "outcome": None,
    "exit_code": None,
    "exit": None,
    "signal": None,
    "detail": None,
    "items": None,
    "log_bytes": None,
    "log_dropped_bytes": None,
}


def _lateness(run: Run) -> float | None:
    """Seconds from the due instant to the start of the attempt that was due then."""
    if run.attempt is None or run.state is State.RETRY_WAIT:
        # A run that waits for its next retry has that one's due instant.
        return None
    return max(0.0, round((run.attempt.started_at - run.not_before).total_seconds(), 3))


def _decision(decision: JobDecision | None, zone: str) -> shapes.Decision | None:
    if decision is None:
        return None
    return {
        "reason": decision.reason,
        "at": to_text(decision.at),
        "scheduled_at": _instant(decision.scheduled_at),
        "count": decision.count,
        "explanation": sentence_of_decision(decision, ZoneInfo(zone)),
    }


def _next_runs(definition: Definition, now: datetime, count: int) -> list[shapes.Occurrence]:
    if definition.schedule is None:
        return []
    schedule = schedule_of(definition.schedule, definition.name)
    return occurrences_json(islice(schedule.after(now), count), schedule)


def _instant(instant: datetime | None) -> str | None:
    return None if instant is None else to_text(instant)
