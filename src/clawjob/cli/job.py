"""`clawjob job`: create, change, look at and trigger jobs."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from clawjob.cli.failures import RUN_FAILED, Failure, NotFound, Overtaken, Refused, WrongUse
from clawjob.cli.lazy import Lazy, LazyGroup
from clawjob.cli.show import (
    Column,
    Times,
    output_option,
    plain,
    print_facts,
    print_json,
    print_table,
    utc_option,
    why_option,
)

if TYPE_CHECKING:
    from clawjob.cli.service import Service

_TRIES: Final = 3
"""Of an apply that somebody else's gets in the way of."""


@click.group(
    "job",
    cls=LazyGroup,
    lazy={
        "versions": Lazy("clawjob.cli.job_versions:versions_command", "List a job's versions: who, when and why."),
        "diff": Lazy("clawjob.cli.job_versions:diff_command", "Show what a version or a file changes in a job."),
        "rollback": Lazy("clawjob.cli.job_versions:rollback_command", "Go back to an older version of a job."),
    },
)
def job_group() -> None:
    """Create, change, look at and trigger jobs."""


@job_group.command("create")
@click.option("-f", "--file", "path", required=True, help="JSON document of the job; - reads it from stdin.")
@output_option
def create(path: str, output: str) -> None:
    """Create a job from its document."""
    document = read_document(path)
    made = _service().ask("POST", "/jobs", body=document)
    if output == "json":
        print_json(made)
        return
    click.echo(f"Job {plain(made['name'])} is created. {next_run(made)}")


@job_group.command("apply")
@click.option("-f", "--file", "paths", multiple=True, help="JSON document of a job; - reads it from stdin.")
@click.argument("more", nargs=-1, metavar="[FILE]...")
def apply(paths: tuple[str, ...], more: tuple[str, ...]) -> None:
    """Create jobs, or change them to what their documents say.

    Example: clawjob job apply -f jobs/*.json
    """
    files = [*paths, *more]
    if not files:
        raise click.UsageError("Give at least one file, such as -f job.json.")
    service = _service()
    worst = 0
    for path in files:
        try:
            click.echo(_apply(service, read_document(path)))
        except Failure as failure:
            click.echo(f"{plain(path)}:", err=True)
            failure.show()
            worst = worst or failure.exit_code
    if worst:
        sys.exit(worst)


@job_group.command("list")
@click.option("--limit", type=click.IntRange(1, 100_000), help="Show at most so many.  [default: all]")
@output_option
@utc_option
def list_jobs(limit: int | None, output: str, *, utc: bool) -> None:
    """List all jobs."""
    jobs = list(_service().pages("/jobs", limit))
    if output == "json":
        print_json(jobs)
        return
    times = Times(utc)
    columns = (
        Column("Job", lambda job: job["name"]),
        Column("Schedule", _schedule),
        Column(f"Next ({times.zone})", lambda job: _next_or_paused(job, times)),
        Column("Last decision", lambda job: (job["state"]["last_decision"] or {}).get("reason"), wide=True),
        Column("Version", lambda job: job["state"]["version"], wide=True, right=True),
        Column("Description", lambda job: job["description"], wide=True, may_be_cut=True),
    )
    print_table(jobs, columns, "There are no jobs yet. Create one with `clawjob job create -f FILE`.")


@job_group.command("show")
@click.argument("name")
@click.option("--document", is_flag=True, help="Print only the document, to be changed and applied.")
@output_option
@utc_option
def show(name: str, output: str, *, document: bool, utc: bool) -> None:
    """Show a job."""
    job = _service().ask("GET", f"/jobs/{_segment(name)}")
    if document:
        print_json(document_part(job))
    elif output == "json":
        print_json(job)
    else:
        print_facts(_facts(job, Times(utc)))


@job_group.command("delete")
@click.argument("name")
def delete(name: str) -> None:
    """Delete a job; its runs that wait are not started."""
    _service().ask("DELETE", f"/jobs/{_segment(name)}")
    click.echo(f"Job {plain(name)} is deleted.")


