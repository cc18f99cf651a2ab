"""What a measure gives, as a table for people and as JSON."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

from rich.console import Console
from rich.table import Table

RESULTS: Final = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """One figure."""

    what: str
    figure: str
    goal: str = ""
    met: bool | None = None
    """Whether the goal is met; None where there is none."""
    note: str = ""


@dataclass(frozen=True)
class Result:
    """What one measure gave."""

    title: str
    rows: Sequence[Row]
    data: dict[str, Any] = field(default_factory=dict)
    """The same as numbers."""

    @property
    def missed(self) -> list[Row]:
        """Rows whose goal is missed."""
        return [row for row in self.rows if row.met is False]


def percentile(values: Sequence[float], percent: int) -> float:
    """Value below which so many percent lie, interpolated."""
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def machine() -> dict[str, Any]:
    """Say what kind of machine this is, without its name or paths."""
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return {
        "cpus": os.cpu_count(),
        "processor": model or platform.machine(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def print_result(console: Console, result: Result) -> None:
    """Print a measure's table."""
    table = Table(title=result.title, title_justify="left", title_style="bold", expand=False)
    for column in ("what", "figure", "goal", "remark"):
        table.add_column(column, justify="right" if column == "figure" else "left", overflow="fold")
    for row in result.rows:
        goal = row.goal
        if row.met is not None:
            goal += " [green]met[/green]" if row.met else " [bold red]MISSED[/bold red]"
        table.add_row(row.what, row.figure, goal, row.note)
    console.print(table)


def write_json(results: dict[str, Result], seconds: dict[str, float]) -> Path:
    """Write all figures; returns where."""
    RESULTS.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    content = {
        "at": now.isoformat(timespec="seconds"),
        "machine": machine(),
        "measures": {
            name: {
                "title": result.title,
                "seconds": round(seconds[name], 1),
                "rows": [asdict(row) for row in result.rows],
                "data": result.data,
            }
            for name, result in results.items()
        },
    }
    path = RESULTS / f"{now:%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path
