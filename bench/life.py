"""Plays the lives of runs on the stage: real operations, the worker's own slot, and a scripted child."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from bench.account import POOLS, TABLE, hourly
from bench.meter import Charge
from bench.stage import Stage, stage
from clawjob.aws.queues import Received
from clawjob.domain.definition import Definition
from clawjob.domain.messages import RunMessage, result_from_body
from clawjob.domain.priority import QueueClass
from clawjob.domain.run import Outcome, Run
from clawjob.domain.schedule import ScheduleSpec
from clawjob.operations.apply_job import create_job
from clawjob.operations.claim_run import claim_run
from clawjob.operations.settle_attempt import settle_attempt
from clawjob.operations.tick import TickReport, tick
from clawjob.operations.trigger_run import trigger_run
from clawjob.runner.child import AttemptEnd, ChildSpec
from clawjob.runner.keeper import LeaseKeeper
from clawjob.runner.slot import Slot, SlotParts
from clawjob.runner.stop import StopRequest

TICK: Final = "tick"
DISPATCH: Final = "dispatch"
WORK: Final = "work"
SETTLE: Final = "settle"
EVENT_SOURCE: Final = "event source"
"""What AWS itself does between the results queue and the results function."""

_MINUTE: Final = timedelta(minutes=1)
_SHORT: Final = timedelta(seconds=5)


@dataclass
class ScriptedChildren:
    """Stands where the supervisor of processes is: a child ends as the script says, after as long as it says."""

    stage: Stage
    end: dict[str, Any] = field(default_factory=dict)
    lasts: timedelta = _SHORT
    meanwhile: Callable[[], None] = lambda: None

    def run_child(self, spec: ChildSpec, *, stop: StopRequest) -> AttemptEnd:  # noqa: ARG002 - the supervisor's form
        """Let the time pass."""
        started_at = self.stage.now
        self.meanwhile()
        self.stage.move_to(max(self.stage.now, started_at + self.lasts))
        values: dict[str, Any] = {"outcome": Outcome.SUCCEEDED, "exit_code": 0, "log_bytes": 1234, **self.end}
        duration = (self.stage.now - started_at).total_seconds()
        return AttemptEnd(started_at=started_at, ended_at=self.stage.now, duration_seconds=duration, **values)


class Life:
    """A service with one worker whose children are scripted."""

    def __init__(self, on: Stage, worker: str = "ip-10-0-1-17-4711") -> None:
        self.stage = on
        self.context = on.context
        self.children = ScriptedChildren(on)
        self.keeper = LeaseKeeper(on.context)
        supervisor: Any = self.children
        parts = SlotParts(on.context, supervisor, self.keeper, worker, None, threading.Event())
        self._slot = Slot(parts, 0)

    def tick(self) -> TickReport:
        """Make a scheduler's pass."""
        with self.stage.meter.during(DISPATCH):
            return tick(self.context, lambda: timedelta(minutes=5))

    def receive(self) -> list[Received]:
        """Take what is visible on the run queue, as a long poll does."""
        with self.stage.meter.during(WORK):
            return self.stage.receive()

    def work(self) -> int:
        """See all visible messages through; returns how many."""
        received = self.receive()
        with self.stage.meter.during(WORK):
            for one in received:
                self._slot.handle(one)
        return len(received)

    def vanish(self) -> None:
        """Claim a run as a worker that dies then."""
        (received,) = self.receive()
        with self.stage.meter.during(WORK):
            claim_run(self.context, RunMessage.from_body(received.body), received.message_id, "ip-10-0-1-99-4711")

    def settle(self) -> int:
        """Settle all results that wait; returns how many."""
        with self.stage.meter.during(EVENT_SOURCE):
            url = self.stage.urls.results
            messages = self.stage.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        for message in messages:
            with self.stage.meter.during(SETTLE):
                settle_attempt(self.context, result_from_body(message["Body"]))
            with self.stage.meter.during(EVENT_SOURCE):
                self.stage.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return len(messages)

    def run(self, run_id: str) -> Run:
        """Read a run.

        Raises:
            ValueError: it is not there.
        """
        found = self.context.runs.get(run_id)
        if found is None:
            raise ValueError(f"run {run_id} is not there")
        return found

    def items(self) -> list[dict[str, Any]]:
        """All items of the table, as stored."""
        found: list[dict[str, Any]] = []
        with self.unmetered():
            for page in self.stage.dynamodb.get_paginator("scan").paginate(TableName=TABLE):
                found.extend(page["Items"])
        return found

    @contextmanager
    def unmetered(self) -> Iterator[None]:
        """Make calls that nobody counts."""
        client = self.stage.dynamodb
        metered = client.__dict__.pop("_make_api_call")
        try:
            yield
        finally:
            client._make_api_call = metered  # noqa: SLF001 - the meter put it there


@dataclass(frozen=True)
class Cost:
    """What a number of runs of one kind cost."""

    name: str
    runs: int
    charges: tuple[Charge, ...]
    calls: Counter[tuple[str, str]]
    """By phase and operation, without those that a tick makes anyway."""
    sizes: dict[str, int]

    @property
    def writes(self) -> float:
        """Write units per run."""
        return sum(charge.writes for charge in self.charges) / self.runs

    @property
    def reads(self) -> float:
        """Read units per run."""
        return sum(charge.reads for charge in self.charges) / self.runs

    @property
    def own_calls(self) -> float:
        """Calls per run, without the event source's."""
        return sum(count for (phase, _), count in self.calls.items() if phase != EVENT_SOURCE) / self.runs


def _is_the_ticks(charge: Charge) -> bool:
    """Whether a tick makes it however many runs are due."""
    return charge.operation == "Query" or charge.key[:1] == (TICK.upper(),)


