"""A worker in the test's own process and time: the real claim, keep, report and hand-back; no real child.

It does what `clawjob.runner.slot` and `clawjob.runner.keeper` do, one step at a time. A child is "executed" by noting
its start; its end comes when the clock reaches it.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from clawjob.aws.queues import Received
from clawjob.domain.claiming import Drop, GiveBack, Wait
from clawjob.domain.errors import LeaseLostError, UnavailableError, UnreadableRecordError
from clawjob.domain.messages import RunMessage, result_to_body
from clawjob.domain.priority import QueueClass
from clawjob.domain.run import AttemptResult, Outcome, Run
from clawjob.operations.claim_run import Claimed, claim_run
from clawjob.operations.context import Context
from clawjob.operations.hand_back import hand_back


@dataclass(frozen=True, slots=True)
class Child:
    """What the child of one attempt does."""

    outcome: Outcome = Outcome.SUCCEEDED
    takes: timedelta = timedelta(0)
    kills_worker: bool = False
    """The worker dies with it, at its end."""


@dataclass(frozen=True, slots=True)
class Execution:
    """A child that was started."""

    run_id: str
    token: int
    retry: int
    job: str
    scheduled_at: datetime
    worker: str
    started_at: datetime


@dataclass(slots=True)
class _Waiting:
    received: Received
    message: RunMessage
    until: datetime


@dataclass(slots=True)
class Held:
    """An attempt in the worker's hands."""

    run: Run
    received: Received
    child: Child
    started_at: datetime
    ends_at: datetime
    keep_at: datetime
    renewed_at: datetime
    cancelled: bool = False


class WorkerDied(Exception):  # noqa: N818  # an event of the test, no error
    """The child took its worker with it."""


@dataclass
class FakeWorker:
    """One worker process."""

    ctx: Context
    name: str
    child_of: Callable[[Run], Child]
    started: Callable[[Execution], None]
    pool: str = "default"
    slots: int = 10
    frozen: bool = False
    """It does nothing, not even keep its leases, as a stopped process."""
    draining: bool = False
    waiting: list[_Waiting] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)

    @property
    def free(self) -> int:
        """How many messages it can take."""
        return 0 if self.frozen or self.draining else self.slots - len(self.waiting) - len(self.held)

    def events(self) -> Iterator[datetime]:
        """When it has something to do."""
        if not self.frozen:
            yield from (one.until for one in self.waiting)
            for held in self.held:
                yield min(held.ends_at, held.keep_at)

    def poll(self) -> bool:
        """Take messages and see each as far as it goes now; whether there were any."""
        received: list[Received] = []
        for queue in QueueClass:
            if self.free > len(received):
                most = min(10, self.free - len(received))
                received += self.ctx.queues.receive(self.pool, queue, most, timedelta(0))
        for one in received:
            self._guarded(one)
        return bool(received)

    def work(self) -> None:
        """Do what has come due: claims, renewals, ends of children."""
        if self.frozen:
            return
        now = self.ctx.clock()
        for one in [waiting for waiting in self.waiting if waiting.until <= now]:
            self.waiting.remove(one)
            self._guarded(one.received)
        for held in [held for held in self.held if held.keep_at <= now < held.ends_at]:
            self._keep(held)
        for held in [held for held in self.held if held.ends_at <= now]:
            self._end(held)

    def drain(self) -> None:
        """Take nothing new and hand back what runs."""
        self.draining = True
        for one in list(self.waiting):
            self.waiting.remove(one)
            self.ctx.queues.set_visibility(one.received, 0)
        for held in list(self.held):
            held.child = Child(Outcome.INTERRUPTED)
            self._end(held)

    def _guarded(self, received: Received) -> None:
        try:
            self._handle(received)
        except (UnavailableError, UnreadableRecordError):
            return

    def _handle(self, received: Received) -> None:
        message = RunMessage.from_body(received.body)
        answer = claim_run(self.ctx, message, received.message_id, self.name)
        match answer:
            case Drop():
                self.ctx.queues.delete(received)
            case GiveBack(delay):
                seconds = math.ceil(max(0.0, delay.total_seconds()))
                self.ctx.queues.set_visibility(received, min(seconds, 43_200))
            case Wait(until):
                self.waiting.append(_Waiting(received, message, until))
            case Claimed():
                self._start(answer.run, received)

    def _start(self, run: Run, received: Received) -> None:
        now = self.ctx.clock()
        child = self.child_of(run)
        self.started(Execution(run.run_id, run.token, run.retry, run.job, run.scheduled_at, self.name, now))
        held = Held(run, received, child, now, now + child.takes, now + self.ctx.times.keep, now)
        self.held.append(held)
        if held.ends_at <= now:
            self._end(held)

    def _keep(self, held: Held) -> None:
        now = self.ctx.clock()
        held.keep_at = now + self.ctx.times.keep
        try:
            cancel = self.ctx.runs.extend_lease(held.run.run_id, held.run.token, now + self.ctx.times.lease)
        except LeaseLostError:
            self.held.remove(held)
            return
        except UnavailableError:
            if now - held.renewed_at > self.ctx.times.lease:
                self.held.remove(held)
            return
        held.renewed_at = now
        with suppress(UnavailableError):
            self.ctx.queues.set_visibility(held.received, round(self.ctx.times.lease.total_seconds()))
        if cancel is not None:
            held.child, held.ends_at = Child(Outcome.CANCELLED), now
            self._end(held)

    def _end(self, held: Held) -> None:
        if held.child.kills_worker:
            raise WorkerDied
        result = self.result_of(held)
        try:
            if result.outcome is Outcome.INTERRUPTED:
                hand_back(self.ctx, result)
            else:
                self.ctx.queues.report(result_to_body(result))
            self.ctx.queues.delete(held.received)
        except LeaseLostError:
            self.held.remove(held)
        except UnavailableError:
            # The lease is kept, and the same is tried again in a second.
            held.ends_at = self.ctx.clock() + timedelta(seconds=1)
        else:
            self.held.remove(held)

    def result_of(self, held: Held) -> AttemptResult:
        """What it reports of an attempt."""
        now = self.ctx.clock()
        return AttemptResult(
            run_id=held.run.run_id,
            token=held.run.token,
            worker=self.name,
            outcome=held.child.outcome,
            started_at=held.started_at,
            ended_at=now,
            duration_seconds=(now - held.started_at).total_seconds(),
            exit_code={Outcome.SUCCEEDED: 0, Outcome.FAILED: 2}.get(held.child.outcome),
        )
