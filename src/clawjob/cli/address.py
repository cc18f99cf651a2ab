"""Where the API is: the environment says it, or the file that a running `clawjob dev` keeps in its folder."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from clawjob.cli.failures import Unreachable, WrongUse
from clawjob.dev.address_file import FOLDER, NAME

URL = "CLAWJOB_URL"
TOKEN = "CLAWJOB_TOKEN"  # noqa: S105 - the variable's name
BASE = "/api/v1"


@dataclass(frozen=True, slots=True)
class Address:
    """An API and what it asks for."""

    url: str
    """Ends with the base path."""
    token: str
    source: str
    """Where it was found, for messages."""


def find_address(environment: Mapping[str, str], folder: Path) -> Address:
    """Find the API.

    Raises:
        Failure: nothing says where it is, or what says it is wrong.
    """
    url, token = environment.get(URL, "").strip(), environment.get(TOKEN, "").strip()
    if url:
        if not token:
            raise WrongUse(f"{URL} is set, {TOKEN} is not. Set it to your token, such as cj_...")
        return Address(_base(url, URL), token, URL)
    for place in (folder, *folder.parents):
        path = place / FOLDER / NAME
        if path.is_file() and path.stat().st_uid in (os.geteuid(), 0):
            return _read(path)
    raise Unreachable(
        f"No service is known here. Start one with `clawjob dev`, or set {URL} and {TOKEN}.",
    )


def _read(path: Path) -> Address:
    try:
        read = json.loads(path.read_text("utf-8"))
        url, token = read["url"], read["token"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unreachable(f"{path} cannot be read ({error}). Is `clawjob dev` still starting?") from error
    if not isinstance(url, str) or not isinstance(token, str):
        raise WrongUse(f"{path} is no address of a service. Remove it and start `clawjob dev` anew.")
    return Address(_base(url, str(path)), token, str(path))


def _base(url: str, source: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WrongUse(f"{source} holds {url!r}, which is no address. Give one such as https://host.")
    plain = url.rstrip("/")
    return plain if plain.endswith(BASE) else plain + BASE
