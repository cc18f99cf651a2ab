"""The way from Lambda into a handler: settings, services, structured logs and metrics around it.

Under Lambda everything is made while the function starts; elsewhere importing makes nothing, the first call does.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from aws_lambda_powertools.logging import Logger

from clawjob.handlers.measures import Publish, embedded_metrics
from clawjob.services import Services, services_from
from clawjob.settings import CoreSettings

UNDER_LAMBDA: Final = "AWS_LAMBDA_FUNCTION_NAME"
LOGGER: Final = "clawjob"
"""Root of all our loggers, so that every record becomes one line of JSON with the invocation's id."""

Event: TypeAlias = Mapping[str, Any]
Handler: TypeAlias = Callable[[Event, Any], Any]
S = TypeVar("S", bound=CoreSettings)
S_contra = TypeVar("S_contra", bound=CoreSettings, contravariant=True)


class MakeHandler(Protocol[S_contra]):
    """Makes a component's handler of its parts."""

    def __call__(self, settings: S_contra, services: Services, publish: Publish) -> Handler:
        """Make it."""


def lambda_entry(component: str, settings_type: type[S], make: MakeHandler[S], *, at_start: bool = True) -> Handler:
    """Make the function that Lambda calls.

    Args:
        component: its name in logs and metrics.
        settings_type: read from the environment.
        make: makes the handler.
        at_start: under Lambda, make it before the first call; else the first call meets what is wrong.
    """
    made: list[Handler] = []

    def start() -> Handler:
        logger = Logger(service=LOGGER, utc=True, use_rfc3339=True)
        logger.append_keys(component=component)
        settings = settings_type.from_environment()
        handler = make(settings, services_from(settings), embedded_metrics(settings.namespace))
        made.append(logger.inject_lambda_context(handler))
        return made[0]

    def enter(event: Event, context: Any) -> Any:
        return (made[0] if made else start())(event, context)

    if at_start and os.environ.get(UNDER_LAMBDA):
        start()
    return enter
