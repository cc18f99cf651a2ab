"""`python -m bench` runs all measures; `--only NAME` one of them, and can be given again."""

import argparse
import importlib
import logging
import sys
import time
from typing import Final

from rich.console import Console

from bench.account import use_no_account
from bench.report import Result, print_result, write_json

MEASURES: Final = {
    "units": "bench.units",
    "price": "bench.price",
    "imports": "bench.imports",
    "scheduler": "bench.scheduler_cpu",
    "worker": "bench.worker_cpu",
    "memory": "bench.memory",
    "crawl": "bench.crawl",
    "lateness": "bench.lateness",
    "tick": "bench.tick_growth",
}


def main() -> int:
    """Run, print, write; a goal that is missed is said and is no error."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures what clawjob costs.")
    parser.add_argument("--only", action="append", choices=MEASURES, help="run only this measure; may be repeated")
    chosen = parser.parse_args().only or list(MEASURES)
    use_no_account()
    logging.disable(logging.WARNING)
    # Wide enough for a file, too.
    console = Console() if sys.stdout.isatty() else Console(width=150)
    results: dict[str, Result] = {}
    seconds: dict[str, float] = {}
    for name in chosen:
        begun = time.monotonic()
        results[name] = importlib.import_module(MEASURES[name]).measure()
        seconds[name] = time.monotonic() - begun
        print_result(console, results[name])
    missed = [(name, row) for name, result in results.items() for row in result.missed]
    for name, row in missed:
        console.print(f"[bold red]Goal missed[/bold red]: {name}: {row.what}: {row.figure} (goal {row.goal})")
    if not missed:
        console.print("Every goal is met.")
    console.print(f"Written to bench/results/{write_json(results, seconds).name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
