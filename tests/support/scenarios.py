"""Stories of jobs and runs, each with what it must come to, whatever breaks on the way."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from clawjob.domain.definition import CatchUp, CatchUpMode, Definition, Overlap, RetryPolicy
from clawjob.domain.errors import DuplicateJobError, JobNotFoundError
from clawjob.domain.messages import result_to_body
from clawjob.domain.run import Actor, AttemptResult, Outcome, Run, State
from clawjob.domain.schedule import ScheduleSpec
from clawjob.operations import apply_job, cancel_run, tick, trigger_run
from clawjob.operations.context import Context
from support import moto_state
from support.checks import Expected, instants
from support.fake_worker import Child
from support.world import RUNS, World, api

NOON = datetime(2024, 3, 9, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
WELL = State.SUCCEEDED


@dataclass
class Scenario:
    """A story that was set up in a world."""

    until: timedelta
    expected: Expected
    extra: dict[str, Any] = field(default_factory=dict)


Story = Callable[[World], Scenario]


def a_job(name: str = "news", cron: str | None = None, until: datetime | None = None, **more: Any) -> Definition:
    """A definition with a schedule that ends, so that a world can become quiet."""
    if cron is not None:
        more["schedule"] = ScheduleSpec(cron=cron, end_at=until)
    more.setdefault("overlap", Overlap.ALLOW)
    return Definition(name=name, command="/bin/true", **more)


def create(definition: Definition) -> Callable[[World], object]:
    """A person creates a job."""
    return api(lambda ctx: apply_job.create_job(ctx, definition), DuplicateJobError)


def trigger(name: str = "news", key: str = "k1") -> Callable[[World], object]:
    """A person runs a job by hand."""
    return api(lambda ctx: trigger_run.trigger_run(ctx, name, {}, key))


def _retries_after(delay: timedelta) -> RetryPolicy:
    return RetryPolicy(delays=(delay,), jitter=0.0)


def _fails_first(takes: timedelta = timedelta(0)) -> Callable[[Run], Child]:
    return lambda run: Child(Outcome.SUCCEEDED if run.retry else Outcome.FAILED, takes)


def plain(world: World) -> Scenario:
    """One instant is dispatched by the create, one by a tick."""
    world.at(0 * SECOND, create(a_job(cron="*/5 * * * *", until=NOON + 5 * MINUTE)))
    return Scenario(9 * MINUTE, Expected(instants("news", NOON, 5 * MINUTE, 2, WELL)))


def kept(world: World) -> Scenario:
    """A run that is renewed three times."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON)))
    world.children = lambda run: Child(takes=100 * SECOND)
    return Scenario(5 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, WELL)))


def retried(world: World) -> Scenario:
    """A failure, and a retry that is sent at once."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON, retry=_retries_after(MINUTE))))
    world.children = _fails_first()
    return Scenario(5 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, WELL), retries=1))


def retried_late(world: World) -> Scenario:
    """A retry after more than the queue's longest delay: a tick sends it."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON, retry=_retries_after(20 * MINUTE))))
    world.children = _fails_first()
    return Scenario(25 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, WELL), retries=1))


def worker_dies(world: World) -> Scenario:
    """The worker dies in the middle of the first attempt; another takes the run over."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON)))
    world.children = lambda run: Child(takes=40 * SECOND, kills_worker=run.token == 1)
    return Scenario(9 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, WELL), losses=1))


def worker_and_message_die(world: World) -> Scenario:
    """The worker dies and its message is lost with it: a tick counts it as lost and sends again."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON)))
    world.at(150 * SECOND, _lose_messages)
    world.children = lambda run: Child(takes=10 * SECOND, kills_worker=run.token == 1)
    return Scenario(30 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, WELL), losses=1, late=20 * MINUTE))


def result_comes_late(world: World) -> Scenario:
    """A worker reports a failure and dies before it deletes its message; the report comes when another runs it."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON)))
    world.children = lambda run: Child(takes=40 * SECOND, kills_worker=run.token == 1)
    world.at(270 * SECOND, _report_first)
    return Scenario(9 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, WELL), losses=1))


def _report_first(world: World) -> None:
    for run in world.runs().values():
        if run.token > 1 and run.attempt is not None:
            result = AttemptResult(
                run_id=run.run_id,
                token=1,
                worker="w1",
                outcome=Outcome.FAILED,
                started_at=run.not_before,
                ended_at=run.not_before,
                duration_seconds=0.0,
                exit_code=2,
            )
            world.trouble.paused = True
            world.service.sqs.send_message(QueueUrl=world.service.urls.results, MessageBody=result_to_body(result))
            world.trouble.paused = False


def worker_freezes(world: World) -> Scenario:
    """A worker stands still until its run was taken over, then goes on: it must see that it lost the lease."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON)))
    world.children = lambda run: Child(takes=200 * SECOND)
    world.at(130 * SECOND, _freeze)
    world.at(300 * SECOND, _thaw)
    world.at(301 * SECOND, _stale_attempts)
    return Scenario(12 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, WELL), losses=1, any_losses=True))


