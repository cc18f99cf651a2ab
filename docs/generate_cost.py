"""Writes docs/cost.md, and the costs in docs/metrics.md, from the price list and what the bench counted."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from bench import price_list as prices
from bench.counts import read_counts
from bench.month import (
    ASSUMED,
    HOURS,
    Bill,
    break_even,
    fargate_dollars,
    month,
    nightly_workers,
    scheduler_and_task,
    state_machine_and_task,
)
from clawjob.domain.metrics import Metric

PAGE = Path(__file__).with_name("cost.md")
METRICS = Path(__file__).with_name("metrics.md")
BEGIN, END = "<!-- cost: begin -->", "<!-- cost: end -->"
FEW, MANY = 1e4, 1e6

_TEMPLATE = """# What it costs

Made by `make docs` from AWS's list prices of {region} ({read_at}, [below](#prices)), what `tests/cost` counts of runs and ticks, and what the stack
consists of (`bench/counts.json`; `python -m bench.counts` counts anew). Dollars a month of {hours:g} hours, without taxes. Not in it: what crawlers
load and send, what they store themselves, mails, and the account's other use of what is free.

| | list price | with what is always free |
|---|---|---|
{summary}

## Idle

Stage `dev`: nothing runs, and its pools have a minimum of 0 workers.

{dev}

Metrics and alarms are nearly all of it. `-c monitoring=false` leaves {bare} of list price.

Stage `prod`: one worker waits, on demand, and with it come its polls and metrics.

{prod}

## With runs

Runs of {run_seconds:g} s, one after another all month, one pool of workers with {slots} slots, on demand, stage `prod`. A worker's slots are {busy:.0%} busy
where there is work for more than one; with less work one worker is there all the time, for it is ended only after 15 idle minutes. {requests:,.0f} requests to
the API.

What costs the same without runs and workers is one line.

### 10,000 runs

{few}

### 1,000,000 runs

{many}

On Spot, processor and memory cost {spot:.0%} at best: {many_spot} instead of {many_fargate} of this.

## Compared

The same runs started by others: by EventBridge Scheduler, each in a Fargate task of its own ({task_vcpu:g} vCPU, {task_gb:g} GB, about what a slot has here), which
takes {task_start:g} s to start and is billed for {least} s at least; and the same with a state machine around each task ({transitions:g} transitions), for retries and
a view of what runs. Neither has anything else of what is watched here: no alarms, no dashboard, no overlap, no list of runs.

| runs a month | clawjob | clawjob, all runs of a day at once, minimum 0 | Scheduler and a task each | Step Functions and a task each |
|---|---|---|---|---|
{compared}

All with what is always free. Few runs that are spread over the day are cheaper in tasks of their own: one waiting worker costs more than they do. From about
{break_even:,} runs a month on it is the other way round; runs that come together are cheaper here much earlier, where a minimum of 0 lets workers end.

## Assumed

What is neither counted nor a price, in `bench/month.py`:

| what | value |
|---|---|
{assumed}

Lambda keeps five long polls of 20 s at an empty queue, [says AWS](https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html); fewer only where no
maximum of calls at once is set, as it is here. Times of functions are guesses on the safe side: ours are measured on a machine, not in Lambda.

## Prices

{region}, {read_at}. "Always free" is a month's share that no account pays; what is free only in an account's first year is not counted.

