"""`clawjob run`: look at runs, read their output, wait for them, cancel them."""

import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from clawjob.cli.failures import RUN_FAILED, Unreachable
from clawjob.cli.lazy import LazyGroup
from clawjob.cli.show import (
    Column,
    Times,
    output_option,
    plain,
    print_facts,
    print_json,
    print_table,
    seconds,
    utc_option,
)

if TYPE_CHECKING:
    from clawjob.cli.service import Service

_POLL: Final = 1.0
_PATIENCE: Final = 30.0
"""Seconds for which a service that does not answer is asked again while we wait."""
_QUIET: Final = 2
"""Empty pages in a row after which the log of an attempt that has ended is at its end; it comes a little late."""


@click.group("run", cls=LazyGroup)
def run_group() -> None:
    """Look at runs, read their output, wait for them, cancel them."""


@run_group.command("list")
@click.argument("job")
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="Show at most so many.")
@output_option
@utc_option
def list_runs(job: str, limit: int, output: str, *, utc: bool) -> None:
    """List a job's runs, newest first."""
    runs = list(_service().pages(f"/jobs/{_segment(job)}/runs", limit))
    if output == "json":
        print_json(runs)
        return
    times = Times(utc)
    columns = (
        Column("Run", lambda run: run["run_id"]),
        Column(f"Scheduled ({times.zone})", lambda run: times.text(run["scheduled_at"])),
        Column("State", lambda run: run["state"]),
        Column("Try", lambda run: run["attempt"] or "", right=True),
        Column("Late", lambda run: seconds(run["lateness_seconds"]), wide=True, right=True),
        Column("Took", lambda run: seconds(run["duration_seconds"]), right=True),
        Column("Outcome", lambda run: run["outcome"], wide=True),
        Column("Exit", lambda run: run["signal"] or run["exit_code"], wide=True, right=True),
        Column("Items", lambda run: run["items"], wide=True, right=True),
        Column("Why", _why, wide=True, may_be_cut=True),
    )
    print_table(runs, columns, f"Job {plain(job)} has had no runs yet.")


@run_group.command("show")
@click.argument("run_id")
@output_option
@utc_option
def show(run_id: str, output: str, *, utc: bool) -> None:
    """Show a run and its attempts."""
    run = _service().ask("GET", _path(run_id))
    if output == "json":
        print_json(run)
        return
    times = Times(utc)
    print_facts(facts_of_run(run, times))
    columns = (
        Column("Attempt", lambda one: one["number"], right=True),
        Column(f"Started ({times.zone})", lambda one: times.text(one["started_at"])),
        Column("Took", lambda one: seconds(one["duration_seconds"]), right=True),
        Column("Outcome", lambda one: one["outcome"] or "running"),
        Column("Exit", lambda one: one["signal"] or one["exit_code"], right=True),
        Column("Worker", lambda one: one["worker"], wide=True),
        Column("Detail", lambda one: one["detail"], wide=True, may_be_cut=True),
    )
    click.echo()
    print_table(run["attempts"], columns, "It has not been started yet.")
    if run["log_tail"]:
        click.echo("\nLast output of the last attempt that failed:")
        for line in run["log_tail"].splitlines():
            click.echo(f"  {plain(line)}")


@run_group.command("logs")
@click.argument("run_id")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended, through its further attempts.")
@click.option("--attempt", type=click.IntRange(1), help="Which one.  [default: the last]")
@click.option("--timestamps", is_flag=True, help="Put its time in front of each line.")
@utc_option
def logs(run_id: str, attempt: int | None, *, follow: bool, timestamps: bool, utc: bool) -> None:
    """Print the output of a run."""
    service, times = _service(), Times(utc)
    is_terminal = sys.stdout.isatty()
    for line in _lines(service, run_id, attempt, follow=follow):
        # What goes into a file or a program is the output as it is.
        text = plain(line["text"]) if is_terminal else str(line["text"])
        click.echo(f"{times.text(line['at'])}  {text}" if timestamps else text)


@run_group.command("wait")
@click.argument("run_id")
@click.option("--timeout", type=click.FloatRange(0), help="Give up after so many seconds (exit code 5).")
@output_option
@utc_option
def wait(run_id: str, timeout: float | None, output: str, *, utc: bool) -> None:
    """Wait for a run's end; exit code 1 when it did not succeed."""
    run = wait_for_end(_service(), run_id, timeout)
    if output == "json":
        print_json(run)
    else:
        print_facts(facts_of_run(run, Times(utc)))
    if run["state"] != "SUCCEEDED":
        sys.exit(RUN_FAILED)


