"""Each component may do what it does, and nothing else: calls that were made against the policies of the stack.

What components do is played here: all stories of `support/scenarios.py`, each route of the API, a real worker process.
The end of a whole test session judges the calls of all other tests as well (`support/suite_privileges.py`).
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clawjob.api.app import Api
from clawjob.aws.authority import ClockGuard
from clawjob.aws.clients import make_session_clients
from clawjob.aws.dead_letters import DeadLetters
from clawjob.aws.deployments import Deployments
from clawjob.aws.log_streams import LogStreams
from clawjob.domain.definition import Definition
from clawjob.domain.run import State
from clawjob.handlers.compare import CompareHandler
from clawjob.handlers.scheduler import SchedulerHandler
from clawjob.handlers.watch import WatchHandler
from clawjob.operations.apply_job import create_job
from clawjob.services import Services
from clawjob.settings import CompareSettings, SchedulerSettings, WatchSettings
from infra.config import PRESETS
from support import privileges, scenarios
from support.api import Client, job
from support.authorizer import authorizer_of
from support.clock import ManualClock
from support.deployment import deployment_stub
from support.lambda_context import LambdaContext
from support.policies import POOLS, Allowed, Roles, allows, listed, matches, refused, unused
from support.privileges import Call, acting
from support.runs import claimed
from support.service import TABLE, make_service
from support.stacks import Template, everywhere, template
from support.world import make_world
from worker.conftest import Bench, real_service, until

pytestmark = pytest.mark.timeout(300)
"""The first test waits for all that is played, and for the CDK."""

GROUP = "/clawjob/test/runs"
FUNCTIONS = ("scheduler", "results", "api", "authorizer", "compare", "watch")
UNSEEN: dict[tuple[str, str, str], str] = {
    **{
        (name, f"logs:{action}", "own-logs"): "Lambda writes the function's log in the function's name"
        for name in FUNCTIONS
        for action in ("CreateLogStream", "PutLogEvents")
    },
    **{
        ("results", f"sqs:{action}", "queue/results"): "Lambda takes messages for the function in the function's name"
        for action in ("ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "ReceiveMessage")
    },
    ("worker", "ecs:UpdateTaskProtection", "tasks"): "the agent beside a worker does it in the worker's name",
}
"""Reasons why an action is allowed that none of our calls needs."""

STARS = {
    "ecr:GetAuthorizationToken on *": "AWS grants the login to image registries for all of them or not at all",
    "cloudwatch:DescribeAlarms on alarms": "CodeDeploy reads alarms as a list",
    "lambda:InvokeFunction on versions of the scheduler": "a right to the new version alone may come too late",
    "ecs:UpdateTaskProtection on tasks of the cluster": "a task protects itself, and its id is not known before",
}
"""Reasons for each wildcard in what a policy of the stack allows. A log group's ARN ends with one of its own."""
PLACES = {
    ":task/": "tasks of the cluster",
    ":alarm:": "alarms",
    "ControlSchedulerFunction": "versions of the scheduler",
}
"""Words for resources with a wildcard, by what their ARN has."""


@pytest.fixture(scope="module")
def roles(request: pytest.FixtureRequest) -> Roles:
    found = Roles(template(stage="prod", pools=POOLS))
    request.config.pluginmanager.get_plugin("privileges").know(found)
    return found


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> frozenset[Call]:
    """All calls of all components in everything that is played here."""
    from moto import mock_aws

    before = set(privileges.SEEN)
    privileges.SEEN.clear()
    with pytest.MonkeyPatch.context() as patch:
        # Two shards save most of a tick's queries.
        patch.setattr("clawjob.domain.ids.SHARDS", 2)
        patch.setattr("clawjob.operations.tick.SHARDS", 2)
        short = [story for story in scenarios.STORIES if story not in scenarios.LONG]
        for priority, stories in ((1, scenarios.STORIES), (5, short)):
            patch.setattr(scenarios, "a_job", partial(scenarios.a_job, priority=priority))
            with mock_aws():
                play_stories(stories)
    with mock_aws():
        play_requests()
    with mock_aws():
        play_deployment()
    play_worker(tmp_path_factory.mktemp("worker"))
    found = frozenset(privileges.SEEN)
    privileges.SEEN.update(before)
    return found


