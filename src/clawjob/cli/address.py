"""Where the API is: options, environment, the file of a running `clawjob dev`, or what `clawjob login` keeps."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from clawjob.cli.failures import Unreachable, WrongUse
from clawjob.cli.profiles import DEFAULT, Profiles
from clawjob.dev.address_file import FOLDER, NAME

URL = "CLAWJOB_URL"
TOKEN = "CLAWJOB_TOKEN"  # noqa: S105 - the variable's name
PROFILE = "CLAWJOB_PROFILE"
BASE = "/api/v1"


@dataclass(frozen=True, slots=True)
class Address:
    """An API and what it asks for."""

    url: str
    """Ends with the base path."""
    token: str
    source: str
    """Where it was found, for messages."""


def find_address(environment: Mapping[str, str], folder: Path, profile: str | None = None) -> Address:
    """Find the API: what is nearest to the command wins.

    Args:
        environment: of the process.
        folder: from which the command is called.
        profile: that the command line names; it goes before all else.

    Raises:
        Failure: nothing says where it is, or what says it is wrong.
    """
    profiles = Profiles.of(environment)
    if profile:
        return _named(profiles, profile)
    url, token = environment.get(URL, "").strip(), environment.get(TOKEN, "").strip()
    if bool(url) != bool(token):
        one, other = (URL, TOKEN) if url else (TOKEN, URL)
        raise WrongUse(f"{one} is set, {other} is not. Set both, or none and use `clawjob login`.")
    if url:
        return Address(base_url(url, URL), token, f"{URL} and {TOKEN}")
    if chosen := environment.get(PROFILE, "").strip():
        return _named(profiles, chosen)
    for place in (folder, *folder.parents):
        path = place / FOLDER / NAME
        if path.is_file() and path.stat().st_uid in (os.geteuid(), 0):
            return _read(path)
    if profiles.get(DEFAULT):
        return _named(profiles, DEFAULT)
    known = ", ".join(profiles.names())
    choose = f"choose a profile with --profile ({known})" if known else "`clawjob login` to a deployed one"
    raise Unreachable(f"No service is known here. Start one with `clawjob dev`, or {choose}.")


def base_url(url: str, source: str) -> str:
    """Give the address that requests go below, with the API's base path.

    Raises:
        WrongUse: it is no address; the text names where it came from.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WrongUse(f"{source} holds {url!r}, which is no address. Give one such as https://host.")
    plain = url.rstrip("/")
    return plain if plain.endswith(BASE) else plain + BASE


def _named(profiles: Profiles, name: str) -> Address:
    found = profiles.get(name)
    if found is None:
        known = ", ".join(profiles.names()) or "none"
        raise WrongUse(f"There is no profile {name!r}; known are: {known}. Make it with `clawjob login`.")
    source = f"profile {name!r} in {profiles.path}"
    return Address(base_url(found.url, source), found.token, source)


def _read(path: Path) -> Address:
    try:
        read = json.loads(path.read_text("utf-8"))
        url, token = read["url"], read["token"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unreachable(f"{path} cannot be read ({error}). Is `clawjob dev` still starting?") from error
    if not isinstance(url, str) or not isinstance(token, str):
        raise WrongUse(f"{path} is no address of a service. Remove it and start `clawjob dev` anew.")
    return Address(base_url(url, str(path)), token, str(path))
