"""The harness is worth something: each of these faults, put into the real code, makes it find something wrong."""

from collections.abc import Callable

import pytest

from support.faults import READS, Fault
from support.harness import broken, differing, failures, recorded
from support.interleave import Meeting, meet
from support.meetings import LAST_LOSS, RENEWAL, SLOTS
from support.mutants import Mutant
from support.scenarios import Story, gap_after_put, gap_last, kept, plain, result_comes_late, worker_freezes
from support.world import World

Finder = Callable[[World], list[str]]


def as_it_is(story: Story) -> Finder:
    """Plays a story without any trouble."""
    return lambda world: broken(world, story, Fault.CRASH_BEFORE, 0)


def with_crashes(story: Story) -> Finder:
    """Plays a story with a stop at each call."""

    def find(world: World) -> list[str]:
        calls = recorded(world, story)
        found = failures(world, story, Fault.CRASH_BEFORE, differing(calls))
        writes = [call for call in calls if call.name not in READS]
        return found or failures(world, story, Fault.CRASH_AFTER, writes)

    return find


def together(meeting: Meeting) -> Finder:
    """Lets two meet at each call."""
    return lambda world: meet(world, meeting)


_ADVANCE = """    _send(ctx, works, report)
    holders = _free_slots(ctx, works)
    for work in works:
        with _Fence(ctx, work.state, report):
            _advance(ctx, work, report, slot_is_free=work.state.active is None or work.state.active in holders)
"""
_ADVANCE_FIRST = """    for work in works:
        work.accepted |= {run.run_id for run in work.runs}
    holders = _free_slots(ctx, works)
    for work in works:
        with _Fence(ctx, work.state, report):
            _advance(ctx, work, report, slot_is_free=work.state.active is None or work.state.active in holders)
    _send(ctx, works, report)
"""

MUTANTS = (
    Mutant("advance before send", "clawjob.operations.dispatch", _ADVANCE, _ADVANCE_FIRST, with_crashes(plain)),
    Mutant(
        "no token check in settle",
        "clawjob.domain.settling",
        "run.token != result.token",
        "run.token < result.token",
        as_it_is(result_comes_late),
    ),
    Mutant(
        "claim without the lease test",
        "clawjob.domain.claiming",
        "if run.state is State.RUNNING and run.lease_until is not None:",
        "if run.state is State.RUNNING and run.lease_until is None:",
        with_crashes(kept),
    ),
    Mutant(
        "settle without the state clause",
        "clawjob.aws.run_store",
        '        "#state = :seen_state",\n',
        '        "attribute_exists(#state)",\n',
        together(LAST_LOSS),
    ),
    Mutant(
        "put without asking whether the run is there",
        "clawjob.aws.run_store",
        "first = Condition((_ABSENT,))",
        "first = None",
        with_crashes(gap_last),
    ),
    Mutant(
        "renewal without the token",
        "clawjob.aws.run_store",
        '                "#token = :token",\n',
        '                "attribute_exists(#token)",\n',
        as_it_is(worker_freezes),
    ),
    Mutant(
        "gap recorded without looking at runs put before",
        "clawjob.operations.dispatch",
        "put_before = _runs_put_before(ctx, state, schedule, gap)",
        "put_before = []",
        with_crashes(gap_after_put),
    ),
    Mutant(
        "slot taken without a condition",
        "clawjob.aws.job_store",
        "Condition((_slot_unchanged(seen),), values)",
        'Condition(("attribute_exists(#pk)",), {})',
        together(SLOTS),
    ),
    Mutant(
        "take-over without a look at the last renewal",
        "clawjob.aws.run_store",
        "            clauses, values = _same_lease(clauses, values, seen)\n        else:",
        "            pass\n        else:",
        together(RENEWAL),
    ),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_harness_finds_each_fault_that_is_put_into_the_code(
    world: World, monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    mutant.put_in_place(monkeypatch)
    try:
        found = mutant.caught(world)
    except AssertionError as error:
        found = [str(error)]
    assert found, f"nothing was found wrong with: {mutant.name}"
    assert not any("was never made" in problem for problem in found), found


def test_the_harness_fails_loudly_when_a_text_to_change_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Mutant("gone", "clawjob.operations.dispatch", "no such text", "", lambda world: [])
    with pytest.raises(AssertionError, match="0 times"):
        gone.put_in_place(monkeypatch)
