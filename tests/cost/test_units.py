"""What runs cost, asserted: write units, AWS calls, item sizes, and ticks that do not grow with the stored jobs."""

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from bench.account import hourly
from bench.life import (
    EVENT_SOURCE,
    Life,
    manual,
    minutely,
    one_retry,
    plain,
    settled_job,
    take_over,
    with_outputs,
)
from bench.meter import WRITE_BLOCK, item_size, value_size
from bench.stage import stage
from bench.tick_growth import GOAL, growth, tick_cost
from bench.units import calls_by_kind, why_base, why_index
from clawjob.domain.run import Outcome
from clawjob.domain.schedule import ScheduleSpec
from clawjob.operations.apply_job import create_job, delete_job, set_enabled
from clawjob.operations.cancel_run import cancel_run
from clawjob.operations.trigger_run import trigger_run
from support.privileges import acting

LONG_NAME = "n" * 100
LONG_WORKER = "w" * 100
SMALL = {"JOB STATE", "RUN RUN", "RUN ATTEMPT", "NAME NAME", "TICK TICK"}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_a_plain_run_costs_at_most_nine_write_units_and_each_is_explained() -> None:
    cost = plain()
    assert cost.writes <= 9
    assert cost.reads <= 6
    assert not [charge for charge in cost.charges if charge.base and not why_base(charge)]
    assert not [one for charge in cost.charges for one in charge.indexes if not why_index(charge, one)]
    assert not [charge for charge in cost.charges if charge.refused or charge.in_transaction]


def test_a_plain_run_makes_twelve_calls() -> None:
    cost = plain()
    assert calls_by_kind(cost) == {
        "BatchGetItem": 3,
        "GetItem": 1,
        "PutItem": 1,
        "UpdateItem": 3,
        "SendMessageBatch": 1,
        "ReceiveMessage": 1,
        "SendMessage": 1,
        "DeleteMessage": 1,
    }
    assert sum(count for (phase, _), count in cost.calls.items() if phase == EVENT_SOURCE) == 2


def test_a_run_every_minute_with_overlap_skip_pays_one_write_more_for_its_slot() -> None:
    assert minutely().writes <= 10


def test_take_over_retry_manual_and_outputs_stay_at_what_they_cost() -> None:
    assert take_over().writes <= 13
    assert one_retry().writes <= 24  # 4 KiB of log tail in a transaction are 8 of them
    assert manual().writes <= 7
    assert with_outputs().writes <= 12


def test_a_tick_with_ten_due_jobs_does_the_same_over_ten_times_as_many_stored_jobs() -> None:
    costs = [tick_cost(stored) for stored in (200, 2_000)]
    assert growth(costs) <= GOAL
    assert [cost.dispatched for cost in costs] == [10, 10]
    assert costs[0].reads == pytest.approx(costs[1].reads, rel=GOAL)


class Sizes:
    """Looks at every item after every write."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.largest: dict[str, int] = {}

    def look(self) -> None:
        # The test's own look, maybe in the middle of what a worker does.
        with acting(""):
            items = self.life.items()
        for item in items:
            kind = f"{item['pk']['S'].split('#')[0]} {item['sk']['S'].split('#')[0]}"
            self.largest[kind] = max(self.largest.get(kind, 0), item_size(item))
            if "decision" in item:
                assert value_size(item["decision"]) <= 200


@pytest.fixture
def sizes() -> Iterator[Sizes]:
    definition = hourly(LONG_NAME, params={"page": 1}, queue_deadline=timedelta(hours=9))
    with settled_job(definition) as life:
        life = Life(life.stage, worker=LONG_WORKER)
        yield Sizes(life)


def hour(life: Life) -> None:
    due = life.stage.now.replace(minute=0, second=0) + timedelta(hours=1)
    life.stage.move_to(due - timedelta(seconds=100))
    life.tick()
    life.stage.move_to(due)


def play(sizes: Sizes, detail: str, by: str, why: str) -> dict[str, int]:
    """A run is taken over, fails, is retried, cancelled while it runs; its job is paused, resumed, late, deleted."""
    life = sizes.life
    hour(life)
    sizes.look()
    life.vanish()
    sizes.look()
    life.stage.advance(timedelta(seconds=121))
    life.children.end = {
        "outcome": Outcome.SIGNALLED,
        "exit_code": None,
        "signal": "SIGKILL",
        "detail": detail,
        "log_tail": "x" * 5000,
        "log_bytes": 10**12,
        "log_dropped_bytes": 10**12,
        "items": 10**9,
    }
    life.children.meanwhile = sizes.look
    finish_attempt(sizes)
    life.stage.advance(timedelta(minutes=6))
    finish_attempt(sizes)
    life.stage.advance(timedelta(minutes=6))
    life.children.meanwhile = lambda: cancel(sizes, by, why)
    finish_attempt(sizes)
    for change in (False, True):
        set_enabled(life.context, LONG_NAME, change)
        sizes.look()
    life.stage.advance(timedelta(days=2))
    life.tick()
    sizes.look()
    trigger_run(life.context, LONG_NAME, {"page": 2}, "k" * 100)
    sizes.look()
    delete_job(life.context, LONG_NAME)
    sizes.look()
    assert sizes.largest.keys() >= SMALL | {"RUN LOG", "RUN INPUT", "JOB V"}
    return {kind: size for kind, size in sizes.largest.items() if kind in SMALL}


def finish_attempt(sizes: Sizes) -> None:
    assert sizes.life.work() == 1
    assert sizes.life.settle() == 1
    sizes.look()


def cancel(sizes: Sizes, by: str, why: str) -> None:
    with acting(""):
        running = next(item for item in sizes.life.items() if item.get("state") == {"S": "RUNNING"})
    with acting("api"):
        cancel_run(sizes.life.context, running["pk"]["S"].removeprefix("RUN#"), by, why)
    sizes.look()


def test_with_the_longest_names_every_item_but_logs_and_outputs_is_under_one_kilobyte_at_every_stage(
    sizes: Sizes,
) -> None:
    """Names of 100 characters for job and worker; details and wishes to cancel as they usually are."""
    largest = play(sizes, "killed by SIGKILL, perhaps by the kernel for want of memory", "a.person", "it hangs")
    assert max(largest.values()) < WRITE_BLOCK, largest


def test_with_the_longest_of_everything_a_run_begins_a_second_kilobyte_and_no_more(sizes: Sizes) -> None:
    largest = play(sizes, "d" * 1000, "p" * 100, "w" * 100)
    assert largest.pop("RUN RUN") < 2 * WRITE_BLOCK
    assert max(largest.values()) < WRITE_BLOCK, largest


def test_a_decision_in_a_gap_of_years_is_at_most_two_hundred_bytes() -> None:
    with stage() as on:
        life = Life(on)
        create_job(life.context, hourly(LONG_NAME, schedule=ScheduleSpec(cron="* * * * *")))
        looks = Sizes(life)
        on.advance(timedelta(days=3650))
        life.tick()
        looks.look()
        decision: Any = next(item["decision"] for item in life.items() if "decision" in item)
        assert value_size(decision) <= 200
