"""A real worker process against the emulator behind its lock; short times, real seconds."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import psutil
import pytest

from clawjob.aws.table import create_queues, create_table
from clawjob.dev.moto_server import REGION, MotoServer, backend_of
from clawjob.domain.messages import result_from_body
from clawjob.domain.priority import QueueClass
from clawjob.domain.run import Run
from clawjob.domain.times import Times
from clawjob.operations.context import Context
from clawjob.operations.settle_attempt import settle_attempt
from clawjob.operations.trigger_run import trigger_run
from support.privileges import WORKER_KEY, NotingServer
from support.service import TABLE, make_context

SHORT = Times(
    tick=timedelta(seconds=1),
    look_ahead=timedelta(seconds=3),
    lease=timedelta(seconds=8),
    keep=timedelta(seconds=1),
    check=timedelta(seconds=30),
)
START = """
from clawjob.runner.worker import run_worker
from clawjob.settings import WorkerSettings
run_worker(WorkerSettings.from_environment())
"""


def until(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Look until a condition holds; fails when it never does."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)
    return found


@dataclass
class Bench:
    """The service, and workers that the test starts and ends."""

    context: Context
    server: MotoServer
    sqs: Any
    environment: dict[str, str]
    folder: Path
    logs: Any
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_worker(self, *before: str, **more: str) -> subprocess.Popen[bytes]:
        """Start a worker, by another program if one is given; its log goes to a file beside its folder."""
        name = f"worker-{len(self.workers)}"
        environment = {**self.environment, "CLAWJOB_WORKER_NAME": name, **more}
        with (self.folder / f"{name}.log").open("wb") as log:
            worker = subprocess.Popen([*before, sys.executable, "-c", START], env=environment, stdout=log, stderr=log)
        self.workers.append(worker)
        until(lambda: "worker started" in self.log(name))
        return worker

    def log(self, name: str = "worker-0") -> str:
        """What a worker wrote so far."""
        return (self.folder / f"{name}.log").read_text()

    def trigger(self, job: str) -> str:
        """Start a run by hand."""
        return trigger_run(self.context, job, {}, None).run.run_id

    def run(self, run_id: str) -> Run:
        """A run as it is now."""
        found = self.context.runs.get(run_id)
        assert found is not None
        return found

    def settle_all(self) -> int:
        """Settle what is on the results queue."""
        answer = self.sqs.receive_message(QueueUrl=self.context.queues.results_queue, MaxNumberOfMessages=10)
        for message in answer.get("Messages", []):
            settle_attempt(self.context, result_from_body(message["Body"]))
            self.sqs.delete_message(QueueUrl=self.context.queues.results_queue, ReceiptHandle=message["ReceiptHandle"])
        return len(answer.get("Messages", []))

    def final(self, run_id: str, seconds: float = 30.0) -> Run:
        """Settle until a run is final."""

        def look() -> Run | None:
            self.settle_all()
            run = self.run(run_id)
            return run if run.is_final else None

        found: Run = until(look, seconds)
        return found

    def messages(self) -> int:
        """Messages on the run queue, hidden ones included."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        url = self.context.queues.run_queues["default"][QueueClass.LOW]
        answer = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)
        return sum(int(number) for number in answer["Attributes"].values())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """The service on an emulator of its own, without a worker."""
    with real_service(tmp_path) as made:
        yield made


@contextmanager
def real_service(folder: Path) -> Iterator[Bench]:
    """The service on an emulator of its own; all workers that are started end with it."""
    for service in ("dynamodb", "sqs", "logs"):
        backend_of(service).reset()
    server = NotingServer()
    server.start()
    session = boto3.session.Session(region_name=REGION)
    dynamodb, sqs, logs = (session.client(name, endpoint_url=server.url) for name in ("dynamodb", "sqs", "logs"))
    create_table(dynamodb, TABLE)
    urls = create_queues(sqs, "t", ["default"], SHORT.lease)
    context = make_context(dynamodb, sqs, urls, lambda: datetime.now(UTC), SHORT)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CLAWJOB_"))},
        "AWS_ENDPOINT_URL": server.url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": WORKER_KEY,
        "AWS_SECRET_ACCESS_KEY": "very-secret-testing",
        "CLAWJOB_TABLE": TABLE,
        "CLAWJOB_RUN_QUEUES": json.dumps(urls.run),
        "CLAWJOB_RESULTS_QUEUE": urls.results,
        "CLAWJOB_TIMES": json.dumps({"tick": 1, "look_ahead": 3, "lease": 8, "keep": 1, "check": 30}),
        "CLAWJOB_WORK_DIR": str(folder / "work"),
        "CLAWJOB_DRAIN_SECONDS": "1",
    }
    made = Bench(context, server, sqs, environment, folder, logs)
    yield made
    for worker in made.workers:
        if worker.poll() is None:
            worker.send_signal(signal.SIGCONT)
            worker.kill()
        worker.wait()
    server.close()
    until(lambda: not _marked(folder))


def _marked(folder: Path) -> list[int]:
    """Processes that work in or for this test's folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and str(folder) in process.environ().get("HOME", ""):
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found
