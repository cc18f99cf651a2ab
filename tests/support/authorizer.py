"""The authorizer of a service on moto."""

from clawjob.aws.authority import ClockGuard
from clawjob.aws.clients import make_session_clients
from clawjob.handlers.authorizer import AuthorizerHandler
from clawjob.services import Services
from clawjob.settings import AuthorizerSettings
from support.service import TABLE, Service


def authorizer_of(service: Service) -> AuthorizerHandler:
    """Make the handler."""
    settings = AuthorizerSettings(table=TABLE, run_queues=service.urls.run)
    guard = ClockGuard(service.context.clock)
    return AuthorizerHandler(settings, Services(service.context, make_session_clients(), guard))