@run_group.command("cancel")
@click.argument("run_id")
@click.option("--why", default="", help="Shown on the run's page.")
def cancel(run_id: str, why: str) -> None:
    """Cancel a run: at once while it waits, through its worker while it runs."""
    run = _service().ask("POST", f"{_path(run_id)}/cancel", body={"why": why} if why else {})
    if run["is_final"]:
        click.echo(f"Run {plain(run_id)} is {plain(run['state'])}.")
    else:
        click.echo(f"Run {plain(run_id)} is asked to end; `clawjob run wait` waits for it.")


def wait_for_end(service: "Service", run_id: str, timeout: float | None) -> dict[str, Any]:
    """Ask until a run is final, through short absences of the service.

    Raises:
        Failure: there is no such run, the time is up, or nobody answers for long.
    """
    ends_at = None if timeout is None else time.monotonic() + timeout
    while True:
        run: dict[str, Any] = _patiently(service, _path(run_id), {})
        if run["is_final"]:
            return run
        if ends_at is not None and time.monotonic() + _POLL > ends_at:
            raise Unreachable(f"Run {run_id} is still {run['state']}; the time is up.")
        time.sleep(_POLL)


def facts_of_run(run: Mapping[str, Any], times: Times) -> list[tuple[str, object]]:
    """Say what there is to say about a run."""
    cancel, missed = run["cancel"], run["missed"]
    return [
        ("Run", run["run_id"]),
        ("Job", f"{run['job']}, version {run['version']}"),
        ("State", run["state"]),
        ("Why", run["explanation"]),
        ("Scheduled", times.long_text(run["scheduled_at"]) + (", by hand" if run["kind"] == "manual" else "")),
        ("Missed", f"{missed['count']} instants until {times.long_text(missed['until'])}" if missed else ""),
        ("Started", _started(run, times)),
        ("Ended", times.long_text(run["ended_at"])),
        ("Took", seconds(run["duration_seconds"])),
        ("Outcome", run["outcome"]),
        ("Exit", run["signal"] or run["exit"]),
        ("Detail", run["detail"]),
        ("Items", run["items"]),
        ("Cancel", f"asked by {cancel['by']} at {times.long_text(cancel['at'])}. {cancel['why']}" if cancel else ""),
    ]


def _started(run: Mapping[str, Any], times: Times) -> str:
    if run["started_at"] is None:
        return ""
    late = run["lateness_seconds"]
    return times.long_text(run["started_at"]) + ("" if late is None else f", {seconds(late)} late")


def _why(run: Mapping[str, Any]) -> str:
    if run["state"] == "SUCCEEDED":
        return ""
    return str(run["detail"] or run["explanation"] or "")


def _lines(service: "Service", run_id: str, attempt: int | None, *, follow: bool) -> Iterator[Mapping[str, Any]]:
    path = f"{_path(run_id)}/log"
    cursor: str | None = None
    quiet = 0
    while True:
        query: dict[str, str | int] = {} if attempt is None else {"attempt": attempt}
        if cursor is not None:
            query["cursor"] = cursor
        page = _patiently(service, path, query)
        yield from page["lines"]
        cursor = page["cursor"] or cursor
        if cursor is not None:
            # From the first line on it is this attempt's log; others follow after its end.
            attempt = page["attempt"]
        quiet = 0 if page["lines"] else quiet + 1
        if page["lines"] and not (follow and len(page["lines"]) < _FEW):
            continue
        if not follow:
            return
        if page["has_ended"] and quiet >= _QUIET:
            following = _following(service, run_id, page["attempt"])
            if following is None:
                return
            if following != page["attempt"]:
                attempt, cursor, quiet = following, None, 0
                continue
        time.sleep(_POLL)


_FEW: Final = 100
"""A page with fewer lines is taken for the last one there is now."""


def _following(service: "Service", run_id: str, attempt: int) -> int | None:
    """The attempt to follow after one that has ended; None when there will be none."""
    run = _patiently(service, _path(run_id), {})
    if run["attempt"] > attempt:
        return attempt + 1
    return None if run["is_final"] else attempt


def _patiently(service: "Service", path: str, query: Mapping[str, str | int]) -> Any:
    """Ask, and ask again for a while when nobody answers."""
    ends_at = time.monotonic() + _PATIENCE
    while True:
        try:
            return service.ask("GET", path, query=query)
        except Unreachable:
            if time.monotonic() > ends_at:
                raise
            time.sleep(_POLL)


def _path(run_id: str) -> str:
    return f"/runs/{_segment(run_id)}"


def _segment(name: str) -> str:
    from clawjob.cli.service import segment

    return segment(name)


def _service() -> "Service":
    from clawjob.cli.service import Service

    return Service.found()
