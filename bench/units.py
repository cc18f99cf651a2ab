"""Write and read units and AWS calls of each kind of run."""

from bench.life import DISPATCH, EVENT_SOURCE, SCENARIOS, SETTLE, WORK, Cost, plain
from bench.meter import Charge, IndexWrite
from bench.report import Result, Row

GOAL = 9

_BASE_WHY = {
    (DISPATCH, "Put", "RUN"): "the run is made: whoever makes the item decides that the instant is dispatched, once",
    (DISPATCH, "Update", "JOB"): "the job is moved past the instant, and its last decision and slot are written",
    (WORK, "Update", "RUN"): "the claim: one worker gets the token and the lease",
    (SETTLE, "Update", "RUN"): "the end: exactly one result counts",
}
_INDEX_WHY = {
    ("due", "made", "RUN"): "the check: if message or worker are lost, a tick finds the run here",
    ("due", "removed", "RUN"): "nothing has to be looked at any more",
    ("due", "moved", "JOB"): "the job's next instant: the old entry goes, the new one comes",
    ("list", "made", "RUN"): "the run is found among its job's runs",
}


def why_base(charge: Charge) -> str:
    """Say why a write of the table is needed; empty for one that nobody explained."""
    return _BASE_WHY.get((charge.phase, charge.operation, charge.key[0].split("#")[0]), "")


def why_index(charge: Charge, write: IndexWrite) -> str:
    """Say why a write of an index is needed; empty for one that nobody explained."""
    return _INDEX_WHY.get((write.index, write.move, charge.key[0].split("#")[0]), "")


def measure() -> Result:
    """Play every kind of run under the meter."""
    costs = [scenario() for scenario in SCENARIOS]
    rows = [row for cost in costs for row in _rows(cost)]
    return Result("DynamoDB units and AWS calls per run (warm processes)", rows, {c.name: _data(c) for c in costs})


def _rows(cost: Cost) -> list[Row]:
    is_plain = cost.name == plain.__name__
    rows = [
        Row(
            f"{cost.name}: write units",
            f"{cost.writes:g}",
            f"<= {GOAL}" if is_plain else "",
            cost.writes <= GOAL if is_plain else None,
        )
    ]
    if is_plain:
        for charge in cost.charges:
            if charge.base:
                what = f"  {charge.phase}: {charge.operation.lower()} {charge.key[1].lower()}"
                rows.append(Row(what, f"{charge.base:g}", note=why_base(charge)))
            rows += [
                Row(f"  {charge.phase}: index {one.index}, {one.move}", f"{one.units}", note=why_index(charge, one))
                for one in charge.indexes
            ]
    rows.append(Row(f"{cost.name}: read units", f"{cost.reads:g}"))
    kinds = ", ".join(f"{name} {count / cost.runs:g}" for name, count in sorted(calls_by_kind(cost).items()))
    rows.append(Row(f"{cost.name}: own AWS calls", f"{cost.own_calls:g}", note=kinds if is_plain else ""))
    return rows


def calls_by_kind(cost: Cost) -> dict[str, int]:
    """Own calls by operation."""
    kinds: dict[str, int] = {}
    for (phase, operation), count in cost.calls.items():
        if phase != EVENT_SOURCE:
            kinds[operation] = kinds.get(operation, 0) + count
    return kinds


def _data(cost: Cost) -> dict[str, object]:
    return {
        "write_units": cost.writes,
        "read_units": cost.reads,
        "own_calls": cost.own_calls,
        "calls": {f"{phase}: {name}": count / cost.runs for (phase, name), count in cost.calls.items()},
        "largest_items": cost.sizes,
    }
