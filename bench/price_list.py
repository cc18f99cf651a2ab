"""AWS's list prices of us-east-1 that costs are computed from, each with its source, and what is free for ever.

Dollars without taxes and discounts. A source `not confirmed` is memory: look it up before you rely on it.
"""

from dataclasses import dataclass
from typing import Final

READ_AT: Final = "2026-12"
REGION: Final = "us-east-1"
_UNCONFIRMED: Final = "not confirmed"


@dataclass(frozen=True, slots=True)
class Price:
    """What something costs."""

    what: str
    dollars: float
    per: str
    """Its unit, in words."""
    units: float
    """How many units the dollars are for."""
    source: str
    free: float = 0.0
    """Units a month that no account pays."""

    @property
    def each(self) -> float:
        """Dollars for one unit."""
        return self.dollars / self.units


_M: Final = 1e6
_DYNAMODB: Final = "airbyte.com/data-engineering-resources/dynamodb-pricing"
_FARGATE: Final = "vantage.sh"
_CLOUDWATCH: Final = "aws.amazon.com/cloudwatch/pricing"
WRITE: Final = Price("DynamoDB write", 0.625, "million write units", _M, _DYNAMODB)
READ: Final = Price("DynamoDB read", 0.125, "million read units", _M, _DYNAMODB)
STORED: Final = Price("DynamoDB storage", 0.25, "GB", 1, _UNCONFIRMED, free=25)
RESTORE: Final = Price("DynamoDB point-in-time recovery", 0.20, "GB", 1, _UNCONFIRMED)
SQS: Final = Price("SQS requests", 0.40, "million", _M, "cloudburn.io/blog/amazon-sqs-pricing", free=_M)
FAIR: Final = Price("SQS fair queues, on top", 0.10, "million", _M, "cloudburn.io/blog/amazon-sqs-pricing")
LAMBDA_CALL: Final = Price("Lambda calls", 0.20, "million", _M, _UNCONFIRMED, free=_M)
LAMBDA_TIME: Final = Price("Lambda time, Arm", 0.0000133334, "GB-second", 1, _UNCONFIRMED, free=400_000)
RULE: Final = Price("EventBridge rule on a schedule", 0.0, "million events", _M, _UNCONFIRMED)
GATEWAY: Final = Price("API Gateway, HTTP API", 1.00, "million requests", _M, "infraatlas.dev")
METRIC: Final = Price("CloudWatch metric of our own", 0.30, "metric", 1, _CLOUDWATCH, free=10)
ALARM: Final = Price("CloudWatch alarm", 0.10, "metric that it watches", 1, _CLOUDWATCH, free=10)
DASHBOARD: Final = Price("CloudWatch dashboard", 3.00, "dashboard", 1, _CLOUDWATCH, free=3)
LOGS: Final = Price("CloudWatch logs", 0.50, "GB taken in", 1, _CLOUDWATCH, free=5)
LOGS_KEPT: Final = Price("CloudWatch logs, kept", 0.03, "GB", 1, _CLOUDWATCH)
IMAGES: Final = Price("ECR images", 0.10, "GB", 1, _UNCONFIRMED)
OBJECTS: Final = Price("S3 storage", 0.023, "GB", 1, _UNCONFIRMED)
VCPU: Final = Price("Fargate processor, Arm", 0.03238, "vCPU-hour", 1, _FARGATE)
MEMORY: Final = Price("Fargate memory, Arm", 0.00356, "GB-hour", 1, _FARGATE)
IPV4: Final = Price("public IPv4 address", 0.005, "hour", 1, "cloudburn.io")
TRANSITION: Final = Price("Step Functions Standard", 25.0, "million transitions", _M, "wring.co", free=4_000)
TRIGGER: Final = Price("EventBridge Scheduler", 1.00, "million firings", _M, "awsnegotiations.com", free=14 * _M)
SPOT: Final = 0.3
"""Share of the price that Fargate Spot asks for processor and memory, at best (wring.co)."""
FARGATE_LEAST_SECONDS: Final = 60
"""Billed of each task at least, from the pull of its image on."""
PRICES: Final = (
    *(WRITE, READ, STORED, RESTORE, SQS, FAIR, LAMBDA_CALL, LAMBDA_TIME, RULE, GATEWAY),
    *(METRIC, ALARM, DASHBOARD, LOGS, LOGS_KEPT, IMAGES, OBJECTS, VCPU, MEMORY, IPV4, TRANSITION, TRIGGER),
)
