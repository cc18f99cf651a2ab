"""Errors as problem details (RFC 9457): the same few kinds everywhere, each naming the fields that are wrong."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from clawjob.domain.errors import (
    ClawjobError,
    ConflictError,
    DuplicateJobError,
    IdempotencyKeyReusedError,
    InvalidInputError,
    NewerRecordError,
    NotFoundError,
    Problem,
    StaleVersionError,
    UnavailableError,
)

MEDIA_TYPE: Final = "application/problem+json"
_TYPE: Final = "urn:clawjob:problem:{}"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem; its name never changes, programs decide by it."""

    name: str
    status: int
    title: str


INVALID_INPUT: Final = Kind("invalid-input", 400, "The request cannot be taken")
FORBIDDEN: Final = Kind("forbidden", 403, "The token may not do this")
NOT_FOUND: Final = Kind("not-found", 404, "There is no such thing")
NO_SUCH_ROUTE: Final = Kind("no-such-route", 404, "There is no such address")
METHOD_NOT_ALLOWED: Final = Kind("method-not-allowed", 405, "The address does not take this method")
DUPLICATE_NAME: Final = Kind("duplicate-name", 409, "The name is taken")
CONFLICT: Final = Kind("conflict", 409, "The request does not fit the present state")
STALE_VERSION: Final = Kind("stale-version", 412, "The job was changed since it was read")
BODY_TOO_LARGE: Final = Kind("body-too-large", 413, "The body is too large")
KEY_REUSED: Final = Kind("key-reused", 422, "The Idempotency-Key was used for another request")
PRECONDITION_REQUIRED: Final = Kind("precondition-required", 428, "The request does not say which version it changes")
INTERNAL_ERROR: Final = Kind("internal-error", 500, "Something is wrong in the service")
UNAVAILABLE: Final = Kind("unavailable", 503, "The service cannot answer now")

KINDS: Final = (
    INVALID_INPUT,
    FORBIDDEN,
    NOT_FOUND,
    NO_SUCH_ROUTE,
    METHOD_NOT_ALLOWED,
    DUPLICATE_NAME,
    CONFLICT,
    STALE_VERSION,
    BODY_TOO_LARGE,
    KEY_REUSED,
    PRECONDITION_REQUIRED,
    INTERNAL_ERROR,
    UNAVAILABLE,
)

_KIND_OF: Final[tuple[tuple[type[ClawjobError], Kind], ...]] = (
    (InvalidInputError, INVALID_INPUT),
    (NotFoundError, NOT_FOUND),
    (DuplicateJobError, DUPLICATE_NAME),
    (IdempotencyKeyReusedError, KEY_REUSED),
    (StaleVersionError, STALE_VERSION),
    (ConflictError, CONFLICT),
    (UnavailableError, UNAVAILABLE),
    # The newer function of a deployment that is under way can answer.
    (NewerRecordError, UNAVAILABLE),
)


def _no_headers() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class RefusedError(Exception):
    """A request that is refused for what it is as a request, whatever it asks for."""

    kind: Kind
    detail: str
    problems: tuple[Problem, ...] = ()
    headers: Mapping[str, str] = field(default_factory=_no_headers)


def refused(error: Exception) -> RefusedError | None:
    """Tell how an error is answered; None for one that nobody foresaw."""
    if isinstance(error, RefusedError):
        return error
    kind = next((kind for known, kind in _KIND_OF if isinstance(error, known)), None)
    if kind is None:
        return None
    problems = error.problems if isinstance(error, InvalidInputError) else ()
    detail = _summary(problems) if problems else _sentence(str(error))
    headers = {"Retry-After": "1"} if kind is UNAVAILABLE else {}
    return RefusedError(kind, detail, tuple(problems), headers)


def document(error: RefusedError, request_id: str) -> dict[str, Any]:
    """Write the body of the answer."""
    return {
        "type": _TYPE.format(error.kind.name),
        "title": error.kind.title,
        "status": error.kind.status,
        "detail": error.detail,
        "problems": [{"field": one.field, "message": one.message, "remedy": one.remedy} for one in error.problems],
        "request_id": request_id,
    }


def _summary(problems: Iterable[Problem]) -> str:
    first, *others = problems
    more = f" And {len(others)} more." if others else ""
    return f"{first}{more}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "?", "!")) else ".")
