"""What a deployed stack says about itself: where its table, queues and API are."""

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from clawjob.domain.errors import NotFoundError, UnavailableError

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient


class StackNotFoundError(NotFoundError):
    """No stack has this name in this account and region."""

    def __init__(self, stack: str, region: str) -> None:
        self.stack = stack
        self.region = region
        super().__init__(f"there is no stack {stack!r} in {region}")


def stack_outputs(client: "CloudFormationClient", stack: str) -> dict[str, str]:
    """Read a stack's outputs.

    Raises:
        StackNotFoundError: there is no such stack.
        UnavailableError: AWS does not answer, or does not let us look.
    """
    try:
        found = client.describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        text = str(error.response.get("Error", {}).get("Message", error))
        if "does not exist" in text:
            raise StackNotFoundError(stack, client.meta.region_name) from error
        raise UnavailableError("DescribeStacks", text) from error
    except BotoCoreError as error:
        raise UnavailableError("DescribeStacks", str(error)) from error
    return {one["OutputKey"]: one["OutputValue"] for one in found[0].get("Outputs", [])}
