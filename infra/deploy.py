"""What `make synth`, `deploy` and `destroy` run: checks in plain words first, then the program `cdk` of `.venv`.

What follows the stage goes to `cdk` as it is, such as `-c alarm_email=me@example.org`.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from infra.config import DEFAULT_STAGE, PRESETS, ConfigError, StageConfig, stage_config

ROOT: Final = Path(__file__).parents[1]
BIN: Final = Path(sys.prefix) / "bin"
BOOTSTRAP_VERSION: Final = "/cdk-bootstrap/hnb659fds/version"
"""The parameter that `cdk bootstrap` leaves in each region of an account."""


class DeployError(Exception):
    """Something is missing; the text says what, and the remedy."""


class Cdk:
    """The program `cdk`, run in the project's root with the Node and the Python beside it."""

    def __init__(self, folder: Path = BIN) -> None:
        self._folder = folder
        missing = [name for name in ("node", "cdk") if not (folder / name).exists()]
        if missing:
            raise DeployError(f"{' and '.join(missing)}: not in {folder}. Use the make targets, which install it.")

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command."""
        search = os.pathsep.join([str(self._folder), os.environ.get("PATH", os.defpath)])
        environment = {**os.environ, "PATH": search, "CDK_DISABLE_CLI_TELEMETRY": "true"}
        return subprocess.Popen([self._folder / "cdk", "--no-notices", *arguments], cwd=ROOT, env=environment)

    def run(self, *arguments: str) -> None:
        """Run a command; `cdk` itself says what goes wrong.

        Raises:
            DeployError: it failed.
        """
        if self.start(*arguments).wait():
            raise DeployError(f"`cdk {arguments[0]}` failed: see above.")


def synth(cdk: Cdk, stage: str | None, more: Sequence[str]) -> None:
    """Make the templates of a stage, or of all built-in stages side by side, each in a folder below `cdk.out`."""
    stages = [stage] if stage else list(PRESETS)
    made = {one: cdk.start("synth", "--quiet", "-c", f"stage={one}", "-o", f"cdk.out/{one}", *more) for one in stages}
    failed = [one for one, process in made.items() if process.wait()]
    if failed:
        raise DeployError(f"no template of {', '.join(failed)}: see above.")
    for one in stages:
        path = ROOT / "cdk.out" / one / f"clawjob-{one}.template.json"
        resources = json.loads(path.read_text("utf-8"))["Resources"]
        print(f"{one}: {len(resources)} resources in {path.relative_to(ROOT)}")  # noqa: T201 - its answer


def deploy(cdk: Cdk, stage: str, more: Sequence[str]) -> None:
    """Deploy a stage; prepare account and region for the CDK first where nobody has."""
    config = _config(stage, more)
    account, region = _where(config)
    print(f"{config.stack_name} to account {account} in {region}", flush=True)  # noqa: T201 - what it is about to do
    if not _is_bootstrapped(region):
        # Without the app, which has nothing to say to it and takes seconds.
        cdk.run("bootstrap", f"aws://{account}/{region}", "--app", "")
    with tempfile.TemporaryDirectory() as folder:
        outputs = Path(folder) / "outputs.json"
        # Where nobody can answer, nobody is asked whether roles and policies may change.
        approval = () if sys.stdin.isatty() else ("--require-approval", "never")
        cdk.run("deploy", "-c", f"stage={stage}", "--outputs-file", str(outputs), *approval, *more)
        shown = json.loads(outputs.read_text("utf-8"))[config.stack_name]
    print(_next_steps(config.stack_name, shown["ApiUrl"]))  # noqa: T201 - its answer


def destroy(cdk: Cdk, stage: str, more: Sequence[str]) -> None:
    """Delete a stage's stack; `cdk` asks before it does."""
    config = _config(stage, more)
    account, region = _where(config)
    if config.protect_data:
        raise DeployError(f"{config.stack_name} is protected. docs/runbook.md says how to delete it and its data.")
    print(f"{config.stack_name} of account {account} in {region} will be deleted", flush=True)  # noqa: T201
    cdk.run("destroy", "-c", f"stage={stage}", *more)


def main(arguments: Sequence[str] | None = None, folder: Path = BIN) -> int:
    """Do what the command line says.

    Args:
        arguments: verb, stage, and what goes to `cdk`; None takes the process's own.
        folder: where `cdk` and `node` are.

    Returns:
        The exit code.
    """
    verb, *more = sys.argv[1:] if arguments is None else arguments
    stage = more.pop(0) if more and not more[0].startswith("-") else None
    try:
        cdk = Cdk(folder)
        if verb == "synth":
            synth(cdk, stage, more)
        else:
            {"deploy": deploy, "destroy": destroy}[verb](cdk, stage or DEFAULT_STAGE, more)
    except (ConfigError, DeployError) as error:
        print(f"clawjob: {error}", file=sys.stderr)  # noqa: T201 - a program's error
        return 1
    return 0


def _config(stage: str, more: Sequence[str]) -> StageConfig:
    context = json.loads((ROOT / "cdk.json").read_text("utf-8"))["context"]
    given = [text for option, text in pairwise(more) if option in ("-c", "--context")]
    return stage_config({**context, **dict(text.split("=", 1) for text in given if "=" in text), "stage": stage})


def _where(config: StageConfig) -> tuple[str, str]:
    try:
        session = boto3.session.Session()
        region = config.region or session.region_name
        if not region:
            raise DeployError("No AWS region is chosen. Set AWS_REGION, or `region` of the stage in cdk.json.")
        return session.client("sts", region_name=region).get_caller_identity()["Account"], region
    except (BotoCoreError, ClientError) as error:
        raise DeployError(
            f"AWS does not take the credentials here: {error} "
            "Log in (`aws sso login`), choose a profile with AWS_PROFILE, or set AWS_ACCESS_KEY_ID and its secret."
        ) from error


def _is_bootstrapped(region: str) -> bool:
    client = boto3.session.Session().client("ssm", region_name=region)
    try:
        client.get_parameter(Name=BOOTSTRAP_VERSION)
    except client.exceptions.ParameterNotFound:
        return False
    except (BotoCoreError, ClientError) as error:
        raise DeployError(f"It cannot be seen whether the region is ready for the CDK: {error}") from error
    return True


def _next_steps(stack: str, url: str) -> str:
    return f"""
The API answers at {url}. Make the first token and log in with it:
    clawjob token create --stack {stack} --role admin | clawjob login {url}"""


if __name__ == "__main__":
    sys.exit(main())