def play_stories(stories: Iterable[scenarios.Story]) -> None:
    clock = ManualClock()
    world = make_world(clock)
    for story in stories:
        world.reset()
        # Components are processes of their own: none remembers what another read.
        world.trouble.before.append(lambda *_, ctx=world.ctx: ctx.jobs._definitions.clear())
        scenarios.play(world, story)
    clock.stop()


def play_requests() -> None:
    """Each route of the API with what can come of it, the authorizer, and the scheduler's hourly count."""
    clock = ManualClock()
    service = make_service(clock, pools=("default", privileges.OTHER_POOL))
    service.logs.create_log_group(logGroupName=GROUP)
    logs = LogStreams(service.logs, GROUP)
    ticks = service.sqs.create_queue(QueueName="clawjob-test-ticks-dead")["QueueUrl"]
    letters = DeadLetters.of(service.context.queues, ticks, timedelta(0))
    api = Client(Api(service.context, frozenset(service.urls.run), logs, letters).answer)
    minutely = {"cron": "* * * * *"}
    for pool in service.urls.run:
        for priority in (1, 5):
            document = job(f"{pool}-{priority}", pool=pool, priority=priority, params={"page": 1}, schedule=minutely)
            assert api("POST", "/jobs", document).status == 201
            assert api("POST", f"/jobs/{pool}-{priority}/runs", {"params": {"page": 2}}).status == 201
    (received,) = service.receive()
    run_id = claimed(service.context, received).run.run_id
    for target in ("/health", "/whoami", "/jobs", "/jobs/default-1", "/jobs/default-1/next", "/jobs/default-1/why"):
        assert api("GET", target).status == 200
    for target in ("/openapi.json", "/jobs/default-1/runs", f"/runs/{run_id}", f"/runs/{run_id}/log", "/tokens"):
        assert api("GET", target).status == 200
    assert api("PUT", "/jobs/default-1", job("default-1"), {"If-Match": "*"}).status == 200
    assert api("POST", "/jobs/default-1/pause").status == api("POST", "/jobs/default-1/resume").status == 200
    assert api("POST", f"/runs/{run_id}/cancel").status == 202
    assert api("DELETE", "/jobs/default-1").status == 204
    for name, url in {**service.urls.dead, "ticks": ticks}.items():
        for method, target in (
            ("GET", f"/dead-letters?queue={name}"),
            ("POST", f"/dead-letters/{name}/redrive"),
            ("DELETE", f"/dead-letters/{name}?all=true"),
        ):
            service.sqs.send_message(QueueUrl=url, MessageBody="{}")
            # What was shown before is hidden for a while.
            clock.advance(timedelta(minutes=10))
            assert api(method, target).status in {200, 409 if name == "ticks" else 200}
    token = api("POST", "/tokens", {"name": "ci", "role": "viewer"}).json
    event = {"headers": {"authorization": f"Bearer {token['token']}"}}
    assert authorizer_of(service)(event, LambdaContext())["isAuthorized"]
    assert api("DELETE", f"/tokens/{token['token_id']}").status == 204
    settings = SchedulerSettings(table=TABLE, run_queues=service.urls.run)
    services = Services(service.context, make_session_clients(), ClockGuard(clock))
    assert SchedulerHandler(settings, services)({"count": True}, LambdaContext())["active_jobs"] == 3
    clock.stop()


