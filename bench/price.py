"""What a million runs cost, by AWS's list prices of us-east-1, from the units and calls that the meter counts."""

from typing import Final

from bench import price_list as prices
from bench.life import DISPATCH, EVENT_SOURCE, SETTLE, WORK, Cost, minutely, one_retry, plain
from bench.report import Result, Row

RESULTS_BATCH: Final = 10
RESULTS_SECONDS: Final = 0.1
FUNCTION_GB: Final = 0.5
_RESULTS_CALL: Final = RESULTS_SECONDS * FUNCTION_GB * prices.LAMBDA_TIME.each
TICKS_A_MONTH: Final = 43_800
TICK_SECONDS: Final = 1.0
SHARDS: Final = 16

RUN_SECONDS: Final = 10.0
SLOTS: Final = 16
BUSY: Final = 0.7
_QUEUE_CALLS: Final = frozenset(
    {"SendMessage", "SendMessageBatch", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility"}
)


def control_plane(cost: Cost) -> dict[str, float]:
    """Dollars for a million runs of a kind, by service; nothing is shared but the results function's batches."""
    queue_calls = sum(
        count
        for (phase, name), count in cost.calls.items()
        if name in _QUEUE_CALLS and phase in {DISPATCH, WORK, SETTLE}
    )
    attempts = sum(count for (phase, name), count in cost.calls.items() if (phase, name) == (WORK, "SendMessage"))
    batches = attempts / RESULTS_BATCH
    received = 2 * batches if (EVENT_SOURCE, "ReceiveMessage") in cost.calls else 0
    return {
        "DynamoDB writes": cost.writes * prices.WRITE.dollars,
        "DynamoDB reads": cost.reads * prices.READ.dollars,
        "SQS": (queue_calls + received) / cost.runs * prices.SQS.dollars,
        "results function": batches / cost.runs * (prices.LAMBDA_CALL.dollars + _RESULTS_CALL * 1e6),
    }


def flat_month() -> float:
    """Dollars a month for the ticks, however many jobs there are."""
    reads = TICKS_A_MONTH * SHARDS * 0.5 * prices.READ.each
    writes = TICKS_A_MONTH * prices.WRITE.each
    function = TICKS_A_MONTH * (prices.LAMBDA_CALL.each + TICK_SECONDS * FUNCTION_GB * prices.LAMBDA_TIME.each)
    return reads + writes + function


def workers(share: float = 1.0) -> float:
    """Dollars for a million runs of ten seconds in workers of 1 vCPU and 2 GB with 16 slots, 70 % busy."""
    hours = 1e6 * RUN_SECONDS / SLOTS / BUSY / 3600
    return hours * ((prices.VCPU.each + 2 * prices.MEMORY.each) * share + prices.IPV4.each)


def tasks() -> float:
    """Dollars for a million short runs in a task each, of a quarter vCPU and half a GB."""
    hours = 1e6 * prices.FARGATE_LEAST_SECONDS / 3600
    return hours * (0.25 * prices.VCPU.each + 0.5 * prices.MEMORY.each + prices.IPV4.each)


def measure() -> Result:
    """Add it up."""
    plain_run = control_plane(plain())
    total = sum(plain_run.values())
    rows = [Row(f"  {name}", f"${dollars:.2f}") for name, dollars in plain_run.items()]
    rows.append(Row("control plane, a million plain runs", f"${total:.2f}"))
    others = {scenario.__name__: sum(control_plane(scenario()).values()) for scenario in (minutely, one_retry)}
    rows += [Row(f"control plane, a million runs: {name.replace('_', ' ')}", f"${d:.2f}") for name, d in others.items()]
    rows += [
        Row("ticks, a month", f"${flat_month():.2f}", note="however many jobs; 1 s of 512 MB a minute"),
        Row("workers, a million runs of 10 s", f"${workers():.2f}", note="1 vCPU, 2 GB, 16 slots, 70 % busy"),
        Row("workers, the same on Spot", f"${workers(prices.SPOT):.2f}"),
        Row("all together, on demand", f"${total + workers():.2f}"),
        Row("  EventBridge Scheduler", "$1.00", note="peer: only the trigger, beyond 14 M a month, within 60 s"),
        Row("  Step Functions, 5 transitions", "$125.00", note="peer"),
        Row("  a Fargate task for each run", f"${tasks():.2f}", note="peer: a quarter vCPU, 60 s at least, with IPv4"),
    ]
    data = {"plain": plain_run, "total": total, "others": others, "month": flat_month(), "workers": workers()}
    return Result(
        f"Cost of a million runs (list prices of us-east-1, {prices.READ_AT}; logs and metrics apart)", rows, data
    )
