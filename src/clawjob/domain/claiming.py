"""What a worker does with a run message. Decided at the due instant: a pause or edit before it counts."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from clawjob.domain.definition import Definition, Overlap
from clawjob.domain.job_state import JobState
from clawjob.domain.messages import RunMessage
from clawjob.domain.run import FINAL, Attempt, Reason, Run, RunKind, State, close_run, lost_attempt
from clawjob.domain.times import Times

_HELD: Final = "its worker holds the lease"
_AFTER_LEASE: Final = timedelta(seconds=2)
"""A message that comes back while its own worker lives returns so long after the lease would end."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Delete the message: nothing is left to do for it."""

    why: str
    ended: Run | None = None
    """The run, where the claim itself ended it."""


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Hide the message for so long."""

    delay: timedelta
    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Hold the message in the free slot until the instant, then decide."""

    until: datetime


@dataclass(frozen=True, slots=True)
class End:
    """Close the run without another attempt, then delete the message."""

    run: Run


@dataclass(frozen=True, slots=True)
class AskHolder:
    """The overlap slot names another run: read that one, then decide."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Holder:
    """The run that the overlap slot names, as it is now."""

    run: Run | None
    """None when it is gone."""
    superseded: bool
    """Its instant is none of the schedule that is in force now."""


@dataclass(frozen=True, slots=True)
class Start:
    """Claim the run."""

    run: Run
    lost: Attempt | None
    """The attempt of a worker that vanished, to be closed with the claim."""
    takes_slot: bool
    """The overlap slot must be taken first."""
    from_holder: Run | None = None
    """The open run that loses the slot, because it has not come to its instant or will never start."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who claims, with which message, when."""

    worker: str
    message: RunMessage
    message_id: str
    now: datetime


def before_due(run: Run | None, claimant: Claimant, times: Times) -> Drop | GiveBack | Wait | None:
    """Decide what the run alone decides; None when it can be claimed now."""
    now = claimant.now
    if run is None:
        return Drop("there is no such run")
    if run.state in FINAL:
        return Drop(f"the run is {run.state.value}")
    if run.retry > claimant.message.retry:
        return Drop("the message is of an earlier try")
    if run.state is State.RUNNING and run.lease_until is not None:
        ours = run.message_id == claimant.message_id
        if ours and run.lease_until > now:
            return GiveBack(max(run.lease_until - now + _AFTER_LEASE, _loose(run, now, times)), _HELD)
        # A copy proves nothing: the run may have ended well and its result be on the way, as long as a rescue waits.
        if not ours and run.lease_until + times.lost_after > now:
            return Drop("another message's worker holds or held the lease")
    if run.state is not State.RUNNING and run.not_before > now:
        wait = run.not_before - now
        return Wait(run.not_before) if wait <= times.early else GiveBack(wait - times.early / 2, "it is not due yet")
    return None


def _loose(run: Run, now: datetime, times: Times) -> timedelta:
    """How long a message that its worker cannot hide any more stays away at least, the longer the older the attempt.

    The queue counts receives: one for each lease would bring the message of a long run to the dead letters. If the
    worker dies meanwhile, a rescue sends another.
    """
    return timedelta(0) if run.attempt is None else 2 * (now - run.attempt.started_at - times.lease)


def decide_claim(
    run: Run,
    job: JobState | None,
    definition: Definition | None,
    claimant: Claimant,
    times: Times,
    *,
    superseded: bool,
    holder: Holder | None = None,
) -> Drop | GiveBack | Wait | End | AskHolder | Start:
    """Decide what a worker does with a run that it holds a message for.

    Args:
        run: as it is now.
        job: the job's state row as it is now; None when it is gone.
        definition: the one in force; None only when the job is gone.
        claimant: who claims, and when.
        times: the lease, and how many losses a run survives.
        superseded: the instant is none of the schedule that is in force now.
        holder: the run that the overlap slot names, where it was read; None asks for it where it matters.
    """
    early = before_due(run, claimant, times)
    if early is not None:
        return early
    ended = _end_of_vanished(run, claimant.now, times) if run.state is State.RUNNING else None
    if ended is not None:
        return End(ended)
    if job is None or definition is None or job.deleted_at is not None:
        state = State.CANCELLED if run.token else State.SKIPPED
        return End(close_run(run, state, Reason.DELETED, claimant.now, times.retention))
    if run.token == 0:
        unstarted = _end_of_unstarted(run, job, definition, claimant.now, times, superseded=superseded)
        if unstarted is not None:
            return End(unstarted)
    takes_slot = run.token == 0 and definition.overlap is Overlap.SKIP and job.active != run.run_id
    displaced: Run | None = None
    if takes_slot and job.active is not None:
        if holder is None:
            return AskHolder(job.active)
        if holder.run is not None and not holder.run.is_final:
            if _keeps_out(holder, job, definition, claimant.now, times):
                why = holder.run.run_id
                return End(close_run(run, State.SKIPPED, Reason.OVERLAP, claimant.now, times.retention, why))
            displaced = holder.run
    return Start(_started(run, job, definition, claimant, times), _vanished(run), takes_slot, displaced)


