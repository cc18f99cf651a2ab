"""`scrapy crawl` through the worker against bare, pair by pair: the same spider, site and interpreter."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from bench.report import Result, Row
from bench.worker_load import canned_worker, children_cpu, settle

GOAL: Final = 0.01
_PAIRS: Final = 12
_PROJECT: Final = Path(__file__).parent.parent / "examples" / "bookshop"
_SITE: Final = Path(__file__).parent.parent / "examples" / "site.py"


@contextmanager
def _site() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, str(_SITE), "--seconds", "0"], stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None:
            raise RuntimeError("the site has no output")
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait()


def measure() -> Result:
    """Crawl in pairs."""
    with _site() as site:
        argv = [sys.executable, "-m", "scrapy", "crawl", "books", "-a", f"site={site}"]
        env = {"PYTHONPATH": str(_PROJECT), "SCRAPY_SETTINGS_MODULE": "bookshop.settings"}
        pairs = []
        with canned_worker(argv, env, slots=1) as worker:
            worker.execute(1)
            for number in range(_PAIRS):
                # In turn, so that neither always comes first.
                if number % 2:
                    bare = _bare(argv, env)
                cpu = worker.cpu_seconds()
                (wall,) = worker.execute(1)
                settle(0.1)
                ours = worker.cpu_seconds() - cpu, wall
                if not number % 2:
                    bare = _bare(argv, env)
                pairs.append((ours, bare))
    cpu_ratio = sum(ours[0] for ours, _ in pairs) / sum(bare[0] for _, bare in pairs) - 1
    wall_ratios = [ours[1] / bare[1] - 1 for ours, bare in pairs]
    low, middle, high = quantiles(wall_ratios, n=4)
    bare_cpu = median(bare[0] for _, bare in pairs)
    rows = [
        Row("CPU more than bare, all pairs", f"{cpu_ratio:+.1%}", f"<= {GOAL:.0%}", cpu_ratio <= GOAL),
        Row("bare crawl, CPU", f"{bare_cpu * 1000:.0f} ms", note=f"{_PAIRS} pairs"),
        Row("time more than bare, median of pairs", f"{middle:+.1%}", note=f"middle half {low:+.1%} to {high:+.1%}"),
        Row("  bare scrapy crawl / through Scrapyd", "704 / 831 ms", note="peer, CPU"),
    ]
    data = {"pairs_cpu_and_seconds": pairs, "cpu_ratio": cpu_ratio, "wall_ratios": wall_ratios}
    return Result("`scrapy crawl` through the worker against bare", rows, data)


def _bare(argv: list[str], env: dict[str, str]) -> tuple[float, float]:
    """CPU and time of the crawl alone, in an environment as clean as the worker's."""
    environment = {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", **env}
    cpu, begun = children_cpu(), time.perf_counter()
    subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return children_cpu() - cpu, time.perf_counter() - begun
