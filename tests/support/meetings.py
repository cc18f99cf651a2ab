"""Pairs of actors that meet at one job or run."""

from collections.abc import Callable
from datetime import timedelta

from clawjob.domain.definition import Overlap
from clawjob.domain.run import Outcome, State
from clawjob.operations import apply_job
from support import moto_state
from support.checks import Expected, instants
from support.fake_worker import Child
from support.faults import Call
from support.interleave import Meeting
from support.scenarios import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    WELL,
    Story,
    a_job,
    cancel,
    create,
    gap_all,
    gap_last,
    gap_none,
    retried_late,
    trigger,
)
from support.world import RESULTS, World

ONE = instants("news", NOON, MINUTE, 1, WELL)


def _tick(world: World) -> None:
    world.tick()


def _settle(world: World) -> None:
    world.settle_results()


def _poll(number: int) -> Callable[[World], object]:
    def act(world: World) -> None:
        worker = world.workers[number]
        world.drive(worker, worker.poll)

    return act


def _keep(world: World) -> None:
    world.workers[0].frozen = False
    world.drive(world.workers[0], world.workers[0].work)


def _before_tick(world: World) -> Expected:
    """A tick is about to dispatch two instants."""
    world.act("api", lambda: create(a_job(cron="5,6 12 * * *", until=NOON + HOUR))(world))
    world.run_to(299 * SECOND)
    return Expected(instants("news", NOON + 5 * MINUTE, MINUTE, 2, WELL))


def _story(story: Story, after: timedelta) -> Callable[[World], Expected]:
    """A story up to an instant."""

    def setup(world: World) -> Expected:
        scenario = story(world)
        world.run_to(after)
        return scenario.expected

    return setup


def _gap_anew(world: World) -> Expected:
    """The first tick after a gap stands still for a minute, in which a later instant comes and displaces its own."""
    world.at(timedelta(0), create(a_job(cron="*/20 * * * *", until=NOON + 80 * MINUTE)))
    world.tick_off = lambda now: NOON + MINUTE < now < NOON + 59 * MINUTE + 45 * SECOND
    world.run_to(61 * MINUTE + 30 * SECOND)
    return Expected(instants("news", NOON, 20 * MINUTE, 5, WELL, State.MISSED), late=HOUR)


def _copies(world: World) -> None:
    """Every message is sent twice."""

    def twice(name: str, parameters: object, make: Call) -> object:
        if name == "SendMessageBatch":
            make()
        return make()

    world.trouble.instead.append(twice)


def _two_copies(world: World) -> Expected:
    """Two workers, and a copy of the message for each."""
    _copies(world)
    world.children = lambda run: Child(takes=20 * SECOND)
    world.act("api", lambda: create(a_job(cron="0 12 * * *", until=NOON))(world))
    world.clock.move_to(NOON + timedelta(milliseconds=7, microseconds=7))
    world.workers[0].slots = 1
    world.start_worker(slots=1)
    return Expected(ONE)


def _two_runs(world: World) -> Expected:
    """Two runs of a job that must not overlap, and a worker for each."""
    world.children = lambda run: Child(takes=20 * SECOND)
    for act in (create(a_job(overlap=Overlap.SKIP)), trigger(key="a"), trigger(key="b")):
        world.act("api", lambda act=act: act(world))  # type: ignore[misc]  # bound for the loop
    world.workers[0].slots = 1
    world.start_worker(slots=1)
    return Expected(manual={"news": {WELL, State.SKIPPED}}, manual_count=2, may_overlap=False)


def _reported(world: World) -> Expected:
    """A result is on its queue."""
    world.results_off = lambda now: True
    play_to_report(world)
    world.results_off = lambda now: False
    return Expected(ONE)


def play_to_report(world: World, child: Child | None = None) -> None:
    """One run up to its report."""
    if child is not None:
        world.children = lambda run: child
    world.act("api", lambda: create(a_job(cron="0 12 * * *", until=NOON))(world))
    world.run_to(125 * SECOND)
    assert moto_state.count_messages(RESULTS) == 1


def _reported_twice(world: World) -> Expected:
    expected = _reported(world)
    ((body),) = [message.body for message in moto_state.queues()[RESULTS]._messages]
    world.service.sqs.send_message(QueueUrl=world.service.urls.results, MessageBody=body)
    return expected


def _one_result(world: World) -> None:
    """The results function takes one message only."""
    queue = moto_state.queues()[RESULTS]
    hidden, queue._messages = queue._messages[1:], queue._messages[:1]
    try:
        world.settle_results()
    finally:
        queue._messages = queue._messages + hidden


def _late_result_of_the_last_loss(world: World) -> Expected:
    """Two workers died; the third reported, and its result waits so long that a tick counts it as lost too."""
    world.children = lambda run: Child(takes=SECOND, kills_worker=run.token < 3)
    world.act("api", lambda: create(a_job(cron="0 12 * * *", until=NOON))(world))
    world.results_off = lambda now: True
    world.tick_off = lambda now: now < NOON + 18 * MINUTE
    world.run_to(20 * MINUTE)
    world.results_off = world.tick_off = lambda now: False
    world.children = lambda run: Child(takes=SECOND)
    return Expected(instants("news", NOON, MINUTE, 1, WELL, State.LOST), losses=3)


