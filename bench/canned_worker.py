"""A real worker whose AWS is canned, in a process of its own: `python -m bench.canned_worker` executes messages.

It reads lines from stdin: a number lets so many messages appear on the queue, each a run of the command that the
environment names. For every run that was reported and whose message was deleted it writes a line: the seconds from the
message's appearance to its deletion. At the end of stdin it stops.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bench.account import POOLS, TABLE, hourly, use_no_account
from bench.canned import answer_with
from bench.worker_load import COMMAND
from clawjob.aws.clients import Clients, make_session_clients
from clawjob.aws.codec import encode_item
from clawjob.aws.job_item import item_of as job_item
from clawjob.aws.run_item import item_of as run_item
from clawjob.aws.table import definition_key
from clawjob.domain.ids import uid_from
from clawjob.domain.job_state import JobState
from clawjob.domain.messages import RunMessage
from clawjob.domain.run import Run, RunKind, State
from clawjob.domain.schedule import ScheduleSpec
from clawjob.runner import worker
from clawjob.services import services_from
from clawjob.settings import WorkerSettings

_UID: Final = uid_from(0x123456789ABCDEF)
_MARK: Final = f"{_UID}-mRUN"
"""Stands in the canned items where a run's id goes."""


class CannedAws:
    """Answers one worker. Every run is due, its job holds the overlap slot for it, and nothing is ever refused."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        now = datetime.now(UTC).replace(microsecond=0)
        instant = now - timedelta(seconds=1)
        run = Run(
            run_id=_MARK,
            uid=_UID,
            job="daily_news_crawl",
            kind=RunKind.MANUAL,
            state=State.QUEUED,
            version=1,
            pool=POOLS[0],
            scheduled_at=instant,
            not_before=instant,
            queued_at=instant,
            due_at=now + timedelta(minutes=15),
        )
        job = JobState(
            uid=_UID,
            name=run.job,
            version=1,
            enabled=True,
            planned_until=instant,
            created_at=instant,
            changed_at=instant,
            active=_MARK,
        )
        definition = hourly(run.job, command=argv[0], args=tuple(argv[1:]), env=env, schedule=ScheduleSpec(at=now))
        pk, sk = definition_key(_UID, 1)
        stored = {"pk": pk, "sk": sk, "definition": json.dumps(definition.to_stored()), "written_at": ""}
        self._run = json.dumps(encode_item(run_item(run)))
        self._job = json.dumps(encode_item(job_item(job)))
        self._definition = json.dumps({"Responses": {TABLE: [encode_item(stored)]}})
        self._messages: queue.Queue[str] = queue.Queue()
        self._appeared: dict[str, float] = {}
        self._count = 0
        self.done: queue.Queue[float] = queue.Queue()

    def release(self, how_many: int) -> None:
        """Let messages appear."""
        for _ in range(how_many):
            self._count += 1
            run_id = f"{_UID}-m{self._count:08d}"
            self._appeared[run_id] = time.perf_counter()
            self._messages.put(run_id)

    def answer(self, operation: str, body: bytes) -> str:
        """Answer a call."""
        match operation:
            case "ReceiveMessage":
                return self._receive(json.loads(body))
            case "DeleteMessage":
                self.done.put(time.perf_counter() - self._appeared.pop(json.loads(body)["ReceiptHandle"]))
                return "{}"
            case "GetItem":
                return '{"Item":' + self._run.replace(_MARK, _run_id(body)) + "}"
            case "BatchGetItem":
                if b"V#00000001" in body:
                    return self._definition
                both = f'{{"Responses":{{"{TABLE}":[{self._run},{self._job}]}}}}'
                return both.replace(_MARK, _run_id(body))
            case "UpdateItem" if b"ALL_NEW" in body:
                return '{"Attributes":' + self._run.replace(_MARK, _run_id(body)) + "}"
            case "SendMessage":
                return '{"MessageId":"5fea7756-0ea4-451a-a703-a558b933e274"}'
        return "{}"

    def _receive(self, request: dict[str, Any]) -> str:
        found: list[str] = []
        try:
            found.append(self._messages.get(timeout=request.get("WaitTimeSeconds", 0)))
            while len(found) < request["MaxNumberOfMessages"]:
                found.append(self._messages.get_nowait())
        except queue.Empty:
            pass
        messages = [
            {"MessageId": run_id, "ReceiptHandle": run_id, "Body": RunMessage(run_id, 0).to_body()} for run_id in found
        ]
        return json.dumps({"Messages": messages})


def _run_id(body: bytes) -> str:
    start = body.index(b"RUN#") + 4
    return body[start : body.index(b'"', start)].decode()


def main() -> None:
    """Be that worker."""
    use_no_account()
    command = json.loads(os.environ[COMMAND])
    canned = CannedAws(command["argv"], command["env"])
    clients: Clients = make_session_clients()
    for client in (clients.dynamodb, clients.sqs):
        answer_with(client, canned.answer)
    # Everything but the wire is as in production.
    wired: Any = worker
    wired.services_from = lambda settings: services_from(settings, clients)
    threading.Thread(target=_obey, args=(canned,), daemon=True).start()
    lines = os.dup(1)
    # The worker's log is formatted, and goes to nowhere.
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a descriptor is wanted
        os.dup2(nowhere.fileno(), 1)
    threading.Thread(target=_report, args=(canned, lines), daemon=True).start()
    worker.run_worker(WorkerSettings.from_environment())


def _obey(canned: CannedAws) -> None:
    for line in sys.stdin:
        canned.release(int(line))
    os.kill(os.getpid(), signal.SIGTERM)


def _report(canned: CannedAws, lines: int) -> None:
    while True:
        os.write(lines, f"{canned.done.get():.6f}\n".encode())


if __name__ == "__main__":
    main()
