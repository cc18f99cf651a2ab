"""Gives runs whose check has come their next step: nothing is lost because a message, a worker or a write was."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from clawjob.aws.run_item import run_of
from clawjob.domain.errors import UnreadableRecordError, is_spoiled
from clawjob.domain.priority import QueueClass
from clawjob.domain.rescuing import (
    AskToStop,
    CloseOverdue,
    LeaveAlone,
    Lose,
    MoveCheck,
    SendThenMove,
    decide_rescue,
)
from clawjob.domain.run import Run, State
from clawjob.operations.context import Context

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RescueReport:
    """What a rescue did, in runs."""

    checked: int = 0
    sent: int = 0
    lost: int = 0
    ended: int = 0
    invalid: int = 0
    failed: int = 0
    ends: list[Run] = field(default_factory=list)
    """Runs that it ended, of which no worker reports."""


@dataclass
class Rescuer:
    """Rescues within one tick: asks each queue once how much waits in it."""

    ctx: Context
    report: RescueReport = field(default_factory=RescueReport)
    _waiting: dict[tuple[str, QueueClass], int] = field(default_factory=dict)

    def rescue(self, run_ids: Sequence[str]) -> None:
        """Look at runs that the due index names. One bad run never stops the others."""
        items = self.ctx.runs.get_items(run_ids)
        for run_id in run_ids:
            if run_id not in items:
                continue
            try:
                self._rescue_one(run_of(items[run_id]))
            except Exception as error:
                if isinstance(error, UnreadableRecordError) and is_spoiled(error):
                    self.report.invalid += 1
                    log.warning("run is invalid", extra={"run_id": run_id, "why": error.why})
                    self.ctx.runs.set_aside(items[run_id], error.why)
                    continue
                self.report.failed += 1
                log.warning("run is left for a later pass", extra={"run_id": run_id}, exc_info=error)

    def _rescue_one(self, run: Run) -> None:
        self.report.checked += 1
        waits = run.state in {State.QUEUED, State.RETRY_WAIT}
        waiting = self._waiting_with(run) if waits else 0
        self._apply(run, decide_rescue(run, waiting, self.ctx.clock(), self.ctx.times))

    def _apply(self, run: Run, decision: object) -> None:
        ctx = self.ctx
        match decision:
            case LeaveAlone():
                self.report.checked -= 1
            case MoveCheck(after):
                ctx.runs.postpone_check(run, after)
            case SendThenMove(after, delay_seconds):
                self._send(run, delay_seconds)
                ctx.runs.postpone_check(run, after)
            case Lose(after, send):
                self._lose(run, after, send)
            case AskToStop(request, look_at):
                log.warning("run is overdue", extra={"run_id": run.run_id, "deadline_at": str(run.deadline_at)})
                ctx.runs.request_cancel(run, request, look_at)
            case CloseOverdue(after):
                if ctx.runs.close_overdue(run, after).made:
                    self.report.ended += 1
                    self.report.ends.append(after)
                    log.warning("overdue run closed", extra={"run_id": run.run_id, "state": after.state.value})

    def _lose(self, run: Run, after: Run, send: bool) -> None:
        if send:
            # Before the write: a message that comes first finds a lease that ran out, and is a take-over.
            self._send(run, 0)
        if self.ctx.runs.lose(run, after).made:
            self.report.lost += 1
            if after.is_final:
                self.report.ends.append(after)
            about = {"run_id": run.run_id, "attempt": run.token, "losses": after.losses, "state": after.state.value}
            log.warning("worker lost", extra=about)

    def _send(self, run: Run, delay_seconds: int) -> None:
        self.ctx.queues.send_run(run, delay_seconds)
        self.report.sent += 1
        log.info("run sent again", extra={"run_id": run.run_id, "job": run.job, "checks": run.checks})

    def _waiting_with(self, run: Run) -> int:
        queue = run.pool, run.queue
        if queue not in self._waiting:
            self._waiting[queue] = self.ctx.queues.waiting(*queue)
        return self._waiting[queue]
