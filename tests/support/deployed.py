"""The stack as `make deploy` puts it into the emulator, and what its users do with it: commands, requests, workers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx

from support.emulator import ACCOUNT, REGION, Emulator

T = TypeVar("T")

STAGE: Final = "emulator"
STACK: Final = f"clawjob-{STAGE}"
UNKNOWN_TOKEN: Final = "cj_nobody_" + "0" * 40
ROOT: Final = Path(__file__).parents[2]
BIN: Final = Path(sys.prefix) / "bin"
_SEARCH: Final = os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath)])
_COMMAND_SECONDS: Final = 240
_GRANT: Final = "as-the-emulator-asks"
_BATCHED: Final = frozenset({"sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:SendMessage"})
_WORKER_ROLE: Final = "clawjob-test-worker"


class Stack:
    """One deployed stack."""

    def __init__(self, emulator: Emulator, folder: Path) -> None:
        self.emulator = emulator
        self.folder = folder
        self.ticks = 0
        """How often we let the scheduler tick."""

    def deploy(self, *options: str) -> str:
        """Do what `make deploy STAGE=emulator` does; give what it said."""
        said = self.run(sys.executable, "-m", "infra.deploy", "deploy", STAGE, "--output", self._out, *options)
        self.__dict__.pop("outputs", None)
        self._grant()
        # A function's first call loads it, which on a busy machine may take longer than the authorizer has.
        until(lambda: self.ask("GET", "/whoami", UNKNOWN_TOKEN).status_code == 403)
        return said

    def destroy(self) -> str:
        """Do what `make destroy STAGE=emulator` does, and answer its question."""
        for role in self._roles():
            self._iam.delete_role_policy(RoleName=role, PolicyName=_GRANT)
        return self.run(sys.executable, "-m", "infra.deploy", "destroy", STAGE, "--force", "--output", self._out)

    def cdk(self, *arguments: str) -> str:
        """Run the CDK's own command line for this stage; gives what it said, for which it has another stream in CI."""
        options = ("-c", f"stage={STAGE}", "--output", self._out)
        done = self._done((BIN / "cdk", "--no-notices", *arguments, *options), "", True, {"PATH": _SEARCH})
        return done.stdout + done.stderr

    def clawjob(self, *arguments: str, token: str = "", stdin: str = "", ok: bool = True) -> str:
        """Run the command line; with a token against the deployed API. Gives stdout, or stderr where it must fail."""
        given = {"CLAWJOB_URL": self.path_url, "CLAWJOB_TOKEN": token} if token else {}
        return self.run(BIN / "clawjob", *arguments, stdin=stdin, ok=ok, **self.user(), **given)

    def user(self) -> dict[str, str]:
        """Variables of somebody who uses the command line: our programs, a home of their own, whom they trust."""
        home = str(self.folder / "home")
        return {"PATH": _SEARCH, "XDG_CONFIG_HOME": home, "SSL_CERT_FILE": str(self.emulator.certificate)}

    def run(self, *command: str | Path, stdin: str = "", ok: bool = True, **variables: str) -> str:
        """Run a program that finds the emulator in place of AWS; gives stdout, or stderr where it must fail."""
        done = self._done(command, stdin, ok, variables)
        return done.stdout if ok else done.stderr

    def _done(
        self, command: Sequence[str | Path], stdin: str, ok: bool, variables: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self.emulator.environment(CDK_HOME=str(self.folder), CDK_DISABLE_CLI_TELEMETRY="true", **variables),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        words = " ".join(str(part).removeprefix(f"{BIN}/") for part in command)
        assert (done.returncode == 0) is ok, f"`{words}` ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    @cached_property
    def outputs(self) -> dict[str, str]:
        """What the stack says about itself."""
        (found,) = self.emulator.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
        return {one["OutputKey"]: one["OutputValue"] for one in found["Outputs"]}

    def resources(self) -> dict[str, tuple[str, str]]:
        """Type and name of each resource by its id in the template."""
        pages = self.emulator.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=STACK)
        found = [one for page in pages for one in page["StackResourceSummaries"]]
        return {one["LogicalResourceId"]: (one["ResourceType"], one["PhysicalResourceId"]) for one in found}

    def name_of(self, kind: str, beginning: str) -> str:
        """Name of the one resource of a type whose id in the template begins so."""
        found = [name for key, (one, name) in self.resources().items() if one == kind and key.startswith(beginning)]
        assert len(found) == 1, found
        return found[0]

    @property
    def path_url(self) -> str:
        """The API's address in a form that needs no DNS; the emulator has it besides the real one."""
        api_id = self.outputs["ApiUrl"].removeprefix("https://").partition(".")[0]
        return f"{self.emulator.url}/_aws/execute-api/{api_id}/$default"

    def ask(
        self, method: str, path: str, token: str = "", body: object = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Make a request of the API by its own host name."""
        headers = {"Host": self.outputs["ApiUrl"].removeprefix("https://"), **(headers or {})}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        with self.emulator.browser() as browser:
            return browser.request(method, f"{self.emulator.url}/api/v1{path}", headers=headers, json=body)

    def call_scheduler(self, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call the scheduler as its rule does, and give its answer."""
        name = self.outputs["SchedulerFunction"]
        payload = json.dumps(event or {}).encode()
        answer = self.emulator.client("lambda").invoke(FunctionName=name, Qualifier="live", Payload=payload)
        text = answer["Payload"].read()
        self.ticks += event is None
        assert "FunctionError" not in answer, text
        return json.loads(text)  # type: ignore[no-any-return]

    def waiting_runs(self) -> int:
        """Messages that a worker of the pool `default` could take now."""
        urls = json.loads(self.outputs["RunQueues"])["default"].values()
        name, sqs = "ApproximateNumberOfMessages", self.emulator.client("sqs")
        return sum(
            int(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name]) for url in urls
        )

    def said(self, component: str, message: str) -> list[dict[str, Any]]:
        """What a function logged with this message, from its log group."""
        group = self.name_of("AWS::Logs::LogGroup", f"Control{component}Logs")
        pages = self.emulator.client("logs").get_paginator("filter_log_events").paginate(logGroupName=group)
        lines = [event["message"] for page in pages for event in page["events"] if event["message"].startswith("{")]
        return [record for record in map(json.loads, lines) if record.get("message") == message]

    @contextmanager
    def without_right(self, component: str, action: str) -> Iterator[None]:
        """Take an action away from a function's role for a while."""
        role = self.name_of("AWS::IAM::Role", f"Control{component}Role")
        self._put(role, "denied", [{"Effect": "Deny", "Action": action, "Resource": "*"}])
        try:
            yield
        finally:
            self._iam.delete_role_policy(RoleName=role, PolicyName="denied")

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run a worker that has the rights of a deployed one; it must end in good order."""
        log = self.folder / "worker.log"
        variables = {
            "CLAWJOB_TABLE": self.outputs["TableName"],
            "CLAWJOB_RUN_QUEUES": self.outputs["RunQueues"],
            "CLAWJOB_RESULTS_QUEUE": self.outputs["ResultsQueueUrl"],
            "CLAWJOB_LOG_GROUP": self.outputs["RunLogGroup"],
            "CLAWJOB_NAMESPACE": STACK,
            "CLAWJOB_WORKER_NAME": "worker-of-the-test",
            "CLAWJOB_WORK_DIR": str(self.folder / "work"),
            # So that it soon sees that a run is cancelled, and does not wait for one when it is told to stop.
            "CLAWJOB_TIMES": '{"keep": 1}',
            "CLAWJOB_DRAIN_SECONDS": "1",
            **self._worker_credentials(),
        }
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [BIN / "clawjob", "worker"],
                env=self.emulator.environment(**variables),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()
            self._iam.delete_role_policy(RoleName=_WORKER_ROLE, PolicyName=_GRANT)
            self._iam.delete_role_policy(RoleName=_WORKER_ROLE, PolicyName="own")
            self._iam.delete_role(RoleName=_WORKER_ROLE)

    def _worker_credentials(self) -> dict[str, str]:
        from infra.authority import RESULTS_QUEUE, RUN_LOGS, RUN_QUEUES, TABLE  # here, for it starts the CDK

        def arn(url: str) -> str:
            return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{url.rpartition('/')[2]}"

        queues = [arn(url) for url in json.loads(self.outputs["RunQueues"])["default"].values()]
        table = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{self.outputs['TableName']}"
        logs = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{self.outputs['RunLogGroup']}:*"
        rights = [
            ("dynamodb", TABLE, [table]),
            ("sqs", RUN_QUEUES, queues),
            ("sqs", RESULTS_QUEUE, [arn(self.outputs["ResultsQueueUrl"])]),
            ("logs", RUN_LOGS, [logs]),
        ]
        own = [
            {"Effect": "Allow", "Action": [f"{service}:{one}" for one in actions["worker"]], "Resource": resources}
            for service, actions, resources in rights
        ]
        trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}}
        made = self._iam.create_role(RoleName=_WORKER_ROLE, AssumeRolePolicyDocument=_policy([trust]))["Role"]["Arn"]
        self._put(_WORKER_ROLE, "own", own)
        self._put(_WORKER_ROLE, _GRANT, as_the_emulator_asks(own))
        given = self.emulator.client("sts").assume_role(RoleArn=made, RoleSessionName="worker")["Credentials"]
        return {
            "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
            "AWS_SESSION_TOKEN": given["SessionToken"],
        }

    def _grant(self) -> None:
        """Add to each role what the emulator asks in place of what AWS would."""
        for role in self._roles():
            names = self._iam.list_role_policies(RoleName=role)["PolicyNames"]
            documents = [self._iam.get_role_policy(RoleName=role, PolicyName=one) for one in names if one != _GRANT]
            statements = [one for document in documents for one in document["PolicyDocument"]["Statement"]]
            self._put(role, _GRANT, as_the_emulator_asks(statements))

    def _put(self, role: str, name: str, statements: list[dict[str, Any]]) -> None:
        self._iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=_policy(statements))

    def _roles(self) -> list[str]:
        return [name for kind, name in self.resources().values() if kind == "AWS::IAM::Role"]

    @cached_property
    def _iam(self) -> Any:
        return self.emulator.client("iam")

    @property
    def _out(self) -> str:
        return str(self.folder / "cdk.out")


def as_the_emulator_asks(statements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give what ministack 1.5.33 asks, of a role that has these rights, in place of what AWS asks.

    It looks for `sqs:SendMessageBatch` and the like, which are no actions of AWS: those for one message cover them. And
    it looks at a log group where AWS looks at its streams, which policies write as `log-group:name:*`.
    """
    asked = []
    for statement in statements:
        actions, resources = _list(statement["Action"]), _list(statement["Resource"])
        if batches := [f"{one}Batch" for one in actions if one in _BATCHED]:
            asked.append({"Effect": "Allow", "Action": batches, "Resource": resources})
        if actions[0].startswith("logs:"):
            groups = [one.removesuffix(":*") for one in resources]
            asked.append({"Effect": "Allow", "Action": actions, "Resource": groups})
    return asked


def until(look: Callable[[], T], seconds: float = 60) -> T:
    """Look until there is something, and give it."""
    ends_at = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < ends_at, f"not within {seconds} s"
        time.sleep(0.1)
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _policy(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})
