"""Workers: how they start, stop, scale, and what they may do."""

import re
from pathlib import Path
from typing import Any

import pytest

from infra.config import ConfigError, stage_config
from infra.workers import FOLDERS, PROGRAM, USER
from support.stacks import Template, template

DOCKERFILE = Path(__file__).parents[2] / "runner_image" / "Dockerfile"
TWO = [{"name": "default", "minimum": 0, "spot_share": 100}, {"name": "big", "spot_share": 70, "maximum": 3}]


def container(stack: Template) -> Any:
    (one,) = stack.one("AWS::ECS::TaskDefinition")["ContainerDefinitions"]
    return one


def service(stack: Template, pool: str = "default") -> Any:
    return stack.one("AWS::ECS::Service", f"WorkersPool{pool}")


def alarm(stack: Template, name: str) -> Any:
    return stack.one("AWS::CloudWatch::Alarm", f"WorkersPooldefault{name}Alarm")


def expression(one: Any) -> str:
    return next(metric["Expression"] for metric in one["Metrics"] if "Expression" in metric)


def steps(stack: Template, name: str) -> list[int]:
    kind = "AWS::ApplicationAutoScaling::ScalingPolicy"
    found = [
        one["Properties"]
        for key, one in stack.of_type(kind).items()
        if re.fullmatch(f"WorkersPooldefault{name}[0-9A-F]{{8}}", key)
    ]
    (one,) = found
    return [step["ScalingAdjustment"] for step in one["StepScalingPolicyConfiguration"]["StepAdjustments"]]


def test_a_worker_hears_the_order_to_stop_and_has_two_minutes() -> None:
    one = container(template())
    assert (one["StopTimeout"], one["LinuxParameters"]["InitProcessEnabled"]) == (120, True)
    assert (one["EntryPoint"], one["Command"]) == ([PROGRAM], ["worker"])
    assert "HealthCheck" not in one


def test_the_drain_leaves_time_to_hand_runs_back() -> None:
    values = {one["Name"]: one["Value"] for one in container(template())["Environment"]}
    assert float(values["CLAWJOB_DRAIN_SECONDS"]) + 35 < 120


def test_a_worker_writes_only_to_its_volumes_and_is_not_root() -> None:
    one = container(template())
    assert (one["ReadonlyRootFilesystem"], one["User"]) == (True, USER)
    assert {mount["ContainerPath"] for mount in one["MountPoints"]} == {"/work", "/tmp"}
    values = {each["Name"]: each["Value"] for each in one["Environment"]}
    assert values["CLAWJOB_WORK_DIR"] == "/work"


def test_tasks_are_arm64_of_the_pools_size() -> None:
    one = template(pools=[{"cpu": 2048, "memory_mib": 4096}]).one("AWS::ECS::TaskDefinition")
    assert (one["Cpu"], one["Memory"], one["RuntimePlatform"]["CpuArchitecture"]) == ("2048", "4096", "ARM64")


def test_a_bad_deploy_rolls_back_and_no_worker_goes_before_a_new_one_is_there() -> None:
    one = service(template())["DeploymentConfiguration"]
    assert one["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}
    assert (one["MinimumHealthyPercent"], one["MaximumPercent"]) == (100, 200)


def test_spot_takes_its_share_of_what_comes_above_the_minimum() -> None:
    stack = template(pools=TWO)
    assert service(stack)["CapacityProviderStrategy"] == [{"CapacityProvider": "FARGATE_SPOT", "Weight": 100}]
    assert service(stack, "big")["CapacityProviderStrategy"] == [
        {"CapacityProvider": "FARGATE", "Base": 1, "Weight": 30},
        {"CapacityProvider": "FARGATE_SPOT", "Weight": 70},
    ]
    assert len(stack.properties("AWS::ECS::Cluster")) == 1


def test_a_deploy_leaves_the_number_of_workers_and_none_start_before_there_is_an_image() -> None:
    stack = template(pools=TWO)
    assert service(stack)["DesiredCount"] == {"Fn::If": ["HasImage", {"Ref": "AWS::NoValue"}, 0]}
    assert stack.body["Parameters"]["ImageTag"]["Default"] == ""
    target = stack.one("AWS::ApplicationAutoScaling::ScalableTarget", "WorkersPoolbig")
    assert target["MinCapacity"] == {"Fn::If": ["HasImage", 1, 0]}
    assert target["MaxCapacity"] == {"Fn::If": ["HasImage", 3, 0]}


def test_a_pool_with_an_image_of_its_own_asks_for_no_tag() -> None:
    stack = template(pools=[{"image": "example.org/crawlers:7"}])
    assert container(stack)["Image"] == "example.org/crawlers:7"
    assert "DesiredCount" not in service(stack)
    assert "ImageTag" not in stack.body["Parameters"]
    target = stack.one("AWS::ApplicationAutoScaling::ScalableTarget")
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 12)


def test_workers_are_added_by_backlog_age_and_the_first_waiting_run() -> None:
    stack = template(scale_out_backlog=4000, scale_out_age_seconds=120)
    assert alarm(stack, "Backlog")["Threshold"] == 4000
    assert (alarm(stack, "AgeHigh")["Threshold"], alarm(stack, "AgeLow")["Threshold"]) == (120, 120)
    assert expression(alarm(stack, "AgeLow")) == "IF(waiting > 0, age, 0)"
    first = alarm(stack, "FirstLow")
    assert (first["Threshold"], first["EvaluationPeriods"]) == (1, 1)
    assert expression(first) == "IF(taken < 1, waiting, 0)"
    assert steps(stack, "Backlog") == [1, 2, 4]
    assert steps(stack, "One") == [1]


def test_by_default_workers_are_added_at_five_thousand_waiting_runs_or_five_minutes() -> None:
    assert alarm(template(), "Backlog")["Threshold"] == 5000
    assert alarm(template(), "AgeHigh")["Threshold"] == 300


def test_workers_go_when_nothing_waits_and_they_are_not_needed() -> None:
    one = alarm(template(), "In")
    assert expression(one) == "IF(high + low > 0, 0, workers - CEIL((high_taken + low_taken) / 2))"
    assert (one["Threshold"], one["EvaluationPeriods"]) == (1, 15)
    assert steps(template(), "In") == [-1, -3, -6]


def test_a_worker_may_touch_the_table_and_its_own_queues_and_nothing_else() -> None:
    stack = template(pools=TWO)
    document = stack.one("AWS::IAM::Policy", "WorkersPooldefaultRole")["PolicyDocument"]
    text = str(document)
    assert "DataRunsDefaultHigh" in text
    assert "DataRunsBig" not in text
    assert "'*'" not in text
    assert "index" not in text


def test_without_workers_there_is_no_network_and_no_cluster() -> None:
    stack = template(workers=False)
    assert not stack.of_type("AWS::ECS::Cluster")
    assert not stack.of_type("AWS::EC2::VPC")


def test_sizes_that_fargate_does_not_have_are_refused() -> None:
    with pytest.raises(ConfigError, match="2048 to 8192 in steps of 1024"):
        stage_config({"pools": '[{"cpu": 1024, "memory_mib": 1024}]'})


def test_the_image_has_the_user_and_the_folders_of_the_service() -> None:
    text = DOCKERFILE.read_text("utf-8")
    assert f"USER {USER}" in text
    assert f"VOLUME {str(list(FOLDERS.values())).replace(chr(39), chr(34))}" in text
    assert f'ENTRYPOINT ["/usr/bin/tini", "--", "{PROGRAM}"]' in text
    assert 'CMD ["worker"]' in text
