"""The API function: a request of the gateway in, its answer out."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from clawjob.api.app import Api
from clawjob.aws.dead_letters import DeadLetters
from clawjob.aws.log_streams import LogStreams
from clawjob.domain.metrics import Metric
from clawjob.handlers.measures import Measure, Publish, nowhere
from clawjob.services import Services
from clawjob.settings import ApiSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ApiHandler:
    """Takes events of payload format 2.0."""

    settings: ApiSettings
    services: Services
    publish: Publish = nowhere
    monotonic: Callable[[], float] = time.monotonic
    _api: Api = field(init=False)

    def __post_init__(self) -> None:
        group = self.settings.log_group
        logs = LogStreams(self.services.clients.logs, group) if group else None
        context = self.services.context
        dead = DeadLetters.of(context.queues, self.settings.dead_ticks)
        object.__setattr__(self, "_api", Api(context, self.settings.pools, logs, dead))

    def __call__(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Answer one request."""
        del context
        begun = self.monotonic()
        answered = self._api.answer(event)
        milliseconds = round((self.monotonic() - begun) * 1000, 1)
        status = answered.response["statusCode"]
        about = event["requestContext"]
        log.info(
            "request answered",
            extra={
                "request_id": about.get("requestId"),
                "method": about["http"]["method"],
                "route": answered.route,
                "status": status,
                "duration_ms": milliseconds,
            },
        )
        self.publish(
            [
                Measure(Metric.REQUESTS, 1),
                Measure(Metric.REFUSED, 400 <= status < 500),
                Measure(Metric.ERRORS, status >= 500),
                Measure(Metric.REQUEST_DURATION, milliseconds),
            ]
        )
        return answered.response
