"""The API as the commands use it: answers as JSON values, refusals as failures with their exit code."""

import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click
import httpx

from clawjob.cli.address import Address, find_address
from clawjob.cli.failures import Failure, NotFound, Overtaken, Refused, Unreachable
from clawjob.domain.errors import Problem

_TIMEOUT: Final = httpx.Timeout(30.0, connect=5.0)
_PAGE: Final = 100
_OVERTAKEN: Final = (":duplicate-name", ":stale-version")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Service:
    """The API of one address."""

    def __init__(self, address: Address, transport: httpx.BaseTransport | None = None) -> None:
        self.address = address
        # A proxy of the environment cannot reach this machine's own addresses; whom to trust counts for them too.
        is_here = httpx.URL(address.url).host in _LOOPBACK
        trusted = os.environ.get("SSL_CERT_FILE") if is_here and address.url.startswith("https:") else None
        self._client = httpx.Client(
            base_url=address.url,
            headers={"Authorization": f"Bearer {address.token}", "Accept": "application/json"},
            timeout=_TIMEOUT,
            trust_env=not is_here,
            verify=ssl.create_default_context(cafile=trusted) if trusted else True,
            transport=transport,
        )

    @classmethod
    def found(cls) -> "Service":
        """The API that options, environment, folder or profile name, until the command ends.

        Raises:
            Failure: none is known.
        """
        context = click.get_current_context()
        service = cls(find_address(os.environ, Path.cwd(), context.find_root().params.get("profile")))
        context.call_on_close(service.close)
        return service

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Make a request and give the answer's JSON; None for an empty one.

        Raises:
            Failure: it was refused, or nobody answered.
        """
        return self.ask_with_headers(method, path, body=body, query=query, headers=headers)[0]

    def ask_with_headers(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Any, Mapping[str, str]]:
        """The same, with the answer's headers."""
        options: dict[str, Any] = {} if body is None else {"json": body}
        try:
            answer = self._client.request(method, path, params=query, headers=headers, **options)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if answer.is_error:
            raise self._refusal(answer)
        try:
            return (answer.json() if answer.content else None), answer.headers
        except ValueError as error:
            raise Unreachable(f"{self.address.url} answers, but it is not clawjob's API.") from error

    def pages(self, path: str, most: int | None) -> Iterator[dict[str, Any]]:
        """Give the items of a list, page by page, up to a number of them."""
        cursor: str | None = None
        left = most
        while left is None or left > 0:
            limit = _PAGE if left is None else min(_PAGE, left)
            page = self.ask("GET", path, query={"limit": limit, **({"cursor": cursor} if cursor else {})})
            yield from page["items"][:left]
            left = None if left is None else left - len(page["items"])
            cursor = page["cursor"]
            if cursor is None:
                return

    def _unreachable(self, error: httpx.HTTPError) -> Failure:
        why = str(error) or type(error).__name__
        text = f"Nothing answers at {self.address.url} ({why}); the address is from {self.address.source}."
        return Unreachable(text)

    def _refusal(self, answer: httpx.Response) -> Failure:
        status = answer.status_code
        try:
            body = answer.json()
        except ValueError:
            body = None
        found = body if isinstance(body, dict) else {}
        detail = str(found.get("detail") or found.get("message") or answer.reason_phrase)
        if status == 401 or (status == 403 and "type" not in found):
            # The gateway's own words, which are no problem document, come when its authorizer does not know the token.
            source = self.address.source
            return Refused(f"The token is not accepted ({detail}). It is from {source}; `clawjob login` keeps another.")
        if status == 404:
            return NotFound(detail)
        if status >= 500 or status == 429:
            request_id = f" Request {found['request_id']}." if found.get("request_id") else ""
            return Unreachable(f"The service cannot answer now: {detail}{request_id}")
        problems = [_problem(one) for one in found.get("problems") or () if isinstance(one, dict)]
        if str(found.get("type")).endswith(_OVERTAKEN):
            return Overtaken(detail)
        return Refused(str(found["title"]) if problems and "title" in found else detail, problems)


def segment(name: str) -> str:
    """Write a name as one segment of a path."""
    return quote(name, safe="")


def _problem(read: Mapping[str, Any]) -> Problem:
    return Problem(str(read.get("field", "")), str(read.get("message", "")), str(read.get("remedy", "")))
