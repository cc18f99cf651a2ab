"""The page of costs is what its script makes, of counts that hold."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bench import price_list
from bench.counts import count_logs, count_runs, read_counts
from bench.month import ASSUMED, SECONDS, Bill, Line, break_even, month, scheduler_and_task
from bench.price_list import Price
from clawjob.domain.metrics import Component, Metric
from clawjob.runner.worker import _POLL_WAIT

DOCS = Path(__file__).parents[2] / "docs"
AGAIN = "python -m bench.counts, then make docs"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_cost", DOCS / "generate_cost.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_what_the_script_makes(script: ModuleType) -> None:
    """`make docs` writes them."""
    assert (DOCS / "cost.md").read_text("utf-8") == script.page()
    metrics = (DOCS / "metrics.md").read_text("utf-8")
    assert metrics == script.with_costs(metrics)


def test_units_and_calls_are_what_is_counted_now() -> None:
    counts = read_counts()
    assert {name: counts[name] for name in count_runs()} == count_runs(), AGAIN


def test_log_lines_are_as_long_as_was_counted_and_have_as_many_metrics() -> None:
    then, now = read_counts()["logs"], count_logs()
    assert now.keys() == then.keys()
    for name, one in now.items():
        for key, value in one.items():
            # Durations in them have more or fewer digits.
            assert value == (then[name][key] if key == "metrics" else pytest.approx(then[name][key], rel=0.1)), AGAIN


def test_what_an_idle_stage_writes_is_all_of_the_schedulers_metrics_but_lateness() -> None:
    logs = read_counts()["logs"]
    own = [one for one in Metric if one.definition.component is Component.SCHEDULER and one is not Metric.LATENESS]
    assert logs["tick"]["metrics"] + logs["count"]["metrics"] == len(own)


def test_what_is_free_is_free_once_for_all_lines_of_a_price() -> None:
    price = Price("x", 2.0, "million", 1e6, "", free=1e6)
    bill = Bill([Line("a", price, 0.4e6), Line("b", price, 1e6), Line("c", price, 1e6)])
    assert bill.dollars == pytest.approx(4.8)
    assert bill.paid() == pytest.approx([0.0, 0.8, 2.0])


def test_polls_that_find_nothing_are_counted_for_each_poller_and_worker() -> None:
    assert ASSUMED.worker_poll_seconds == _POLL_WAIT.total_seconds()
    lines = {line.what: line.amount for line in month(read_counts(), "prod").lines}
    assert lines["SQS: Lambda's polls of the results queue"] == 5 * 3 * 43_800
    assert lines["SQS: workers' polls of the run queues"] == SECONDS


def test_the_break_even_is_where_a_task_for_each_run_becomes_dearer() -> None:
    counts = read_counts()
    runs = break_even(counts, "prod") * 1000

    def dearer(number: float) -> bool:
        return scheduler_and_task(number).dollars_paid > month(counts, "prod", number).dollars_paid

    assert dearer(runs)
    assert not dearer(runs - 1000)


def test_every_price_is_on_the_page_and_says_where_it_is_from() -> None:
    known: list[Any] = [one for one in vars(price_list).values() if isinstance(one, Price)]
    assert set(known) == set(price_list.PRICES)
    assert all(one.source for one in known)
