"""Closes an attempt with its worker's result: exactly once, however often and however late the result comes."""

import logging
from dataclasses import dataclass

from clawjob.domain.definition import Definition
from clawjob.domain.errors import UnavailableError
from clawjob.domain.rescuing import delay_until
from clawjob.domain.run import AttemptResult, Run, State
from clawjob.domain.settling import Ignore, SendAgain, decide_settlement
from clawjob.operations.context import Context

log = logging.getLogger(__name__)

_TRIES = 5


@dataclass(frozen=True, slots=True)
class Settled:
    """What a result did."""

    changed: bool
    run: Run | None
    """As it is now."""
    why: str = ""
    """Why nothing changed."""


def settle_attempt(ctx: Context, result: AttemptResult) -> Settled:
    """Close the attempt that a result is of; a retry that is near is sent at once.

    Raises:
        UnavailableError: a service refused; the same result may come again.
    """
    for _ in range(_TRIES):
        seen = ctx.runs.get(result.run_id)
        definition = _definition(ctx, seen)
        decision = decide_settlement(seen, result, definition, ctx.chance(), ctx.clock(), ctx.times)
        if seen is None or isinstance(decision, Ignore):
            why = decision.why if isinstance(decision, Ignore) else ""
            log.info("result ignored", extra={"run_id": result.run_id, "attempt": result.token, "why": why})
            return Settled(False, seen, why)
        if isinstance(decision, SendAgain):
            if (decision.run.due_at or decision.run.not_before) > decision.run.not_before:
                _send(ctx, decision.run)
            return Settled(False, seen, "the result was taken before")
        tail = "" if decision.run.state is State.SUCCEEDED else result.log_tail
        moved = ctx.runs.settle(seen, decision.run, decision.closed, result.outputs, tail, ctx.clock())
        if moved.made:
            _log(decision.run, result)
            if decision.send:
                _send(ctx, decision.run)
            return Settled(True, decision.run)
    raise UnavailableError("settle", "the run changes all the time")


def _definition(ctx: Context, run: Run | None) -> Definition | None:
    if run is None:
        return None
    found = ctx.jobs.definitions([(run.uid, run.version)])[run.uid, run.version]
    return found if isinstance(found, Definition) else None


def _send(ctx: Context, run: Run) -> None:
    ctx.queues.send_run(run, delay_until(run.not_before, ctx.clock()))


def _log(run: Run, result: AttemptResult) -> None:
    log.info(
        "attempt settled",
        extra={
            "run_id": run.run_id,
            "job": run.job,
            "attempt": result.token,
            "worker": result.worker,
            "outcome": result.outcome.value,
            "exit_code": result.exit_code,
            "duration_seconds": result.duration_seconds,
            "state": run.state.value,
            "reason": run.reason.value if run.reason else None,
        },
    )
