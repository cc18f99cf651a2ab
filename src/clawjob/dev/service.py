"""The whole service on one machine: emulator, scheduler, results function and API in this process, workers below it.

Parts start in the order in which they need each other and end in the reverse one. However it ends, nothing is left.
"""

import json
import logging
import os
import sys
import tempfile
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from clawjob.api.app import describe
from clawjob.aws.clients import Clients, make_session_clients
from clawjob.aws.table import QueueUrls, create_queues, create_table
from clawjob.dev.clock import REAL_CLOCK, clock_text, dev_times
from clawjob.dev.docs_pages import DocsPages
from clawjob.dev.functions import ResultsFeed, Ticks
from clawjob.dev.http_edge import HttpEdge
from clawjob.dev.lines import EventLines, LineHandler
from clawjob.dev.moto_server import MotoServer, with_emulator
from clawjob.dev.state_folder import StateFolder
from clawjob.dev.workers import Workers
from clawjob.domain.access import Role, token_text
from clawjob.handlers.api import ApiHandler
from clawjob.handlers.authorizer import AuthorizerHandler
from clawjob.handlers.results import ResultsHandler
from clawjob.handlers.scheduler import SchedulerHandler
from clawjob.operations.access import keep_token
from clawjob.services import new_secret, services_from
from clawjob.settings import ApiSettings, ClockSetting, ResultsSettings, SchedulerSettings, times_text

NAME: Final = "clawjob-dev"
"""Of the table; the queues' names begin with it."""
POOL: Final = "default"
LOG_GROUP: Final = "/clawjob/dev/runs"
DRAIN: Final = timedelta(seconds=2)
"""What running children get at the end, before they are told to end and their runs are handed back."""
_KILL_AFTER: Final = timedelta(seconds=20)
_RETRY_VISIBILITY: Final = timedelta(seconds=5)
_PARTS: Final = {"ticks": "scheduler", "results": "results"}
"""Who speaks in which thread; all others answer requests of the API."""


@dataclass(frozen=True, slots=True)
class DevOptions:
    """How the one-machine mode is to run."""

    token: str
    port: int = 0
    workers: int = 1
    slots: int = 5
    clock: ClockSetting = REAL_CLOCK
    state: StateFolder | None = None
    restart_pause: float = 1.0
    """Seconds until a worker that died is started anew."""


