"""Dashboard and alarms: what they watch is what is published, and every alarm has a section of the runbook."""

import contextlib
import io
import json
import logging
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from clawjob.aws.authority import ClockGuard
from clawjob.aws.clients import make_session_clients
from clawjob.domain.job import parse_document
from clawjob.domain.messages import RunMessage, result_to_body
from clawjob.domain.metrics import Component, Metric, counts_of_end
from clawjob.domain.run import AttemptResult, Outcome, State
from clawjob.handlers.api import ApiHandler
from clawjob.handlers.measures import Measure, embedded_metrics
from clawjob.handlers.results import ResultsHandler
from clawjob.handlers.scheduler import SchedulerHandler
from clawjob.operations.apply_job import create_job
from clawjob.operations.claim_run import claim_run
from clawjob.operations.trigger_run import trigger_run
from clawjob.runner.log_lines import JsonLines, metrics
from clawjob.services import Services
from clawjob.settings import ApiSettings, CoreSettings
from support.api import job
from support.clock import ManualClock
from support.lambda_context import LambdaContext
from support.service import Service
from support.stacks import Template, template

DOCS = Path(__file__).parents[2] / "docs"
NAMESPACE = "clawjob-dev"
Shape = tuple[str, frozenset[str]]
"""A metric's name and the names of its dimensions."""


@pytest.fixture(scope="module")
def stack() -> Template:
    return template(stage="dev", alarm_email="me@example.org", budget_usd=20)


def alarms(stack: Template) -> dict[str, Mapping[str, Any]]:
    """Those for people; the ones that only scale workers have no name of their own."""
    named = [one for one in stack.properties("AWS::CloudWatch::Alarm") if "AlarmName" in one]
    return {one["AlarmName"].removeprefix("clawjob-dev-"): one for one in named}


def text_of(value: Any) -> str:
    """Text of which parts are known only after the deployment; these become `?`."""
    if isinstance(value, str):
        return value
    if "Fn::Join" in value:
        return "".join(text_of(part) for part in value["Fn::Join"][1])
    return "?"


def widgets(stack: Template) -> list[Mapping[str, Any]]:
    body = json.loads(text_of(stack.one("AWS::CloudWatch::Dashboard")["DashboardBody"]))
    return [one["properties"] for one in body["widgets"]]


def on_dashboard(stack: Template) -> Iterator[tuple[Shape, str]]:
    for widget in widgets(stack):
        for row in widget["metrics"]:
            names = [part for part in row if isinstance(part, str)]
            if names[0] == NAMESPACE:
                yield (names[1], frozenset(names[2::2])), widget["yAxis"]["left"]["label"]


def in_alarms(stack: Template) -> Iterator[Shape]:
    for alarm in alarms(stack).values():
        parts = [one["MetricStat"]["Metric"] for one in alarm.get("Metrics", []) if "MetricStat" in one]
        for part in parts or [alarm]:
            if part["Namespace"] == NAMESPACE:
                yield part["MetricName"], frozenset(one["Name"] for one in part["Dimensions"])


@pytest.fixture
def emitted(service: Service, clock: ManualClock) -> dict[Shape, str]:
    """Units of the metrics in the lines that the handlers and a worker really write."""
    settings = CoreSettings(table="clawjob-test", run_queues=service.urls.run)
    guard = ClockGuard(clock)
    guard.watch(service.dynamodb)
    services = Services(service.context, make_session_clients(), guard)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        publish = embedded_metrics(NAMESPACE)
        scheduler = SchedulerHandler(settings, services, publish)
        results = ResultsHandler(settings, services, publish)
        api_settings = ApiSettings(table="clawjob-test", run_queues=service.urls.run)
        api = ApiHandler(api_settings, services, publish)
        every = {"every": "10m", "offset": "5m"}
        create_job(service.context, parse_document(job("news", schedule=every), clock(), ["default"]))
        clock.advance(timedelta(minutes=5))
        scheduler({}, LambdaContext())
        scheduler({"count": True}, LambdaContext())
        report = settled_report(service, clock)
        results({"Records": [{"messageId": "m1", "body": report}, {"messageId": "m2", "body": "{}"}]}, LambdaContext())
        about = {"http": {"method": "GET"}, "stage": "$default", "requestId": "r-1"}
        api({"rawPath": "/api/v1/jobs", "requestContext": about}, LambdaContext())
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    lines.append(worker_line(clock))
    found: dict[Shape, str] = {}
    for line in lines:
        (directive,) = line["_aws"]["CloudWatchMetrics"]
        assert directive["Namespace"] == NAMESPACE
        (dimensions,) = directive["Dimensions"]
        assert set(dimensions) <= line.keys()
        for metric in directive["Metrics"]:
            found[metric["Name"], frozenset(dimensions)] = metric["Unit"]
    return found


