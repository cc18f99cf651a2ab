"""Calls, items and units of a tick with ten due jobs, as the number of stored jobs grows."""

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

from bench.life import Life
from bench.report import Result, Row
from bench.stage import stage
from bench.stored import DUE, create_due_jobs, insert_stored_jobs

SIZES = (1_000, 10_000, 100_000)
GOAL = 0.05


@dataclass(frozen=True)
class TickCost:
    """What one tick did."""

    stored: int
    calls: Counter[str]
    items_read: int
    reads: float
    writes: float
    dispatched: int


def tick_cost(stored: int) -> TickCost:
    """Make one tick over so many stored jobs of which ten are due."""
    with stage() as on:
        due = on.now + timedelta(seconds=90)
        create_due_jobs(on, DUE, due)
        insert_stored_jobs(on, stored - DUE, due + timedelta(hours=1))
        on.meter.clear()
        report = Life(on).tick()
        calls = Counter(operation for _, operation in on.meter.calls)
        meter = on.meter
        return TickCost(stored, calls, meter.items_read, meter.reads, meter.writes, report.dispatch.dispatched)


def growth(costs: list[TickCost]) -> float:
    """By what share the costliest tick exceeds the cheapest, in calls or items read."""
    calls = [cost.calls.total() for cost in costs]
    items = [cost.items_read for cost in costs]
    return max(max(calls) / min(calls), max(items) / min(items)) - 1


def measure() -> Result:
    """Compare ticks."""
    costs = [tick_cost(stored) for stored in SIZES]
    rows = [
        Row(
            f"{cost.stored:,} stored, {cost.dispatched} dispatched",
            f"{cost.calls.total()} calls, {cost.items_read} items",
            note=f"{cost.reads:g} read units, {cost.writes:g} write units; "
            + ", ".join(f"{name} {count}" for name, count in sorted(cost.calls.items())),
        )
        for cost in costs
    ]
    grown = growth(costs)
    rows.append(Row("growth from the least to the most", f"{grown:.1%}", f"<= {GOAL:.0%}", grown <= GOAL))
    data = {
        str(cost.stored): {
            "calls": dict(cost.calls),
            "items_read": cost.items_read,
            "read_units": cost.reads,
            "write_units": cost.writes,
        }
        for cost in costs
    }
    return Result("One tick with 10 due jobs (state rows of the others put straight into moto)", rows, data)
