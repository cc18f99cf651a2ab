"""`clawjob demo`: real crawl jobs on this machine, with everything that can go wrong, shown and checked."""

import importlib.util
import math
import os
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click
import psutil

from clawjob.dev.demo_api import DemoApi
from clawjob.dev.demo_checks import surprises
from clawjob.dev.demo_jobs import BOOKS, BOOKS_IN_THE_SHOP, FLAKY, STUCK, Stage
from clawjob.dev.demo_news import news
from clawjob.dev.demo_screen import Screen
from clawjob.dev.demo_site import site_running
from clawjob.dev.leftovers import Leftovers
from clawjob.dev.lines import EventLines
from clawjob.dev.moto_server import MotoMissingError
from clawjob.dev.service import DevOptions, DevService, new_token, now

INSTALL_LINE: Final = 'python -m pip install "clawjob[dev,demo]"'
_LONGEST: Final = 100.0
"""Seconds after which the demo gives up."""
_LOOK_EVERY: Final = 0.25
_KILL_AFTER: Final = timedelta(seconds=1.5)
_QUIET: Final = timedelta(seconds=0.5)
_NO_RESTART: Final = 600.0
"""The killed worker stays away, so that one sees another take over."""
_PATIENCE: Final = 10.0


@click.command("demo")
def demo_command() -> None:
    """Show the whole service at work, in about 40 seconds and without AWS.

    Real crawl jobs are scheduled, queued, run as processes, retried, ended at their timeout and taken over after a
    killed worker. Exit code 0 means that every outcome was the expected one.
    """
    if importlib.util.find_spec("scrapy") is None:
        raise click.ClickException(
            f"the demo crawls with Scrapy, which is not installed; install it with:  {INSTALL_LINE}"
        )
    screen = Screen()
    log: list[str] = []
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: everything ends in order
    try:
        wrong = _play(screen, log)
    except MotoMissingError as error:
        raise click.ClickException(str(error)) from error
    finally:
        signal.signal(signal.SIGTERM, before)
    if wrong:
        screen.say("")
        screen.heading("Not as expected:")
        for text in wrong:
            screen.say(f"- {text}", "red")
        screen.say("\nWhat the service wrote:", "dim")
        for line in log:
            click.echo(line)
        raise SystemExit(1)


def _play(screen: Screen, log: list[str]) -> list[str]:
    """Run the demo; returns what was not as expected."""
    leftovers = Leftovers()
    screen.heading("clawjob on this machine: no AWS, nothing else running. This takes about 40 seconds.\n")
    with ExitStack() as end:
        screen.step("demo", "Starting an emulator of AWS, the scheduler, the results function, the API and 2 workers.")
        folder = Path(end.enter_context(tempfile.TemporaryDirectory(prefix="clawjob-demo-")))
        site = end.enter_context(site_running())
        options = DevOptions(new_token(), workers=2, slots=3, restart_pause=_NO_RESTART)
        service = DevService(options, EventLines(now, log.append))
        end.callback(service.stop)
        service.start()
        api = DemoApi(service.url, options.token)
        end.callback(api.close)
        service.wait_for_workers(_PATIENCE * 3)
        screen.step("demo", f"All run. The API answers at {service.url}.")
        screen.step("demo", f"A bookshop of {BOOKS_IN_THE_SHOP} books, to be crawled, answers at {site}.")
        story = _Story(screen, api, service, _Watch(screen, api, leftovers))
        wrong = story.tell(Stage(folder, site, _in_a_moment()))
        screen.step("demo", "Everything is told to end.")
    left = leftovers.alive(_PATIENCE)
    if not left:
        screen.step("demo", f"Nothing is left: all {leftovers.count} processes that ran have ended.")
    screen.say("")
    screen.table(story.watch.runs())
    screen.say("")
    wrong += [f"still running: {text}" for text in left]
    if not wrong:
        screen.heading("Every outcome is the expected one.")
        screen.say("Go on with `clawjob dev`: it runs such a service for your own jobs, until Ctrl-C.")
    return wrong


def _in_a_moment() -> datetime:
    return datetime.fromtimestamp(math.ceil(now().timestamp() + 2), UTC)


