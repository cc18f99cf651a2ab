"""Lambda's context object, with as much time left as the test wants."""

from dataclasses import dataclass


@dataclass
class LambdaContext:
    milliseconds: int = 60_000
    function_name: str = "clawjob-test"
    memory_limit_in_mb: int = 256
    invoked_function_arn: str = "arn:aws:lambda:eu-west-1:123456789012:function:clawjob-test"
    aws_request_id: str = "11111111-2222-3333-4444-555555555555"
    function_version: str = "7"

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds
