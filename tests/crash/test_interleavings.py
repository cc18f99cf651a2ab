"""Two actors at one job or run: the second does all its work before each AWS call of the first (SCH-07 to SCH-10)."""

import pytest

from support.interleave import Meeting, meet
from support.meetings import PEOPLE, RESULTS_FUNCTION, TICKS, WORKERS
from support.world import World


def by_name(meetings: tuple[Meeting, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("meeting", meetings, ids=lambda meeting: meeting.name.replace(" ", "-"))


@by_name(TICKS)
def test_two_ticks_at_once_put_each_instant_once(world: World, meeting: Meeting) -> None:
    assert meet(world, meeting) == []


@by_name(WORKERS)
def test_of_two_at_one_run_one_wins_and_the_other_sees_it(world: World, meeting: Meeting) -> None:
    assert meet(world, meeting) == []


@by_name(RESULTS_FUNCTION)
def test_a_result_counts_once_whoever_comes_between(world: World, meeting: Meeting) -> None:
    assert meet(world, meeting) == []


@by_name(PEOPLE)
def test_a_person_in_the_middle_of_a_dispatch_is_not_undone(world: World, meeting: Meeting) -> None:
    assert meet(world, meeting) == []
