"""How the demo looks: a line of time, who and what for each step, and a table at the end."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from clawjob.dev.demo_jobs import BOOKS, FLAKY, STUCK
from clawjob.dev.demo_news import in_words, lateness

_COLOURS: Final = {BOOKS: "cyan", FLAKY: "yellow", STUCK: "magenta"}
_STATES: Final = {"SUCCEEDED": "green", "TIMED_OUT": "red"}
_WIDEST: Final = 110


class Screen:
    """Writes to the terminal; every step carries the seconds since the demo began."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=False)
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long the demo has run."""
        return time.monotonic() - self._begun

    def heading(self, text: str) -> None:
        """Write a line that stands out."""
        self.console.print(Text(text, style="bold"), width=self._width)

    def say(self, text: str, style: str = "") -> None:
        """Write a paragraph."""
        self.console.print(Text(text, style=style), width=self._width)

    def step(self, who: str, text: str, style: str = "") -> None:
        """Write what just happened, and to whom."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(justify="right", width=6, style="dim")
        grid.add_column(width=5, style=_COLOURS.get(who, "bold"))
        grid.add_column(overflow="fold")
        grid.add_row(f"{self.seconds:.1f} s", who, Text(text, style=style))
        self.console.print(grid, width=self._width)

    def table(self, runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Write the table of all runs."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for name, justify in (
            ("job", "left"),
            ("scheduled", "left"),
            ("started", "left"),
            ("late", "right"),
            ("attempts", "left"),
            ("outcome", "left"),
            ("items", "right"),
        ):
            table.add_column(name, justify=justify, no_wrap=name != "attempts")  # type: ignore[arg-type]  # literals above
        for job in (BOOKS, FLAKY, STUCK):
            for run in runs[job]:
                table.add_row(*_cells(run))
        self.console.print(table, width=self._width)

    @property
    def _width(self) -> int:
        return min(self.console.width, _WIDEST)


def _cells(run: Mapping[str, Any]) -> tuple[str | Text, ...]:
    late = lateness(run)
    attempts = ", ".join(_attempt(one) for one in run["attempts"])
    return (
        Text(run["job"], style=_COLOURS.get(run["job"], "")),
        run["scheduled_at"][11:19] if run["kind"] == "scheduled" else "by hand",
        run["attempts"][0]["started_at"][11:19] if run["attempts"] else "",
        in_words(late) if late is not None else "",
        f"{len(run['attempts'])}: {attempts}",
        Text(run["state"], style=_STATES.get(run["state"], "yellow")),
        "" if run["items"] is None else str(run["items"]),
    )


def _attempt(attempt: Mapping[str, Any]) -> str:
    outcome = str(attempt["outcome"]).replace("_", " ")
    return f"{outcome} ({attempt['exit_code']})" if outcome == "failed" else outcome
