"""What commands print: tables as wide as the terminal for people, JSON for programs.

Names, reasons and output come from jobs and their crawlers: nothing of it can act on a terminal. Colours appear on a
terminal only, and never with NO_COLOR.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from clawjob.runner.printable import printable_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDE: Final = 120
"""Columns from which a table shows everything."""
_BETWEEN: Final = 3
"""Columns of a terminal between two columns of a table."""
_LEAST: Final = 10
F = TypeVar("F", bound=Callable[..., Any])

_STYLES: Final = {
    "SUCCEEDED": "green",
    "RUNNING": "cyan",
    "RETRY_WAIT": "yellow",
    "FAILED": "red",
    "TIMED_OUT": "red",
    "LOST": "red",
    "CANCELLED": "magenta",
    "EXPIRED": "yellow",
    "SKIPPED": "yellow",
    "MISSED": "yellow",
    "paused": "yellow",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    title: str
    cell: Callable[[Mapping[str, Any]], object]
    wide: bool = False
    """Shown in wide terminals only."""
    right: bool = False
    may_be_cut: bool = False
    """Whether text that is too long ends in dots; otherwise it goes on in the next line."""


@dataclass(frozen=True, slots=True)
class Times:
    """How instants are shown."""

    utc: bool

    def text(self, instant: str | None) -> str:
        """Write an instant of the API: to the second, in the local zone or in UTC."""
        return "" if instant is None else f"{self._at(instant):%Y-%m-%d %H:%M:%S}"

    def long_text(self, instant: str | None) -> str:
        """The same with its zone."""
        return "" if instant is None else f"{self._at(instant):%Y-%m-%d %H:%M:%S %Z}"

    @property
    def zone(self) -> str:
        """The zone's name for a title."""
        return "UTC" if self.utc else "local"

    def _at(self, instant: str) -> datetime:
        read = datetime.fromisoformat(instant)
        return read.astimezone(UTC) if self.utc else read.astimezone()


def output_option(function: F) -> F:
    """Add `--output`."""
    return click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)(
        function
    )


def utc_option(function: F) -> F:
    """Add `--utc`."""
    return click.option("--utc", is_flag=True, help="Show times in UTC instead of the local zone.")(function)


def why_option(function: F) -> F:
    """Add `--why`."""
    return click.option("--why", default="", help="A reason, kept with the change.")(function)


def print_json(value: object) -> None:
    """Print JSON; everything outside of ASCII is escaped, so that it is harmless wherever it is read."""
    click.echo(json.dumps(value, indent=2))


def print_table(rows: Iterable[Mapping[str, Any]], columns: Sequence[Column], nothing: str) -> None:
    """Print a table, or a sentence when there are no rows."""
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    found = list(rows)
    if not found:
        click.echo(nothing)
        return
    console = _console()
    shown = [column for column in columns if console.width >= WIDE or not column.wide]
    cells = [[plain(column.cell(row)) for column in shown] for row in found]
    widths = [max(map(cell_len, [column.title, *texts])) for column, *texts in zip(shown, *cells, strict=True)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, width in zip(shown, widths, strict=True):
        # What may be cut gives way first: rich would break all the others for it.
        room = console.width - sum(widths) + width - _BETWEEN * len(shown)
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            overflow="ellipsis" if column.may_be_cut else "fold",
            no_wrap=column.may_be_cut,
            max_width=max(_LEAST, room) if column.may_be_cut else None,
        )
    for row_cells in cells:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row_cells))
    _print(console, table)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print labelled facts, one a line; those that are nothing are left out."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for label, value in facts:
        text = plain(value)
        if text:
            table.add_row(Text(label), Text(text, style=_STYLES.get(text, "")))
    _print(_console(), table)


def plain(value: object) -> str:
    """Write a value as one harmless line."""
    return "" if value is None else printable_line(value if isinstance(value, str) else str(value))


def seconds(value: float | None) -> str:
    """Write a duration for people: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`."""
    if value is None:
        return ""
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _print(console: "Console", table: "Table") -> None:
    with console.capture() as captured:
        console.print(table)
    lines = captured.get().splitlines()
    # Tables are padded to their full width, which is of no use in a file.
    click.echo("\n".join(line.rstrip() for line in lines).strip("\n"))


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False, emoji=False, markup=False, soft_wrap=False)
