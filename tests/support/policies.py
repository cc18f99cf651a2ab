"""What the roles of a synthesized stack allow, and a judge of calls by IAM's rules: what nothing allows is refused."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from support.privileges import OTHER_POOL, Call
from support.stacks import Template

_ARN = "arn:aws:{}:eu-west-1:123456789012:{}"
_ARNS = {
    "AWS::DynamoDB::Table": _ARN.format("dynamodb", "table/{}"),
    "AWS::SQS::Queue": _ARN.format("sqs", "{}"),
    "AWS::Logs::LogGroup": _ARN.format("logs", "log-group:{}:*"),
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::ECR::Repository": _ARN.format("ecr", "repository/{}"),
    "AWS::Lambda::Function": _ARN.format("lambda", "function:{}"),
}
"""By type, of a resource that has its logical id for a name."""
_PSEUDO = {"AWS::Partition": "aws", "AWS::Region": "eu-west-1", "AWS::AccountId": "123456789012"}
POOLS = [{"name": "default"}, {"name": OTHER_POOL}]
"""Of a stack in which a worker can be seen to leave the other pool alone."""


class Allowed(NamedTuple):
    """One action that a role allows on one resource; either may have wildcards."""

    component: str
    action: str
    resource: str


class Roles:
    """The roles of a stack's components: its functions by their names, and the workers of pool `default`."""

    def __init__(self, stack: Template) -> None:
        self._stack = stack

    @cached_property
    def allowed(self) -> frozenset[Allowed]:
        """All that components may do."""
        return frozenset(
            Allowed(component, action, self._resolved(resource))
            for component, role in self._roles()
            for statement in self._statements(role)
            for action in listed(statement["Action"])
            for resource in listed(statement["Resource"])
        )

    @cached_property
    def arns(self) -> dict[str, str]:
        """ARNs by what a call is made on."""
        wanted = ("TableName", "ResultsQueueUrl", "RunQueues", "DeadQueues", "RunLogGroup")
        outputs = {name: self._resolved(self._stack.body["Outputs"][name]["Value"]) for name in wanted}
        table, queues = outputs["TableName"], {"results": outputs["ResultsQueueUrl"]}
        for pool, by_label in json.loads(outputs["RunQueues"]).items():
            queues |= {f"runs-{pool}-{label}": name for label, name in by_label.items()}
        queues |= {f"{name}-dead": one["url"] for name, one in json.loads(outputs["DeadQueues"]).items()}
        arns = {f"queue/{name}": self._arn(logical_id) for name, logical_id in queues.items()}
        arns["table"] = self._arn(table)
        for index in self._stack.resources[table]["Properties"]["GlobalSecondaryIndexes"]:
            name = index["IndexName"]
            arns[f"table/index/{name}"] = f"{self._arn(table)}/index/{name}"
        for name, function in self._functions():
            # A version of it; what is called is never the function alone.
            arns[f"function/{name}"] = f"{self._arn(function)}:1"
        for group, one in self._stack.of_type("AWS::CodeDeploy::DeploymentGroup").items():
            application = self._resolved(one["Properties"]["ApplicationName"])
            arns["deployment"] = _ARN.format("codedeploy", f"deploymentgroup:{application}/{group}")
        arns["run-logs"] = f"{self._arn(outputs['RunLogGroup']).removesuffix('*')}log-stream:run/1"
        return arns

    def _roles(self) -> Iterator[tuple[str, str]]:
        for name, function in self._functions():
            yield name, self._stack.resources[function]["Properties"]["Role"]["Fn::GetAtt"][0]
        for key, task in self._stack.of_type("AWS::ECS::TaskDefinition").items():
            if key.startswith("WorkersPooldefault"):
                yield "worker", task["Properties"]["TaskRoleArn"]["Fn::GetAtt"][0]

    def _functions(self) -> Iterator[tuple[str, str]]:
        """Names and logical ids of our functions; the CDK may bring some of its own."""
        for key, one in self._stack.of_type("AWS::Lambda::Function").items():
            handler = re.fullmatch(r"functions\.(\w+)\.handler\.handler", one["Properties"]["Handler"])
            if handler:
                yield handler[1], key

    def _statements(self, role: str) -> Iterator[Mapping[str, Any]]:
        properties = self._stack.resources[role]["Properties"]
        assert not properties.keys() & {"ManagedPolicyArns", "Policies"}, f"{role} has policies that are not read here"
        for policy in self._stack.properties("AWS::IAM::Policy"):
            if {"Ref": role} in policy["Roles"]:
                for statement in policy["PolicyDocument"]["Statement"]:
                    assert statement.keys() <= {"Action", "Effect", "Resource", "Sid"}, statement
                    assert statement["Effect"] == "Allow", statement
                    yield statement

    def _resolved(self, value: Any) -> str:
        """Write a value of the template as text."""
        if isinstance(value, str):
            return value
        ((function, argument),) = value.items()
        match function:
            case "Ref":
                return _PSEUDO.get(argument, argument)
            case "Fn::GetAtt" if argument[1] == "Arn":
                return self._arn(argument[0])
            case "Fn::Join":
                return str(argument[0]).join(self._resolved(part) for part in argument[1])
            case "Fn::GetAtt":
                return ".".join(argument)
        raise ValueError(f"{function} is not read here")

    def _arn(self, name: str) -> str:
        return _ARNS[self._stack.resources[name]["Type"]].format(name)


def listed(value: Any) -> list[Any]:
    """One or several, as several."""
    return value if isinstance(value, list) else [value]


def matches(pattern: str, text: str) -> bool:
    """Whether a text is as IAM's pattern says: `*` is any number of characters, `?` is one."""
    parts = (".*" if one == "*" else "." if one == "?" else re.escape(one) for one in pattern)
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def allows(one: Allowed, component: str, action: str, resource: str) -> bool:
    """Whether this lets a component make a call; IAM does not mind the case of actions."""
    return (
        one.component == component and matches(one.action.lower(), action.lower()) and matches(one.resource, resource)
    )


def refused(calls: Iterable[Call], allowed: Iterable[Allowed], arn_of: Mapping[str, str]) -> list[Call]:
    """Calls that nothing allows.

    Args:
        calls: that were made.
        allowed: what roles allow.
        arn_of: ARNs by what a call is made on.
    """
    known = list(allowed)

    def is_allowed(call: Call) -> bool:
        return call.on in arn_of and any(allows(one, call.component, call.action, arn_of[call.on]) for one in known)

    return sorted(call for call in calls if not is_allowed(call))


def unused(calls: Iterable[Call], allowed: Iterable[Allowed], arn_of: Mapping[str, str]) -> list[Allowed]:
    """What is allowed and no call needs."""
    made = [(call.component, call.action, arn_of[call.on]) for call in calls if call.on in arn_of]
    return sorted(one for one in allowed if not any(allows(one, *call) for call in made))
