"""Takes a run for a worker. One read and one conditional write at the due instant decide."""

import logging
from dataclasses import dataclass
from typing import Any

from clawjob.domain.claiming import (
    AskHolder,
    Claimant,
    Drop,
    End,
    GiveBack,
    Holder,
    Start,
    Wait,
    before_due,
    decide_claim,
)
from clawjob.domain.definition import Definition
from clawjob.domain.job_state import JobState
from clawjob.domain.messages import RunMessage
from clawjob.domain.run import Run, RunKind, State
from clawjob.operations.context import Context
from clawjob.operations.dispatch import schedule_of

log = logging.getLogger(__name__)

_ROUNDS = 8
"""Lost races after which a message goes back; each round another claimant made progress."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A run in a worker's hands, until its lease is over."""

    run: Run
    definition: Definition
    params: dict[str, Any]
    """The job's defaults with what a person gave instead."""


def claim_run(ctx: Context, message: RunMessage, message_id: str, worker: str) -> Claimed | Drop | GiveBack | Wait:
    """Claim the run that a message names, or say what to do with the message.

    Raises:
        UnreadableRecordError: the run, its job's row or its definition cannot be read.
        UnavailableError: a service refused; the message comes back by itself.
    """
    for _ in range(_ROUNDS):
        answer = _claim_once(ctx, message, message_id, worker)
        if answer is not None:
            return answer
    return GiveBack(ctx.times.keep, "too many claimed at once")


def _claim_once(
    ctx: Context, message: RunMessage, message_id: str, worker: str
) -> Claimed | Drop | GiveBack | Wait | None:
    run, job = ctx.runs.get_with_job(message.run_id)
    claimant = Claimant(worker, message, message_id, ctx.clock())
    early = before_due(run, claimant, ctx.times)
    if early is not None or run is None:
        return early
    definition = ctx.jobs.definition(job.uid, job.version) if job is not None and job.deleted_at is None else None
    superseded = _is_superseded(run, job, definition)
    decision = decide_claim(run, job, definition, claimant, ctx.times, superseded=superseded)
    if isinstance(decision, AskHolder):
        other = ctx.runs.get(decision.run_id)
        holder = Holder(other, other is not None and _is_superseded(other, job, definition))
        decision = decide_claim(run, job, definition, claimant, ctx.times, superseded=superseded, holder=holder)
    match decision:
        case Drop() | GiveBack() | Wait():
            return decision
        case End(ended):
            return _end(ctx, run, ended)
        case Start() if job is not None and definition is not None:
            return _start(ctx, run, job, definition, decision)
    return None


def _is_superseded(run: Run, job: JobState | None, definition: Definition | None) -> bool:
    """Whether the schedule changed since the run was planned so that its instant is none of it."""
    if job is None or definition is None or run.kind is not RunKind.SCHEDULED:
        return False
    if run.token or run.version == job.version:
        return False
    if definition.schedule is None:
        return True
    return schedule_of(definition.schedule, definition.name).occurrence_at(run.scheduled_at) is None


def _end(ctx: Context, run: Run, ended: Run) -> Drop | None:
    # A vanished worker may come back with a renewal between our read and this write.
    moved = ctx.runs.lose(run, ended) if run.state is State.RUNNING else ctx.runs.end_unstarted(run, ended)
    if not moved.made:
        return None
    reason = ended.reason.value if ended.reason else ""
    log.info("run ended", extra={"run_id": run.run_id, "job": run.job, "state": ended.state.value, "reason": reason})
    return Drop(f"the run is {ended.state.value}: {reason}", ended)


def _start(ctx: Context, run: Run, job: JobState, definition: Definition, start: Start) -> Claimed | None:
    if start.takes_slot and not ctx.jobs.take_slot(job, run.run_id, start.from_holder):
        return None
    # Before the claim: a read that fails after it would cost an attempt.
    given = ctx.runs.params(run.run_id) if run.input_hash else {}
    moved = ctx.runs.claim(run, start.run, start.lost)
    if not moved.made:
        return None
    log.info("run taken", extra={"run_id": run.run_id, "job": run.job, "attempt": start.run.token})
    return Claimed(start.run, definition, {**definition.params, **given})
