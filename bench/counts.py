"""What costs are computed from, counted: units, calls and log bytes of runs and ticks, and what the stack consists of.

`python -m bench.counts` counts anew (half a minute) and writes `bench/counts.json`; tests count again and compare.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from bench.account import use_no_account
from bench.life import EVENT_SOURCE, SETTLE, Cost, Life, one_retry, plain, ten_minutes
from bench.stage import stage

FILE: Final = Path(__file__).with_name("counts.json")
STAGES: Final = ("dev", "prod")
_RENEWALS: Final = 20
_RESULTS: Final = {(EVENT_SOURCE, "ReceiveMessage"), (EVENT_SOURCE, "DeleteMessage"), ("work", "SendMessage")}
_QUEUE_CALLS: Final = re.compile("SendMessage|SendMessageBatch|ReceiveMessage|DeleteMessage|ChangeMessageVisibility")
ROOT: Final = Path(__file__).parents[1]


def read_counts() -> dict[str, Any]:
    """What was counted last."""
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


def count_runs() -> dict[str, Any]:
    """Count what a run, a retry, a renewal of a lease, a tick and the hourly count take."""
    once, long, again = plain(), ten_minutes(), one_retry()
    return {
        "run": _of(once),
        "retry": _less(_of(again), _of(once)),
        "renewal": {key: value / _RENEWALS for key, value in _less(_of(long), _of(once)).items()},
        "tick": _idle_tick(),
        "hourly_count": _hourly_count(),
        "stored_bytes": sum(once.sizes.values()),
    }


def count_logs() -> dict[str, Any]:
    """Count log bytes and metrics of each function's call, in a process of their own."""
    command = [sys.executable, "-m", "bench.log_volume"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def count_stack(template: Mapping[str, Any]) -> dict[str, Any]:
    """Count what is paid for in a synthesized stack."""

    def of(kind: str) -> list[Mapping[str, Any]]:
        return [one["Properties"] for one in template["Resources"].values() if one["Type"] == kind]

    alarms = of("AWS::CloudWatch::Alarm")
    return {
        "alarms": len(alarms),
        "alarm_metrics": sum(_watched(one) for one in alarms),
        "dashboards": len(of("AWS::CloudWatch::Dashboard")),
        "queues": len(of("AWS::SQS::Queue")),
        "feeds": len(of("AWS::Lambda::EventSourceMapping")),
        "memory_mib": _memories(of("AWS::Lambda::Function")),
        "pools": [
            {
                "slots": int(_variable(task, "CLAWJOB_SLOTS")),
                "vcpu": int(task["Cpu"]) / 1024,
                "gb": int(task["Memory"]) / 1024,
            }
            for task in of("AWS::ECS::TaskDefinition")
        ],
        "minimum_workers": [_number(one["MinCapacity"]) for one in of("AWS::ApplicationAutoScaling::ScalableTarget")],
    }


def synthesize(stage_name: str) -> dict[str, Any]:
    """Make the template of a built-in stage."""
    from aws_cdk import App

    from infra.config import stage_config
    from infra.stack import ClawjobStack

    kept = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"]
    with tempfile.TemporaryDirectory() as folder:
        stack = ClawjobStack(app := App(outdir=folder, context=kept), stage_config({**kept, "stage": stage_name}))
        template: dict[str, Any] = app.synth().get_stack_by_name(stack.stack_name).template
    return template


def _of(cost: Cost) -> dict[str, float]:
    queue_calls = {key: count for key, count in cost.calls.items() if _QUEUE_CALLS.fullmatch(key[1])}
    of_results = sum(count for key, count in queue_calls.items() if key in _RESULTS)
    return {
        "writes": cost.writes,
        "reads": cost.reads,
        "run_queue_requests": (sum(queue_calls.values()) - of_results) / cost.runs,
        "results_queue_requests": of_results / cost.runs,
        "results_calls": cost.calls["work", "SendMessage"] / cost.runs,
    }


def _less(more: Mapping[str, float], less: Mapping[str, float]) -> dict[str, float]:
    return {key: value - less[key] for key, value in more.items()}


def _idle_tick() -> dict[str, float]:
    with stage() as on:
        life = Life(on)
        life.tick()
        on.advance(timedelta(minutes=1))
        on.meter.clear()
        life.tick()
        return {"writes": _sum(c.writes for c in on.meter.charges), "reads": _sum(c.reads for c in on.meter.charges)}


def _hourly_count() -> dict[str, float]:
    with stage() as on:
        with on.meter.during(SETTLE):
            on.context.jobs.count_active()
        return {"reads": _sum(c.reads for c in on.meter.charges)}


def _sum(numbers: Iterable[float]) -> float:
    return float(sum(numbers))


def _watched(alarm: Mapping[str, Any]) -> int:
    return sum("MetricStat" in one for one in alarm["Metrics"]) if "Metrics" in alarm else 1


def _memories(functions: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    found = {}
    for one in functions:
        name = re.fullmatch(r"functions\.(\w+)\.handler\.handler", one["Handler"])
        if name:
            found[name[1]] = int(one["MemorySize"])
    return dict(sorted(found.items()))


def _variable(task: Mapping[str, Any], name: str) -> str:
    (container,) = task["ContainerDefinitions"]
    return next(str(one["Value"]) for one in container["Environment"] if one["Name"] == name)


def _number(value: Any) -> int:
    """A number, or the one that holds when there is an image."""
    return int(value["Fn::If"][1] if isinstance(value, Mapping) else value)


def main() -> None:
    """Count everything."""
    use_no_account()
    counts = {
        **count_runs(),
        "logs": count_logs(),
        "stacks": {name: count_stack(synthesize(name)) for name in STAGES},
    }
    FILE.write_text(json.dumps(counts, indent=1) + "\n", "utf-8")
    sys.stdout.write(f"written to {FILE.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
