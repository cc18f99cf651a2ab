"""The authorizer function: says whose token a request carries. Whatever goes wrong, the answer is no."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clawjob.domain.access import bearer_token
from clawjob.domain.errors import UnavailableError, UnreadableRecordError
from clawjob.handlers.measures import Publish, nowhere
from clawjob.operations.access import authenticate
from clawjob.services import Services
from clawjob.settings import CoreSettings

log = logging.getLogger(__name__)

_NO: Mapping[str, Any] = {"isAuthorized": False}


@dataclass(frozen=True, slots=True)
class AuthorizerHandler:
    """Takes the authorizer events of an HTTP API, payload format 2.0, and gives the simple answer."""

    settings: CoreSettings
    services: Services
    publish: Publish = nowhere

    def __call__(self, event: Mapping[str, Any], context: Any) -> Mapping[str, Any]:
        """Judge one request; what is remembered of the answer for a minute is up to the gateway."""
        del context
        try:
            token = authenticate(self.services.context, bearer_token(_header(event)))
        except (UnavailableError, UnreadableRecordError) as error:
            log.warning("token could not be checked", extra={"why": str(error)})
            return _NO
        except Exception:
            log.exception("token could not be checked")
            return _NO
        if token is None:
            log.info("token refused")
            return _NO
        return {
            "isAuthorized": True,
            "context": {"token_id": token.token_id, "role": token.role.value, "name": token.name},
        }


def _header(event: Mapping[str, Any]) -> str:
    headers = event.get("headers") or {}
    return next((str(value) for name, value in headers.items() if str(name).lower() == "authorization"), "")
