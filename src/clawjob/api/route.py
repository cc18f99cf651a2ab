"""What a route is: address, who may use it, what it takes and gives, written where the code is that answers.

The router and the OpenAPI document both read it, so that neither can say what the other does not do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from clawjob.api.answers import Answer
from clawjob.api.problems import Kind
from clawjob.api.request import BodyField, Parameter
from clawjob.api.shapes import JobDocument
from clawjob.domain.access import Role

F = TypeVar("F", bound=Callable[..., Answer])
BASE: Final = "/api/v1"
_MARK: Final = "route"


@dataclass(frozen=True, slots=True)
class Header:
    """A header that a route reads."""

    name: str
    description: str
    pattern: str
    required: bool = False


IF_MATCH: Final = Header(
    "If-Match",
    "The ETag that a GET of the job gave, or `*` for whatever is there.",
    r'^((W/)?"[0-9]{1,9}"|\*)$',
    required=True,
)
IDEMPOTENCY_KEY: Final = Header("Idempotency-Key", "The same key again makes no second run.", r"^[\x21-\x7e]{1,200}$")


@dataclass(frozen=True, slots=True)
class Gives:
    """What a route answers with one status."""

    shape: type | None
    """A TypedDict, or None for no body."""
    description: str
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one address."""

    method: str
    path: str
    """Behind the base path, such as `/jobs/<name>`."""
    role: Role | None
    """What a token must be allowed at least; None for a route that asks for no token."""
    gives: Mapping[int, Gives]
    refuses: tuple[Kind, ...] = ()
    """Beside what any route may be refused for."""
    query: Mapping[str, Parameter[Any]] = field(default_factory=dict)
    body: type[JobDocument] | Mapping[str, BodyField] | None = None
    headers: tuple[Header, ...] = ()

    @property
    def rule(self) -> str:
        """The whole address, such as `/api/v1/jobs/<name>`."""
        return BASE + self.path


def route(made: Route) -> Callable[[F], F]:
    """Declare that a method answers a route."""

    def mark(function: F) -> F:
        setattr(function, _MARK, made)
        return function

    return mark


def routes_of(owner: object) -> list[tuple[Route, Callable[..., Answer]]]:
    """Give the routes of a class, or of an object with its methods bound, in the order in which they are written."""
    names = vars(owner if isinstance(owner, type) else type(owner))
    found = [(name, getattr(function, _MARK, None)) for name, function in names.items()]
    return [(made, getattr(owner, name)) for name, made in found if made is not None]
