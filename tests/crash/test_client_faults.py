"""Every AWS call of every story is refused once, half done, made twice, or made without an answer.

Nobody dies here: what the code does with an error must be as harmless as a crash, and a client that repeats its call
must not be refused by its own first write in a way that costs an attempt.
"""

import pytest

from support.faults import READS, Fault
from support.harness import differing, failures, recorded
from support.scenarios import LONG, STORIES, Story
from support.world import World

by_story = pytest.mark.parametrize(
    "story",
    [pytest.param(story, marks=pytest.mark.slow if story in LONG else (), id=story.__name__) for story in STORIES],
)


@by_story
def test_a_throttled_call_neither_loses_nor_doubles_a_run(world: World, story: Story) -> None:
    calls = differing(recorded(world, story))
    assert failures(world, story, Fault.THROTTLED, calls) == []


@by_story
def test_a_half_applied_batch_neither_loses_nor_doubles_a_run(world: World, story: Story) -> None:
    calls = [call for call in recorded(world, story) if call.name in {"SendMessageBatch", "BatchGetItem"}]
    assert failures(world, story, Fault.HALF, calls) == []


@by_story
def test_a_call_made_twice_by_the_client_costs_no_attempt(world: World, story: Story) -> None:
    calls = [call for call in recorded(world, story) if call.name not in READS]
    assert failures(world, story, Fault.REPEATED, calls) == []


@by_story
def test_a_call_without_an_answer_neither_loses_nor_doubles_a_run(world: World, story: Story) -> None:
    calls = [call for call in recorded(world, story) if call.name not in READS]
    assert failures(world, story, Fault.UNANSWERED, calls) == []