def settled_report(service: Service, clock: ManualClock) -> str:
    """The report of a run by hand that a worker executed."""
    create_job(service.context, parse_document(job("hand", overlap="allow"), clock(), ["default"]))
    run = trigger_run(service.context, "hand", {}, None).run
    message = next(one for one in service.receive() if run.run_id in one.body)
    claim_run(service.context, RunMessage.from_body(message.body), message.message_id, "w1")
    return result_to_body(
        AttemptResult(
            run_id=run.run_id,
            token=1,
            worker="w1",
            outcome=Outcome.SUCCEEDED,
            exit_code=0,
            started_at=clock(),
            ended_at=clock(),
            duration_seconds=1.0,
        )
    )


def worker_line(clock: ManualClock) -> dict[str, Any]:
    values = {one: 1.0 for one in Metric if one.definition.component is Component.WORKER}
    record = logging.LogRecord("clawjob", logging.INFO, "", 0, "worker lives", None, None)
    record.__dict__.update(metrics(values, "default", NAMESPACE, clock()))
    return json.loads(JsonLines(clock, {"worker": "w1"}).format(record))  # type: ignore[no-any-return]


def test_what_is_published_is_what_is_defined(emitted: dict[Shape, str]) -> None:
    defined = {
        (one.definition.name, frozenset({"service", "pool"} if one.definition.by_pool else {"service"})): str(
            one.definition.unit
        )
        for one in Metric
    }
    assert emitted == defined


def test_dashboard_and_alarms_watch_what_is_published_and_nothing_else(
    stack: Template, emitted: dict[Shape, str]
) -> None:
    shown = dict(on_dashboard(stack))
    assert shown == emitted
    watched = set(in_alarms(stack))
    assert watched <= emitted.keys()
    assert {name for name, _ in watched} >= {"TickDuration", "Workers", "RunsFailed", "ClockOffset", "Lateness"}


def test_the_alarm_of_failures_sees_the_ends_that_anyone_publishes(stack: Template, clock: ManualClock) -> None:
    out = io.StringIO()
    counts = counts_of_end(State.LOST)
    with contextlib.redirect_stdout(out):
        embedded_metrics(NAMESPACE)([Measure(metric, count, "default") for metric, count in counts.items()])
    record = logging.LogRecord("clawjob", logging.INFO, "", 0, "end counted", None, None)
    record.__dict__.update(metrics(counts, "default", NAMESPACE, clock()))
    by_function = json.loads(out.getvalue())
    by_worker = json.loads(JsonLines(clock, {"service": "worker", "worker": "w1"}).format(record))
    (failed,) = [
        one["MetricStat"]["Metric"]
        for one in alarms(stack)["failures-too-many-default"]["Metrics"]
        if one["Id"] == "failed"
    ]
    for line in (by_function, by_worker):
        (directive,) = line["_aws"]["CloudWatchMetrics"]
        assert directive["Namespace"] == failed["Namespace"]
        assert {one["Name"]: one["Value"] for one in failed["Dimensions"]} == {
            name: line[name] for name in directive["Dimensions"][0]
        }
        # Powertools writes the values of one name as a list.
        assert line[failed["MetricName"]] in (1, [1.0])


