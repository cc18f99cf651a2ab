"""The way from CodeDeploy into a hook.

Promise: whatever happens in the hook, CodeDeploy gets an answer; without one it waits for an hour.
"""

import logging
from typing import Any, TypeVar

from clawjob.aws.clients import make_session_clients
from clawjob.aws.deployments import Deployments
from clawjob.handlers.entry import Event, Handler, MakeHandler, lambda_entry
from clawjob.settings import CoreSettings

log = logging.getLogger(__name__)

S = TypeVar("S", bound=CoreSettings)


def hook_entry(component: str, settings_type: type[S], make: MakeHandler[S]) -> Handler:
    """Make the function that CodeDeploy calls.

    Args:
        component: its name in logs.
        settings_type: read from the environment.
        make: makes the handler; it answers whether the deployment may go on.
    """
    # Not at the start: what is wrong then could not be told to anybody.
    judge = lambda_entry(component, settings_type, make, at_start=False)

    def enter(event: Event, context: Any) -> None:
        try:
            passed = judge(event, context) is True
        except Exception:
            log.exception("hook failed")
            passed = False
        clients = make_session_clients()
        deployments = Deployments(clients.codedeploy, clients.functions)
        # If this fails, Lambda calls the hook again.
        deployments.report(event["DeploymentId"], event["LifecycleEventHookExecutionId"], passed=passed)

    return enter
