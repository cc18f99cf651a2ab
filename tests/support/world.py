"""The whole system in one process and on one moved clock: people, scheduler, results function, workers.

Scheduler and results function are the real handlers; everybody else runs the real operations. A `Trouble` may end an
actor at any of its calls; the rest goes on, as it would. Time jumps from event to event: a tick happens on the minute
if something is due, a message is taken when it is visible.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from clawjob.aws.authority import ClockGuard
from clawjob.aws.clients import Clients, make_session_clients
from clawjob.aws.queues import Received
from clawjob.domain.errors import ClawjobError, UnavailableError
from clawjob.domain.instants import from_text, to_text
from clawjob.domain.run import FINAL, Actor, Run, State, is_legal
from clawjob.domain.times import Times
from clawjob.handlers.results import ResultsHandler
from clawjob.handlers.scheduler import SchedulerHandler
from clawjob.operations.context import Context
from clawjob.services import Services
from clawjob.settings import ResultsSettings, SchedulerSettings
from support import moto_state
from support.clock import START, ManualClock
from support.fake_worker import Child, Execution, FakeWorker, WorkerDied
from support.faults import WRITES, Crash, Fault, Trouble
from support.lambda_context import LambdaContext
from support.privileges import note
from support.service import TABLE, Service, make_context, make_service
from support.shortcut import shorten

RUNS, DEAD_RUNS = "clawjob-test-runs-default-low", "clawjob-test-runs-default-low-dead"
HIGH_RUNS, DEAD_HIGH_RUNS = "clawjob-test-runs-default-high", "clawjob-test-runs-default-high-dead"
RESULTS, DEAD_RESULTS = "clawjob-test-results", "clawjob-test-results-dead"

BEGIN = START + timedelta(microseconds=123_456)
"""Real clocks do not stand on whole milliseconds."""
TICK = timedelta(minutes=1)
_SOON = timedelta(milliseconds=1)
_RESULTS_VISIBILITY = timedelta(seconds=120)

Step = Callable[["World"], object]


class Ended(Enum):
    """How something that somebody did ended."""

    WELL = "well"
    REFUSED = "a service refused"
    DIED = "its process ended"


@dataclass
class Move:
    """A change of a run's state, and who made it."""

    run_id: str
    source: State | None
    target: State
    actor: str


