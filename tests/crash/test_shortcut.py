"""The short way to moto, which most of these tests take, gives what the long way gives."""

from typing import Any

import pytest

from support import moto_state
from support.checks import problems_of
from support.clock import ManualClock
from support.scenarios import STORIES, Story, play
from support.world import make_world


def _told(clock: ManualClock, story: Story, *, short: bool) -> tuple[list[tuple[str, str]], list[dict[str, Any]]]:
    """The calls of a story and all that it leaves in the table, but for the random ids of messages."""
    world = make_world(clock, short=short)
    scenario = play(world, story)
    calls = [(call.actor, call.name) for call in world.trouble.calls]
    items = sorted(moto_state.stored(), key=lambda item: (item["pk"], item["sk"]))
    assert problems_of(world, scenario.expected) == []
    return calls, [{name: value for name, value in item.items() if name != "message_id"} for item in items]


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(story, marks=() if number % 4 == 0 else pytest.mark.slow, id=story.__name__)
        for number, story in enumerate(STORIES)
    ],
)
def test_the_short_way_makes_the_same_calls_and_leaves_the_same_items(clock: ManualClock, story: Story) -> None:
    from moto import mock_aws

    with mock_aws():
        long_way = _told(clock, story, short=False)
    clock.move_to(clock.start)
    with mock_aws():
        short_way = _told(clock, story, short=True)
    assert short_way == long_way