| what | price | per | always free | source |
|---|---|---|---|---|
{prices}
"""  # noqa: E501 - lines of the page


def page() -> str:
    """Return docs/cost.md as it should be."""
    counts = read_counts()
    dev, prod, alone = month(counts, "dev"), month(counts, "prod"), month(counts, "prod", workers=0)
    few, many = month(counts, "prod", FEW), month(counts, "prod", MANY)
    bills = {"idle, stage `dev`": dev, "idle, stage `prod`": prod, "10,000 runs": few, "1,000,000 runs": many}
    fargate = fargate_dollars(many.lines)
    watched = sum(line.dollars for line in dev.lines if line.what.startswith("CloudWatch: "))
    (pool,) = counts["stacks"]["prod"]["pools"]
    return _TEMPLATE.format(
        region=prices.REGION,
        read_at=prices.READ_AT,
        hours=HOURS,
        summary=_rows([name, _dollars(bill.dollars), _dollars(bill.dollars_paid)] for name, bill in bills.items()),
        dev=_bill(dev),
        bare=_dollars(dev.dollars - watched),
        prod=_bill(prod),
        run_seconds=ASSUMED.run_seconds,
        slots=pool["slots"],
        busy=ASSUMED.busy,
        requests=ASSUMED.requests,
        few=_bill(few, alone),
        many=_bill(many, alone),
        spot=prices.SPOT,
        many_spot=_dollars(fargate * prices.SPOT),
        many_fargate=_dollars(fargate),
        task_vcpu=ASSUMED.task_vcpu,
        task_gb=ASSUMED.task_gb,
        task_start=ASSUMED.task_start_seconds,
        least=prices.FARGATE_LEAST_SECONDS,
        transitions=ASSUMED.transitions,
        compared=_rows(_compared(counts, runs) for runs in (FEW, 1e5, MANY)),
        break_even=break_even(counts, "prod") * 1000,
        assumed=_rows([one.name.replace("_", " "), f"{getattr(ASSUMED, one.name):g}"] for one in fields(ASSUMED)),
        prices=_rows(_price(one) for one in prices.PRICES),
    )


def with_costs(text: str) -> str:
    """Return docs/metrics.md with its costs as they should be."""
    stack = read_counts()["stacks"]["dev"]
    by_pool = sum(one.definition.by_pool for one in Metric)
    rows = (
        (f"metrics of the service: {len(Metric) - by_pool} + {by_pool} for each pool", len(Metric), prices.METRIC),
        (
            f"metrics in {stack['alarms']} alarms, those that scale a pool included",
            stack["alarm_metrics"],
            prices.ALARM,
        ),
        ("dashboard", stack["dashboards"], prices.DASHBOARD),
    )
    table = _rows(
        [what, str(count), f"${one.dollars:.2f}, the first {one.free:g} of an account free", f"{count * one.each:.2f}"]
        for what, count, one in rows
    )
    head = "| item, all written, one pool | count | price | cost |\n|---|---|---|---|"
    begin, rest = text.split(BEGIN)
    return f"{begin}{BEGIN}\n\n{head}\n{table}\n\n{END}{rest.split(END)[1]}"


def _bill(bill: Bill, idle: Bill | None = None) -> str:
    """Write a table; lines that are those of an idle month too are added up."""
    head = "| | how much | list price | with what is always free | |\n|---|---|---|---|---|\n"
    known = set(idle.lines) if idle else set()
    both = list(zip(bill.lines, bill.paid(), strict=True))
    lines = [
        [line.what, f"{_amount(line.amount)} {_unit(line.price)}", _dollars(line.dollars), _dollars(paid), line.how]
        for line, paid in both
        if line not in known
    ]
    if known:
        dollars = sum(line.dollars for line, _ in both if line in known)
        free = sum(paid for line, paid in both if line in known)
        lines.insert(
            0,
            [
                "without runs and workers: ticks, alarms, dashboard, Lambda's polls",
                "",
                _dollars(dollars),
                _dollars(free),
                "",
            ],
        )
    total = ["**together**", "", f"**{_dollars(bill.dollars)}**", f"**{_dollars(bill.dollars_paid)}**", ""]
    return head + _rows([*lines, total])


def _compared(counts: dict[str, Any], runs: float) -> list[str]:
    nightly = month(counts, "dev", runs, workers=nightly_workers(counts, "dev", runs))
    others = (scheduler_and_task(runs), state_machine_and_task(runs))
    bills = (month(counts, "prod", runs), nightly, *others)
    return [f"{runs:,.0f}", *(_dollars(bill.dollars_paid) for bill in bills)]


def _price(one: prices.Price) -> list[str]:
    free = _amount(one.free) if one.free else ""
    return [one.what, f"${one.dollars:.10f}".rstrip("0").rstrip("."), one.per, free, one.source]


def _rows(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _dollars(dollars: float) -> str:
    return f"${dollars:,.2f}"


def _amount(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 or amount == int(amount) else f"{amount:.3g}"


def _unit(price: prices.Price) -> str:
    """The unit that a price is for, of more than one."""
    unit = price.per.removeprefix("million").strip() or "requests"
    if price.what == prices.LAMBDA_CALL.what:
        unit = "calls"
    return {"GB-second": "GB-seconds", "hour": "hours", "metric": "metrics", "dashboard": "dashboard"}.get(
        unit, unit.replace("-hour", "-hours").replace("metric that it watches", "metrics")
    )


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    METRICS.write_text(with_costs(METRICS.read_text("utf-8")), "utf-8")
    sys.stdout.write(f"{PAGE.name} and {METRICS.name} written\n")