def _freeze(world: World) -> None:
    for worker in world.workers:
        worker.frozen = True
    world.start_worker()


def _thaw(world: World) -> None:
    for worker in world.workers:
        worker.frozen = False


def _stale_attempts(world: World) -> None:
    tokens = {run_id: token for run_id, (_, token) in moto_state.run_states().items()}
    for worker in world.workers:
        for held in worker.held:
            if held.run.token != tokens[held.run.run_id]:
                world.violations.append(f"{worker.name} goes on with token {held.run.token} of {held.run.run_id}")


def message_lost(world: World) -> Scenario:
    """A message vanishes before anybody took it."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON)))
    world.at(100 * SECOND, _lose_messages)
    return Scenario(30 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, WELL), late=20 * MINUTE))


def _lose_messages(world: World) -> None:
    moto_state.queues()[RUNS]._messages = []


def handed_back(world: World) -> Scenario:
    """The worker drains in the middle of a run."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON)))
    world.children = lambda run: Child(takes=45 * SECOND)
    world.at(140 * SECOND, _drain)
    # An interrupted attempt was executed too.
    return Scenario(9 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, WELL), interruptions=1))


def _drain(world: World) -> None:
    for worker in list(world.workers):
        if not worker.draining:
            world.start_worker()
        world.drive(worker, worker.drain)


def lost_for_good(world: World) -> Scenario:
    """Every worker dies of it."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON)))
    world.children = lambda run: Child(takes=10 * SECOND, kills_worker=True)
    return Scenario(9 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, State.LOST), losses=3))


def cancelled_waiting(world: World) -> Scenario:
    """A run is cancelled before its instant."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON)))
    world.at(100 * SECOND, cancel)
    return Scenario(5 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, State.CANCELLED)))


def cancelled_running(world: World) -> Scenario:
    """A run is cancelled while it runs: its worker learns of it at the next renewal."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON)))
    world.children = lambda run: Child(takes=10 * MINUTE)
    world.at(140 * SECOND, cancel)
    return Scenario(9 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, State.CANCELLED)))


def cancelled_before_retry(world: World) -> Scenario:
    """A run is cancelled while it waits for a retry."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON, retry=_retries_after(20 * MINUTE))))
    world.children = _fails_first()
    world.at(10 * MINUTE, cancel)
    return Scenario(25 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, State.CANCELLED)))


def cancel(world: World) -> None:
    """Somebody cancels all runs."""
    for run_id in moto_state.run_states():
        cancel_run.cancel_run(world.ctx, run_id, "somebody", "no longer wanted")


def triggered(world: World) -> Scenario:
    """A run by hand, asked for again and again with the same key."""
    world.at(0 * SECOND, create(a_job()))
    world.at(5 * SECOND, trigger())
    world.at(65 * SECOND, trigger())
    return Scenario(9 * MINUTE, Expected(manual={"news": {WELL}}))


def _gap(world: World, mode: CatchUpMode) -> dict[tuple[str, datetime], set[State]]:
    job = a_job(cron="*/20 * * * *", until=NOON + 80 * MINUTE, catch_up=CatchUp(mode=mode))
    world.at(0 * SECOND, create(job))
    world.tick_off = lambda now: NOON + MINUTE < now < NOON + 61 * MINUTE
    return instants("news", NOON, 20 * MINUTE, 5, WELL)


def gap_last(world: World) -> Scenario:
    """The scheduler was off for an hour; the last instant is made up."""
    wanted = _gap(world, CatchUpMode.LAST) | instants("news", NOON + 20 * MINUTE, 20 * MINUTE, 2, State.MISSED)
    return Scenario(90 * MINUTE, Expected(wanted, late=HOUR))


def gap_all(world: World) -> Scenario:
    """The scheduler was off for an hour; every instant is made up."""
    return Scenario(90 * MINUTE, Expected(_gap(world, CatchUpMode.ALL), late=HOUR))


def gap_none(world: World) -> Scenario:
    """The scheduler was off for an hour; no instant is made up."""
    wanted = _gap(world, CatchUpMode.NONE) | instants("news", NOON + 20 * MINUTE, 20 * MINUTE, 3, State.MISSED)
    return Scenario(90 * MINUTE, Expected(wanted, late=HOUR))


