"""Memory of an idle worker that has executed runs in all slots, and of its wardens."""

from typing import Final

import psutil

from bench.report import Result, Row
from bench.worker_load import canned_worker, settle

GOAL: Final = 60.0
_MIB: Final = 1024 * 1024
PEERS: Final = (
    ("Celery worker -c 2", "138 / 81"),
    ("Scrapyd", "63 / 57"),
    ("APScheduler", "42 / 41"),
    ("Airflow scheduler", "168 / 109"),
)


def measure() -> Result:
    """Read it after a while of work."""
    with canned_worker(["/bin/true"]) as worker:
        worker.execute(100)
        settle(1.0)
        figures = [(process.name(), _rss_and_pss(process)) for process in worker.processes()]
    (_, (rss, pss)), *wardens = figures
    rows = [
        Row("worker, RSS", f"{rss:.1f} MiB", f"<= {GOAL:g} MiB", rss <= GOAL),
        Row("worker, PSS", f"{pss:.1f} MiB"),
        Row(
            f"its {len(wardens)} wardens together, PSS",
            f"{sum(p for _, (_, p) in wardens):.1f} MiB",
            note=f"RSS {max((r for _, (r, _) in wardens), default=0):.1f} MiB at most, mostly shared",
        ),
        Row("all, PSS", f"{sum(p for _, (_, p) in figures):.1f} MiB"),
        *(Row(f"  {name}, RSS / PSS", figure, note="peer, MiB") for name, figure in PEERS),
    ]
    return Result("Memory of an idle worker with 5 slots, after 100 runs", rows, {"rss_pss_mib": figures})


def _rss_and_pss(process: psutil.Process) -> tuple[float, float]:
    full = process.memory_full_info()
    return full.rss / _MIB, full.pss / _MIB
