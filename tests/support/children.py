"""Tools for tests with real processes: run commands by a supervisor, and look for what is left."""

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from clawjob.domain.definition import Resources
from clawjob.runner import tree
from clawjob.runner.child import AttemptEnd, ChildSpec, Supervisor
from clawjob.runner.pieces import read_log
from clawjob.runner.stop import StopRequest

AT = datetime(2024, 3, 10, 7, 0, tzinfo=UTC)


def until(condition: Callable[[], object], patience: float = 15.0) -> None:
    """Wait for a condition."""
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        threading.Event().wait(0.01)


def marked(run_id: str) -> list[int]:
    """Live processes whose environment says that they belong to a run."""
    mark = f"CLAWJOB_RUN_ID={run_id}\0".encode()
    found = []
    for pid in tree.processes():
        try:
            if mark in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


def below_us() -> list[tree.Process]:
    """All processes below this one."""
    return tree.below(os.getpid(), tree.processes())


@dataclass
class Started:
    """A child that runs in a thread of its own, as in a slot."""

    stop: StopRequest
    thread: threading.Thread
    ends: list[AttemptEnd] = field(default_factory=list)

    def end(self) -> AttemptEnd:
        """Wait for its end."""
        self.thread.join(60)
        assert not self.thread.is_alive(), "run_child does not come back"
        return self.ends[0]


@dataclass
class Runner:
    """A supervisor and short ways to use it."""

    supervisor: Supervisor
    root: Path
    run_id: str

    def spec(self, *argv: str, timeout: float = 30.0, grace: float = 5.0, **more: Any) -> ChildSpec:
        """Describe an attempt."""
        limits = {name: more.pop(name) for name in ("memory_bytes", "cpu_seconds", "open_files") if name in more}
        return replace(
            ChildSpec(
                argv=list(argv),
                env=more.pop("env", {}),
                run_id=more.pop("run_id", self.run_id),
                attempt=1,
                job_name="crawl",
                scheduled_at=AT,
                timeout=timedelta(seconds=timeout),
                grace=timedelta(seconds=grace),
                resources=Resources(**limits),
            ),
            **more,
        )

    def run(self, *argv: str, stop: StopRequest | None = None, **more: Any) -> AttemptEnd:
        """Execute an attempt."""
        return self.supervisor.run_child(self.spec(*argv, **more), stop=stop or StopRequest())

    def sh(self, script: str, **more: Any) -> AttemptEnd:
        """Execute a shell script, itself started without a shell."""
        return self.run("sh", "-c", script, **more)

    def python(self, script: str, *args: str, **more: Any) -> AttemptEnd:
        """Execute a Python script."""
        return self.run(PYTHON, "-c", script, *args, **more)

    def begin(self, *argv: str, **more: Any) -> Started:
        """Execute an attempt in a thread."""
        started = Started(StopRequest(), threading.Thread())
        spec = self.spec(*argv, **more)
        started.thread = threading.Thread(
            target=lambda: started.ends.append(self.supervisor.run_child(spec, stop=started.stop)), daemon=True
        )
        started.thread.start()
        return started

    def log(self, run_id: str = "") -> str:
        """The kept log of a run's first attempt."""
        return read_log(self.root / "logs" / (run_id or self.run_id) / "1").decode("utf-8", "replace")


def _python() -> str:
    """A Python that another user may execute."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if Path(path).exists():
            return path
    return sys.executable


PYTHON = _python()
