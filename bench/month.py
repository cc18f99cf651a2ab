"""What a month costs: each thing that AWS bills, how much of it, at list price with and without what is always free.

Counts come from `bench/counts.json`, prices from `bench/price_list.py`; what is neither is in `Assumptions`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench import price_list as prices
from bench.price_list import Price
from clawjob.domain.metrics import Metric

HOURS: Final = 730.0
MINUTES: Final = HOURS * 60
SECONDS: Final = MINUTES * 60
_GB: Final = 1024.0**3


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is not counted."""

    run_seconds: float = 30.0
    busy: float = 0.7
    """Share of a worker's slots in use, where there is more than one worker's work."""
    retried: float = 0.02
    """Share of the runs that need a second attempt."""
    output_bytes: float = 20_000.0
    """Output of a run that goes to CloudWatch Logs."""
    requests: float = 10_000.0
    """Requests to the API in a month with runs."""
    tick_seconds: float = 1.0
    results_seconds: float = 0.2
    api_seconds: float = 0.1
    authorizer_seconds: float = 0.05
    count_seconds: float = 2.0
    platform_log_bytes: float = 350.0
    """Lambda's own lines of a call, and the gateway's of a request."""
    kept_months: float = 1.0
    image_gb: float = 0.2
    pollers: float = 5.0
    """Long polls that Lambda keeps open at an empty queue."""
    poll_seconds: float = 20.0
    worker_poll_seconds: float = 1.0
    transitions: float = 5.0
    """Of a state machine that starts one task, waits for it and tries again."""
    task_vcpu: float = 0.25
    task_gb: float = 0.5
    task_start_seconds: float = 20.0
    """From the pull of the image until the crawler runs."""
    nights: float = 30.4
    idle_hours: float = 0.3
    """Of the last worker before it is ended, and of its start."""


