"""`clawjob dev`: the whole service on this machine, until Ctrl-C."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from clawjob.dev.address_file import AddressFile, AddressFileError, AlreadyRunningError
from clawjob.dev.clock import FASTEST, REAL_CLOCK, moved_clock, travelling
from clawjob.dev.lines import EventLines
from clawjob.dev.loopback import PortTakenError
from clawjob.dev.moto_server import MotoMissingError, load_applications
from clawjob.dev.snapshot import UnreadableSnapshotError
from clawjob.dev.state_folder import ClockWentBackError, StateFolder, StateInUseError

DEFAULT_PORT: Final = 8700
_CANNOT_START: Final = (
    AddressFileError,
    AlreadyRunningError,
    ClockWentBackError,
    MotoMissingError,
    PortTakenError,
    StateInUseError,
    UnreadableSnapshotError,
)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def read_instant(_context: click.Context, _parameter: click.Parameter, text: str | None) -> datetime | None:
    """Read an option that is an instant with its zone."""
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no instant; write it such as 2026-03-29T00:55:00Z") from error
    if instant.tzinfo is None:
        raise click.BadParameter(f"{text!r} has no zone; add Z for UTC, or an offset such as +01:00")
    if not 2000 <= instant.year < 2100:
        raise click.BadParameter(f"the year {instant.year} is out of range; take one from 2000 to 2099")
    return instant.astimezone(UTC)


@click.command("dev")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="Of the API; 0: a free one."
)
@click.option(
    "--speed",
    type=click.FloatRange(1, FASTEST),
    default=1.0,
    show_default=True,
    help="How fast the service's clock runs; the jobs' processes live in real time.",
)
@click.option(
    "--at",
    callback=read_instant,
    default=None,
    help="What the service's clock shows at the start, such as 2026-03-29T00:55:00Z.  [default: now]",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Folder that keeps jobs, runs and the token from one start to the next.",
)
@click.option("--slots", type=click.IntRange(1, 100), default=5, show_default=True, help="Runs at once in each worker.")
@click.option("--workers", type=click.IntRange(0, 20), default=1, show_default=True, help="Worker processes.")
def dev_command(port: int, speed: float, at: datetime | None, state: Path | None, slots: int, workers: int) -> None:
    """Run the whole service on this machine, on an emulator of AWS, until Ctrl-C.

    Other `clawjob` commands of the same folder find it by themselves.
    """
    with _ended_by_signals() as ending:
        try:
            with ExitStack() as end:
                address = AddressFile(Path.cwd())
                end.callback(address.remove)
                kept = StateFolder(state) if state is not None else None
                if kept is not None:
                    end.callback(kept.close)
                _serve(_Wishes(port, speed, at, slots, workers), address, kept, ending)
        except _CANNOT_START as error:
            raise click.ClickException(str(error)) from error
    click.echo("Ended. Nothing is left running.")


@dataclass(frozen=True, slots=True)
class _Wishes:
    port: int
    speed: float
    at: datetime | None
    slots: int
    workers: int


def _serve(wishes: _Wishes, address: AddressFile, kept: StateFolder | None, ending: "_Ending") -> None:
    # What takes long to load comes when nothing stands in the way any more, and before the clock is set.
    load_applications()
    from clawjob.dev.service import DevOptions, DevService, new_token, now

    clock = moved_clock(wishes.at, wishes.speed, time.time())
    with travelling(clock), ExitStack() as end:
        token = new_token() if kept is None else kept.token(new_token)
        options = DevOptions(token, wishes.port, wishes.workers, wishes.slots, clock, kept)
        lines = EventLines(now, held=True)
        service = DevService(options, lines)
        end.callback(service.stop)
        end.callback(lines.release)
        ending.at_second(service.workers.kill)
        service.start()
        address.write(service.url, token)
        moved = (
            "" if clock == REAL_CLOCK else f"{now():%Y-%m-%d %H:%M:%S} UTC, {clock.speed:g} times as fast as the world"
        )
        click.echo(greeting(service.url, token, moved, None if kept is None else kept.folder))
        lines.release()
        ending.wait()
        click.echo("Ending: running jobs are told to stop. Ctrl-C again kills them.")


def greeting(url: str, token: str, clock: str, state: Path | None) -> str:
    """Say where everything is and what to try first."""
    facts = [("API", f"{url}/api/v1"), ("token", token)]
    if clock:
        facts.append(("clock", clock))
    facts.append(
        ("state", f"kept in {state}" if state is not None else "forgotten at the end (keep it with --state FOLDER)")
    )
    return "\n".join(
        [
            click.style("The whole service runs on this machine, on an emulator of AWS.", bold=True),
            "",
            *(f"  {name:<7}{text}" for name, text in facts),
            "",
            "A first job, from another terminal in this folder (commands there find the service by themselves):",
            "",
            *(f"  {line}" for line in _FIRST_JOB),
            "",
            "Ctrl-C ends everything. What happens from now on:",
            "",
        ]
    )


_FIRST_JOB: Final = (
    """echo '{"name": "hello", "command": "echo", "args": ["it is {{.Now}}"],""",
    """       "schedule": "* * * * *"}' > hello.json""",
    "clawjob job create -f hello.json",
    "clawjob job trigger hello",
    "clawjob run list hello",
)


class _Ending:
    """The first signal asks for an orderly end, a second one for a quick one."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._hurry: Callable[[], None] = lambda: None

    def at_second(self, hurry: Callable[[], None]) -> None:
        self._hurry = hurry

    def wait(self) -> None:
        self._asked.wait()

    def on_signal(self, *_: object) -> None:
        if self._asked.is_set():
            # Not here: the main thread, which runs this, may hold what it needs.
            threading.Thread(target=self._hurry, name="hurry", daemon=True).start()
        self._asked.set()


@contextmanager
def _ended_by_signals() -> Iterator[_Ending]:
    ending = _Ending()
    before = {number: signal.signal(number, ending.on_signal) for number in _SIGNALS}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
