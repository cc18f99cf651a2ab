"""Workers are down for a day: runs wait, and their messages are not multiplied."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from clawjob.domain.definition import Definition, Overlap
from clawjob.domain.messages import RunMessage
from clawjob.domain.run import State
from clawjob.domain.schedule import ScheduleSpec
from clawjob.operations.apply_job import create_job
from support import moto_state
from support.clock import ManualClock
from support.fake_worker import Child
from support.world import BEGIN, RUNS, World, make_world

DAY = timedelta(days=1)


def _waiting(world: World, count: int) -> None:
    """As many runs as instants, a second apart."""
    begin = BEGIN.replace(microsecond=0) + timedelta(seconds=10)
    spec = ScheduleSpec(every=timedelta(seconds=1), start_at=begin, end_at=begin + timedelta(seconds=count - 1))
    job = Definition(name="news", command="/bin/true", schedule=spec, overlap=Overlap.ALLOW)
    world.act("api", lambda: create_job(world.ctx, job))


def _copies() -> Counter[str]:
    return Counter(RunMessage.from_body(message.body).run_id for message in moto_state.queues()[RUNS]._messages)


def _a_day_without_workers(world: World, count: int) -> None:
    _waiting(world, count)
    world.workers_off = lambda now: now < BEGIN + DAY
    world.children = lambda run: Child()
    world.run_to(DAY)
    copies = _copies()
    assert len(copies) == count
    assert max(copies.values()) <= 3, "more than two further copies of a message"
    world.run(DAY + timedelta(hours=1))
    assert world.messages() == Counter()
    assert Counter(run.state for run in world.runs().values()) == {State.SUCCEEDED: count}
    assert Counter(execution.run_id for execution in world.executions) == dict.fromkeys(copies, 1)
    assert world.violations == []


def test_300_runs_that_wait_for_a_day_have_two_more_messages_at_most_and_are_executed_once(
    aws: Any, clock: ManualClock
) -> None:
    _a_day_without_workers(make_world(clock), 300)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_5000_runs_that_wait_for_a_day_have_two_more_messages_at_most_and_are_executed_once(
    aws: Any, clock: ManualClock
) -> None:
    _a_day_without_workers(make_world(clock), 5000)
