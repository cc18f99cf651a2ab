"""Troubles that people met with queues and indexes, played against the whole system."""

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from clawjob.domain.run import State
from support import moto_state
from support.checks import Expected, instants, problems_of
from support.fake_worker import Child
from support.faults import Call, refused
from support.scenarios import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    STORIES,
    WELL,
    Scenario,
    Story,
    a_job,
    create,
    kept,
    lost_for_good,
    retried,
    retried_late,
    worker_and_message_die,
    worker_dies,
)
from support.world import RUNS, World

by_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)


def finish(world: World, scenario: Scenario) -> list[str]:
    world.run(scenario.until)
    return problems_of(world, scenario.expected)


@by_story
def test_every_message_three_times_and_out_of_order_is_executed_once(world: World, story: Story) -> None:
    """Q-05."""
    chance = Random(5)

    def thrice(name: str, parameters: dict[str, Any], make: Call) -> Any:
        if name == "SendMessageBatch":
            make()
            make()
        answer = make()
        chance.shuffle(moto_state.queues()[RUNS]._messages)
        return answer

    world.trouble.instead.append(thrice)
    world.start_worker()
    world.start_worker()
    scenario = story(world)
    assert finish(world, scenario) == []


@pytest.mark.parametrize("story", [kept, worker_dies, retried], ids=lambda story: story.__name__)
def test_a_message_that_comes_back_while_its_run_goes_on_starts_nothing(world: World, story: Story) -> None:
    """Q-01, Q-04: its visibility cannot be extended (MessageNotInflight), and the others receive it again."""

    world.start_worker()
    scenario = story(world)
    if story is kept:
        world.children = lambda run: Child(takes=400 * SECOND)
    world.trouble.before.append(_lost_for_renewals)
    assert finish(world, scenario) == []


@by_story
def test_an_index_that_is_one_tick_behind_harms_nothing(world: World, story: Story) -> None:
    """DB-09: each page is what it was a tick ago: rows that moved since are still there, new ones are not yet."""
    behind: dict[str, Any] = {}

    def stale(name: str, parameters: dict[str, Any], make: Call) -> Any:
        if name != "Query" or parameters.get("IndexName") != "due":
            return make()
        shard = parameters["ExpressionAttributeValues"][":shard"]["S"]
        parameters["ExpressionAttributeValues"][":until"]["S"] = "9"
        present, before = make(), behind.get(shard, {"Items": []})
        behind[shard] = present
        return before

    world.trouble.instead.append(stale)
    scenario = story(world)
    # A tick more, for each that saw nothing.
    scenario.expected.late += 5 * MINUTE
    assert finish(world, scenario) == []


@pytest.mark.parametrize(
    "story",
    [kept, retried, retried_late, worker_dies, worker_and_message_die, lost_for_good],
    ids=lambda story: story.__name__,
)
def test_five_minutes_without_the_results_function_cost_nothing(world: World, story: Story) -> None:
    scenario = story(world)
    world.results_off = lambda now: NOON <= now < NOON + 5 * MINUTE
    assert finish(world, scenario) == []


def test_a_result_that_waits_for_an_hour_still_counts_if_nobody_ran_it_again(world: World) -> None:
    """The run counts as lost and waits in a queue that no worker reads; then the late result comes."""
    world.at(timedelta(0), create(a_job(cron="0 12 * * *", until=NOON)))
    world.results_off = lambda now: now < NOON + HOUR
    world.workers_off = lambda now: NOON + MINUTE <= now < NOON + HOUR + MINUTE
    scenario = Scenario(70 * MINUTE, Expected(instants("news", NOON, MINUTE, 1, WELL)))
    assert finish(world, scenario) == []
    (run,) = world.runs().values()
    assert (run.state, run.token, run.losses) == (State.SUCCEEDED, 1, 0)


def test_a_run_of_many_hours_whose_message_got_loose_does_not_end_in_the_dead_letters(world: World) -> None:
    """Q-01: the queue counts receives, and a run may take longer than ten leases."""
    world.at(timedelta(0), create(a_job(cron="0 12 * * *", until=NOON, timeout=11 * HOUR)))
    world.children = lambda run: Child(takes=6 * HOUR)
    world.trouble.before.append(_lost_for_renewals)
    world.start_worker()
    scenario = Scenario(7 * HOUR, Expected(instants("news", NOON, MINUTE, 1, WELL)))
    assert finish(world, scenario) == []


def _lost_for_renewals(name: str, parameters: dict[str, Any]) -> None:
    # A renewal sets the whole lease; a message that is given back gets another time.
    if name == "ChangeMessageVisibility" and parameters["VisibilityTimeout"] == 120:
        raise refused(name, "AWS.SimpleQueueService.MessageNotInflight")
