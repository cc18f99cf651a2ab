"""Lateness: from a run's due instant to the child's own first look at the clock, above a bare spawn of the same child.

All is real: time, production times, the emulator in a process of its own, `clawjob worker` in another, ticks by the
real operation. A job of each second of a window is due once (`at`). Each is stored first, and dispatched by a tick of
its own at a random phase of the second, some 4 to 45 s before it is due (in production 90 to 150 s: only the queue's
delay is longer). No tick runs while the window does, as ticks are another machine's; the worker waits in its polls.
Included are: the queue's delay, the poll's answer, the look and the wait in the slot, the claim (two calls to the
emulator, a few ms each as in AWS), and the spawn by the warden.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Final

from bench.account import POOLS, TABLE, hourly, use_no_account
from bench.report import Result, Row, percentile
from clawjob.aws.clients import Clients, make_session_clients
from clawjob.aws.table import create_queues, create_table
from clawjob.dev.moto_server import with_emulator
from clawjob.domain.job_state import JobState
from clawjob.domain.schedule import ScheduleSpec
from clawjob.domain.times import Times
from clawjob.operations.tick import tick
from clawjob.services import Services, services_from
from clawjob.settings import WorkerSettings

GOAL_MS: Final = 100.0
SEEDS: Final = (1, 2, 3)
RUNS: Final = 20
_WARM_UP: Final = 5
_WORKER: Final = "from clawjob.cli.main import main; main()"
_CLOCK: Final = "/bin/date"
_FORM: Final = "+%s.%N"
PEERS: Final = (
    ("APScheduler SQLite, p50 / p99", "1.5 / 2.3 ms"),
    ("Celery beat and a warm worker", "2.6 / 3.7 ms"),
    ("cron", "1.03 s"),
    ("EventBridge Scheduler promises", "60 s"),
)


@contextmanager
def _emulator() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-m", "bench.emulator"], stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None:
            raise RuntimeError("the emulator has no output")
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _service(folder: Path) -> Iterator[tuple[Services, "subprocess.Popen[bytes]"]]:
    with _emulator() as url:
        os.environ.update({name: value for name, value in with_emulator({}, url).items() if name.startswith("AWS_")})
        clients: Clients = make_session_clients(url)
        create_table(clients.dynamodb, TABLE)
        times = Times()
        queues = create_queues(clients.sqs, "clawjob", POOLS, times.lease)
        environment = with_emulator(dict(os.environ), url) | {
            "CLAWJOB_TABLE": TABLE,
            "CLAWJOB_RUN_QUEUES": json.dumps(queues.run),
            "CLAWJOB_RESULTS_QUEUE": queues.results,
            "CLAWJOB_WORK_DIR": str(folder / "work"),
            "CLAWJOB_SLOT_MEMORY": "1MiB",
            "CLAWJOB_MEMORY_RESERVE": "1MiB",
        }
        settings = WorkerSettings.from_environment(environment)
        worker = subprocess.Popen(
            [sys.executable, "-c", "from clawjob.cli.main import main; main()", "worker"],
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        try:
            yield services_from(settings, clients), worker
        finally:
            worker.terminate()
            worker.wait(60)
            use_no_account()


def _dispatch(services: Services, due: datetime, name: str, target: Path) -> None:
    """Store a job that is due once, then make a tick that dispatches it."""
    context = services.context
    now = context.clock()
    state = JobState(
        uid=context.new_uid(),
        name=name,
        version=1,
        enabled=True,
        planned_until=due - timedelta(seconds=1),
        created_at=now,
        changed_at=now,
        due_at=now - timedelta(seconds=1),
    )
    # The child reads the clock first of all, and its output is its file.
    command = ("-c", f'exec {_CLOCK} {_FORM} > "{target}"')
    definition = hourly(name, command="/bin/sh", args=command, schedule=ScheduleSpec(at=due))
    context.jobs.create(state, definition)
    if tick(context, lambda: timedelta(minutes=1)).dispatch.dispatched != 1:
        raise RuntimeError("the tick did not dispatch the run")


def _window(services: Services, seed: int, runs: int, folder: Path) -> list[float]:
    """Dispatch runs of successive seconds at random phases, let them come, and read when their children looked."""
    dice = random.Random(seed)
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=4 + runs)
    wanted = [(start + timedelta(seconds=number), folder / f"{seed}-{number}") for number in range(runs)]
    for number, (due, target) in enumerate(wanted):
        time.sleep(dice.random() * 0.5)
        _dispatch(services, due, f"lateness_{seed}_{number}", target)
    if datetime.now(UTC) > start - timedelta(seconds=3):
        raise RuntimeError("this machine is too slow for the measure: ticks ran into the window")
    end = start + timedelta(seconds=runs + 2)
    time.sleep((end - datetime.now(UTC)).total_seconds())
    return [float(target.read_text()) - due.timestamp() for due, target in wanted]


def _bare(folder: Path) -> list[float]:
    """From our clock to the child's, for a bare spawn of the same command."""
    seconds = []
    for _ in range(len(SEEDS) * RUNS):
        target = folder / "bare"
        begun = time.time()
        subprocess.run(["/bin/sh", "-c", f'exec {_CLOCK} {_FORM} > "{target}"'], check=True)
        seconds.append(float(target.read_text()) - begun)
        time.sleep(0.02)
    return seconds


def measure() -> Result:
    """Wait through three windows."""
    with tempfile.TemporaryDirectory(prefix="clawjob-bench-") as name:
        folder = Path(name)
        with _service(folder) as (services, _):
            _window(services, 0, _WARM_UP, folder)
            late = [seconds for seed in SEEDS for seconds in _window(services, seed, RUNS, folder)]
        bare = _bare(folder)
    above = percentile(late, 99) - percentile(bare, 99)
    rows = [
        Row("p50", f"{median(late) * 1000:.1f} ms", note=f"{len(late)} runs; least {min(late) * 1000:.1f} ms"),
        Row("p99", f"{percentile(late, 99) * 1000:.1f} ms", note=f"most {max(late) * 1000:.1f} ms"),
        Row("bare spawn, p50 / p99", f"{median(bare) * 1000:.1f} / {percentile(bare, 99) * 1000:.1f} ms"),
        Row("p99 above a bare spawn's", f"{above * 1000:.1f} ms", f"<= {GOAL_MS:g} ms", above * 1000 <= GOAL_MS),
        Row("runs that started early", f"{sum(seconds < 0 for seconds in late)}", "0", min(late) >= 0),
        *(Row(f"  {peer}", figure, note="peer") for peer, figure in PEERS),
    ]
    return Result("Lateness: due instant to the child's first clock", rows, {"seconds": late, "bare_seconds": bare})
