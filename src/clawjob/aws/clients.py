"""AWS clients, made once for each process and set up for many small calls with short patience."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_codedeploy import CodeDeployClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_logs import CloudWatchLogsClient
    from mypy_boto3_sqs import SQSClient

SHORT_READ_SECONDS = 4
"""A worker renews its leases one after another: a call that hangs must end well before the next lease does."""

LONG_READ_SECONDS = 60
"""A function that is called may take as long as its timeout."""


def client_config(pool: int = 10, read_timeout: int = SHORT_READ_SECONDS) -> Config:
    """Settings of every client.

    The arguments that our stores build are right by test; checking them again in botocore costs a third of a call.
    """
    return Config(
        connect_timeout=3,
        read_timeout=read_timeout,
        retries={"mode": "standard", "max_attempts": 3},
        parameter_validation=False,
        max_pool_connections=pool,
    )


@dataclass(frozen=True)
class Clients:
    """The clients of one process, each made at its first use."""

    session: boto3.session.Session
    endpoint_url: str | None = None
    pool: int = 10

    @cached_property
    def dynamodb(self) -> "DynamoDBClient":
        """The table's client."""
        return self.session.client("dynamodb", endpoint_url=self.endpoint_url, config=client_config(self.pool))

    @cached_property
    def sqs(self) -> "SQSClient":
        """The queues' client."""
        return self.session.client("sqs", endpoint_url=self.endpoint_url, config=client_config(self.pool))

    @cached_property
    def cloudformation(self) -> "CloudFormationClient":
        """The client that knows what was deployed."""
        return self.session.client("cloudformation", endpoint_url=self.endpoint_url, config=client_config(self.pool))

    @cached_property
    def codedeploy(self) -> "CodeDeployClient":
        """The client that a deployment's hooks answer to."""
        return self.session.client("codedeploy", endpoint_url=self.endpoint_url, config=client_config(self.pool))

    @cached_property
    def functions(self) -> "LambdaClient":
        """The client that calls functions, and waits for their answers."""
        config = client_config(self.pool, read_timeout=LONG_READ_SECONDS)
        return self.session.client("lambda", endpoint_url=self.endpoint_url, config=config)

    @cached_property
    def logs(self) -> "CloudWatchLogsClient":
        """The client of the runs' logs."""
        return self.session.client("logs", endpoint_url=self.endpoint_url, config=client_config(self.pool))


def make_session_clients(endpoint_url: str | None = None, pool: int = 10) -> Clients:
    """Make clients from the environment's credentials and region.

    Args:
        endpoint_url: another endpoint than AWS's own; None leaves it to `AWS_ENDPOINT_URL`.
        pool: connections kept open for each client; as many as threads use it.
    """
    return Clients(boto3.session.Session(), endpoint_url, pool)