def _frozen(world: World) -> Expected:
    """The lease of a worker that stands still ran out, and its message is back on the queue."""
    world.children = lambda run: Child(takes=300 * SECOND)
    world.act("api", lambda: create(a_job(cron="0 12 * * *", until=NOON))(world))
    world.run_to(125 * SECOND)
    world.workers[0].frozen = True
    world.start_worker()
    world.workers_off = lambda now: now < NOON + 130 * SECOND
    world.run_to(255 * SECOND)
    world.workers_off = lambda now: False
    return Expected(ONE, interruptions=1, any_losses=True, may_overlap=False)


def _frozen_may_meet(world: World) -> Expected:
    """As `_frozen`; the stopped worker has gone on, and learns that it lost the lease a moment later."""
    expected = _frozen(world)
    expected.may_overlap = True
    return expected


def _running(world: World) -> Expected:
    world.children = lambda run: Child(takes=70 * SECOND)
    world.act("api", lambda: create(a_job(cron="0 12 * * *", until=NOON))(world))
    world.run_to(150 * SECOND)
    return Expected(instants("news", NOON, MINUTE, 1, WELL, State.CANCELLED), interruptions=1)


def _drain(world: World) -> None:
    world.start_worker()
    world.drive(world.workers[0], world.workers[0].drain)


def _cancel(world: World) -> None:
    world.act("api", lambda: cancel(world))


def _cancelled_or(setup: Callable[[World], Expected]) -> Callable[[World], Expected]:
    def also(world: World) -> Expected:
        expected = setup(world)
        expected.instants = {key: {WELL, State.CANCELLED} for key in expected.instants}
        return expected

    return also


def _failed(world: World) -> Expected:
    world.results_off = lambda now: True
    play_to_report(world, Child(Outcome.FAILED))
    world.results_off = lambda now: False
    world.children = lambda run: Child()
    return Expected(instants("news", NOON, MINUTE, 1, WELL, State.CANCELLED), any_retries=True)


def _edit(world: World) -> None:
    later = a_job(cron="6,8 12 * * *", until=NOON + HOUR)
    world.act("api", lambda: apply_job.replace_job(world.ctx, "news", later))


def _pause(world: World) -> None:
    world.act("api", lambda: apply_job.set_enabled(world.ctx, "news", False))


def _delete(world: World) -> None:
    world.act("api", lambda: apply_job.delete_job(world.ctx, "news"))


def _wanted(*states: tuple[int, set[State] | None]) -> Callable[[World], Expected]:
    """What a change in the middle of a dispatch may come to, by minute; None: a run may be there or not."""

    def setup(world: World) -> Expected:
        expected = _before_tick(world)
        expected.instants = {("news", NOON + minute * MINUTE): found for minute, found in states if found}
        expected.optional = {("news", NOON + minute * MINUTE): {State.SKIPPED} for minute, found in states if not found}
        return expected

    return setup


def _again(world: World) -> None:
    world.act("api", lambda: trigger()(world))


def _a_job_only(world: World) -> Expected:
    world.act("api", lambda: create(a_job())(world))
    return Expected(manual={"news": {WELL}})


TICKS = (
    Meeting("two ticks dispatch", _before_tick, _tick, _tick, 12 * MINUTE),
    Meeting("two ticks dispatch, 20 s apart", _before_tick, _tick, _tick, 12 * MINUTE, 20 * SECOND),
    Meeting("two ticks after a gap, last", _story(gap_last, 63 * MINUTE), _tick, _tick, 95 * MINUTE),
    Meeting("two ticks after a gap, all", _story(gap_all, 63 * MINUTE), _tick, _tick, 95 * MINUTE),
    Meeting("two ticks after a gap, none", _story(gap_none, 63 * MINUTE), _tick, _tick, 95 * MINUTE),
    Meeting("two ticks after a gap, a minute apart", _gap_anew, _tick, _tick, 95 * MINUTE, MINUTE),
    Meeting("two ticks send a late retry", _story(retried_late, 20 * MINUTE), _tick, _tick, 40 * MINUTE),
)
SLOTS = Meeting("two claims of two runs", _two_runs, _poll(0), _poll(1), 10 * MINUTE)
LAST_LOSS = Meeting("a result and the last loss", _late_result_of_the_last_loss, _settle, _tick, 40 * MINUTE)
RENEWAL = Meeting("a take-over and a renewal", _frozen, _poll(1), _keep, 30 * MINUTE)
WORKERS = (
    Meeting("two claims of one run", _two_copies, _poll(0), _poll(1), 10 * MINUTE),
    SLOTS,
    RENEWAL,
    Meeting("a renewal and a take-over", _frozen_may_meet, _keep, _poll(1), 30 * MINUTE),
    Meeting("a hand-back and a cancel", _running, _drain, _cancel, 30 * MINUTE),
    Meeting("a claim and a cancel", _cancelled_or(_two_copies), _poll(0), _cancel, 10 * MINUTE),
)
RESULTS_FUNCTION = (
    Meeting("two settle one result", _reported_twice, _one_result, _settle, 10 * MINUTE),
    Meeting("a failure is settled and cancelled", _failed, _settle, _cancel, 40 * MINUTE),
    LAST_LOSS,
)
PEOPLE = (
    Meeting("a tick and an edit", _wanted((5, None), (6, {WELL}), (8, {WELL})), _tick, _edit, 15 * MINUTE),
    Meeting("a tick and a pause", _wanted((5, None), (6, None)), _tick, _pause, 15 * MINUTE),
    Meeting("a tick and a delete", _wanted((5, None), (6, None)), _tick, _delete, 15 * MINUTE),
    Meeting("two requests with one key", _a_job_only, _again, _again, 5 * MINUTE),
)