@dataclass
class World:
    """A service and everybody around it."""

    clock: ManualClock
    service: Service
    trouble: Trouble
    ctx: Context
    children: Callable[[Run], Child] = lambda run: Child()
    workers: list[FakeWorker] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)
    overlaps: list[tuple[str, str]] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    script: list[tuple[datetime, Step]] = field(default_factory=list)
    tick_off: Callable[[datetime], bool] = lambda now: False
    results_off: Callable[[datetime], bool] = lambda now: False
    workers_off: Callable[[datetime], bool] = lambda now: False
    on_execution: Callable[[Execution], object] = lambda execution: None
    clients: Clients = field(default_factory=make_session_clients)
    """For the handlers, which leave them alone: what they do goes through the context's."""
    hourly: bool = False
    """Tick once an hour also when nothing is due."""
    crashed: list[str] = field(default_factory=list)
    """Actors that died, in order."""
    crashed_holding: set[str] = field(default_factory=set)
    """Runs whose child had started in a worker that died."""
    violations: list[str] = field(default_factory=list)
    """Moves that the table does not have. Noted, for the code under test might swallow an error."""
    _states: dict[str, tuple[str, int]] = field(default_factory=dict)
    _last_tick: datetime = BEGIN
    _names: int = 0
    _due: tuple[int, str | None] = (-1, None)

    def reset(self, fault: Fault | None = None, at: int = 0) -> None:
        """Begin again with nothing."""
        moto_state.wipe()
        self.clock.move_to(BEGIN)
        service = self.service
        self.ctx = make_context(service.dynamodb, service.sqs, service.urls, self.clock, service.context.times)
        self.trouble.reset(fault, at)
        self.children = lambda run: Child()
        self.tick_off = self.results_off = self.workers_off = lambda now: False
        self.workers, self.executions, self.moves = [], [], []
        self.script, self.crashed, self.crashed_holding, self._states = [], [], set(), {}
        self.violations, self.overlaps = [], []
        self.trouble.before, self.trouble.instead = [], []
        self._last_tick, self._names, self._due = BEGIN, 0, (-1, None)
        self.start_worker()

    # ---- actors ----

    def start_worker(self, **more: Any) -> FakeWorker:
        """Let another worker process begin."""
        self._names += 1
        name = f"w{self._names}"
        worker = FakeWorker(self.ctx, name, lambda run: self.children(run), self.note_execution, **more)
        self.workers.append(worker)
        return worker

    def note_execution(self, execution: Execution) -> None:
        """A child was started; so are children of one job that run at the same time, but for stopped ones."""
        others = [
            held.run
            for worker in self.workers
            for held in worker.held
            if held.run.job == execution.job and not worker.frozen
        ]
        for other in others:
            self.overlaps.append((other.run_id, execution.run_id))
        self.executions.append(execution)
        self.on_execution(execution)

    def act(self, actor: str, what: Callable[[], object]) -> Ended:
        """Let somebody do something."""
        before, self.trouble.actor = self.trouble.actor, actor
        try:
            what()
        except Crash:
            self.crashed.append(actor)
            return Ended.DIED
        except WorkerDied:
            return Ended.DIED
        except UnavailableError:
            return Ended.REFUSED
        finally:
            self.trouble.actor = before
        return Ended.WELL

    def tick(self) -> None:
        """One pass of the scheduler."""

        handler = SchedulerHandler(SchedulerSettings(table=TABLE, run_queues=self.service.urls.run), self._services())
        self._last_tick = self.clock()
        self.act(Actor.SCHEDULER, lambda: handler({}, LambdaContext()))

    def settle_results(self) -> None:
        """The results function takes a batch."""

        handler = ResultsHandler(ResultsSettings(table=TABLE, run_queues=self.service.urls.run), self._services())

        def run() -> None:
            batch = self._take_results()
            records = [{"messageId": received.message_id, "body": received.body} for received in batch]
            answer = handler({"Records": records}, LambdaContext())
            again = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
            for received in batch:
                if received.message_id not in again:
                    self._delete_result(received)

        self.act(Actor.RESULTS, run)

    def _services(self) -> Services:
        return Services(self.ctx, self.clients, ClockGuard(self.clock))

    def _take_results(self) -> list[Received]:
        # The event source's calls, which are not the code under test.
        url = self.service.urls.results
        self.trouble.paused = True
        try:
            answer = self.service.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        finally:
            self.trouble.paused = False
        return [
            Received(url, one["MessageId"], one["ReceiptHandle"], one["Body"]) for one in answer.get("Messages", [])
        ]

    def _delete_result(self, received: Received) -> None:
        self.trouble.paused = True
        try:
            self.service.sqs.delete_message(QueueUrl=self.service.urls.results, ReceiptHandle=received.receipt)
        finally:
            self.trouble.paused = False

    def drive(self, worker: FakeWorker, what: Callable[[], object]) -> Ended:
        """Let a worker do something; if it dies, another takes its place."""
        ended = self.act(Actor.WORKER, what)
        if ended is Ended.DIED:
            self.kill(worker)
        return ended

    def kill(self, worker: FakeWorker, replace_it: bool = True) -> None:
        """End a worker process; its children end with it."""
        self.crashed_holding |= {held.run.run_id for held in worker.held}
        self.workers.remove(worker)
        if replace_it:
            self.start_worker()

    # ---- time ----

    def at(self, after: timedelta, step: Step) -> None:
        """Let a person do something at an instant of the script; what failed is tried again a second later."""
        self.script.append((BEGIN + after, step))

    def run(self, until: timedelta) -> None:
        """Go on until the instant has passed and nothing is left to do."""
        end, limit = BEGIN + until, BEGIN + until + timedelta(days=3)
        while True:
            following = self._next_event()
            if following is None or (following > end and self.is_quiet()):
                if end > self.clock():
                    self.clock.move_to(end)
                return
            assert following <= limit, f"not quiet by {limit}: {self.leftovers()}"
            if following > self.clock():
                self.clock.move_to(following)
            self.do_due()

    def run_to(self, after: timedelta) -> None:
        """Go on until just before an instant."""
        end = BEGIN + after
        while (following := self._next_event()) is not None and following < end:
            self.clock.move_to(max(following, self.clock()))
            self.do_due()
        self.clock.move_to(end)

    def do_due(self) -> None:
        """Everybody does what has come due."""
        now = self.clock()
        for entry in sorted((one for one in self.script if one[0] <= now), key=lambda one: one[0]):
            self._perform(entry)
        if self._tick_at() <= now:
            self.tick()
        if (first := self._results_at()) is not None and first <= now:
            self.settle_results()
        for worker in list(self.workers):
            if any(instant <= now for instant in worker.events()):
                self.drive(worker, worker.work)
        if not self.workers_off(now):
            self._poll(now)

    def _perform(self, entry: tuple[datetime, Step]) -> None:
        self.script.remove(entry)
        _, step = entry
        if self.act(Actor.API, lambda: step(self)) is not Ended.WELL:
            self.script.append((self.clock() + timedelta(seconds=1), step))

    def _poll(self, now: datetime) -> None:
        for worker in list(self.workers):
            while worker in self.workers and worker.free > 0:
                first = _next_run()
                if first is None or first > now or self.drive(worker, worker.poll) is not Ended.WELL:
                    return

    def _next_event(self) -> datetime | None:
        now = self.clock()
        events = [instant for instant, _ in self.script]
        events.append(self._tick_at())
        if (result := self._results_at()) is not None:
            events.append(result)
        for worker in self.workers:
            events.extend(worker.events())
        if (
            not self.workers_off(now)
            and any(worker.free for worker in self.workers)
            and (message := _next_run()) is not None
        ):
            events.append(message)
        following = [instant for instant in events if instant < _NEVER]
        if self.workers_off(now) or self.results_off(now):
            following.append(now + TICK)
        return max(now, min(following)) if following else None

    def _results_at(self) -> datetime | None:
        return None if self.results_off(self.clock()) else moto_state.next_message(RESULTS)

    def _tick_at(self) -> datetime:
        """The first minute after the last tick at which something is due."""
        due = self._next_due()
        first = self._last_tick + (timedelta(hours=1) if self.hourly else timedelta(days=36_500))
        if due is not None:
            first = min(first, from_text(due) + _SOON)
        steps = max(1, -(-(first - self._last_tick) // TICK))
        instant = self._last_tick + steps * TICK
        while self.tick_off(instant):
            instant += TICK
        return instant if first < _NEVER else _NEVER

    def _next_due(self) -> str | None:
        """The smallest instant in the due index; looked up again only after a call."""
        if self._due[0] != len(self.trouble.calls):
            self._due = len(self.trouble.calls), moto_state.next_due()
        return self._due[1]

    # ---- what is so ----

    def watch(self, name: str, parameters: dict[str, Any]) -> None:
        """Note every change of a run's state after a write, and every move that the table does not have."""
        for run_id in _written_runs(name, parameters):
            new, old = moto_state.run_state(run_id), self._states.get(run_id)
            if new is None or new == old:
                continue
            self._states[run_id] = new
            source, target, actor = State(old[0]) if old else None, State(new[0]), self.trouble.actor
            self.moves.append(Move(run_id, source, target, actor))
            if source in FINAL or not is_legal(source, target, Actor(actor)):
                self.violations.append(f"{actor} moved {run_id} from {source} to {target}")
            if new[1] - (old[1] if old else 0) not in (0, 1):
                self.violations.append(f"the token of {run_id} jumped to {new[1]}")

    def runs(self) -> dict[str, Run]:
        """All runs and records."""
        from clawjob.aws.run_item import run_of

        items = [item for item in moto_state.stored() if item["sk"] == "RUN"]
        return {run.run_id: run for run in map(run_of, items)}

    def uid(self, name: str) -> str:
        """The uid of a job; `name/old` is the one that had the name first."""
        wanted, _, old = name.partition("/")
        uids = sorted(
            str(item["pk"]).removeprefix("JOB#")
            for item in moto_state.stored()
            if item["sk"] == "STATE" and item["name"] == wanted
        )
        return uids[0 if old else -1] if uids else "none"

    def messages(self) -> Counter[str]:
        """How many messages are in each queue."""
        return Counter(
            {
                name: count
                for name in (RUNS, DEAD_RUNS, HIGH_RUNS, DEAD_HIGH_RUNS, RESULTS, DEAD_RESULTS)
                if (count := moto_state.count_messages(name))
            }
        )

    def is_quiet(self) -> bool:
        """Whether no message, no open run and no step of the script is left."""
        busy = any(worker.held or worker.waiting for worker in self.workers)
        open_runs = any(State(state) not in FINAL for state, _ in moto_state.run_states().values())
        live = sum(map(moto_state.count_messages, (RUNS, HIGH_RUNS, RESULTS)))
        return not (self.script or busy or open_runs or live)

    def leftovers(self) -> str:
        """What keeps the world from being quiet, in words."""
        open_runs = {
            run_id: state for run_id, (state, _) in moto_state.run_states().items() if State(state) not in FINAL
        }
        due = moto_state.next_due()
        return f"now {to_text(self.clock())}, messages {dict(self.messages())}, open {open_runs}, next due {due}"


def _written_runs(name: str, parameters: dict[str, Any]) -> list[str]:
    """Ids of the runs that a call writes."""
    if name == "TransactWriteItems":
        writes = [next(iter(entry.values())) for entry in parameters["TransactItems"]]
    else:
        writes = [parameters] if name in WRITES else []
    keys = [write.get("Key") or write["Item"] for write in writes]
    return [key["pk"]["S"].removeprefix("RUN#") for key in keys if key["sk"]["S"] == "RUN"]


_NEVER = BEGIN + timedelta(days=36_000)


def make_world(clock: ManualClock, times: Times | None = None, short: bool = True) -> World:
    """Make a world on an empty moto; `short` takes the short way to it."""
    service = make_service(clock, times)
    if short:
        shorten(service.dynamodb, service.sqs)
    trouble = Trouble()
    trouble.watch(service.dynamodb, service.sqs)
    world = World(clock, service, trouble, service.context)
    trouble.after += [world.watch, lambda name, parameters: note(trouble.actor, name, parameters)]
    world.reset()
    return world


def api(step: Callable[[Context], object], *repeated: type[ClawjobError]) -> Step:
    """A person's request; errors that only a repetition can meet are taken as success."""

    def perform(world: World) -> None:
        try:
            step(world.ctx)
        except repeated:
            if not world.crashed and world.trouble.fault is None:
                raise

    return perform


def executions_by_run(executions: Iterable[Execution]) -> dict[str, list[Execution]]:
    """Executions in order, by run."""
    found: dict[str, list[Execution]] = {}
    for execution in executions:
        found.setdefault(execution.run_id, []).append(execution)
    return found


def _next_run() -> datetime | None:
    """When the next message of the run queues can be received."""
    instants = [instant for name in (HIGH_RUNS, RUNS) if (instant := moto_state.next_message(name)) is not None]
    return min(instants, default=None)