ASSUMED: Final = Assumptions()


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a bill."""

    what: str
    price: Price
    amount: float
    how: str = ""

    @property
    def dollars(self) -> float:
        """At list price."""
        return self.amount * self.price.each


@dataclass(frozen=True, slots=True)
class Bill:
    """A month."""

    lines: Sequence[Line]

    @property
    def dollars(self) -> float:
        """At list price."""
        return sum(line.dollars for line in self.lines)

    def paid(self) -> list[float]:
        """Dollars of each line after what is free; lines of one price share that, the first ones first."""
        left = {line.price.what: line.price.free for line in self.lines}
        found = []
        for line in self.lines:
            free = min(left[line.price.what], line.amount)
            left[line.price.what] -= free
            found.append((line.amount - free) * line.price.each)
        return found

    @property
    def dollars_paid(self) -> float:
        """After what is free."""
        return sum(self.paid())


def month(counts: Mapping[str, Any], stage: str, runs: float = 0.0, *, workers: float | None = None) -> Bill:
    """Make the bill of a stage.

    Args:
        counts: what was counted.
        stage: whose stack it is.
        runs: of the month, spread evenly.
        workers: that run all month; None: as many as the runs need.
    """
    stack = counts["stacks"][stage]
    needed = workers_for(counts, stage, runs) if workers is None else workers
    lines = [
        *_ticks(counts, stack),
        *_monitoring(counts, stack, runs, needed),
        *_polls(stack, needed),
        Line("ECR: image of the workers", prices.IMAGES, ASSUMED.image_gb, "one of 200 MB"),
        Line("S3: big logs and outputs", prices.OBJECTS, 0.0, "nothing is stored unless crawlers do"),
    ]
    if runs:
        lines += _of_runs(counts, stack, runs, needed)
    lines += _fargate(stack, needed)
    return Bill(lines)


def workers_for(counts: Mapping[str, Any], stage: str, runs: float) -> float:
    """How many workers runs need that are spread evenly over the month: one at least, for it never is idle for long."""
    stack = counts["stacks"][stage]
    (pool,), (minimum,) = stack["pools"], stack["minimum_workers"]
    if not runs:
        return float(minimum)
    return max(1.0, runs * ASSUMED.run_seconds / float(pool["slots"]) / ASSUMED.busy / SECONDS)


def nightly_workers(counts: Mapping[str, Any], stage: str, runs: float) -> float:
    """The same where all runs of a day come at once and the pool has a minimum of 0, so that workers end after them."""
    (pool,) = counts["stacks"][stage]["pools"]
    busy = runs * ASSUMED.run_seconds / float(pool["slots"]) / ASSUMED.busy / 3600
    return (busy + ASSUMED.nights * ASSUMED.idle_hours) / HOURS


def break_even(counts: Mapping[str, Any], stage: str) -> int:
    """From how many thousand runs a month on a task for each run costs more."""
    return next(
        thousands
        for thousands in range(1, 10_000)
        if month(counts, stage, thousands * 1e3).dollars_paid < scheduler_and_task(thousands * 1e3).dollars_paid
    )


def scheduler_and_task(runs: float) -> Bill:
    """The same runs as a schedule of EventBridge Scheduler each, which starts a Fargate task for each run."""
    return Bill([Line("EventBridge Scheduler", prices.TRIGGER, runs), *_tasks(runs)])


def state_machine_and_task(runs: float) -> Bill:
    """The same, with a state machine for each run, which starts its task, waits and tries again."""
    transitions = runs * ASSUMED.transitions
    return Bill(
        [
            Line("EventBridge Scheduler", prices.TRIGGER, runs),
            Line("Step Functions", prices.TRANSITION, transitions, f"{ASSUMED.transitions:g} transitions for each run"),
            *_tasks(runs),
        ]
    )


def _tasks(runs: float) -> list[Line]:
    seconds = max(prices.FARGATE_LEAST_SECONDS, ASSUMED.run_seconds + ASSUMED.task_start_seconds)
    hours = runs * (1 + ASSUMED.retried) * seconds / 3600
    return [
        Line("Fargate: processor of a task for each run", prices.VCPU, hours * ASSUMED.task_vcpu),
        Line("Fargate: memory of a task for each run", prices.MEMORY, hours * ASSUMED.task_gb),
        Line("public IPv4 of a task for each run", prices.IPV4, hours),
        Line("Logs: the runs' output", prices.LOGS, runs * ASSUMED.output_bytes / _GB),
        Line("Logs: kept", prices.LOGS_KEPT, runs * ASSUMED.output_bytes / _GB * ASSUMED.kept_months),
    ]


def _call(what: str, memory_mib: float, calls: float, seconds: float, how: str) -> list[Line]:
    time = calls * seconds * memory_mib / 1024
    return [
        Line(f"Lambda: {what}, calls", prices.LAMBDA_CALL, calls, how),
        Line(f"Lambda: {what}, time", prices.LAMBDA_TIME, time, f"{seconds:g} s of {memory_mib} MB each"),
    ]


def _ticks(counts: Mapping[str, Any], stack: Mapping[str, Any]) -> list[Line]:
    tick, hourly, memory = counts["tick"], counts["hourly_count"], stack["memory_mib"]["scheduler"]
    reads = MINUTES * tick["reads"] + HOURS * hourly["reads"]
    tick_bytes = counts["logs"]["tick"]["bytes"] + ASSUMED.platform_log_bytes
    count_bytes = counts["logs"]["count"]["bytes"] + ASSUMED.platform_log_bytes
    return [
        Line("EventBridge: ticks and hourly counts", prices.RULE, MINUTES + HOURS),
        Line("DynamoDB: ticks, reads", prices.READ, reads, f"{tick['reads']:g} units a tick, 16 shards are asked"),
        Line("DynamoDB: ticks, writes", prices.WRITE, MINUTES * tick["writes"], "what the last tick did"),
        *_call("scheduler", memory, MINUTES, ASSUMED.tick_seconds, "one a minute"),
        *_call("scheduler's count", memory, HOURS, ASSUMED.count_seconds, "one an hour"),
        Line("Logs: scheduler", prices.LOGS, (MINUTES * tick_bytes + HOURS * count_bytes) / _GB),
    ]


def _monitoring(counts: Mapping[str, Any], stack: Mapping[str, Any], runs: float, workers: float) -> list[Line]:
    if not stack["dashboards"]:
        return []
    idle = counts["logs"]["tick"]["metrics"] + counts["logs"]["count"]["metrics"]
    if runs:
        metrics, how = float(len(Metric)), "all, of one pool"
    elif workers:
        metrics, how = idle + counts["logs"]["worker"]["metrics"], "the scheduler's and the workers'"
    else:
        metrics, how = float(idle), "only the scheduler's are written, and billed"
    return [
        Line("CloudWatch: our metrics", prices.METRIC, metrics, how),
        Line("CloudWatch: alarms", prices.ALARM, stack["alarm_metrics"], f"metrics in {stack['alarms']} alarms"),
        Line("CloudWatch: dashboard", prices.DASHBOARD, stack["dashboards"]),
    ]


def _polls(stack: Mapping[str, Any], workers: float) -> list[Line]:
    empties = stack["feeds"] * ASSUMED.pollers * SECONDS / ASSUMED.poll_seconds
    lines = [
        Line(
            "SQS: Lambda's polls of the results queue",
            prices.SQS,
            empties,
            f"{ASSUMED.pollers:g} at once, each of {ASSUMED.poll_seconds:g} s",
        )
    ]
    if workers:
        polls = workers * SECONDS / ASSUMED.worker_poll_seconds
        lines.append(Line("SQS: workers' polls of the run queues", prices.SQS, polls, "one a second from each"))
    return lines


def _of_runs(counts: Mapping[str, Any], stack: Mapping[str, Any], runs: float, workers: float) -> list[Line]:
    keep = ASSUMED.run_seconds // 30

    def total(key: str) -> float:
        once, again, renewal = counts["run"][key], counts["retry"][key], counts["renewal"][key]
        return runs * float(once + ASSUMED.retried * again + keep * renewal)

    memory, logs = stack["memory_mib"], counts["logs"]
    attempts = total("results_calls")
    on_run_queues = total("run_queue_requests")
    stored = runs * counts["stored_bytes"] * ASSUMED.kept_months / _GB
    output = runs * ASSUMED.output_bytes / _GB
    log_bytes = attempts * (logs["results"]["bytes"] + ASSUMED.platform_log_bytes + logs["worker"]["run_bytes"])
    log_bytes += ASSUMED.requests * (logs["api"]["bytes"] + 3 * ASSUMED.platform_log_bytes)
    log_bytes += MINUTES * logs["worker"]["minute_bytes"] * workers
    return [
        Line("DynamoDB: runs, writes", prices.WRITE, total("writes"), f"{total('writes') / runs:.1f} units a run"),
        Line("DynamoDB: runs, reads", prices.READ, total("reads"), f"{total('reads') / runs:.1f} units a run"),
        Line("DynamoDB: storage", prices.STORED, stored, "runs of a month"),
        Line("DynamoDB: point-in-time recovery", prices.RESTORE, stored),
        Line("SQS: run queues", prices.SQS, on_run_queues, f"{on_run_queues / runs:.1f} requests a run"),
        Line("SQS: run queues are fair, on top", prices.FAIR, on_run_queues),
        Line("SQS: results queue", prices.SQS, total("results_queue_requests")),
        *_call("results", memory["results"], attempts, ASSUMED.results_seconds, "one for each attempt at most"),
        *_call("API", memory["api"], ASSUMED.requests, ASSUMED.api_seconds, "one for each request"),
        *_call("authorizer", memory["authorizer"], ASSUMED.requests, ASSUMED.authorizer_seconds, "the same, at most"),
        Line("API Gateway", prices.GATEWAY, ASSUMED.requests),
        Line("Logs: functions, gateway, workers", prices.LOGS, log_bytes / _GB),
        Line("Logs: the runs' output", prices.LOGS, output, f"{ASSUMED.output_bytes / 1000:g} KB a run"),
        Line("Logs: kept", prices.LOGS_KEPT, (output + log_bytes / _GB) * ASSUMED.kept_months),
    ]


def _fargate(stack: Mapping[str, Any], workers: float) -> list[Line]:
    (pool,) = stack["pools"]
    hours = workers * HOURS
    many = f"{workers:.3g} worker{'' if workers == 1 else 's'}"
    how = f"{many} of {pool['vcpu']:g} vCPU, {pool['gb']:g} GB, {pool['slots']} slots"
    return [
        Line("Fargate: processor", prices.VCPU, hours * pool["vcpu"], how),
        Line("Fargate: memory", prices.MEMORY, hours * pool["gb"]),
        Line("public IPv4 of workers", prices.IPV4, hours),
    ]


def fargate_dollars(lines: Iterable[Line]) -> float:
    """What Spot may make cheaper."""
    return sum(line.dollars for line in lines if line.price in {prices.VCPU, prices.MEMORY})