@job_group.command("pause")
@click.argument("name")
@why_option
def pause(name: str, why: str) -> None:
    """Stop a job's schedule; it can still be triggered."""
    _service().ask("POST", f"/jobs/{_segment(name)}/pause", body={"why": why})
    click.echo(f"Job {plain(name)} is paused.")


@job_group.command("resume")
@click.argument("name")
@why_option
def resume(name: str, why: str) -> None:
    """Start a paused job's schedule again."""
    job = _service().ask("POST", f"/jobs/{_segment(name)}/resume", body={"why": why})
    click.echo(f"Job {plain(name)} is resumed. {next_run(job)}")


@job_group.command("trigger")
@click.argument("name")
@click.option("-p", "--param", "params", multiple=True, metavar="NAME=VALUE", help="Value of a declared parameter.")
@click.option("--key", help="Idempotency key: the same key gives the same run.")
@click.option("--wait", is_flag=True, help="Wait for the run's end; exit code 1 when it did not succeed.")
@output_option
@utc_option
def trigger(name: str, params: tuple[str, ...], key: str | None, output: str, *, wait: bool, utc: bool) -> None:
    """Run a job now."""
    service = _service()
    body = {"params": _typed(service, name, params)} if params else {}
    headers = {} if key is None else {"Idempotency-Key": key}
    if key is not None and not (key.isascii() and key.isprintable() and key.strip()):
        raise click.BadParameter("use visible ASCII characters", param_hint="--key")
    run = service.ask("POST", f"/jobs/{_segment(name)}/runs", body=body, headers=headers)
    if wait:
        from clawjob.cli.run import facts_of_run, wait_for_end

        if output != "json":
            click.echo(f"Run {plain(run['run_id'])} is queued.")
        run = wait_for_end(service, run["run_id"], None)
        if output != "json":
            print_facts(facts_of_run(run, Times(utc)))
    elif output != "json":
        click.echo(f"Run {plain(run['run_id'])} is {plain(run['state'])}.")
    if output == "json":
        print_json(run)
    if wait and run["state"] != "SUCCEEDED":
        sys.exit(RUN_FAILED)


def read_document(path: str) -> dict[str, Any]:
    """Read a job document.

    Raises:
        Failure: there is no such file, or it holds no JSON object.
    """
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8"
        raise WrongUse(f"{path} cannot be read: {why}.") from error
    from clawjob.api.strict_json import read_object
    from clawjob.domain.errors import InvalidInputError

    try:
        return read_object(text)
    except InvalidInputError as error:
        raise WrongUse(f"{path} is no job document.", error.problems) from error


def _apply(service: "Service", document: dict[str, Any]) -> str:
    name = document.get("name")
    if not isinstance(name, str):
        # The service says best what is wrong with it.
        service.ask("POST", "/jobs", body=document)
        raise Refused("The document has no name.")
    for _ in range(_TRIES - 1):
        try:
            return _apply_once(service, name, document)
        except Overtaken:
            # It is to be as the document says, whatever it was before.
            continue
    return _apply_once(service, name, document)


def _apply_once(service: "Service", name: str, document: dict[str, Any]) -> str:
    try:
        present, headers = service.ask_with_headers("GET", f"/jobs/{_segment(name)}")
    except NotFound:
        made = service.ask("POST", "/jobs", body=document)
        return f"Job {plain(name)} is created. {next_run(made)}"
    # What is in force was in order when the job was made or later, though its one instant may be past by now.
    if full_form(document, present["state"]["created_at"]) == document_part(present):
        return f"Job {plain(name)} is as its document says."
    tag = headers.get("ETag", "*")
    after = service.ask("PUT", f"/jobs/{_segment(name)}", body=document, headers={"If-Match": tag})
    return f"Job {plain(name)} is changed to version {after['state']['version']}. {next_run(after)}"


def full_form(document: dict[str, Any], at: str) -> dict[str, Any] | None:
    """Give a document as the service would show it; None when that cannot be told here."""
    from clawjob.domain.errors import InvalidInputError
    from clawjob.domain.instants import from_text
    from clawjob.domain.job import document_of, parse_document

    pool = document.get("pool", "default")
    try:
        definition = parse_document(document, from_text(at), [pool] if isinstance(pool, str) else [])
    except InvalidInputError:
        return None
    # As JSON gives it back: a float of 1.0 equals 1 there and here.
    full: dict[str, Any] = json.loads(json.dumps(document_of(definition)))
    return full