def gap_after_put(world: World) -> Scenario:
    """The scheduler was off from the create on, which may have put a run of the gap's first instant."""
    world.at(0 * SECOND, create(a_job(cron="*/20 * * * *", until=NOON + 40 * MINUTE)))
    world.tick_off = lambda now: now < NOON + 41 * MINUTE
    wanted = instants("news", NOON, 20 * MINUTE, 3, WELL)
    wanted["news", NOON] = {WELL, State.MISSED}
    wanted["news", NOON + 20 * MINUTE] = {State.MISSED}
    return Scenario(50 * MINUTE, Expected(wanted, late=HOUR))


def overlapping(world: World) -> Scenario:
    """Each minute, and a run takes nearly two."""
    world.at(0 * SECOND, create(a_job(cron="0-2 12 * * *", until=NOON + 2 * MINUTE, overlap=Overlap.SKIP)))
    world.children = lambda run: Child(takes=110 * SECOND)
    wanted = instants("news", NOON, MINUTE, 3, WELL, State.SKIPPED)
    return Scenario(12 * MINUTE, Expected(wanted, may_overlap=False))


def edited(world: World) -> Scenario:
    """The schedule is changed when its next instant is on the queue already."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON)))
    later = a_job(cron="3 12 * * *", until=NOON + 3 * MINUTE)
    world.at(100 * SECOND, api(lambda ctx: apply_job.replace_job(ctx, "news", later)))
    wanted = instants("news", NOON, MINUTE, 1, State.SKIPPED) | instants("news", NOON + 3 * MINUTE, MINUTE, 1, WELL)
    return Scenario(9 * MINUTE, Expected(wanted))


def paused(world: World) -> Scenario:
    """The job is paused when its next instant is on the queue already, and resumed after it."""
    world.at(0 * SECOND, create(a_job(cron="*/5 * * * *", until=NOON + 5 * MINUTE)))
    world.at(100 * SECOND, api(lambda ctx: apply_job.set_enabled(ctx, "news", False)))
    world.at(4 * MINUTE, api(lambda ctx: apply_job.set_enabled(ctx, "news", True)))
    wanted = instants("news", NOON, MINUTE, 1, State.SKIPPED) | instants("news", NOON + 5 * MINUTE, MINUTE, 1, WELL)
    return Scenario(12 * MINUTE, Expected(wanted))


def recreated(world: World) -> Scenario:
    """The job is deleted and made again under its name inside the look-ahead."""
    job = a_job(cron="0 12 * * *", until=NOON)
    world.at(0 * SECOND, create(job))
    world.at(90 * SECOND, api(lambda ctx: apply_job.delete_job(ctx, "news"), JobNotFoundError))
    world.at(100 * SECOND, create(job))
    wanted = instants("news", NOON, MINUTE, 1, WELL) | instants("news/old", NOON, MINUTE, 1, State.SKIPPED)
    return Scenario(9 * MINUTE, Expected(wanted))


def clock_jumps(world: World) -> Scenario:
    """A scheduler's clock is 100 s ahead for one pass, and 100 s behind for another."""
    world.at(0 * SECOND, create(a_job(cron="0-1 12 * * *", until=NOON + MINUTE)))
    for after, offset in ((20, 100), (80, -100), (100, 100)):
        world.at(after * SECOND, _tick_with(offset * SECOND))
    return Scenario(12 * MINUTE, Expected(instants("news", NOON, MINUTE, 2, WELL)))


def _tick_with(offset: timedelta) -> Callable[[World], object]:
    def step(world: World) -> None:
        wrong: Context = replace(world.ctx, clock=lambda: world.clock() + offset)
        world.act(Actor.SCHEDULER, lambda: tick.tick(wrong, lambda: MINUTE))

    return step


def expired(world: World) -> Scenario:
    """No worker comes before the queue deadline."""
    world.at(0 * SECOND, create(a_job(cron="0 12 * * *", until=NOON, queue_deadline=5 * MINUTE)))
    world.workers_off = lambda now: now < NOON + 7 * MINUTE
    return Scenario(15 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, State.EXPIRED)))


STORIES: tuple[Story, ...] = (
    plain,
    kept,
    retried,
    retried_late,
    worker_dies,
    worker_and_message_die,
    message_lost,
    result_comes_late,
    worker_freezes,
    handed_back,
    lost_for_good,
    cancelled_waiting,
    cancelled_running,
    cancelled_before_retry,
    triggered,
    gap_last,
    gap_all,
    gap_none,
    gap_after_put,
    overlapping,
    edited,
    paused,
    recreated,
    clock_jumps,
    expired,
)

LONG = frozenset({gap_all, gap_last, gap_none, overlapping, clock_jumps})
"""Stories of many calls, which only the slow tests play with every kind of trouble."""


def play(world: World, story: Story) -> Scenario:
    """Set a story up and let the world go on until it is quiet."""
    scenario = story(world)
    world.run(scenario.until)
    return scenario
