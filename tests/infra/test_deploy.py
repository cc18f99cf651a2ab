"""`make deploy` and `make destroy`: what they check, and what they tell `cdk` to do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from infra.deploy import BOOTSTRAP_VERSION, main

CDK = """#!/bin/sh
echo "$*" >> "$0.calls"
while [ $# -gt 0 ]; do
    [ "$1" = --outputs-file ] && echo '{"clawjob-dev": {"ApiUrl": "https://api.example"}}' > "$2"
    shift
done
exit ${CDK_EXIT:-0}
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with a program `cdk` that notes what it is told."""
    for name in ("node", "cdk"):
        (tmp_path / name).write_text(CDK)
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.fixture
def calls(tools: Path) -> Callable[[], list[str]]:
    """What `cdk` was told so far."""
    return lambda: (tools / "cdk.calls").read_text().splitlines() if (tools / "cdk.calls").exists() else []


@pytest.fixture
def prepared(aws: Any) -> None:
    """An account in which `cdk bootstrap` was run."""
    boto3.client("ssm").put_parameter(Name=BOOTSTRAP_VERSION, Value="30", Type="String")


def test_deploying_ends_with_the_url_and_how_to_make_a_token(
    tools: Path, calls: Callable[[], list[str]], prepared: None, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["deploy", "dev"], tools) == 0
    assert [call.split()[1] for call in calls()] == ["deploy"]
    assert "-c stage=dev" in calls()[0]
    shown = capfd.readouterr().out
    assert "clawjob-dev to account 123456789012 in eu-west-1" in shown
    assert "clawjob login https://api.example" in shown
    assert "clawjob token create --stack clawjob-dev --role admin" in shown


def test_a_new_region_is_prepared_before(tools: Path, calls: Callable[[], list[str]], aws: Any) -> None:
    assert main(["deploy"], tools) == 0
    assert calls()[0].split()[1:3] == ["bootstrap", "aws://123456789012/eu-west-1"]
    assert calls()[1].split()[1] == "deploy"


def test_a_region_of_the_stage_counts_before_that_of_the_credentials(
    tools: Path, calls: Callable[[], list[str]], aws: Any
) -> None:
    assert main(["deploy", "dev", "-c", "region=us-east-2"], tools) == 0
    assert "bootstrap aws://123456789012/us-east-2" in calls()[0]
    assert calls()[1].endswith("-c region=us-east-2")


def test_nobody_is_asked_about_roles_where_nobody_can_answer(
    tools: Path, calls: Callable[[], list[str]], prepared: None
) -> None:
    main(["deploy"], tools)
    assert "--require-approval never" in calls()[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["deploy", "staging"], "there is no 'staging'"),
        (["deploy", "dev", "-c", "alarm_mail=me@example.org"], "Did you mean 'alarm_email'?"),
        (["destroy", "prod"], "clawjob-prod is protected"),
    ],
)
def test_what_cannot_be_is_said_before_cdk_starts(
    arguments: list[str],
    words: str,
    tools: Path,
    calls: Callable[[], list[str]],
    prepared: None,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(arguments, tools) == 1
    assert words in capfd.readouterr().err
    assert calls() == []


def test_missing_credentials_are_said_with_the_remedy(
    tools: Path, calls: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    assert main(["deploy"], tools) == 1
    assert "aws sso login" in capfd.readouterr().err
    assert calls() == []


def test_a_missing_region_is_said_with_the_remedy(
    tools: Path, aws: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert main(["deploy"], tools) == 1
    assert "Set AWS_REGION" in capfd.readouterr().err


def test_missing_tools_are_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy"], tmp_path) == 1
    assert "node and cdk: not in" in capfd.readouterr().err


def test_a_failure_of_cdk_is_a_failure(
    tools: Path, prepared: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CDK_EXIT", "1")
    assert main(["deploy"], tools) == 1
    assert "`cdk deploy` failed" in capfd.readouterr().err


def test_destroying_is_left_to_cdk_which_asks(tools: Path, calls: Callable[[], list[str]], prepared: None) -> None:
    assert main(["destroy", "dev"], tools) == 0
    assert calls() == ["--no-notices destroy -c stage=dev"]


def test_the_pinned_program_has_a_hash_and_no_address() -> None:
    folder = Path(__file__).parents[2] / "requirements" / "cdk"
    pinned = json.loads((folder / "package.json").read_text())["dependencies"]
    packages = json.loads((folder / "package-lock.json").read_text())["packages"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in pinned} == pinned
    for name, package in packages.items():
        assert "resolved" not in package
        assert not name or package["integrity"].startswith("sha512-")