def _keeps_out(holder: Holder, job: JobState, definition: Definition, now: datetime, times: Times) -> bool:
    """Whether the slot's holder keeps others out: it has started, or its instant has come and it will start."""
    run = holder.run
    if run is None or run.is_final:
        return False
    if run.token > 0:
        return True
    ended = _end_of_unstarted(run, job, definition, now, times, superseded=holder.superseded)
    return run.not_before <= now and ended is None


def _vanished(run: Run) -> Attempt | None:
    """The attempt of a worker that vanished, closed; None when no attempt is open."""
    if run.attempt is None or not (run.state is State.RUNNING or run.lost_token is not None):
        return None
    return lost_attempt(run.attempt, run.lease_until or run.not_before)


def end_of_lost(run: Run, losses: int, now: datetime, times: Times) -> Run | None:
    """The final run where no further attempt follows the loss of its worker; None where one does."""
    lost = replace(run, losses=losses)
    if run.cancel is not None:
        return cancelled(lost, now, times)
    if losses >= times.max_losses:
        return close_run(lost, State.LOST, Reason.WORKER_LOST, now, times.retention)
    return None


def cancelled(run: Run, now: datetime, times: Times) -> Run:
    """The final run whose end was asked for: by a person, or by the scheduler because it was overdue."""
    if run.cancel is not None and run.cancel.is_overdue:
        return close_run(run, State.TIMED_OUT, Reason.OVERDUE, now, times.retention)
    why = run.cancel.why if run.cancel else ""
    return close_run(run, State.CANCELLED, Reason.CANCEL_REQUESTED, now, times.retention, why)


def _end_of_vanished(run: Run, now: datetime, times: Times) -> Run | None:
    return end_of_lost(run, run.losses + 1, now, times)


def _end_of_unstarted(
    run: Run, job: JobState, definition: Definition, now: datetime, times: Times, *, superseded: bool
) -> Run | None:
    if run.kind is RunKind.SCHEDULED and not job.enabled:
        return close_run(run, State.SKIPPED, Reason.PAUSED, now, times.retention)
    if run.kind is RunKind.SCHEDULED and superseded:
        return close_run(run, State.SKIPPED, Reason.SUPERSEDED, now, times.retention)
    return _expired(run, definition, now, times)


def _expired(run: Run, definition: Definition, now: datetime, times: Times) -> Run | None:
    """The EXPIRED run where it waited in its queue longer than its job allows; None where not."""
    if run.token or definition.queue_deadline is None or now - run.not_before <= definition.queue_deadline:
        return None
    return close_run(run, State.EXPIRED, Reason.QUEUE_DEADLINE, now, times.retention)


def _started(run: Run, job: JobState, definition: Definition, claimant: Claimant, times: Times) -> Run:
    now = claimant.now
    return replace(
        run,
        state=State.RUNNING,
        version=job.version,
        token=run.token + 1,
        losses=run.losses + (1 if run.state is State.RUNNING else 0),
        lost_token=None,
        lease_until=now + times.lease,
        deadline_at=now + (definition.timeout + definition.grace) * times.pace,
        message_id=claimant.message_id,
        attempt=Attempt(number=run.token + 1, worker=claimant.worker, started_at=now),
        displaced=None,
        reason=None,
        why="",
    )
