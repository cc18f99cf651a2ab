"""`clawjob token`: make, list and revoke access tokens.

They go through the API, or with `--stack` straight into the deployed table: so the first one is made.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from clawjob.cli.failures import Failure, NotFound, Refused, Unreachable, WrongUse
from clawjob.cli.lazy import LazyGroup
from clawjob.cli.show import Column, Times, output_option, print_json, print_table, utc_option
from clawjob.domain.access import Role

if TYPE_CHECKING:
    from clawjob.operations.context import Context

F = TypeVar("F", bound=Callable[..., Any])
_ROLES: Final = [role.value for role in Role]


@click.group("token", cls=LazyGroup)
def token_group() -> None:
    """Make, list and revoke access tokens.

    A viewer looks; an operator also creates, changes, triggers and cancels; an admin also
    makes and revokes tokens. With --stack your AWS credentials decide, which is how the
    first token of a new stack is made.
    """


def _stack_options(function: F) -> F:
    """Add the options that say which stack, and with whose credentials."""
    for option in (
        click.option("--region", help="Its region, when it is not that of your AWS settings."),
        click.option("--aws-profile", help="Whose AWS credentials to use, by their name in your AWS settings."),
        click.option("--stack", help="Write into this stack's table, such as clawjob-dev, instead of asking the API."),
    ):
        function = option(function)
    return function


@token_group.command("create")
@click.argument("name", default="")
@click.option("--role", type=click.Choice(_ROLES), required=True, help="What it may do.")
@_stack_options
def create(name: str, role: str, stack: str | None, aws_profile: str | None, region: str | None) -> None:
    """Make a token and print it, alone, on stdout: it is shown this once.

    NAME says whose it is or what for; by default you at this machine.
    """
    name = name or _default_name()
    if stack:
        from clawjob.operations.access import create_token

        made = _guarded(lambda: create_token(_context(stack, aws_profile, region), name, Role(role), "aws"))
        token_id, text = made.token.token_id, made.text
    else:
        answer = _ask("POST", "/tokens", body={"name": name, "role": role})
        token_id, text = answer["token_id"], answer["token"]
    click.echo(f"Token {token_id} for {name!r}, role {role}. It is shown this once:", err=True)
    click.echo(text)


@token_group.command("list")
@_stack_options
@output_option
@utc_option
def list_tokens(stack: str | None, aws_profile: str | None, region: str | None, output: str, *, utc: bool) -> None:
    """List the tokens that can be used, oldest first."""
    tokens = _guarded(lambda: _all_in_table(_context(stack, aws_profile, region))) if stack else _all_in_api()
    if output == "json":
        print_json(tokens)
        return
    times = Times(utc)
    columns = (
        Column("Token", lambda token: token["token_id"]),
        Column("Name", lambda token: token["name"], may_be_cut=True),
        Column("Role", lambda token: token["role"]),
        Column(f"Created ({times.zone})", lambda token: times.text(token["created_at"])),
        Column("By", lambda token: token["created_by"], wide=True),
    )
    print_table(tokens, columns, "There are no tokens.")


@token_group.command("revoke")
@click.argument("token_id")
@_stack_options
def revoke(token_id: str, stack: str | None, aws_profile: str | None, region: str | None) -> None:
    """Revoke a token by its id; the gateway may take it for another minute."""
    if token_id.startswith("cj_"):
        raise WrongUse("Give the token's id, which `clawjob token list` shows, not the token itself.")
    if stack:
        from clawjob.operations.access import revoke_token

        _guarded(lambda: revoke_token(_context(stack, aws_profile, region), token_id))
    else:
        from clawjob.cli.service import segment

        _ask("DELETE", f"/tokens/{segment(token_id)}")
    click.echo(f"Token {token_id} is revoked.")


def _default_name() -> str:
    import getpass
    import socket

    return f"{getpass.getuser()}@{socket.gethostname()}"[:100]


def _ask(method: str, path: str, body: object = None) -> Any:
    from clawjob.cli.service import Service

    return Service.found().ask(method, path, body=body)


def _all_in_api() -> list[dict[str, Any]]:
    from clawjob.cli.service import Service

    return list(Service.found().pages("/tokens", None))


def _all_in_table(ctx: "Context") -> list[dict[str, Any]]:
    from clawjob.api.token_routes import token_json
    from clawjob.operations.insights import MAX_LIMIT, list_tokens

    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = list_tokens(ctx, MAX_LIMIT, cursor)
        found += [dict(token_json(one)) for one in page.items]
        if (cursor := page.cursor) is None:
            return found


def _context(stack: str, profile: str | None, region: str | None) -> "Context":
    """Wire the service to a deployed stack's table."""
    import boto3
    from botocore.exceptions import BotoCoreError

    from clawjob.aws.clients import Clients
    from clawjob.aws.stack_outputs import stack_outputs
    from clawjob.services import services_from
    from clawjob.settings import CoreSettings

    try:
        clients = Clients(boto3.session.Session(profile_name=profile, region_name=region))
        outputs = stack_outputs(clients.cloudformation, stack)
    except BotoCoreError as error:
        raise WrongUse(f"AWS cannot be asked: {error}") from error
    try:
        settings = CoreSettings(table=outputs["TableName"], run_queues=json.loads(outputs["RunQueues"]))
    except (KeyError, ValueError) as error:
        raise WrongUse(f"Stack {stack} is none of clawjob's: it has no output {error}.") from error
    return services_from(settings, clients).context


def _guarded(work: Callable[[], Any]) -> Any:
    """Tell what goes wrong as every command does."""
    from clawjob.domain.errors import InvalidInputError, NotFoundError, UnavailableError

    try:
        return work()
    except Failure:
        raise
    except InvalidInputError as error:
        raise WrongUse("The token cannot be made.", error.problems) from error
    except NotFoundError as error:
        raise NotFound(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    except UnavailableError as error:
        if "AccessDenied" in error.why or "not authorized" in error.why:
            raise Refused(f"AWS does not allow it: {error.why}") from error
        raise Unreachable(f"AWS does not answer: {error.why}") from error
