"""Requests of every kind, made from the OpenAPI document: each is answered as it is described, and never with 5xx.

A refused request writes nothing. `make contract` makes 10,000 of them for each operation.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from clawjob.aws.log_streams import LogStreams
from support.api import TOKEN
from support.calls import wrap
from support.clock import ManualClock
from support.service import Service
from support.serving import Answer, serving

CONFIG = Path(__file__).with_name("schemathesis.toml")
EXAMPLES = int(os.environ.get("CLAWJOB_EXAMPLES", "20"))
READS = ("BatchGetItem", "GetItem", "GetLogEvents", "GetQueueAttributes", "GetQueueUrl", "ListQueues", "Query")
LOOKS = ("ReceiveMessage", "ChangeMessageVisibility", "ChangeMessageVisibilityBatch")
"""Dead letters are looked at by taking them for a moment."""
# Who lists tokens finds the one in use, and revokes it.
PARTS = ("--exclude-operation-id=list_tokens", "--include-operation-id=list_tokens")


@pytest.mark.timeout(max(300, EXAMPLES * 3))
@pytest.mark.parametrize("part", PARTS)
def test_every_request_is_answered_as_described_and_a_refused_one_writes_nothing(
    service: Service, logs: LogStreams, clock: ManualClock, tmp_path: Path, part: str
) -> None:
    calls: list[str] = []
    written: list[str] = []

    def note(name: str, parameters: dict[str, Any], call: Any) -> Any:
        answer = call(name, parameters)
        # A write whose condition is refused has raised.
        calls.append(name)
        return answer

    def watch(answer: Answer) -> Answer:
        def watched(event: Mapping[str, Any]) -> dict[str, Any]:
            calls.clear()
            answered = answer(event)
            if answered["statusCode"] >= 400 and (writes := [name for name in calls if name not in (*READS, *LOOKS)]):
                written.append(f"{event['requestContext']['http']}: {answered['statusCode']} after {writes}")
            return answered

        return watched

    for client in (service.dynamodb, service.sqs, service.logs):
        wrap(client, note)
    with serving(service, logs, clock, watch) as url:
        program = Path(sys.executable).with_name("st")
        done = subprocess.run(
            [
                *(program, "--config-file", CONFIG, "run", f"{url}/api/v1/openapi.json", part),
                *("--header", f"Authorization: Bearer {TOKEN}", "--max-examples", str(EXAMPLES), "--seed", "1"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, "\n".join(line[:300] for line in done.stdout.splitlines()) + done.stderr
    assert written == []
