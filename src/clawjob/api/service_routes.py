"""What the API says of the service itself."""

from dataclasses import dataclass

from clawjob.api.answers import Answer
from clawjob.api.request import Request
from clawjob.api.route import Gives, Route, route
from clawjob.api.shapes import Health
from clawjob.domain.instants import to_text
from clawjob.operations.context import Context


@dataclass(frozen=True, slots=True)
class ServiceRoutes:
    """Health."""

    ctx: Context

    @route(Route("GET", "/health", None, {200: Gives(Health, "It answers.")}))
    def health(self, request: Request) -> Answer:
        """Say that the API answers, and what its clock shows."""
        del request
        health: Health = {"status": "ok", "now": to_text(self.ctx.clock())}
        return Answer(200, health)