def play_deployment() -> None:
    """Both hooks of a deployment of the scheduler, and what they tell CodeDeploy."""
    clock = ManualClock()
    service = make_service(clock)
    core = {"table": TABLE, "run_queues": service.urls.run}
    guard = ClockGuard(clock)
    scheduler = SchedulerHandler(SchedulerSettings(**core), Services(service.context, make_session_clients(), guard))
    with deployment_stub("clawjob-test-scheduler") as deployment:
        deployment.live = 4
        deployment.versions = dict.fromkeys((4, 5), lambda event: scheduler(event, LambdaContext()))
        services = Services(service.context, deployment.clients(), guard)
        context = LambdaContext()
        compare = CompareSettings(**core, function="clawjob-test-scheduler", new_version=5)
        watch = WatchSettings(**core, new_version=5)
        hooks = {
            "compare": CompareHandler(compare, services),
            "watch": WatchHandler(watch, services, wait=lambda _: setattr(context, "milliseconds", 0)),
        }
        for name, hook in hooks.items():
            with acting(name):
                clients = services.clients
                passed = hook(deployment.event, context)
                Deployments(clients.codedeploy, clients.functions).report(*deployment.event.values(), passed=passed)
    clock.stop()


def play_worker(folder: Path) -> None:
    """A worker process executes a run of each queue, ships its output, and hands back what it does not end."""
    with real_service(folder) as bench:
        bench.logs.create_log_group(logGroupName=GROUP)
        runs = [start(bench, f"short-{priority}", "print('hello')", priority) for priority in (1, 5)]
        worker = bench.start_worker(CLAWJOB_LOG_GROUP=GROUP)
        assert {bench.final(run_id).state for run_id in runs} == {State.SUCCEEDED}
        runs = [start(bench, f"long-{priority}", "import time; time.sleep(600)", priority) for priority in (1, 5)]
        until(lambda: all(bench.run(run_id).state is State.RUNNING for run_id in runs))
        worker.terminate()
        assert worker.wait(30) == 0
        assert {bench.run(run_id).state for run_id in runs} == {State.QUEUED}


def start(bench: Bench, name: str, code: str, priority: int) -> str:
    definition = Definition(name=name, command=sys.executable, args=("-c", code), priority=priority)
    create_job(bench.context, definition)
    return bench.trigger(name)


def test_no_component_makes_a_call_that_its_role_does_not_allow(calls: frozenset[Call], roles: Roles) -> None:
    assert {call.component for call in calls} == {one.component for one in roles.allowed}
    assert refused(calls, roles.allowed, roles.arns) == []


def test_each_action_that_a_role_allows_is_needed_or_has_a_reason(calls: frozenset[Call]) -> None:
    # Of one pool: what is done with the queues of one is done with those of another.
    roles = Roles(template(stage="prod"))
    needless = {(one.component, one.action, kind(roles, one)) for one in unused(calls, roles.allowed, roles.arns)}
    assert needless == set(UNSEEN)


def kind(roles: Roles, one: Allowed) -> str:
    """What something is allowed on, in words that do not change."""
    known = {arn: on for on, arn in roles.arns.items()}
    if one.resource in known:
        return known[one.resource]
    if ":log-group:" in one.resource:
        return "own-logs"
    return "tasks" if ":task/" in one.resource else one.resource


def test_an_action_that_is_taken_away_is_missed_whichever_it_is(calls: frozenset[Call], roles: Roles) -> None:
    needed = roles.allowed - set(unused(calls, roles.allowed, roles.arns))
    assert len(needed) > 30
    for one in needed:
        assert refused(calls, roles.allowed - {one}, roles.arns), one


def test_an_action_that_is_added_is_noticed(calls: frozenset[Call], roles: Roles) -> None:
    for component in (*FUNCTIONS, "worker"):
        for action, on in (
            ("dynamodb:Scan", "table"),
            ("dynamodb:DeleteTable", "table"),
            ("sqs:PurgeQueue", "queue/results"),
            ("sqs:SendMessage", "queue/ticks-dead"),
            ("logs:DeleteLogStream", "run-logs"),
        ):
            more = Allowed(component, action, roles.arns[on])
            assert more in unused(calls, roles.allowed | {more}, roles.arns)
            assert refused([Call(component, action, on)], roles.allowed, roles.arns)


