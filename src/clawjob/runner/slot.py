"""What a slot does with one message: look, wait for the due instant, claim, execute, report, delete.

The message is deleted only after the result is on the results queue, or when there is nothing left to do for it. Every
way out gives the slot back; a lost lease reports nothing.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from clawjob.aws.queues import Received
from clawjob.domain.claiming import Drop, GiveBack, Wait
from clawjob.domain.definition import Resources
from clawjob.domain.errors import InvalidInputError, LeaseLostError, UnavailableError, UnreadableRecordError
from clawjob.domain.messages import RunMessage, result_to_body
from clawjob.domain.metrics import counts_of_end
from clawjob.domain.run import AttemptResult, CancelRequest, Outcome, Run
from clawjob.domain.template import RenderValues, render_command
from clawjob.domain.zone import find_zone
from clawjob.operations.claim_run import Claimed, claim_run
from clawjob.operations.context import Context
from clawjob.operations.hand_back import hand_back
from clawjob.runner.child import AttemptEnd, ChildSpec, Supervisor
from clawjob.runner.environment import slot_uid
from clawjob.runner.keeper import Held, LeaseKeeper
from clawjob.runner.log_lines import metrics
from clawjob.runner.stop import StopRequest

log = logging.getLogger(__name__)

_AFTER_TROUBLE = timedelta(seconds=3)
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 20.0
_LONGEST_HIDE = 43_200


@dataclass(frozen=True, slots=True)
class SlotParts:
    """What all slots of a worker share."""

    ctx: Context
    supervisor: Supervisor
    keeper: LeaseKeeper
    worker: str
    uid_base: int | None
    draining: threading.Event
    """Set when the worker takes nothing new."""
    namespace: str = "clawjob"
    """Of the metrics."""


class Slot:
    """One place for a run. `handle` blocks until its message needs nothing more."""

    def __init__(self, parts: SlotParts, number: int) -> None:
        self._parts = parts
        self._number = number
        self.stop: StopRequest | None = None
        """Of the run in execution; the drain interrupts it."""
        self.resources: Resources | None = None
        """Of the run in execution; the memory gate counts it."""

    def handle(self, received: Received) -> None:
        """See a message through. Trouble with a service leaves the message to come back by itself."""
        try:
            message = RunMessage.from_body(received.body)
            self._handle(message, received)
        except UnreadableRecordError as error:
            # A newer worker may know it; nobody does: the queue moves it to the dead letters.
            log.warning("message cannot be handled", extra={"message_id": received.message_id, "why": str(error)})
        except UnavailableError as error:
            log.warning("message comes back", extra={"message_id": received.message_id, "why": str(error)})
            with suppress(UnavailableError):
                self._hide(received, _AFTER_TROUBLE)
        finally:
            self.stop = None
            self.resources = None

    def _handle(self, message: RunMessage, received: Received) -> None:
        parts = self._parts
        while True:
            answer = claim_run(parts.ctx, message, received.message_id, parts.worker)
            match answer:
                case Drop(why, ended):
                    log.info("message deleted", extra={"run_id": message.run_id, "why": why})
                    self._count_end(ended)
                    parts.ctx.queues.delete(received)
                    return
                case GiveBack(delay, why):
                    log.info("message given back", extra={"run_id": message.run_id, "why": why})
                    self._hide(received, delay)
                    return
                case Claimed():
                    self._execute(answer, received)
                    return
                case Wait(until) if not self._wait(until):
                    self._hide(received, timedelta(0))
                    return
            if parts.draining.is_set():
                self._hide(received, timedelta(0))
                return

    def _count_end(self, run: Run | None) -> None:
        """Count a run that this worker ended itself, by a claim or by giving it up: no report tells of it."""
        counts = counts_of_end(run.state) if run is not None else {}
        if run is not None and counts:
            about = metrics(counts, run.pool, self._parts.namespace, self._parts.ctx.clock())
            log.info("end counted", extra={"run_id": run.run_id, "state": run.state.value, **about})

    def _wait(self, until: datetime) -> bool:
        """Wait for an instant; False when the worker drains meanwhile."""
        parts = self._parts
        while (left := (until - parts.ctx.clock()) / parts.ctx.times.pace) > timedelta(0):
            if parts.draining.wait(left.total_seconds()):
                return False
        return True

    def _hide(self, received: Received, delay: timedelta) -> None:
        seconds = min(math.ceil(max(0.0, delay.total_seconds())), _LONGEST_HIDE)
        self._parts.ctx.queues.set_visibility(received, seconds)

    def _execute(self, claimed: Claimed, received: Received) -> None:
        parts, run = self._parts, claimed.run
        stop = StopRequest()
        self.resources = claimed.definition.resources
        held = Held(
            run_id=run.run_id,
            token=run.token,
            message=received,
            on_cancel=lambda request: stop.cancel(_in_words(request)),
            on_lost=stop.lose_lease,
            renewed_at=time.monotonic(),
        )
        parts.keeper.hold(held)
        self.stop = stop
        if parts.draining.is_set():
            stop.interrupt("the worker was told to stop")
        try:
            result, lost = self._run_child(claimed, stop)
            if not (lost or held.lost):
                self._deliver(result, held, received)
        finally:
            parts.keeper.release(held)

    def _run_child(self, claimed: Claimed, stop: StopRequest) -> tuple[AttemptResult, bool]:
        parts, run, definition = self._parts, claimed.run, claimed.definition
        try:
            argv, env = render_command(definition, _values(claimed))
        except InvalidInputError as error:
            now = parts.ctx.clock()
            end = AttemptEnd(
                outcome=Outcome.CANNOT_START, started_at=now, ended_at=now, duration_seconds=0.0, detail=str(error)
            )
        else:
            log.info("run started", extra={"run_id": run.run_id, "job": run.job, "attempt": run.token})
            end = parts.supervisor.run_child(
                ChildSpec(
                    argv=argv,
                    env=env,
                    run_id=run.run_id,
                    attempt=run.token,
                    job_name=run.job,
                    scheduled_at=run.scheduled_at,
                    timeout=definition.timeout,
                    grace=definition.grace,
                    resources=definition.resources,
                    success_exit_codes=definition.success_exit_codes,
                    empty_exit_codes=definition.empty_exit_codes,
                    min_items=definition.min_items,
                    slot=self._number,
                    uid=slot_uid(parts.uid_base, self._number),
                ),
                stop=stop,
            )
        log.info(
            "run ended",
            extra={
                "run_id": run.run_id,
                "job": run.job,
                "attempt": run.token,
                "outcome": end.outcome.value,
                "exit_code": end.exit_code,
                "duration_seconds": round(end.duration_seconds, 3),
            },
        )
        return _result(run, parts.worker, end), end.lease_lost

    def _deliver(self, result: AttemptResult, held: Held, received: Received) -> None:
        """Report or hand back, until a service takes it or the lease is lost; then delete the message."""
        parts = self._parts
        give: Callable[[], Run | None]
        if result.outcome is Outcome.INTERRUPTED:
            give = lambda: hand_back(parts.ctx, result)  # noqa: E731  # one of two ways to be tried below
        else:
            body = result_to_body(result)
            give = lambda: parts.ctx.queues.report(body)  # noqa: E731  # one of two ways to be tried below
        pause = _FIRST_PAUSE
        while not held.lost:
            try:
                self._count_end(give())
                parts.ctx.queues.delete(received)
            except LeaseLostError as error:
                log.warning("result is not ours to give", extra={"run_id": result.run_id, "why": str(error)})
                return
            except UnavailableError as error:
                log.warning("result not delivered yet", extra={"run_id": result.run_id, "why": str(error)})
                # The lease is kept meanwhile, so nobody takes the run over.
                threading.Event().wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                return


def _values(claimed: Claimed) -> RenderValues:
    run, definition = claimed.run, claimed.definition
    started_at = run.attempt.started_at if run.attempt else run.not_before
    return RenderValues(
        run_id=run.run_id,
        job_name=run.job,
        attempt=run.token,
        scheduled_at=run.scheduled_at,
        nominal_local=run.nominal_local or _civil(run.scheduled_at, definition.zone),
        timezone=definition.zone,
        now=started_at,
        params=claimed.params,
    )


def _civil(instant: datetime, zone: str) -> datetime:
    offset = timedelta(seconds=find_zone(zone).offset_at(int(instant.timestamp())))
    return instant.replace(tzinfo=None) + offset


def _in_words(request: CancelRequest) -> str:
    return f"{request.why or 'cancelled'} (asked by {request.by})"


def _result(run: Run, worker: str, end: AttemptEnd) -> AttemptResult:
    return AttemptResult(
        run_id=run.run_id,
        token=run.token,
        worker=worker,
        outcome=end.outcome,
        started_at=end.started_at,
        ended_at=end.ended_at,
        duration_seconds=end.duration_seconds,
        exit_code=end.exit_code,
        signal=end.signal,
        detail=end.detail,
        items=end.items,
        outputs=end.outputs,
        log_tail=end.log_tail,
        log_bytes=end.log_bytes,
        log_dropped_bytes=end.log_dropped_bytes,
    )
