"""CPU of importing the functions' handlers, against `import boto3`: a cold start pays it. Interleaved, medians."""

import subprocess
import sys
from statistics import median
from typing import Final

from bench.report import Result, Row

GOALS: Final = {"scheduler": 1.7, "results": 1.7, "api": 2.2}
_ROUNDS: Final = 15
_TIMED: Final = "import time; begun = time.process_time(); import {module}; print(time.process_time() - begun, end='')"


def import_seconds(module: str) -> float:
    """CPU seconds that the import takes in a fresh process, its start left out."""
    done = subprocess.run([sys.executable, "-c", _TIMED.format(module=module)], capture_output=True, check=True)
    return float(done.stdout)


def measure() -> Result:
    """Import each in turn."""
    modules = {"boto3": "boto3", **{name: f"functions.{name}.handler" for name in GOALS}}
    spent: dict[str, list[float]] = {name: [] for name in modules}
    for module in modules.values():
        import_seconds(module)  # fills caches
    for _ in range(_ROUNDS):
        for name, module in modules.items():
            spent[name].append(import_seconds(module))
    bare = median(spent["boto3"])
    rows = [Row("import boto3", f"{bare * 1000:.0f} ms")]
    ratios = {}
    for name, goal in GOALS.items():
        # Pairs of one round share what else the machine did.
        ratios[name] = median(ours / theirs for ours, theirs in zip(spent[name], spent["boto3"], strict=True))
        rows.append(
            Row(
                f"{name} handler",
                f"{ratios[name]:.2f} times",
                f"<= {goal:g} times",
                ratios[name] <= goal,
                f"{median(spent[name]) * 1000:.0f} ms",
            )
        )
    return Result("Import of a function's handler against boto3", rows, {"seconds": spent, "ratios": ratios})