def test_a_worker_may_not_touch_the_queues_of_another_pool(roles: Roles) -> None:
    for action in ("sqs:ReceiveMessage", "sqs:SendMessage", "sqs:DeleteMessage"):
        assert refused([Call("worker", action, "queue/runs-other-low")], roles.allowed, roles.arns)
        assert not refused([Call("worker", action, "queue/runs-default-low")], roles.allowed, roles.arns)


def test_each_wildcard_in_a_policy_has_a_reason() -> None:
    assert {star for stage in PRESETS for star in stars_in(template(stage=stage))} == set(STARS)


def stars_in(stack: Template) -> Iterator[str]:
    for statement in allowing(stack):
        assert "*" not in json.dumps(statement.get("Principal", "")), statement
        assert not statement.keys() & {"NotAction", "NotPrincipal", "NotResource"}, statement
        for action in listed(statement["Action"]):
            assert "*" not in action, statement
            for resource in listed(statement.get("Resource", [])):
                if "*" in json.dumps(resource):
                    assert action.split(":")[0] not in {"dynamodb", "sqs", "s3"}, statement
                    places = [words for part, words in PLACES.items() if part in json.dumps(resource)]
                    yield f"{action} on {places[0] if places else resource}"


def allowing(stack: Template) -> Iterator[Mapping[str, Any]]:
    """Statements that allow something, of whatever policy; those of queues and buckets that refuse may say `*`."""
    for value in everywhere(stack.body):
        if isinstance(value, Mapping) and isinstance(value.get("Statement"), list):
            yield from (one for one in value["Statement"] if one["Effect"] == "Allow")


def test_functions_have_no_policies_that_aws_writes() -> None:
    for stage in PRESETS:
        for role in template(stage=stage).properties("AWS::IAM::Role"):
            assert not role.get("ManagedPolicyArns"), role


def test_the_judge_reads_policies_as_iam_does() -> None:
    queue = "arn:aws:sqs:eu-west-1:123456789012:runs"
    assert allows(Allowed("api", "sqs:SendMessage", queue), "api", "sqs:SendMessage", queue)
    assert allows(Allowed("api", "sqs:sendmessage", queue), "api", "sqs:SendMessage", queue)
    assert allows(Allowed("api", "sqs:Send*", "arn:aws:sqs:*:*:r?ns"), "api", "sqs:SendMessage", queue)
    assert not allows(Allowed("api", "sqs:SendMessage", queue), "worker", "sqs:SendMessage", queue)
    assert not allows(Allowed("api", "sqs:Send", queue), "api", "sqs:SendMessage", queue)
    assert not allows(Allowed("api", "sqs:SendMessage", queue), "api", "sqs:SendMessage", queue + "-dead")
    assert not matches("a.c", "abc")
    assert not matches("a?c", "ac")
    assert matches("*", "any:thing\n")


def test_what_iam_is_asked_about_a_transaction_are_its_parts() -> None:
    parts = [{"Put": {}}, {"Update": {}}, {"Delete": {}}, {"ConditionCheck": {}}]
    assert list(privileges.actions_of("TransactWriteItems", {"TransactItems": parts})) == [
        (f"dynamodb:{name}", "table") for name in ("PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem")
    ]
    url = "https://sqs.eu-west-1.amazonaws.com/123456789012/clawjob-test-runs-default-high"
    batch = privileges.actions_of("SendMessageBatch", {"QueueUrl": url, "Entries": []})
    assert list(batch) == [("sqs:SendMessage", "queue/runs-default-high")]
    with pytest.raises(ValueError, match="RunTask"):
        list(privileges.actions_of("RunTask", {"taskDefinition": "t"}))