def _cost(name: str, runs: int, life: Life) -> Cost:
    meter = life.stage.meter
    calls = Counter(meter.calls)
    ticks = sum(charge.key[:1] == (TICK.upper(),) for charge in meter.charges)
    calls[DISPATCH, "Query"] -= sum(charge.operation == "Query" for charge in meter.charges)
    calls[DISPATCH, "PutItem"] -= ticks
    charges = tuple(charge for charge in meter.charges if not _is_the_ticks(charge))
    return Cost(name, runs, charges, +calls, dict(meter.sizes))


@contextmanager
def settled_job(definition: Definition) -> Iterator[Life]:
    """Give a service in which a job had a run already, with warm processes, half past; nothing is metered yet."""
    with stage() as on:
        life = Life(on)
        create_job(life.context, definition)
        if definition.schedule is None:
            trigger_run(life.context, definition.name, {}, None)
        else:
            on.advance(1.5 * _MINUTE)
        if life.work() != 1 or life.settle() != 1:
            raise RuntimeError("the first run did not come to its end")
        on.advance(30 * _MINUTE)
        on.meter.clear()
        yield life


def _to_the_instant(life: Life) -> None:
    """Dispatch the run of the next full hour, and let its instant come."""
    now = life.stage.now
    due = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    life.stage.move_to(due - timedelta(seconds=100))
    if life.tick().dispatch.dispatched != 1:
        raise RuntimeError("the tick did not dispatch the run")
    life.stage.move_to(due)


def _played(life: Life) -> None:
    if life.work() != 1 or life.settle() != 1:
        raise RuntimeError("the run did not come to its end")


def plain() -> Cost:
    """A scheduled run that succeeds."""
    with settled_job(hourly()) as life:
        _to_the_instant(life)
        _played(life)
        return _cost("plain", 1, life)


def ten_minutes() -> Cost:
    """A plain run whose lease is kept for ten minutes."""
    with settled_job(hourly()) as life:
        _to_the_instant(life)

        def keep() -> None:
            for _ in range(20):
                life.stage.advance(life.context.times.keep)
                life.keeper.renew_all()

        life.children.meanwhile = keep
        _played(life)
        return _cost("lasting ten minutes", 1, life)


def one_retry() -> Cost:
    """A run that fails, and succeeds at its second attempt."""
    with settled_job(hourly()) as life:
        _to_the_instant(life)
        life.children.end = {"outcome": Outcome.FAILED, "exit_code": 2, "detail": "exit code 2", "log_tail": "x" * 4000}
        _played(life)
        life.children.end = {}
        life.stage.advance(timedelta(minutes=6))
        _played(life)
        return _cost("one retry", 1, life)


def take_over() -> Cost:
    """A run whose first worker dies; another takes it over."""
    with settled_job(hourly()) as life:
        _to_the_instant(life)
        life.vanish()
        life.stage.advance(life.context.times.lease + timedelta(seconds=1))
        _played(life)
        return _cost("take-over", 1, life)


def minutely() -> Cost:
    """Runs of a job of every minute with overlap `skip`: three are dispatched at any time."""
    with stage() as on:
        life = Life(on)
        create_job(life.context, hourly(schedule=ScheduleSpec(cron="* * * * *")))
        start = on.now.replace(second=0) + _MINUTE
        runs, warm_up = 10, 5
        for minute in range(warm_up + runs):
            if minute == warm_up:
                life.stage.meter.clear()
            life.stage.move_to(start + minute * _MINUTE)
            life.work()
            life.settle()
            life.stage.move_to(start + (minute + 0.5) * _MINUTE)
            life.tick()
        return _cost("every minute, overlap skip", runs, life)


def skipped() -> Cost:
    """A run that is skipped because the one before still works."""
    with settled_job(hourly(timeout=timedelta(hours=3))) as life:
        _to_the_instant(life)
        life.vanish()
        held = next(item for item in life.items() if item.get("state") == {"S": "RUNNING"})
        holder = held["pk"]["S"].removeprefix("RUN#")
        life.context.runs.extend_lease(holder, 1, life.stage.now + timedelta(hours=2))
        # Its message is in its worker's hands all the time.
        life.stage.sqs.purge_queue(QueueUrl=life.stage.urls.run[POOLS[0]][QueueClass.LOW])
        life.stage.meter.clear()
        _to_the_instant(life)
        if life.work() != 1 or life.settle() != 0:
            raise RuntimeError("the run was not skipped")
        return _cost("skipped, overlap (and a check of the slot's holder)", 1, life)


def manual() -> Cost:
    """A run asked for by hand, without params."""
    with settled_job(hourly(schedule=None)) as life:
        with life.stage.meter.during(DISPATCH):
            trigger_run(life.context, "daily_news_crawl", {}, "a key")
        _played(life)
        return _cost("manual", 1, life)


def manual_with_params() -> Cost:
    """A run asked for by hand with a param of its own."""
    with settled_job(hourly(schedule=None, params={"page": 1})) as life:
        with life.stage.meter.during(DISPATCH):
            trigger_run(life.context, "daily_news_crawl", {"page": 7}, "a key")
        _played(life)
        return _cost("manual with params", 1, life)


def with_outputs() -> Cost:
    """A plain run whose crawler gives outputs."""
    with settled_job(hourly()) as life:
        _to_the_instant(life)
        life.children.end = {"items": 321, "outputs": {"stats": {"pages": 40, "errors": 0}, "feed": "s3://feeds/today"}}
        _played(life)
        return _cost("with outputs", 1, life)


SCENARIOS: Final = (
    plain,
    ten_minutes,
    one_retry,
    take_over,
    minutely,
    skipped,
    manual,
    manual_with_params,
    with_outputs,
)
