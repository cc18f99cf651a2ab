"""What each component may do: exactly the calls that it makes, on exactly what it makes them.

`tests/infra/test_authority.py` compares this with calls that were made: too little here fails, and too much does.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs

from clawjob.aws import table as layout
from infra.data import Data

TABLE: Final = {
    "scheduler": ("BatchGetItem", "PutItem", "UpdateItem"),
    "results": ("BatchGetItem", "GetItem", "PutItem", "UpdateItem"),
    "api": ("BatchGetItem", "DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem"),
    "authorizer": ("GetItem",),
    "watch": ("GetItem",),
    "worker": ("BatchGetItem", "GetItem", "PutItem", "UpdateItem"),
}
"""Actions on the table, by component; those of a transaction's parts count as their own."""
INDEX: Final = {"scheduler": layout.DUE_INDEX, "api": layout.LIST_INDEX}
"""The index that a component queries; indexes can be read in no other way here."""
RUN_QUEUES: Final = {
    "scheduler": ("GetQueueAttributes", "SendMessage"),
    "results": ("SendMessage",),
    "api": ("GetQueueAttributes", "SendMessage"),
    "worker": ("ChangeMessageVisibility", "DeleteMessage", "ReceiveMessage", "SendMessage"),
}
"""A worker's are those of its pool, and what it sends there are runs that it hands back."""
RESULTS_QUEUE: Final = {
    "api": ("GetQueueAttributes", "SendMessage"),
    "results": ("ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage"),
    "worker": ("SendMessage",),
}
"""Those of the function are what Lambda itself does with the queue, in the function's name."""
DEAD_QUEUES: Final = {
    "api": ("ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage"),
}
"""What is sent back goes to the queue from which it came."""
RUN_LOGS: Final = {"api": ("GetLogEvents",), "worker": ("CreateLogStream", "PutLogEvents")}
CALLED: Final = {"compare": ("InvokeFunction",)}
"""What a hook of a deployment does with the function that is deployed. That it tells CodeDeploy the outcome, of its
own deployment group only, is allowed by the group."""
DEPLOYED: Final = ("GetAlias", "GetProvisionedConcurrencyConfig", "UpdateAlias")
"""What CodeDeploy does with the functions."""
TASKS: Final = ("UpdateTaskProtection",)
"""What the agent beside a worker does in the worker's name."""


def statements(component: str, data: Data, own_logs: logs.LogGroup) -> Iterable[iam.PolicyStatement]:
    """Give the statements of a function's role."""
    run_queues = [queue.queue_arn for queues in data.run_queues.values() for queue in queues.values()]
    streams = f"{own_logs.log_group_arn}"
    yield _allow("logs", ("CreateLogStream", "PutLogEvents"), [streams])
    if component in TABLE:
        yield _allow("dynamodb", TABLE[component], [data.table.table_arn])
    if component in INDEX:
        yield _allow("dynamodb", ("Query",), [f"{data.table.table_arn}/index/{INDEX[component]}"])
    if component in RUN_QUEUES:
        yield _allow("sqs", RUN_QUEUES[component], run_queues)
    if component in RESULTS_QUEUE:
        yield _allow("sqs", RESULTS_QUEUE[component], [data.results_queue.queue_arn])
    if component in DEAD_QUEUES:
        yield _allow("sqs", DEAD_QUEUES[component], [queue.queue_arn for queue in data.dead_queues.values()])
    if component in RUN_LOGS:
        yield _allow("logs", RUN_LOGS[component], [data.run_log_group.log_group_arn])


def hook_statements(hook: str, function_arn: str) -> Iterable[iam.PolicyStatement]:
    """Give what a hook of a deployment needs besides.

    Args:
        hook: its name.
        function_arn: of the function that is deployed. All of its versions: a right to the new one that came with the
            same deployment may not yet be in force when the hook runs.
    """
    if hook in CALLED:
        yield _allow("lambda", CALLED[hook], [f"{function_arn}:*"])


def deployment_statements(
    functions: Mapping[str, str], hooks: Iterable[str], alarms_arn: str
) -> Iterable[iam.PolicyStatement]:
    """Give the statements of CodeDeploy's own role.

    Args:
        functions: ARN of each function that is deployed, and the name of its alias.
        hooks: ARNs of the hooks.
        alarms_arn: the alarms that it may read.
    """
    both = [arn for function, alias in functions.items() for arn in (function, f"{function}:{alias}")]
    yield _allow("lambda", DEPLOYED, both)
    yield _allow("lambda", ("InvokeFunction",), list(hooks))
    yield _allow("cloudwatch", ("DescribeAlarms",), [alarms_arn])


def worker_statements(pool: str, data: Data, tasks_arn: str) -> Iterable[iam.PolicyStatement]:
    """Give the statements of a pool's workers; its own log is written in the name of who starts them.

    Args:
        pool: whose queues they serve.
        data: what they work on; never an index: they know the keys of what they read.
        tasks_arn: all tasks of their cluster.
    """
    queues = [queue.queue_arn for queue in data.run_queues[pool].values()]
    yield _allow("dynamodb", TABLE["worker"], [data.table.table_arn])
    yield _allow("sqs", RUN_QUEUES["worker"], queues)
    yield _allow("sqs", RESULTS_QUEUE["worker"], [data.results_queue.queue_arn])
    yield _allow("logs", RUN_LOGS["worker"], [data.run_log_group.log_group_arn])
    yield _allow("ecs", TASKS, [tasks_arn])


def _allow(service: str, actions: Iterable[str], resources: list[str]) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=[f"{service}:{action}" for action in actions], resources=resources)