class DevService:
    """Runs from `start` to `stop`; `stop` may also be called after a start that failed."""

    def __init__(self, options: DevOptions, lines: EventLines) -> None:
        self._options = options
        self._lines = lines
        self._times = dev_times(options.clock.speed)
        self._end = ExitStack()
        self._environment: dict[str, str] = {}
        self.url = ""
        self._ready = threading.Semaphore(0)
        self.workers = Workers(
            options.workers,
            self._environment_of,
            self._worker_line,
            self._report_end,
            first_pause=options.restart_pause,
        )

    def start(self) -> None:
        """Start everything. The API answers when this returns; workers need another second.

        Raises:
            MotoMissingError: the packages of the `dev` extra are missing.
            PortTakenError: another program listens on the port.
            UnreadableSnapshotError: the kept state cannot be read.
            ClockWentBackError: the kept state is from an instant that is still to come.
        """
        options, end = self._options, self._end
        folder = end.enter_context(tempfile.TemporaryDirectory(prefix="clawjob-dev-", ignore_cleanup_errors=True))
        end.enter_context(self._log_as_lines())
        # Listens before anything costs time: a taken port is the likeliest reason to end here.
        edge = HttpEdge(now, new_id, options.port, self._failed("api", "the API failed"), DocsPages(describe).answer)
        end.callback(edge.close)
        moto = MotoServer(options.clock, self._failed("emulator", "the emulator failed"))
        end.callback(moto.close)
        moto.start()
        emulated = with_emulator(os.environ, moto.url)
        end.enter_context(_environment(emulated))
        clients = make_session_clients(pool=20)
        queues = _make_resources(clients, self._times.lease)
        own = self._own_variables(queues)
        self._environment = {
            **emulated,
            **own,
            "CLAWJOB_WORK_DIR": folder,
            "CLAWJOB_CLOCK": clock_text(options.clock),
            # Programs installed beside this one, such as scrapy, are found by their names.
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), emulated.get("PATH", os.defpath)]),
        }
        self._keep_state(moto)
        self._start_functions(own, clients, queues, moto)
        self.workers.start()
        end.callback(self._stop_workers)
        settings = ApiSettings.from_environment(own)
        services = services_from(settings, clients)
        keep_token(services.context, options.token, NAME, Role.ADMIN, NAME)
        edge.start(ApiHandler(settings, services), AuthorizerHandler(settings, services))
        end.callback(edge.close)
        self.url = edge.url

    def stop(self) -> None:
        """End everything, in order; returns when nothing is left."""
        self._end.close()

    def wait_for_workers(self, seconds: float) -> bool:
        """Wait until every worker takes runs; False when the time is up."""
        ends_at = time.monotonic() + seconds
        return all(
            self._ready.acquire(timeout=max(0.0, ends_at - time.monotonic())) for _ in range(self._options.workers)
        )

    def _worker_line(self, worker: str, line: str) -> None:
        if '"worker started"' in line:
            self._ready.release()
        self._lines.worker_line(worker, line)

    def _own_variables(self, queues: QueueUrls) -> dict[str, str]:
        """Settings as a deployable gets them; this process's clock travels, so it is told of none."""
        return {
            "CLAWJOB_TABLE": NAME,
            "CLAWJOB_RUN_QUEUES": json.dumps(queues.run),
            "CLAWJOB_RESULTS_QUEUE": queues.results,
            "CLAWJOB_LOG_GROUP": LOG_GROUP,
            "CLAWJOB_TIMES": times_text(self._times),
            "CLAWJOB_SLOTS": str(self._options.slots),
            "CLAWJOB_DRAIN_SECONDS": str(DRAIN.total_seconds()),
        }

    def _environment_of(self, worker: str) -> Mapping[str, str]:
        folder = Path(self._environment["CLAWJOB_WORK_DIR"]) / worker
        return {**self._environment, "CLAWJOB_WORKER_NAME": worker, "CLAWJOB_WORK_DIR": str(folder)}

    def _keep_state(self, moto: MotoServer) -> None:
        state = self._options.state
        if state is None:
            return
        kept = state.load(now())
        if kept is not None:
            kept.put_back(moto)
        self._end.callback(lambda: state.save(moto, now()))

    def _start_functions(self, own: Mapping[str, str], clients: Clients, queues: QueueUrls, moto: MotoServer) -> None:
        results_settings = ResultsSettings.from_environment(own)
        results = ResultsFeed(
            ResultsHandler(results_settings, services_from(results_settings, clients)),
            clients.sqs,
            queues.results,
            new_id,
            lambda what, error: self._report("results", what, error),
            _RETRY_VISIBILITY * self._options.clock.speed,
        )
        results.start()
        self._end.callback(lambda: results.finish(moto.end_polls))
        settings = SchedulerSettings.from_environment(own)
        state = self._options.state
        ticks = Ticks(
            SchedulerHandler(settings, services_from(settings, clients)),
            self._times.tick / self._options.clock.speed,
            now,
            new_id,
            lambda what, error: self._report("scheduler", what, error),
            after=(lambda: None) if state is None else (lambda: _forget(state.save(moto, now()))),
        )
        ticks.start()
        self._end.callback(ticks.stop)

    def _stop_workers(self) -> None:
        for name in self.workers.stop(_KILL_AFTER.total_seconds()):
            self._lines.say(name, "did not end in time and was killed", level="WARNING")

    def _report_end(self, worker: str, code: int, pause: float) -> None:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        self._lines.say(worker, f"{how}; it is started anew in {pause:g} s", level="WARNING")

    def _failed(self, who: str, what: str) -> Callable[[Exception], None]:
        return lambda error: self._report(who, what, error)

    def _report(self, who: str, what: str, error: Exception) -> None:
        stack = "".join(traceback.format_exception(error))
        self._lines.say(who, f"{what}: {type(error).__name__}: {error}\n{stack}", level="ERROR")

    @contextmanager
    def _log_as_lines(self) -> Iterator[None]:
        handler = LineHandler(self._lines, lambda thread: _PARTS.get(thread, "api"))
        logger = logging.getLogger("clawjob")
        before = logger.level, logger.propagate
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before[0])
            logger.propagate = before[1]


def now() -> datetime:
    """Read the clock of this process, which may travel."""
    return datetime.now(UTC)


def new_id() -> str:
    """Make an id of a request or an event, as AWS does."""
    return str(uuid.uuid4())


def new_token() -> str:
    """Make the text of the token that this machine's programs use."""
    return token_text("dev", new_secret())


def _make_resources(clients: Clients, lease: timedelta) -> QueueUrls:
    create_table(clients.dynamodb, NAME)
    clients.logs.create_log_group(logGroupName=LOG_GROUP)
    return create_queues(clients.sqs, NAME, [POOL], lease)


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Let this process have exactly these variables."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(wanted)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _forget(value: object) -> None:
    del value