def document_part(job: Mapping[str, Any]) -> dict[str, Any]:
    """Give the document of a job that the API showed."""
    return {name: value for name, value in job.items() if name != "state"}


def _typed(service: "Service", name: str, params: Sequence[str]) -> dict[str, Any]:
    """Give each value the type of the parameter's default."""
    declared = service.ask("GET", f"/jobs/{_segment(name)}")["params"]
    typed = {}
    for param in params:
        key, equals, text = param.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{param!r} is not of the form NAME=VALUE", param_hint="-p")
        typed[key] = _value(text, declared.get(key, ""))
    return typed


def _value(text: str, default: object) -> object:
    if isinstance(default, str):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    # What is of no simple type is left for the service to refuse by its name.
    return value if isinstance(value, bool | int | float) else text


def _facts(job: Mapping[str, Any], times: Times) -> list[tuple[str, object]]:
    state, retry = job["state"], job["retry"]
    decision = state["last_decision"] or {}
    delays = retry.get("delays") or [retry.get("delay")]
    facts: list[tuple[str, object]] = [
        ("Job", job["name"]),
        ("Description", job["description"]),
        ("State", "enabled" if job["enabled"] else "paused"),
        ("Invalid", state["invalid"]),
        ("Schedule", _schedule(job)),
        ("Zone", (job["schedule"] or {}).get("timezone") if "schedule" in job else job.get("timezone")),
        ("Command", " ".join([job["command"], *map(_quoted, job["args"])])),
        ("Parameters", ", ".join(f"{name}={json.dumps(value)}" for name, value in job["params"].items())),
        ("Labels", ", ".join(f"{name}={value}" for name, value in job["labels"].items())),
        ("Timeout", f"{job['timeout']}, then {job['grace']} to end"),
        ("Retries", f"at most {job['max_retry']}, after {', '.join(map(str, delays))}" if job["max_retry"] else "none"),
        ("Overlap", job["overlap"]),
        ("Catch-up", f"{job['catch_up']['mode']} within {job['catch_up']['window']}"),
        ("Pool", job["pool"]),
        ("Version", f"{state['version']}, changed {times.long_text(state['changed_at'])}"),
        ("Last decision", _said(decision, times)),
        ("Holds the slot", state["active_run"]),
    ]
    for number, run in enumerate(state["next_runs"]):
        moved = f"  (moved: {run['moved']})" if run["moved"] else ""
        facts.append(("" if number else "Next runs", times.long_text(run["scheduled_at"]) + moved))
    return facts


def _said(decision: Mapping[str, Any], times: Times) -> str:
    return f"{times.long_text(decision['at'])}: {decision['explanation']}" if decision else ""


def _quoted(argument: str) -> str:
    return argument if argument and " " not in argument else json.dumps(argument)


def _schedule(job: Mapping[str, Any]) -> str:
    schedule = job.get("schedule")
    if not schedule:
        return "by hand"
    if "cron" in schedule:
        return str(schedule["cron"])
    return f"every {schedule['every']}" if "every" in schedule else f"at {schedule['at']}"


def _next_or_paused(job: Mapping[str, Any], times: Times) -> str:
    if not job["enabled"]:
        return "paused"
    runs = job["state"]["next_runs"]
    return times.text(runs[0]["scheduled_at"]) if runs else ""


def next_run(job: Mapping[str, Any]) -> str:
    """Say when a job runs next."""
    runs = job["state"]["next_runs"]
    if runs:
        return f"Its next run is at {Times(utc=False).long_text(runs[0]['scheduled_at'])}."
    return "It is paused." if not job["enabled"] else "Trigger it with `clawjob job trigger`."


def _segment(name: str) -> str:
    from clawjob.cli.service import segment

    return segment(name)


def _service() -> "Service":
    from clawjob.cli.service import Service

    return Service.found()
