"""What is kept: table, queues, bucket, log groups; their names, their ids, and what a setting changes of them."""

import json
from typing import Any

import pytest

from clawjob.aws.table import DEAD_LETTER_RECEIVES
from clawjob.domain.times import Times
from infra.config import PRESETS
from support.stacks import Template, everywhere, template

QUEUE = "AWS::SQS::Queue"
STATEFUL = {
    "DataTableFDBAD0F2",
    "DataRunsDefaultHigh7FB1D89D",
    "DataRunsDefaultHighDead5329F62F",
    "DataRunsDefaultLowBA2B58BB",
    "DataRunsDefaultLowDead68E15EB0",
    "DataResultsDF54D4F1",
    "DataResultsDeadD93162FC",
    "DataTicksDeadC2ED39A5",
    "DataOutputs2B416B7F",
    "DataRunLogs706C5105",
    "DataImagesE36FBF16",
}
FIXED_NAMES = {
    "AlarmName",
    "BucketName",
    "ClusterName",
    "DashboardName",
    "FunctionName",
    "LogGroupName",
    "PolicyName",
    "QueueName",
    "RepositoryName",
    "RoleName",
    "RuleName",
    "TableName",
    "TopicName",
}
"""Properties that would give a resource a name of its own. A literal one would collide with a second stage."""


def data_of(stack: Template) -> dict[str, Any]:
    return {key: one for key, one in stack.resources.items() if key.startswith("Data")}


def dead_of(queue: Any, stack: Template) -> Any:
    return stack.resources[queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]]["Properties"]


def living(stack: Template) -> dict[str, Any]:
    return {key: one["Properties"] for key, one in stack.of_type(QUEUE).items() if "Dead" not in key}


@pytest.mark.parametrize("stage", PRESETS)
def test_each_queue_leads_to_dead_letters_that_are_kept_as_long(stage: str) -> None:
    stack = template(stage=stage)
    assert len(living(stack)) == 3
    for queue in living(stack).values():
        assert queue["RedrivePolicy"]["maxReceiveCount"] == DEAD_LETTER_RECEIVES >= 3
        assert dead_of(queue, stack)["MessageRetentionPeriod"] >= queue["MessageRetentionPeriod"]


def test_every_queue_of_dead_letters_has_a_source() -> None:
    stack = template()
    named = {queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0] for queue in living(stack).values()}
    (target,) = stack.one("AWS::Events::Rule", "ControlTick")["Targets"]
    named.add(target["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0])
    assert named == set(stack.of_type(QUEUE)) - set(living(stack))


def test_a_message_of_a_run_is_hidden_for_one_lease() -> None:
    queues = {key: one for key, one in living(template()).items() if key.startswith("DataRuns")}
    assert len(queues) == 2
    assert {one["VisibilityTimeout"] for one in queues.values()} == {Times().lease.total_seconds()}


def test_every_queue_and_the_bucket_refuse_what_is_not_encrypted_on_its_way() -> None:
    stack = template()
    guarded = set()
    for policy in [*stack.properties("AWS::SQS::QueuePolicy"), *stack.properties("AWS::S3::BucketPolicy")]:
        (statement,) = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Deny"]
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        guarded |= {one["Ref"] for one in policy.get("Queues", [policy.get("Bucket")])}
    assert guarded == {*stack.of_type(QUEUE), *stack.of_type("AWS::S3::Bucket")}


@pytest.mark.parametrize("stage", PRESETS)
def test_the_table_is_paid_by_use_forgets_by_itself_and_can_be_restored(stage: str) -> None:
    table = template(stage=stage).one("AWS::DynamoDB::Table")
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert {one["IndexName"] for one in table["GlobalSecondaryIndexes"]} == {"due", "list"}


@pytest.mark.parametrize(("stage", "kept"), [("dev", False), ("prod", True)])
def test_only_prod_keeps_its_data_when_the_stack_goes(stage: str, kept: bool) -> None:
    stack = template(stage=stage)
    assert stack.one("AWS::DynamoDB::Table").get("DeletionProtectionEnabled", False) is kept
    for key in STATEFUL - {"DataRunLogs706C5105"}:
        for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
            assert stack.resources[key][policy] == ("Retain" if kept else "Delete"), key


def test_big_outputs_are_private_and_end_after_the_days_of_the_stage() -> None:
    bucket = template(output_retention_days="7").one("AWS::S3::Bucket")
    (rule,) = bucket["LifecycleConfiguration"]["Rules"]
    assert (rule["Status"], rule["ExpirationInDays"]) == ("Enabled", 7)
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}


@pytest.mark.parametrize("stage", PRESETS)
def test_the_ids_of_what_has_a_state_never_change(stage: str) -> None:
    assert set(template(stage=stage).resources) >= STATEFUL


def test_a_change_of_a_pools_size_changes_nothing_that_is_kept() -> None:
    pools = [{"name": "default", "minimum": 3, "maximum": 40, "slots": 8, "cpu": 2048, "memory_mib": 4096}]
    assert data_of(template(pools=pools)) == data_of(template())


def test_a_further_pool_adds_its_queues_and_leaves_the_others_as_they_are() -> None:
    before, after = data_of(template()), data_of(template(pools=[{"name": "default"}, {"name": "big"}]))
    assert {key: after[key] for key in before} == before
    added = [one["Type"] for key, one in after.items() if key not in before]
    assert sorted(added) == 4 * [QUEUE] + 4 * ["AWS::SQS::QueuePolicy"]


@pytest.mark.parametrize("stage", PRESETS)
def test_nothing_has_a_name_that_a_second_stage_would_want_too(stage: str) -> None:
    for key, one in template(stage=stage).resources.items():
        names = {name: one["Properties"][name] for name in FIXED_NAMES & set(one["Properties"])}
        # What people look for by name is called after its stage.
        fixed = {name for name, text in names.items() if isinstance(text, str) and f"clawjob-{stage}" not in text}
        if one["Type"] == "AWS::ApplicationAutoScaling::ScalingPolicy":
            # Named within the service that it scales.
            fixed -= {"PolicyName"}
        # A role's own policies are named within the role, and the generated name is the policy's id.
        if one["Type"] == "AWS::IAM::Policy":
            assert one["Properties"]["PolicyName"] == key
            fixed -= {"PolicyName"}
        assert not fixed, f"{key} is always named by {fixed}"


def test_two_stages_are_two_stacks_of_the_same_parts() -> None:
    dev, prod = template(stage="dev"), template(stage="prod")
    assert (dev.path.name, prod.path.name) == ("clawjob-dev.template.json", "clawjob-prod.template.json")
    assert "clawjob-dev" not in json.dumps(prod.body)
    assert "clawjob-prod" not in json.dumps(dev.body)


@pytest.mark.parametrize("days", [1, 30])
def test_every_log_group_forgets_after_the_days_of_the_stage(days: int) -> None:
    groups = template(log_retention_days=days).properties("AWS::Logs::LogGroup")
    assert len(groups) >= 6
    assert {one["RetentionInDays"] for one in groups} == {days}


def test_no_account_number_is_in_a_template() -> None:
    for value in everywhere(template(stage="prod").body):
        assert not (isinstance(value, str) and value.isdigit() and len(value) == 12)
