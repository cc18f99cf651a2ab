"""`clawjob dlq`: look at dead letters, send them back, drop them."""

import sys
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from clawjob.cli.failures import Unreachable, WrongUse
from clawjob.cli.lazy import LazyGroup
from clawjob.cli.show import Column, Times, output_option, plain, print_json, print_table, utc_option

if TYPE_CHECKING:
    from clawjob.cli.service import Service

_WIDTH: Final = 80
_INDENT: Final = "    "


@click.group("dlq", cls=LazyGroup)
def dlq_group() -> None:
    """Look at dead letters, send them back, drop them.

    A message that was taken ten times and handled by nobody is put aside, apart for each
    queue: runs-<pool>-high, runs-<pool>-low, results, and ticks that could not be delivered.
    """


@dlq_group.command("list")
@click.argument("queue", default="")
@click.option("--limit", type=click.IntRange(0, 100), default=10, show_default=True, help="Messages of each queue.")
@output_option
@utc_option
def list_letters(queue: str, limit: int, output: str, *, utc: bool) -> None:
    """Show the queues' dead letters, what they are and why; only those of QUEUE, if given.

    Nobody else gets a message while it is looked at, for a moment.
    """
    query: dict[str, str | int] = {"limit": limit, **({"queue": queue} if queue else {})}
    queues = _service().ask("GET", "/dead-letters", query=query)["items"]
    if output == "json":
        print_json(queues)
        return
    columns = (
        Column("Queue", lambda one: one["queue"]),
        Column("Messages", lambda one: one["count"], right=True),
        Column("Looked at now", lambda one: one["held"], right=True),
    )
    print_table(queues, columns, "There are no queues of dead letters.")
    times = Times(utc)
    for one in queues:
        for message in one["messages"]:
            _print_message(one["queue"], message, times)
        if limit and len(one["messages"]) < one["count"]:
            name = plain(one["queue"])
            click.echo(f"\n{name} has more: clawjob dlq list {name} --limit 100")


@dlq_group.command("redrive")
@click.argument("queue")
@click.argument("message_id", default="")
@output_option
def redrive(queue: str, message_id: str, output: str) -> None:
    """Send all dead letters of QUEUE, or one, back to where they came from.

    Do it when the cause is mended. What is of no use any more does no harm: no run is
    executed a second time by it.
    """
    service = _service()
    path = f"/dead-letters/{_segment(queue)}/redrive"
    body = {"message_id": message_id} if message_id else {}
    total = _until_done("sent_back", lambda: service.ask("POST", path, body=body))
    if output == "json":
        print_json(total)
    else:
        click.echo(f"Sent back from {plain(queue)}: {_counted(total['sent_back'], 'message')}.")
    _fail_if_refused(total)


@dlq_group.command("drop")
@click.argument("queue")
@click.argument("message_id", default="")
@click.option("--all", "is_all", is_flag=True, help="All of the queue.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
def drop(queue: str, message_id: str, output: str, *, is_all: bool, yes: bool) -> None:
    """Delete one dead letter of QUEUE by its id, or all."""
    if is_all == bool(message_id):
        raise WrongUse("Name one message, or give --all for all of the queue.")
    if not yes:
        _ask(f"Delete {'all dead letters' if is_all else f'message {plain(message_id)}'} of {plain(queue)}?")
    service = _service()
    query = {"all": "true"} if is_all else {"message_id": message_id}
    path = f"/dead-letters/{_segment(queue)}"
    total = _until_done("dropped", lambda: service.ask("DELETE", path, query=query))
    if output == "json":
        print_json(total)
    else:
        click.echo(f"Dropped from {plain(queue)}: {_counted(total['dropped'], 'message')}.")
        click.echo(textwrap.fill(plain(total["note"]), _WIDTH))
    _fail_if_refused(total)


def _until_done(count: str, ask: Any) -> dict[str, Any]:
    """Ask until the service has done it all: one request handles a part of a long queue."""
    total: dict[str, Any] = ask()
    while total["has_more"]:
        answer = ask()
        total = {**answer, count: total[count] + answer[count], "has_more": answer["has_more"] and answer[count] > 0}
    return total


def _fail_if_refused(total: Mapping[str, Any]) -> None:
    if total["refused"]:
        raise Unreachable(f"Refused by SQS and still there: {_counted(total['refused'], 'message')}. Try again.")


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise WrongUse("It cannot be undone: add --yes.")
    click.confirm(question, abort=True, err=True)


def _print_message(queue: str, message: Mapping[str, Any], times: Times) -> None:
    sent = times.long_text(message["sent_at"])
    click.echo(f"\n{plain(queue)}  {plain(message['message_id'])}")
    job = f" of job {message['job']}" if message["job"] else ""
    for text in (
        f"{message['what']}{job}",
        f"sent {sent}, taken {_counted(message['receives'], 'time')}",
        message["why"],
    ):
        line = plain(text)
        click.echo(textwrap.fill(line, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _segment(name: str) -> str:
    from clawjob.cli.service import segment

    return segment(name)


def _service() -> "Service":
    from clawjob.cli.service import Service

    return Service.found()
