"""Records a story's calls, then plays it again with trouble at one of them, and says what is wrong in the end."""

from collections.abc import Iterable

from support.checks import problems_of
from support.faults import READS, Fault, Made
from support.scenarios import Story, play
from support.world import World


def recorded(world: World, story: Story) -> list[Made]:
    """Play a story without any trouble; its calls."""
    world.reset()
    scenario = play(world, story)
    found = problems_of(world, scenario.expected)
    assert found == [], "without any trouble"
    return list(world.trouble.calls)


def broken(world: World, story: Story, fault: Fault, number: int) -> list[str]:
    """Play a story with trouble at one call (0: at none); what is wrong in the end."""
    world.reset(fault, number)
    try:
        scenario = play(world, story)
    except AssertionError as error:
        return [str(error)]
    if number and not world.trouble.happened:
        return [f"call {number} was never made"]
    return problems_of(world, scenario.expected)


def differing(calls: list[Made]) -> list[Made]:
    """Calls before which something happened: a stop between two reads of one actor is a stop before both."""
    return [
        call
        for before, call in zip([None, *calls], calls, strict=False)
        if before is None or not (before.name in READS and call.name in READS and before.actor == call.actor)
    ]


def failures(world: World, story: Story, fault: Fault, calls: Iterable[Made]) -> list[str]:
    """What went wrong at which call, in words."""
    return [
        f"{fault} call {call.number} ({call.actor}'s {call.name}): {'; '.join(found)}"
        for call in calls
        if (found := broken(world, story, fault, call.number))
    ]
