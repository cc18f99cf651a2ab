"""The functions as Lambda starts them: what importing costs, when clients are made, what the log looks like."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("scheduler", "results", "api", "authorizer")
HOOKS = ("compare", "watch")
"""Of deployments: they start without settings, so that they can tell what is wrong with them."""
SETTINGS = {
    "CLAWJOB_TABLE": "clawjob-test",
    "CLAWJOB_RUN_QUEUES": '{"default": {"high": "https://sqs.eu-west-1.amazonaws.com/123456789012/high",'
    ' "low": "https://sqs.eu-west-1.amazonaws.com/123456789012/low"}}',
    "CLAWJOB_RESULTS_QUEUE": "https://sqs.eu-west-1.amazonaws.com/123456789012/clawjob-test-results",
}
EVENTS = {
    "scheduler": {},
    "results": {"Records": [{"messageId": "m1", "body": "no report\r\n2024-01-01 ERROR fake"}]},
    "api": {
        "rawPath": "/api/v1/jobs",
        "requestContext": {
            "authorizer": {"lambda": {"token_id": "anna", "role": "viewer"}},
            "http": {"method": "GET"},
            "stage": "$default",
            "requestId": "r-1",
        },
    },
    "authorizer": {"version": "2.0", "type": "REQUEST", "headers": {"authorization": f"Bearer cj_x_{'0' * 40}"}},
}


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", **environment}
    return subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", [*NAMES, *HOOKS])
def test_importing_needs_no_settings_and_makes_no_client(name: str) -> None:
    code = f"""
import boto3.session
def fail(*_, **__): raise AssertionError("a client was made")
boto3.session.Session.client = fail
import functions.{name}.handler as module
assert callable(module.handler)
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [*NAMES, *HOOKS])
def test_importing_loads_only_what_the_function_needs(name: str) -> None:
    code = f"import sys, functions.{name}.handler; print(*sys.modules)"
    loaded = set(python(code).stdout.split())
    never = {"pydantic", "click", "rich", "httpx", "moto", "psutil", "croniter", "flask"}
    assert not loaded & never
    if name != "api":
        assert not any("event_handler" in module for module in loaded)


@pytest.mark.parametrize("name", NAMES)
def test_under_lambda_wrong_settings_fail_the_start_and_name_the_variable(name: str) -> None:
    done = python(f"import functions.{name}.handler", AWS_LAMBDA_FUNCTION_NAME="clawjob", CLAWJOB_RUN_QUEUES="{")
    assert done.returncode == 1
    assert "CLAWJOB_TABLE: It is not set." in done.stderr
    assert "CLAWJOB_RUN_QUEUES: It is" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_each_log_line_is_one_object_with_the_invocations_id(name: str) -> None:
    """D4, T-11."""
    code = f"""
import json
from moto import mock_aws
from datetime import UTC, datetime
from support.lambda_context import LambdaContext
with mock_aws():
    from support.service import make_service
    make_service(lambda: datetime.now(UTC))
    import functions.{name}.handler as module
    print("ANSWER " + json.dumps(module.handler(json.loads({json.dumps(json.dumps(EVENTS[name]))}), LambdaContext())))
"""
    done = python(code, AWS_LAMBDA_FUNCTION_NAME="clawjob-test", **SETTINGS)
    assert done.returncode == 0, done.stderr
    *lines, answer = done.stdout.splitlines()
    assert answer.startswith("ANSWER ")
    records = [json.loads(line) for line in lines]
    logged = [record for record in records if "level" in record]
    measured = [record for record in records if "_aws" in record]
    assert logged
    for record in logged:
        assert record["component"] == name
        assert record["function_request_id"] == "11111111-2222-3333-4444-555555555555"
    if name == "authorizer":
        assert json.loads(answer.removeprefix("ANSWER ")) == {"isAuthorized": False}
        assert not measured
        return
    (metrics,) = measured
    (directive,) = metrics["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "clawjob"
    assert directive["Dimensions"] == [["service"]]
    assert metrics["service"] == name
    expected = {"scheduler": "Dispatched", "results": "Malformed", "api": "Requests"}[name]
    assert expected in {metric["Name"] for metric in directive["Metrics"]}
    if name == "results":
        assert json.loads(answer.removeprefix("ANSWER ")) == {"batchItemFailures": []}
        assert any("fake" in record.get("body", "") for record in logged)
    if name == "api":
        assert json.loads(answer.removeprefix("ANSWER "))["statusCode"] == 200
