"""One request as the routes see it, read from an event of payload format 2.0. What a client sent is checked here."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar

from clawjob.api.problems import BODY_TOO_LARGE, PRECONDITION_REQUIRED, RefusedError
from clawjob.api.strict_json import read_object
from clawjob.domain.access import Role
from clawjob.domain.errors import InvalidInputError, Problem
from clawjob.domain.job_version import Editor
from clawjob.domain.showing import shown, shown_name

MAX_BODY_BYTES: Final = 512 * 1024
_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_ETAG: Final = re.compile(r'(?:W/)?"([0-9]{1,9})"')
_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")
_NOBODY: Final = "api"
_ROLES: Final = {role.value: role for role in Role}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    """Decoded once, by the gateway."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: str
    is_base64: bool
    request_id: str
    caller: str
    """The token's id; never the token."""
    caller_name: str
    role: Role | None
    """What the token may do; None for a request without one."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """The query's parameters, as the route reads them."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The body's fields, as the route reads them."""

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> "Request":
        """Read an event."""
        context = event["requestContext"]
        token = (context.get("authorizer") or {}).get("lambda") or {}
        return cls(
            method=str(context["http"]["method"]).upper(),
            path=str(event["rawPath"]),
            query=event.get("queryStringParameters") or {},
            headers={str(name).lower(): str(value) for name, value in (event.get("headers") or {}).items()},
            body=event.get("body") or "",
            is_base64=bool(event.get("isBase64Encoded")),
            request_id=str(context.get("requestId") or ""),
            caller=str(token.get("token_id") or _NOBODY),
            caller_name=str(token.get("name") or ""),
            role=_ROLES.get(str(token.get("role"))),
        )

    def document(self) -> dict[str, Any]:
        """Read the body as one JSON object.

        Raises:
            InvalidInputError: it is none.
            RefusedError: it is too large.
        """
        return read_object(self._text())

    def read(self, query: Mapping[str, "Parameter[Any]"], body: Mapping[str, "BodyField"] | None) -> "Request":
        """Read the query, and the body where it is one of known fields.

        Args:
            query: parameters that the route knows.
            body: fields that the route knows; None leaves the body alone.

        Raises:
            InvalidInputError: names each parameter or field that is not known, missing or wrong.
            RefusedError: the body is too large.
        """
        return replace(self, asked=self._asked(query), given={} if body is None else self._given(body))

    def _given(self, known: Mapping[str, "BodyField"]) -> dict[str, Any]:
        text = self._text()
        found = read_object(text) if text.strip() else {}
        problems = [
            Problem(name, "It is missing.", f"Give {one.form}.")
            for name, one in known.items()
            if one.required and name not in found
        ]
        for name, value in found.items():
            if name not in known:
                remedy = f"Known here are {', '.join(known)}." if known else "Send no fields."
                problems.append(Problem(shown_name(name), "There is no such field.", remedy))
            elif type(value) is not known[name].kind:
                problems.append(Problem(name, f"{shown(value)} cannot stand here.", f"Write {known[name].form}."))
            elif isinstance(value, str) and len(value) > known[name].longest:
                problems.append(Problem(name, "It is too long.", f"Keep it within {known[name].longest} characters."))
        if problems:
            raise InvalidInputError(problems)
        return found

    def _asked(self, known: Mapping[str, "Parameter[Any]"]) -> dict[str, Any]:
        problems = [
            Problem(shown_name(name), "There is no such parameter.", _known(known))
            for name in self.query
            if name not in known
        ]
        values = {}
        for name, parameter in known.items():
            text = self.query.get(name)
            try:
                values[name] = parameter.default if text is None else parameter.read(text)
            except ValueError:
                problems.append(Problem(name, f"{shown(text)} cannot stand here.", f"Give {parameter.form}."))
        if problems:
            raise InvalidInputError(problems)
        return values

    def expected_version(self) -> int | None:
        """Read `If-Match`: the version that the caller changed; None for any.

        Raises:
            InvalidInputError: it is no entity tag of ours.
            RefusedError: it is not there.
        """
        text = self.headers.get("if-match")
        if text is None:
            detail = "Send If-Match with the ETag that a GET gave, or with * to replace whatever is there."
            raise RefusedError(PRECONDITION_REQUIRED, detail)
        text = text.strip()
        if text == "*":
            return None
        match = _ETAG.fullmatch(text)
        if match is None:
            remedy = 'Send the ETag that a GET of the job gave, such as "3" in its quotes, or *.'
            raise InvalidInputError.of("If-Match", f"{shown(text)} is no version.", remedy)
        return int(match[1])

    def editor(self) -> Editor:
        """Say who asks, and why if the body does."""
        return Editor(self.caller, self.caller_name, self.given.get("why", ""))

    def idempotency_key(self) -> str | None:
        """Read `Idempotency-Key`.

        Raises:
            InvalidInputError: it is empty, too long or holds other characters than visible ASCII.
        """
        text = self.headers.get("idempotency-key")
        if text is not None and not _KEY.fullmatch(text):
            remedy = "Give 1 to 200 visible ASCII characters, for instance a UUID."
            raise InvalidInputError.of("Idempotency-Key", f"{shown(text)} cannot be taken.", remedy)
        return text

    def _text(self) -> str:
        if len(self.body) > MAX_BODY_BYTES * (2 if self.is_base64 else 1):
            raise _too_large()
        try:
            body = base64.b64decode(self.body, validate=True) if self.is_base64 else self.body.encode()
            text = body.decode()
        except (binascii.Error, UnicodeError) as error:
            raise InvalidInputError.of("", "The body is not UTF-8.", "Encode it in UTF-8.") from error
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
        return text


@dataclass(frozen=True, slots=True)
class Parameter(Generic[T]):
    """A parameter of the query."""

    read: Callable[[str], T]
    """Raises ValueError for what it does not take."""
    default: T
    form: str
    """What it takes, in words."""
    schema: Mapping[str, Any]
    """The same as JSON Schema."""


def whole(lowest: int, highest: int, default: int | None) -> "Parameter[int | None]":
    """A whole number in a range."""

    def read(text: str) -> int:
        if not _WHOLE.fullmatch(text) or not lowest <= int(text) <= highest:
            raise ValueError
        return int(text)

    schema = {"type": "integer", "minimum": lowest, "maximum": highest}
    known = {} if default is None else {"default": default}
    return Parameter(read, default, f"a whole number from {lowest} to {highest}", {**schema, **known})


def any_text() -> "Parameter[str | None]":
    """Any text."""
    return Parameter(str, None, "a text", {"type": "string"})


@dataclass(frozen=True, slots=True)
class BodyField:
    """A field of a body that is no job document."""

    kind: type
    """`str`, `int` or `dict`."""
    description: str
    example: Any
    required: bool = False
    longest: int = 10_000
    """Characters of a text."""
    words: tuple[str, ...] = ()
    """All that it may be; empty: any. Whoever reads the value refuses others."""

    @property
    def form(self) -> str:
        """What it takes, in words."""
        what = {str: "a text", int: "a whole number"}.get(self.kind, "an object")
        example = self.example if isinstance(self.example, str) else json.dumps(self.example)
        return f"{what}, such as {example}"


def _known(known: Mapping[str, object]) -> str:
    return f"Known here are {', '.join(known)}." if known else "This address takes none."


def _too_large() -> RefusedError:
    return RefusedError(BODY_TOO_LARGE, f"The body is over {MAX_BODY_BYTES:,} bytes; pass large values in a file.")
