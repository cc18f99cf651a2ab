"""Log groups: each is a resource of the stack with a retention, and none has a fixed name."""

from typing import Final

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.config import StageConfig

_RETENTION: Final = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
}


def make_log_group(scope: Construct, name: str, config: StageConfig) -> logs.LogGroup:
    """Make a log group that ends with the stack, whatever the stage: logs are no data."""
    return logs.LogGroup(
        scope, name, retention=_RETENTION[config.log_retention_days], removal_policy=RemovalPolicy.DESTROY
    )
