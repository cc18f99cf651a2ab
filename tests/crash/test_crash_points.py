"""Every actor is stopped before and after each of its AWS calls; the others, and its successor, go on.

For every story and every call number the story must come to its one right end (SCH-09, SCH-10; docs/testing.md).
"""

import pytest

from support.faults import READS, Fault
from support.harness import differing, failures, recorded
from support.scenarios import STORIES, Story
from support.world import World

by_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)


@by_story
def test_a_process_that_stops_before_any_call_neither_loses_nor_doubles_a_run(world: World, story: Story) -> None:
    calls = differing(recorded(world, story))
    assert failures(world, story, Fault.CRASH_BEFORE, calls) == []


@by_story
def test_a_process_that_stops_after_any_write_neither_loses_nor_doubles_a_run(world: World, story: Story) -> None:
    calls = [call for call in recorded(world, story) if call.name not in READS]
    assert failures(world, story, Fault.CRASH_AFTER, calls) == []


@pytest.mark.slow
@by_story
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_a_process_that_stops_at_any_call_at_all_neither_loses_nor_doubles_a_run(
    world: World, story: Story, fault: Fault
) -> None:
    assert failures(world, story, fault, recorded(world, story)) == []
