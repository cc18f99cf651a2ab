"""Lets one actor do all of its work in the middle of another's, before each of the other's calls in turn."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from support.checks import Expected, problems_of
from support.world import World

Act = Callable[[World], object]


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two who meet."""

    name: str
    setup: Callable[[World], Expected]
    """Brings the world to the instant at which they meet; says what must come of it."""
    first: Act
    second: Act
    until: timedelta
    later: timedelta = timedelta(0)
    """How long the first stands still while the second works."""


def meet(world: World, meeting: Meeting) -> list[str]:
    """Let the second act before each call of the first; what is wrong in the end, for each call."""
    found = []
    number = 0
    reached = True
    while reached:
        number += 1
        reached, problems = _once(world, meeting, number)
        found += [f"{meeting.name}, second before call {number} of the first: {problem}" for problem in problems]
    assert number > 2, "the first made no calls"
    return found


def _once(world: World, meeting: Meeting, number: int) -> tuple[bool, list[str]]:
    world.reset()
    expected = meeting.setup(world)
    start = len(world.trouble.calls)
    inside: list[bool] = []

    def intrude(name: str, parameters: dict[str, Any]) -> None:
        if not inside and len(world.trouble.calls) == start + number - 1:
            inside.append(True)
            world.clock.advance(meeting.later)
            meeting.second(world)

    world.trouble.before.append(intrude)
    meeting.first(world)
    world.trouble.before.clear()
    if not inside:
        return False, []
    try:
        world.run(meeting.until)
    except AssertionError as error:
        return True, [str(error)]
    return True, problems_of(world, expected)
