"""The API as one function from event to answer: routes on the Powertools resolver, every error as problem details."""

import logging
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from clawjob.api import documents, openapi, problems
from clawjob.api.answers import Answer, json_text
from clawjob.api.dead_letter_routes import DeadLetterRoutes
from clawjob.api.job_routes import JobRoutes
from clawjob.api.problems import RefusedError
from clawjob.api.request import Request
from clawjob.api.route import BASE, Route, routes_of
from clawjob.api.run_routes import RunRoutes
from clawjob.api.service_routes import ServiceRoutes
from clawjob.api.token_routes import TokenRoutes
from clawjob.api.version_routes import VersionRoutes
from clawjob.aws.dead_letters import DeadLetters
from clawjob.aws.log_streams import LogStreams
from clawjob.domain.access import Role
from clawjob.operations.context import Context

log = logging.getLogger(__name__)

Call = Callable[..., Answer]
_ALWAYS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
ROUTE_CLASSES: Final = (ServiceRoutes, JobRoutes, VersionRoutes, RunRoutes, TokenRoutes, DeadLetterRoutes)
"""All that the API answers, for those who describe it."""
_SEGMENT: Final = re.compile(r"<(\w+)>")


@cache
def describe() -> Mapping[str, Any]:
    """Make the OpenAPI document of the API."""
    return openapi.document(one for owner in ROUTE_CLASSES for one in routes_of(owner))


@dataclass(frozen=True, slots=True)
class _Bound:
    """A route and what answers it."""

    route: Route
    call: Call

    def takes(self, path: str) -> bool:
        """Whether a path is one of this address."""
        return re.fullmatch(_SEGMENT.sub("[^/]+", self.route.rule), path) is not None


@dataclass(frozen=True, slots=True)
class Answered:
    """What goes back to the gateway, and which route it is from, for logs and metrics."""

    response: dict[str, Any]
    route: str
    """Empty when there is none."""


@dataclass(slots=True)
class _Current:
    """The request in hand."""

    request: Request | None = None
    route: str = ""


class Api:
    """Answers events of payload format 2.0, one at a time."""

    def __init__(
        self, ctx: Context, pools: frozenset[str], logs: LogStreams | None, dead: DeadLetters | None = None
    ) -> None:
        """Make it.

        Args:
            ctx: the service.
            pools: that a job may name.
            logs: the output of runs; None where it is not kept.
            dead: the dead letters; None for those of the service's queues.
        """
        documents.load()
        letters = DeadLetterRoutes(ctx, dead or DeadLetters.of(ctx.queues))
        jobs, versions = JobRoutes(ctx, pools), VersionRoutes(ctx, pools)
        owners = (ServiceRoutes(ctx, describe), jobs, versions, RunRoutes(ctx, logs), TokenRoutes(ctx), letters)
        self._routes = [_Bound(route, call) for owner in owners for route, call in routes_of(owner)]
        self._resolver = APIGatewayHttpResolver()
        for bound in self._routes:
            method = bound.route.method
            methods = ["GET", "HEAD"] if method == "GET" else [method]
            self._resolver.route(bound.route.rule, method=methods)(self._called(bound))
        self._resolver.not_found(self._unmatched)
        self._resolver.exception_handler(Exception)(self._refuse)
        # The resolver keeps the event that it is about where all threads see it.
        self._one_at_a_time = threading.Lock()
        self._current = _Current()

    def answer(self, event: Mapping[str, Any]) -> Answered:
        """Answer an event; never raises for what a client sent."""
        seen = _plain(event)
        with self._one_at_a_time:
            self._current = current = _Current()
            response = self._resolver.resolve(seen, None)  # type: ignore[arg-type]  # no route asks for Lambda's context
        return Answered(response, current.route)

    def _called(self, bound: _Bound) -> Callable[..., Response[str]]:
        route = bound.route
        fields = route.body if isinstance(route.body, Mapping) else None

        def call(**names: str) -> Response[str]:
            self._current.route = f"{route.method} {route.path}"
            _check_role(self._request(), route.role)
            return self._written(bound.call(self._request().read(route.query, fields), **names))

        return call

    def _unmatched(self, _: Exception) -> Response[str]:
        request = self._request()
        allowed = {one.route.method for one in self._routes if one.takes(request.path)}
        if not allowed:
            raise _no_such_route(request.path)
        if request.method in allowed | {"HEAD"}:
            # The address is right but for characters that no name and no id has.
            raise RefusedError(problems.NOT_FOUND, f"There is nothing at {ascii(request.path[:200])[1:-1]}.")
        if request.method == "OPTIONS":
            return self._written(Answer(204, None, {"Allow": _allow(allowed)}))
        detail = f"{request.path[:200]} takes {_allow(allowed)}."
        raise RefusedError(problems.METHOD_NOT_ALLOWED, detail, headers={"Allow": _allow(allowed)})

    def _refuse(self, error: Exception) -> Response[str]:
        request_id = self._request().request_id
        known = problems.refused(error)
        if known is None:
            about = {"request_id": request_id, "route": self._current.route}
            log.error("request failed", extra=about, exc_info=error)
            known = RefusedError(problems.INTERNAL_ERROR, "It is written down. Tell the operator the request id.")
        body = problems.document(known, request_id)
        return self._written(Answer(known.kind.status, body, known.headers, problems.MEDIA_TYPE))

    def _request(self) -> Request:
        if self._current.request is None:
            self._current.request = Request.of(self._resolver.current_event.raw_event)
        return self._current.request

    def _written(self, answer: Answer) -> Response[str]:
        is_empty = answer.body is None or self._request().method == "HEAD"
        return Response(
            status_code=answer.status,
            content_type=None if answer.body is None else answer.media_type,
            headers={**_ALWAYS, **answer.headers},
            body="" if is_empty else json_text(answer.body),
        )


def _check_role(request: Request, needed: Role | None) -> None:
    if needed is None or (request.role is not None and request.role.includes(needed)):
        return
    role = request.role.value if request.role else "no role"
    raise RefusedError(problems.FORBIDDEN, f"This needs a token of role {needed.value}; yours has {role}.")


def _plain(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event with a path that begins behind the stage, and that the resolver's patterns cannot misread."""
    context = event["requestContext"]
    path = str(event.get("rawPath") or "/")
    prefix = f"/{context.get('stage')}"
    if path == prefix or path.startswith(f"{prefix}/"):
        path = path[len(prefix) :] or "/"
    if not path.isprintable():
        # A pattern would take a line end for the end of the path.
        path = ascii(path)[1:-1]
    return {**event, "rawPath": path, "requestContext": {**context, "stage": "$default"}}


def _no_such_route(path: str) -> RefusedError:
    shown = ascii(path[:200])[1:-1]
    hint = " Leave out the slash at its end." if path.endswith("/") and len(path) > 1 else ""
    return RefusedError(problems.NO_SUCH_ROUTE, f"{shown} is no address of this API; they begin with {BASE}.{hint}")


def _allow(methods: set[str]) -> str:
    more = {"HEAD"} if "GET" in methods else set()
    return ", ".join(sorted(methods | more | {"OPTIONS"}))
