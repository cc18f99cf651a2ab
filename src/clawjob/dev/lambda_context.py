"""What Lambda gives a handler besides its event."""

import time
from dataclasses import dataclass, field

from clawjob.dev.moto_server import ACCOUNT, REGION


@dataclass(slots=True)
class LambdaContext:
    """The context object of one invocation; the names are Lambda's."""

    function_name: str
    aws_request_id: str
    timeout_seconds: float = 30.0
    memory_limit_in_mb: int = 512
    function_version: str = "$LATEST"
    _ends_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._ends_at = time.monotonic() + self.timeout_seconds

    @property
    def invoked_function_arn(self) -> str:
        """Name of the function as AWS writes it."""
        return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self.function_name}"

    @property
    def log_group_name(self) -> str:
        """Where its log would go."""
        return f"/aws/lambda/{self.function_name}"

    @property
    def log_stream_name(self) -> str:
        """Part of the group that this instance writes."""
        return "dev"

    def get_remaining_time_in_millis(self) -> int:
        """Time until Lambda would end the invocation."""
        return max(0, round((self._ends_at - time.monotonic()) * 1000))
