"""`clawjob job versions`, `diff` and `rollback`: what became of a job, and the way back."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from clawjob.cli.failures import NotFound, WrongUse
from clawjob.cli.job import document_part, full_form, next_run, read_document
from clawjob.cli.service import Service, segment
from clawjob.cli.show import Column, Times, output_option, plain, print_json, print_table, utc_option, why_option


@click.command("versions")
@click.argument("name")
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="Show at most so many.")
@output_option
@utc_option
def versions_command(name: str, limit: int, output: str, *, utc: bool) -> None:
    """List a job's versions, newest first: who, when and why."""
    versions = list(Service.found().pages(f"/jobs/{segment(name)}/versions", limit))
    if output == "json":
        print_json(versions)
        return
    times = Times(utc)
    columns = (
        Column("Version", lambda one: one["version"], right=True),
        Column(f"At ({times.zone})", lambda one: times.text(one["at"])),
        Column("Change", lambda one: (one["change"] or "").replace("_", " ")),
        Column("By", lambda one: one["by_name"] or one["by"], may_be_cut=True),
        Column("Why", lambda one: one["why"], may_be_cut=True),
    )
    print_table(versions, columns, "")


@click.command("diff")
@click.argument("name", required=False)
@click.argument("version", type=click.IntRange(1), required=False)
@click.argument("against", type=click.IntRange(1), required=False)
@click.option("-f", "--file", "path", help="Compare the job in force with this document, as `apply` would change it.")
@output_option
def diff_command(name: str | None, version: int | None, against: int | None, path: str | None, output: str) -> None:
    """Show what a version or a file changes in a job.

    Without VERSION the newest one, without AGAINST the one before it.

    Example: clawjob job diff -f news.json
    """
    service = Service.found()
    if path is not None:
        if version is not None:
            raise WrongUse("Give a file or versions, not both.")
        changes = _changes_of_file(service, path, name)
    elif name is None:
        raise click.UsageError("Give a job's name, or a file with -f.")
    else:
        number = version or service.ask("GET", f"/jobs/{segment(name)}")["state"]["version"]
        query = {} if against is None else {"against": against}
        changes = service.ask("GET", f"/jobs/{segment(name)}/versions/{number}", query=query)["changes"]
    if output == "json":
        print_json(changes)
        return
    _print_changes(changes)


@click.command("rollback")
@click.argument("name")
@click.argument("version", type=click.IntRange(1), required=False)
@why_option
def rollback_command(name: str, version: int | None, why: str) -> None:
    """Go back to an older version of a job: its document becomes the newest version.

    Without VERSION the one before the newest.
    """
    service = Service.found()
    path = f"/jobs/{segment(name)}"
    job, headers = service.ask_with_headers("GET", path)
    newest = job["state"]["version"]
    wanted = version or newest - 1
    if wanted in (0, newest):
        raise WrongUse(f"Version {newest} of {name} is in force; `clawjob job versions {name}` lists the others.")
    tag = {"If-Match": headers.get("ETag", "*")}
    after = service.ask("POST", f"{path}/rollback", body={"version": wanted, "why": why}, headers=tag)
    click.echo(f"Job {plain(name)} is as in version {wanted} again, now version {after['state']['version']}.", nl=False)
    click.echo(f" {next_run(after)}")


def _changes_of_file(service: Service, path: str, name: str | None) -> list[dict[str, Any]]:
    from clawjob.domain.job_version import field_changes

    document = read_document(path)
    if name is not None and document.setdefault("name", name) != name:
        raise WrongUse(f"{path} is the document of {document['name']!r}.")
    if not isinstance(document.get("name"), str):
        raise WrongUse(f"{path} has no name of a job.")
    try:
        present = service.ask("GET", f"/jobs/{segment(document['name'])}")
    except NotFound:
        raise NotFound(f"There is no job {document['name']!r} yet; `clawjob job apply` would create it.") from None
    wanted = full_form(document, present["state"]["created_at"])
    if wanted is None:
        # The service says best what is wrong with it; it changes nothing.
        raise WrongUse(f"{path} cannot be read as a job document. `clawjob job apply` says what is wrong.")
    found = field_changes(document_part(present), wanted)
    return [{"field": one.field, "before": one.before, "after": one.after} for one in found]


def _print_changes(changes: Sequence[Mapping[str, Any]]) -> None:
    if not changes:
        click.echo("Nothing differs.")
    for change in changes:
        click.echo(f"{plain(change['field'])}:")
        for sign, key, colour in (("-", "before", "red"), ("+", "after", "green")):
            if change[key] is not None:
                text = json.dumps(change[key], ensure_ascii=False)
                click.secho(f"  {sign} {plain(text)}", fg=colour, color=False if os.environ.get("NO_COLOR") else None)
