import importlib.util
from pathlib import Path

import pytest

from clawjob.domain.errors import IllegalMoveError
from clawjob.domain.run import FINAL, OPEN, TRANSITIONS, Actor, State, check_move, is_legal

ROOT = Path(__file__).parents[3]


def test_no_move_leaves_a_final_state() -> None:
    assert not [move for move in TRANSITIONS if move.source in FINAL]


def test_every_state_can_be_reached_and_every_open_state_can_be_left() -> None:
    assert {move.target for move in TRANSITIONS} == set(State)
    assert {move.source for move in TRANSITIONS if move.source} == OPEN


def test_from_every_open_state_each_final_state_of_a_started_run_can_be_reached() -> None:
    for start in OPEN:
        reached, border = {start}, {start}
        while border:
            border = {move.target for move in TRANSITIONS if move.source in border} - reached
            reached |= border
        assert {State.SUCCEEDED, State.FAILED, State.TIMED_OUT, State.CANCELLED, State.LOST} <= reached


@pytest.mark.parametrize("actor", list(Actor))
def test_every_actor_moves_something(actor: Actor) -> None:
    assert [move for move in TRANSITIONS if move.actor is actor]


def test_the_results_handler_never_starts_a_run() -> None:
    assert not is_legal(State.QUEUED, State.RUNNING, Actor.RESULTS)
    assert is_legal(State.QUEUED, State.RUNNING, Actor.WORKER)


def test_the_page_of_states_is_made_from_the_table() -> None:
    spec = importlib.util.spec_from_file_location("generate_state_machine", ROOT / "docs/generate_state_machine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs/state-machine.md").read_text()
    assert page == module.with_generated(page), "run `make docs`"


@pytest.mark.parametrize("final", sorted(FINAL))
def test_a_move_out_of_a_final_state_is_refused(final: State) -> None:
    with pytest.raises(IllegalMoveError):
        check_move(final, State.QUEUED)


def test_a_write_that_leaves_the_state_as_it_is_is_no_move() -> None:
    check_move(State.QUEUED, State.QUEUED)