class _Watch:
    """Looks at the runs of all jobs through the API and says what changed."""

    def __init__(self, screen: Screen, api: DemoApi, leftovers: Leftovers) -> None:
        self._screen = screen
        self._api = api
        self._leftovers = leftovers
        self._seen: dict[str, dict[str, Any]] = {}
        self.quiet_at = datetime.min.replace(tzinfo=UTC)
        """Around this instant it does not look: looking costs the machine time, and starts are measured then."""

    def runs(self) -> dict[str, list[dict[str, Any]]]:
        """All runs at the last look, by job, oldest first."""
        found: dict[str, list[dict[str, Any]]] = {BOOKS: [], FLAKY: [], STUCK: []}
        for run in self._seen.values():
            found[run["job"]].append(run)
        return found

    def until(self, condition: Callable[[], bool]) -> bool:
        """Look again and again; False when the demo takes too long."""
        while not condition():
            if self._screen.seconds > _LONGEST:
                return False
            time.sleep(_LOOK_EVERY)
            if abs(now() - self.quiet_at) < _QUIET:
                continue
            self._leftovers.look()
            for job in (BOOKS, FLAKY, STUCK):
                self._look(job)
        return True

    def _look(self, job: str) -> None:
        for listed in self._api.runs_of(job):
            before = self._seen.get(listed["run_id"])
            if before is not None and all(before[name] == value for name, value in listed.items()):
                continue
            after = self._api.run(listed["run_id"])
            for text in news(before, after):
                self._screen.step(job, text)
            self._seen[after["run_id"]] = after


class _Story:
    """The acts of the demo, one after the other."""

    def __init__(self, screen: Screen, api: DemoApi, service: DevService, watch: "_Watch") -> None:
        self._screen = screen
        self._api = api
        self._service = service
        self.watch = watch

    def tell(self, stage: Stage) -> list[str]:
        """Play all acts; returns what was not as expected."""
        self.watch.quiet_at = stage.first_at
        for document, what in zip(stage.documents(), _WHAT, strict=True):
            self._api.create_job(document)
            self._screen.step(document["name"], what.format(first=f"{stage.first_at:%H:%M:%S} UTC"))
        wrong: list[str] = []
        if self.watch.until(lambda: self._ended(STUCK)):
            wrong += self._stuck_processes(stage)
        if self.watch.until(lambda: self._ended(BOOKS, FLAKY)):
            self._kill_a_worker()
        if not self.watch.until(lambda: self._ended(BOOKS)):
            wrong.append(f"it was not over after {_LONGEST:.0f} seconds")
        return wrong + surprises(self.watch.runs())

    def _ended(self, *jobs: str) -> bool:
        runs = self.watch.runs()
        return all(runs[job] and all(run["is_final"] for run in runs[job]) for job in jobs)

    def _stuck_processes(self, stage: Stage) -> list[str]:
        """Say that the hanging process and its child are gone, or return that they are not."""
        pids = [int(pid) for pid in stage.pids.read_text().split()] if stage.pids.exists() else []
        alive = [pid for pid in pids if psutil.pid_exists(pid)]
        if alive or len(pids) != 2:
            return [f"of the processes {pids} of {STUCK}, {alive} are alive after its timeout"]
        self._screen.step(STUCK, f"Its process {pids[0]} and the child {pids[1]} that ignored TERM are both gone.")
        return []

    def _kill_a_worker(self) -> None:
        run_id = self._api.trigger(BOOKS, "demo-1")["run_id"]
        self._screen.step("demo", f"{BOOKS} is triggered once more, by hand, to kill its worker in the middle.")

        def in_the_middle() -> bool:
            run = next((run for run in self.watch.runs()[BOOKS] if run["run_id"] == run_id), None)
            if run is None or run["state"] != "RUNNING":
                return False
            return now() - datetime.fromisoformat(run["started_at"]) > _KILL_AFTER

        if not self.watch.until(in_the_middle):
            return
        worker = self._api.run(run_id)["worker"]
        pid = self._service.workers.pids()[worker]
        os.kill(pid, signal.SIGKILL)
        text = f"{worker} (process {pid}), which runs it, is killed with SIGKILL. It can tell nobody; "
        self._screen.step("demo", text + "but its lease of 8 s is renewed no more.", "red")


_WHAT: Final = (
    "Job created: crawls the bookshop with Scrapy, once an hour, first at {first}.",
    "Job created: fails twice with exit code 2, then succeeds; 2 retries allowed, each after 1 s.",
    "Job created: hangs, with a child that ignores the order to end; timeout 3 s, then 1 s of grace.",
)
