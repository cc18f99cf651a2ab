"""`clawjob login`, `logout` and `whoami`: which service commands speak to when nothing nearer says it.

A token is never an argument, which other users of the machine could see; it is checked before it is kept.
"""

import os
import sys
from typing import Any, Final

import click

from clawjob.cli.address import PROFILE, Address, base_url
from clawjob.cli.failures import WrongUse
from clawjob.cli.profiles import DEFAULT, MAX_NAME, Profile, Profiles
from clawjob.cli.show import output_option, print_json
from clawjob.domain.access import read_token

_MOST: Final = 10_000
"""Characters that are read for a token."""
_HERE: Final = ("127.0.0.1", "localhost", "::1")


@click.command("login")
@click.argument("url", default="")
@click.option("--profile", help="Keep it under this name; by default `default`.")
@click.pass_context
def login_command(context: click.Context, url: str, profile: str | None) -> None:
    """Keep the address of a service and a token for it.

    The token is read from stdin, or asked for on a terminal:

        clawjob token create --stack clawjob-dev --role admin | clawjob login URL

    Without URL a new token is kept for the address that the profile has.
    """
    name, profiles = _name(context, profile), Profiles.of(os.environ)
    known = profiles.get(name)
    if not url and known is None:
        raise WrongUse(f"Which service? Profile {name!r} has none yet: clawjob login https://host")
    address = base_url(url, "URL") if url else known.url if known else ""
    _refuse_open_way(address)
    token = _token()
    caller = _caller(Address(address, token, "what was just given"))
    profiles.put(name, Profile(address, token))
    click.echo(f"Logged in to {address} as {caller['name']!r}, role {caller['role']}.")
    click.echo(f"Kept as profile {name!r} in {profiles.path}.")


@click.command("logout")
@click.option("--profile", help="Which one; by default `default`.")
@click.pass_context
def logout_command(context: click.Context, profile: str | None) -> None:
    """Forget the address and the token of a profile.

    The token itself is good until it is revoked.
    """
    name, profiles = _name(context, profile), Profiles.of(os.environ)
    kept = profiles.get(name)
    profiles.remove(name)
    click.echo(f"Profile {name!r} is forgotten.")
    if kept and (token := read_token(kept.token)):
        click.echo(f"Its token is good until somebody revokes it: clawjob token revoke {token[0]}")


@click.command("whoami")
@output_option
def whoami_command(output: str) -> None:
    """Show which service commands speak to, and as whom."""
    from clawjob.cli.service import Service

    service = Service.found()
    caller = service.ask("GET", "/whoami")
    if output == "json":
        print_json({**caller, "url": service.address.url, "source": service.address.source})
        return
    click.echo(f"{caller['name']!r}, role {caller['role']}, token {caller['token_id']}")
    click.echo(f"at {service.address.url}, from {service.address.source}")


def _name(context: click.Context, given: str | None) -> str:
    name = (given or context.find_root().params.get("profile") or os.environ.get(PROFILE, "")).strip() or DEFAULT
    if len(name) > MAX_NAME or not name.isprintable():
        raise WrongUse(f"A profile's name has at most {MAX_NAME} characters that can be printed.")
    return name


def _refuse_open_way(url: str) -> None:
    import httpx

    host = httpx.URL(url).host
    if not url.startswith("https:") and host not in _HERE and not host.endswith(".localhost"):
        raise WrongUse(f"{url} would send the token for all to read. Give an address with https.")


def _token() -> str:
    asked = sys.stdin.isatty()
    text: str = click.prompt("Token", hide_input=True, err=True) if asked else sys.stdin.read(_MOST)
    token = text.strip()
    if read_token(token) is None:
        what = "no token came" if not token else "what came is no token"
        raise WrongUse(f"The token is read from {'the terminal' if asked else 'stdin'}: {what}. It looks like cj_...")
    return token


def _caller(address: Address) -> dict[str, Any]:
    from contextlib import closing

    from clawjob.cli.service import Service

    with closing(Service(address)) as service:
        caller: dict[str, Any] = service.ask("GET", "/whoami")
    return caller
