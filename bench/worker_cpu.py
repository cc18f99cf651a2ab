"""CPU of the worker for each run of /bin/true, above a bare loop that spawns it; AWS's answers canned.

Counted are the worker, its wardens and the children, in whole; the bare loop's CPU with its children is subtracted.
"""

import subprocess
from typing import Final

from bench.report import Result, Row
from bench.worker_load import LoadedWorker, canned_worker, children_cpu, settle

GOAL: Final = 4.0
_ROUNDS: Final = 5
_RUNS: Final = 200
_TRUE: Final = "/bin/true"
PEERS: Final = (("bare spawn of /bin/true", "0.70 ms"), ("Celery with /bin/true", "1.60 ms"), ("cron", "4.2 ms"))


def bare_ms() -> float:
    """CPU of a bare loop, for each child."""
    begun = children_cpu()
    for _ in range(_RUNS):
        subprocess.run([_TRUE], check=True)
    return (children_cpu() - begun) * 1000 / _RUNS


def worker_ms(worker: LoadedWorker) -> float:
    """CPU of the worker and all below it, for each run."""
    begun = worker.cpu_seconds()
    worker.execute(_RUNS)
    settle()
    return (worker.cpu_seconds() - begun) * 1000 / _RUNS


def measure() -> Result:
    """Take turns."""
    rows: list[Row] = []
    data: dict[str, object] = {}
    for slots in (5, 1):
        with canned_worker([_TRUE], slots=slots) as worker:
            worker.execute(20 * slots)
            pairs = [(worker_ms(worker), bare_ms()) for _ in range(_ROUNDS)]
        own = min(ours for ours, _ in pairs) - min(bare for _, bare in pairs)
        rows.append(
            Row(
                f"per run, {slots} slot{'s' if slots > 1 else ''}",
                f"{own:.2f} ms",
                f"<= {GOAL:g} ms",
                own <= GOAL,
                f"{min(o for o, _ in pairs):.2f} ms in all, a bare spawn {min(b for _, b in pairs):.2f} ms",
            )
        )
        data[f"{slots}_slots"] = {"own_ms": own, "pairs": pairs}
    rows += [Row(f"  {name}", figure, note="peer, in all") for name, figure in PEERS]
    return Result(
        f"The worker's own CPU for each run of /bin/true, answers canned, least of {_ROUNDS} rounds", rows, data
    )
