"""A run: its states, the one table of legal moves, and what is known of it.

A state says where a run is, an outcome how one attempt ended; they are two types, and only settling maps one to the
other.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from clawjob.domain.errors import IllegalMoveError
from clawjob.domain.priority import QueueClass


class State(StrEnum):
    """Where a run is."""

    QUEUED = "QUEUED"
    """On its queue, or about to be; not started, or handed back by a worker."""
    RUNNING = "RUNNING"
    """A worker holds the lease, or held it and vanished."""
    RETRY_WAIT = "RETRY_WAIT"
    """An attempt ended badly and the job's policy grants another at `not_before`."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    LOST = "LOST"
    """Its workers died too often."""
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"
    """Waited in the queue past its deadline and was never started."""
    SKIPPED = "SKIPPED"
    """Decided at its due instant not to run."""
    MISSED = "MISSED"
    """A record of instants that passed while nothing could dispatch them."""


OPEN: Final = frozenset({State.QUEUED, State.RUNNING, State.RETRY_WAIT})
FINAL: Final = frozenset(State) - OPEN


class Outcome(StrEnum):
    """How one attempt ended."""

    SUCCEEDED = "succeeded"
    EMPTY = "empty"
    """Ended well but brought fewer items than the job asks for."""
    FAILED = "failed"
    SIGNALLED = "signalled"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    STALLED = "stalled"
    CANNOT_START = "cannot_start"
    LOST = "lost"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


class Reason(StrEnum):
    """Why something was decided: of a job (on its state row) or of a run (on the run)."""

    CREATED = "created"
    CHANGED = "changed"
    DISPATCHED = "dispatched"
    CAUGHT_UP = "caught_up"
    MISSED = "missed"
    SCHEDULE_ENDED = "schedule_ended"
    NO_SCHEDULE = "no_schedule"
    PAUSED = "paused"
    INVALID = "invalid"

    DELETED = "deleted"
    SUPERSEDED = "superseded"
    OVERLAP = "overlap"
    QUEUE_DEADLINE = "queue_deadline"
    CATCH_UP_NONE = "catch_up_none"
    CATCH_UP_LAST = "catch_up_last"
    CATCH_UP_WINDOW = "catch_up_window"
    CATCH_UP_MAX = "catch_up_max"

    COMPLETED = "completed"
    NOT_RETRIED = "not_retried"
    RETRIES_USED_UP = "retries_used_up"
    RETRY_PLANNED = "retry_planned"
    CANCEL_REQUESTED = "cancel_requested"
    OVERDUE = "overdue"
    WORKER_LOST = "worker_lost"
    HANDED_BACK = "handed_back"


class Actor(StrEnum):
    """Who makes a move."""

    SCHEDULER = "scheduler"
    API = "api"
    WORKER = "worker"
    RESULTS = "results"


@dataclass(frozen=True, slots=True)
class Transition:
    """One legal move of a run; `source` is None for a run that is made."""

    source: State | None
    target: State
    actor: Actor
    when: str
    """The condition, as the conditional write checks it."""


def _moves(
    sources: tuple[State | None, ...], targets: tuple[State, ...], actor: Actor, when: str
) -> tuple[Transition, ...]:
    return tuple(Transition(source, target, actor, when) for source in sources for target in targets)


_CANCELLED_WHEN: Final = "a cancel was requested and the attempt did not succeed"

TRANSITIONS: Final[tuple[Transition, ...]] = (
    *_moves((None,), (State.QUEUED,), Actor.SCHEDULER, "no run of this job and instant is there"),
    *_moves((None,), (State.QUEUED,), Actor.API, "no run of this idempotency key is there"),
    *_moves((None,), (State.MISSED,), Actor.SCHEDULER, "the catch-up policy drops the instants of a gap"),
    *_moves((State.QUEUED,), (State.RUNNING,), Actor.WORKER, "due, and the overlap slot is free or not needed"),
    *_moves(
        (State.QUEUED,),
        (State.SKIPPED,),
        Actor.WORKER,
        "never started, and paused, deleted, superseded or overlapping at the due instant",
    ),
    *_moves((State.QUEUED,), (State.EXPIRED,), Actor.WORKER, "never started, and past the queue deadline"),
    *_moves((State.RETRY_WAIT,), (State.RUNNING,), Actor.WORKER, "not_before is reached"),
    *_moves(
        (State.QUEUED, State.RETRY_WAIT),
        (State.CANCELLED,),
        Actor.WORKER,
        "started before, and its job was deleted since",
    ),
    *_moves((State.QUEUED, State.RETRY_WAIT), (State.CANCELLED,), Actor.API, "cancelled while it waits"),
    *_moves(
        (State.RUNNING,),
        (State.RUNNING, State.LOST),
        Actor.WORKER,
        "the lease ran out; LOST when that was the last loss allowed",
    ),
    *_moves(
        (State.RUNNING,),
        (State.CANCELLED, State.TIMED_OUT),
        Actor.WORKER,
        "the lease ran out or the run is handed back, and its end was asked for or its job deleted",
    ),
    *_moves((State.RUNNING,), (State.QUEUED,), Actor.WORKER, "holds the token and hands the run back (drain)"),
    *_moves(
        (State.RUNNING,),
        (State.SUCCEEDED, State.FAILED, State.TIMED_OUT, State.RETRY_WAIT),
        Actor.RESULTS,
        "the result carries the current token",
    ),
    *_moves((State.RUNNING,), (State.CANCELLED,), Actor.RESULTS, _CANCELLED_WHEN),
    *_moves(
        (State.QUEUED,),
        (State.SUCCEEDED, State.FAILED, State.TIMED_OUT, State.RETRY_WAIT),
        Actor.RESULTS,
        "counted as lost, claimed by nobody since, and the late result carries the current token",
    ),
    *_moves((State.QUEUED,), (State.CANCELLED,), Actor.RESULTS, _CANCELLED_WHEN),
    *_moves(
        (State.RUNNING,),
        (State.QUEUED, State.LOST),
        Actor.SCHEDULER,
        "the lease is over for long; LOST when that was the last loss allowed",
    ),
    *_moves(
        (State.RUNNING,),
        (State.TIMED_OUT,),
        Actor.SCHEDULER,
        "the lease lives long past deadline and grace, and the request to stop was not followed",
    ),
    *_moves(
        (State.RUNNING,),
        (State.CANCELLED,),
        Actor.SCHEDULER,
        "a cancel was requested, and the lease is over for long, or lives long past deadline and grace",
    ),
)

