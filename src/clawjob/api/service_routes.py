"""What the API says of the service itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clawjob.api.answers import Answer
from clawjob.api.request import Request
from clawjob.api.route import Gives, Route, route
from clawjob.api.shapes import Health, OpenApi
from clawjob.domain.access import Role
from clawjob.domain.instants import to_text
from clawjob.operations.context import Context


@dataclass(frozen=True, slots=True)
class ServiceRoutes:
    """Health, and what the API is like."""

    ctx: Context
    describe: Callable[[], Mapping[str, Any]]
    """Makes the OpenAPI document."""

    @route(Route("GET", "/health", None, {200: Gives(Health, "It answers.")}))
    def get_health(self, request: Request) -> Answer:
        """Say that the API answers, and what its clock shows."""
        health: Health = {"status": "ok", "now": to_text(self.ctx.clock())}
        return Answer(200, health)

    @route(Route("GET", "/openapi.json", Role.VIEWER, {200: Gives(OpenApi, "An OpenAPI 3.1 document.")}))
    def get_openapi(self, request: Request) -> Answer:
        """Describe this API."""
        return Answer(200, self.describe())
