"""What a deployment's hooks do with AWS: call a version of a function, and tell CodeDeploy whether it may go on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from clawjob.aws.dynamo import call
from clawjob.domain.errors import ClawjobError

if TYPE_CHECKING:
    from mypy_boto3_codedeploy import CodeDeployClient
    from mypy_boto3_lambda import LambdaClient

LIVE: Final = "live"
"""The alias that has the traffic."""


class FunctionFailedError(ClawjobError):
    """A function that was called raised, ran out of time or memory, or answered no object."""

    def __init__(self, version: int, why: str) -> None:
        self.version = version
        super().__init__(f"version {version} failed: {why}")


@dataclass(frozen=True, slots=True)
class Answered:
    """What a function answered."""

    version: int
    """That took the call."""
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Deployments:
    """The two services that a hook speaks with."""

    codedeploy: "CodeDeployClient"
    functions: "LambdaClient"

    def ask(self, function: str, qualifier: str, event: Mapping[str, Any]) -> Answered:
        """Call a version or an alias of a function and wait for its answer.

        Raises:
            FunctionFailedError: it failed.
            UnavailableError: it could not be called.
        """
        answer = call(
            "Invoke",
            lambda: self.functions.invoke(
                FunctionName=function, Qualifier=qualifier, Payload=json.dumps(event).encode()
            ),
        )
        version = int(answer["ExecutedVersion"])
        text = answer["Payload"].read()
        if answer.get("FunctionError"):
            raise FunctionFailedError(version, text.decode(errors="replace")[:500])
        body = json.loads(text)
        if not isinstance(body, dict):
            raise FunctionFailedError(version, "its answer is no object")
        return Answered(version, body)

    def report(self, deployment_id: str, execution_id: str, *, passed: bool) -> None:
        """Let a deployment go on, or end it, which rolls it back.

        Raises:
            UnavailableError: CodeDeploy did not take the answer.
        """
        call(
            "PutLifecycleEventHookExecutionStatus",
            lambda: self.codedeploy.put_lifecycle_event_hook_execution_status(
                deploymentId=deployment_id,
                lifecycleEventHookExecutionId=execution_id,
                status="Succeeded" if passed else "Failed",
            ),
        )
