"""`clawjob next`: when an expression fires, computed by the code that the scheduler uses."""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import cast

import click

from clawjob.cli.next_batch import DEFAULT_COUNT, MAX_COUNT, answer_lines, parse_instant
from clawjob.domain.errors import InvalidInputError
from clawjob.domain.instants import Clock, to_text
from clawjob.domain.schedule import Missing, Occurrence, Repeated, Schedule, ScheduleSpec

CLOCK = "clawjob.clock"
"""Key of the click context's `meta` under which a caller may put another Clock."""


@click.command("next")
@click.argument("expression", required=False)
@click.option("--timezone", default="UTC", show_default=True, help="IANA name of the job's zone.")
@click.option(
    "-n",
    "--count",
    type=click.IntRange(1, MAX_COUNT),
    default=DEFAULT_COUNT,
    show_default=True,
    help="How many times to show.",
)
@click.option("--after", help="Show the times after this instant, such as 2024-03-30T12:00:00Z.  [default: now]")
@click.option("--name", default="", help="The job's name, from which H draws.")
@click.option(
    "--missing",
    type=click.Choice([choice.value for choice in Missing]),
    default=Missing.SHIFT.value,
    show_default=True,
    help="A time of day that the clock jumps over: run after the jump, or not at all.",
)
@click.option(
    "--repeated",
    type=click.Choice([choice.value for choice in Repeated]),
    default=Repeated.FIRST.value,
    show_default=True,
    help="A time of day that comes twice: run at which of them.",
)
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--batch", is_flag=True, help='Answer JSON lines {"cron", "timezone", "after", "count", "name"}.')
@click.pass_context
def next_command(
    context: click.Context,
    /,
    expression: str | None,
    timezone: str,
    count: int,
    after: str | None,
    name: str,
    missing: str,
    repeated: str,
    output: str,
    *,
    batch: bool,
) -> None:
    """Show when a cron EXPRESSION fires.

    Times are shown in the job's zone and in UTC. Those that a daylight-saving
    change moved are marked, with the reason.

    Example: clawjob next '30 2 * * *' --timezone Europe/Berlin --count 5
    """
    clock = cast("Clock", context.meta.get(CLOCK, _system_clock))
    if batch:
        _refuse_with_batch(context)
        answer_lines(sys.stdin.buffer, sys.stdout.buffer, clock)
        return
    if expression is None:
        raise click.UsageError("Give an EXPRESSION such as '0 2 * * *', or --batch.")
    spec = ScheduleSpec(cron=expression, timezone=timezone, missing=Missing(missing), repeated=Repeated(repeated))
    try:
        start = clock() if after is None else parse_instant(after)
        schedule = Schedule(spec, name)
        schedule.validate(start)
    except InvalidInputError as error:
        raise click.UsageError("\n".join(str(problem) for problem in error.problems)) from error
    found = list(islice(schedule.after(start), count))
    if output == "json":
        click.echo(json.dumps(_document(schedule, start, found), indent=2))
    else:
        _print_table(schedule, start, found)


def _refuse_with_batch(context: click.Context) -> None:
    for name in ("expression", "timezone", "count", "after", "name", "missing", "repeated", "output"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise click.UsageError(f"--batch takes no {name}: each line of the input says it.")


def _document(schedule: Schedule, start: datetime, found: Sequence[Occurrence]) -> dict[str, object]:
    return {
        "cron": schedule.spec.cron,
        "timezone": schedule.spec.timezone,
        "after": to_text(start),
        "occurrences": [
            {
                "scheduled_at": to_text(occurrence.scheduled_at),
                "local": schedule.local_time(occurrence.scheduled_at).isoformat(),
                "nominal_local": occurrence.nominal_local.isoformat(),
                "moved": occurrence.moved,
            }
            for occurrence in found
        ],
    }


def _print_table(schedule: Schedule, start: datetime, found: Sequence[Occurrence]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("#", justify="right", style="dim")
    table.add_column(f"Local ({schedule.spec.timezone})", style="bold")
    table.add_column("UTC")
    if any(occurrence.moved for occurrence in found):
        table.add_column("", style="yellow")
    reasons = []
    for number, occurrence in enumerate(found, 1):
        local = schedule.local_time(occurrence.scheduled_at)
        cells = [
            str(number),
            f"{local:%a %Y-%m-%d %H:%M:%S} {local:%z}",
            f"{occurrence.scheduled_at:%Y-%m-%d %H:%M:%S}Z",
        ]
        if occurrence.moved:
            cells.append("moved")
            reasons.append(f"{number}: {occurrence.moved}")
        table.add_row(*cells)
    console.print(Text(f"{schedule.spec.cron}  after {start:%Y-%m-%d %H:%M:%S}Z"))
    console.print(table)
    for reason in reasons:
        console.print(Text(reason, style="yellow"))


def _system_clock() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - services, where clocks come from, would import boto3