def test_a_queue_is_too_long_when_it_was_so_in_each_of_five_minutes(stack: Template) -> None:
    alarm = alarms(stack)["queue-too-long-default"]
    parts = [one["MetricStat"] for one in alarm["Metrics"] if "MetricStat" in one]
    assert {(part["Period"], part["Stat"]) for part in parts} == {(60, "Maximum")}
    assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (5, 5)
    assert "for 5 minutes" in alarm["AlarmDescription"]
    assert "wait, for 5 minutes" in (DOCS / "runbook.md").read_text("utf-8")


def test_each_alarm_names_a_section_of_the_runbook(stack: Template) -> None:
    headings = re.findall(r"^#+ (.+)$", (DOCS / "runbook.md").read_text("utf-8"), re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-") for one in headings}
    for key, alarm in alarms(stack).items():
        found = re.search(r"docs/runbook\.md#([a-z-]+)$", alarm["AlarmDescription"])
        assert found, key
        assert found[1] in anchors, key


def test_every_wanted_alarm_is_there_and_reaches_the_topic(stack: Template) -> None:
    beginnings = {
        *("queue-too-long-default", "failures-too-many-default", "no-worker-default", "no-tick", "dead-letters"),
        *("table-errors", "table-throttles", "api-errors", "results-stuck", "clock-offset", "lateness"),
        *(f"function-errors-{name}" for name in ("scheduler", "results", "api", "authorizer")),
    }
    assert alarms(stack).keys() == beginnings
    (topic,) = stack.of_type("AWS::SNS::Topic")
    for alarm in alarms(stack).values():
        assert alarm["AlarmActions"] == [{"Ref": topic}]


def test_thresholds_are_those_that_were_asked_for(stack: Template) -> None:
    by_key = alarms(stack)
    assert by_key["queue-too-long-default"]["Threshold"] == 1000
    assert by_key["failures-too-many-default"]["Threshold"] == 5
    tick = by_key["no-tick"]
    (period,) = [one["MetricStat"]["Period"] for one in tick["Metrics"]]
    assert (period, tick["EvaluationPeriods"], tick["TreatMissingData"]) == (60, 3, "breaching")
    assert tick["ComparisonOperator"] == "LessThanThreshold"


def test_no_alarm_takes_more_metrics_than_cloudwatch_allows() -> None:
    pools = [{"name": f"pool-{number}"} for number in range(8)]
    for alarm in template(stage="dev", pools=pools).properties("AWS::CloudWatch::Alarm"):
        assert sum("MetricStat" in one for one in alarm.get("Metrics", [])) <= 10


def test_every_queue_of_dead_letters_is_watched(stack: Template) -> None:
    """X-05."""
    watched = json.dumps(alarms(stack)["dead-letters"]["Metrics"])
    dead = [key for key in stack.of_type("AWS::SQS::Queue") if key.startswith("Data") and "Dead" in key]
    assert len(dead) == 4
    assert all(key in watched for key in dead)


def test_the_topic_takes_messages_of_alarms_and_only_over_tls(stack: Template) -> None:
    statements = stack.one("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    allowed = [one["Principal"] for one in statements if one["Effect"] == "Allow"]
    assert allowed == [{"Service": "cloudwatch.amazonaws.com"}]
    assert any(one["Effect"] == "Deny" and "aws:SecureTransport" in str(one["Condition"]) for one in statements)
    assert stack.one("AWS::SNS::Subscription")["Endpoint"] == "me@example.org"


def test_the_budget_is_as_given(stack: Template) -> None:
    assert stack.one("AWS::Budgets::Budget")["Budget"]["BudgetLimit"] == {"Amount": 20, "Unit": "USD"}
    assert not template(stage="dev").of_type("AWS::Budgets::Budget")


def test_a_stage_without_monitoring_has_none() -> None:
    assert not template(stage="emulator").of_type("AWS::CloudWatch::Alarm")


def test_the_page_of_metrics_is_current() -> None:
    page = (DOCS / "metrics.md").read_text("utf-8")
    for one in Metric:
        definition = one.definition
        by = "service, pool" if definition.by_pool else "service"
        row = f"| `{definition.name}` | {definition.unit} | {definition.component} | {by} | {definition.meaning} |"
        assert row in page, definition.name