_LEGAL: Final = frozenset((move.source, move.target, move.actor) for move in TRANSITIONS)


def is_legal(source: State | None, target: State, actor: Actor) -> bool:
    """Tell whether the table has a move for this actor."""
    return (source, target, actor) in _LEGAL


def check_move(source: State, target: State) -> None:
    """Refuse a move that the table does not have for anybody; a write that leaves the state as it is is no move.

    Raises:
        IllegalMoveError: the table has no such move.
    """
    if source is not target and not any(is_legal(source, target, actor) for actor in Actor):
        raise IllegalMoveError(source.value, target.value)


class RunKind(StrEnum):
    """What made a run."""

    SCHEDULED = "scheduled"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """A wish that a run end, and where it came from."""

    at: datetime
    by: str
    why: str
    is_overdue: bool = False
    """Whether the scheduler asked, because the run is long past its deadline: its end is a timeout then."""


MAX_WHY: Final = 100
"""Characters kept of what a reason speaks of, so that a run's item stays small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What is known of one attempt: of the present one on the run itself, of earlier ones as items of their own."""

    number: int
    """Counted from 1; also the fencing token."""
    worker: str
    started_at: datetime
    ended_at: datetime | None = None
    outcome: Outcome | None = None
    exit_code: int | None = None
    signal: str | None = None
    detail: str = ""
    """Why it ended so, in words."""
    duration_seconds: float | None = None
    items: int | None = None
    log_bytes: int = 0
    log_dropped_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One occurrence of a job, or a record of what did not run."""

    run_id: str
    uid: str
    job: str
    kind: RunKind
    state: State
    version: int
    """Version of the definition that planned it, then of the one that ran."""
    pool: str
    scheduled_at: datetime
    """The nominal instant; templates render from it."""
    not_before: datetime
    """When it may start: the due instant, later the instant of the next retry."""
    queued_at: datetime
    queue: QueueClass = QueueClass.LOW
    """Which of the pool's queues carries it."""
    nominal_local: datetime | None = None
    """The civil time that it stands for, only where a zone's gap moved it; naive, in the job's zone."""
    due_at: datetime | None = None
    """When the scheduler has to look at it; none on a final run."""
    checks: int = 0
    """How often the scheduler looked at it since it was sent."""
    retry: int = 0
    """Tries that the job's own policy gave."""
    token: int = 0
    losses: int = 0
    lost_token: int | None = None
    """The token whose result is still taken although its worker counts as lost."""
    lease_until: datetime | None = None
    deadline_at: datetime | None = None
    """When the present attempt must have ended, grace included."""
    message_id: str | None = None
    attempt: Attempt | None = None
    cancel: CancelRequest | None = None
    displaced: str | None = None
    """The run that took the overlap slot from this one before it started; whoever claims it must look again."""
    reason: Reason | None = None
    why: str = ""
    """What the reason speaks of: the run that holds the slot, the pause's cause."""
    input_hash: str | None = None
    """Fingerprint of a manual run's request; its params are an item of their own."""
    gap_until: datetime | None = None
    gap_count: int = 0
    final_at: datetime | None = None
    expires_at: int | None = None
    """Epoch second after which readers ignore it and the store removes it."""

    @property
    def is_final(self) -> bool:
        """Whether it can never change again."""
        return self.state in FINAL


def lost_attempt(attempt: Attempt | None, at: datetime) -> Attempt | None:
    """Close an attempt of which nobody told the end; one that has ended stays as it is."""
    if attempt is None or attempt.outcome is not None:
        return attempt
    return replace(attempt, ended_at=at, outcome=Outcome.LOST, detail="its worker vanished without a word")


def close_run(run: Run, state: State, reason: Reason, now: datetime, retention: timedelta, why: str = "") -> Run:
    """Return the run in its final state: no attempt is open, nothing is due any more, and its retention begins."""
    return replace(
        run,
        state=state,
        attempt=lost_attempt(run.attempt, run.lease_until or now),
        reason=reason,
        why=why[:MAX_WHY],
        due_at=None,
        lost_token=None,
        final_at=now,
        expires_at=int((now + retention).timestamp()),
    )


def _no_outputs() -> dict[str, object]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """What a worker reports when its child has ended; the body of a message on the results queue."""

    run_id: str
    token: int
    worker: str
    outcome: Outcome
    started_at: datetime
    ended_at: datetime
    duration_seconds: float
    exit_code: int | None = None
    signal: str | None = None
    detail: str = ""
    items: int | None = None
    outputs: dict[str, object] = field(default_factory=_no_outputs)
    log_tail: str = ""
    log_bytes: int = 0
    log_dropped_bytes: int = 0
