"""Stages: what a stage is made of, and what is refused."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from clawjob.domain.times import Times
from clawjob.settings import CoreSettings
from infra.config import ConfigError, stage_config
from support.stacks import template


def problem(**context: object) -> str:
    with pytest.raises(ConfigError) as caught:
        stage_config(context)
    return str(caught.value)


def test_without_a_word_the_stage_is_dev_with_no_worker_waiting() -> None:
    config = stage_config({})
    assert config.stack_name == "clawjob-dev"
    assert [(pool.name, pool.minimum, pool.maximum) for pool in config.pools] == [("default", 0, 12)]


def test_prod_keeps_its_data() -> None:
    assert stage_config({"stage": "prod"}).protect_data


def test_the_keys_of_the_cdk_itself_are_left_alone() -> None:
    assert stage_config({"@aws-cdk/core:x": True, "aws:cdk:y": []}).stage == "dev"


def test_an_unknown_key_is_named_with_the_nearest() -> None:
    assert problem(alarm_mail="a@b.c") == "alarm_mail: there is no such key. Did you mean 'alarm_email'?"


def test_an_unknown_key_of_a_pool_is_named_with_the_nearest() -> None:
    assert problem(pools='[{"minimun": 1}]') == "pools.0.minimun: there is no such key. Did you mean 'minimum'?"


def test_every_wrong_key_is_named_at_once() -> None:
    assert [line.split(":")[0] for line in problem(region="Ireland", api_rate="many").splitlines()] == [
        "region",
        "api_rate",
    ]


def test_a_stage_of_ones_own_says_what_it_is_like() -> None:
    assert "preset=dev" in problem(stage="staging")
    assert stage_config({"stage": "staging", "preset": "prod"}).protect_data


def test_options_go_over_the_file_and_the_file_over_the_preset() -> None:
    stages = {"prod": {"run_retention_days": 7, "api_rate": 5}}
    config = stage_config({"stage": "prod", "stages": stages, "api_rate": "6"})
    assert (config.run_retention_days, config.api_rate, config.protect_data) == (7, 6, True)


@pytest.mark.parametrize(
    ("context", "named"),
    [
        ({"pools": "[]"}, "pools"),
        ({"pools": "[{]"}, "pools"),
        ({"pools": '[{"name": "a"}, {"name": "a"}]'}, "pools"),
        ({"pools": '[{"minimum": 3, "maximum": 2}]'}, "minimum 3 is above maximum 2"),
        ({"pools": '[{"name": "Big_Pool"}]'}, "pools.0.name"),
        ({"budget_usd": "5"}, "alarm_email"),
        ({"monitoring": "false", "canary": "true"}, "canary"),
        ({"stage": "Dev"}, "stage"),
        ({"stage": "prod", "preset": "big"}, "preset"),
        ({"stages": "all"}, "stages"),
        ({"python": "3.9"}, "python"),
    ],
)
def test_what_cannot_be_is_refused_by_name(context: dict[str, object], named: str) -> None:
    assert named in problem(**context)


def test_every_component_keeps_runs_as_long_as_the_stage_says() -> None:
    """Each of them writes when a run may be forgotten, so each must be told."""
    stack = template(stage="prod", run_retention_days="7")
    functions = {
        key: one["Properties"]["Environment"]["Variables"]
        for key, one in stack.of_type("AWS::Lambda::Function").items()
        if "CLAWJOB_TABLE" in one["Properties"].get("Environment", {}).get("Variables", {})
    }
    (container,) = stack.one("AWS::ECS::TaskDefinition")["ContainerDefinitions"]
    worker = {one["Name"]: one["Value"] for one in container["Environment"]}
    assert len(functions) >= 4
    for variables in (*functions.values(), worker):
        given = {"CLAWJOB_TABLE": "t", "CLAWJOB_RUN_QUEUES": '{"default": {"high": "h", "low": "l"}}'}
        settings = CoreSettings.from_environment({**given, "CLAWJOB_TIMES": variables["CLAWJOB_TIMES"]})
        assert settings.times == replace(Times(), retention=timedelta(days=7))


def test_a_stage_with_the_default_retention_says_nothing_of_times() -> None:
    assert Times().retention == timedelta(days=stage_config({}).run_retention_days)
    assert not any("CLAWJOB_TIMES" in json.dumps(one) for one in template(stage="dev").resources.values())
