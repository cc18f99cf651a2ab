"""The workers of the one-machine mode: started, their lines read, started anew when they die, ended for good."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

_SHORT_LIFE: Final = 5.0
_LONGEST_PAUSE: Final = 30.0

OnLine = Callable[[str, str], None]
OnEnd = Callable[[str, int, float], None]


@dataclass(slots=True, eq=False)
class _Slot:
    """One of the workers: a name, and the process that has it now."""

    name: str
    process: subprocess.Popen[bytes] | None = None
    thread: threading.Thread | None = None


@dataclass(slots=True)
class Workers:
    """Keeps a number of workers alive from `start` to `stop`.

    Each stands in a session of its own, so that Ctrl-C in the terminal reaches only this process, which ends them.
    """

    count: int
    environment_of: Callable[[str], Mapping[str, str]]
    """The whole environment of a worker, by its name."""
    on_line: OnLine
    """Told each line that a worker writes, with the worker's name."""
    on_end: OnEnd
    """Told a worker's name, its exit code (negative: a signal) and in how many seconds it is started anew."""
    command: tuple[str, ...] = (sys.executable, "-m", "clawjob.dev.worker_process")
    first_pause: float = 1.0
    _slots: list[_Slot] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Start all workers."""
        for number in range(1, self.count + 1):
            slot = _Slot(f"worker-{number}")
            slot.thread = threading.Thread(target=self._keep, args=(slot,), name=slot.name, daemon=True)
            self._slots.append(slot)
            slot.thread.start()

    def pids(self) -> dict[str, int]:
        """Process ids of the workers that run now, by name."""
        with self._guard:
            return {slot.name: slot.process.pid for slot in self._slots if slot.process is not None}

    def stop(self, seconds: float) -> list[str]:
        """Order all to drain, wait, and kill what is left; returns the names of those that had to be killed."""
        self._stopping.set()
        self._signal(signal.SIGTERM)
        ends_at = time.monotonic() + seconds
        for slot in self._slots:
            assert slot.thread is not None
            slot.thread.join(max(0.0, ends_at - time.monotonic()))
        late = sorted(self.pids())
        self._signal(signal.SIGKILL)
        for slot in self._slots:
            assert slot.thread is not None
            slot.thread.join()
        return late

    def kill(self) -> None:
        """Kill all at once; `stop` still has to be called."""
        self._stopping.set()
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with self._guard:
            for slot in self._slots:
                if slot.process is not None:
                    slot.process.send_signal(number)

    def _keep(self, slot: _Slot) -> None:
        pause = self.first_pause
        while True:
            begun = time.monotonic()
            with self._guard:
                if self._stopping.is_set():
                    return
                slot.process = process = self._spawn(slot.name)
            code = self._follow(slot.name, process)
            with self._guard:
                slot.process = None
            if self._stopping.is_set():
                return
            pause = min(pause * 2, _LONGEST_PAUSE) if time.monotonic() - begun < _SHORT_LIFE else self.first_pause
            self.on_end(slot.name, code, pause)
            if self._stopping.wait(pause):
                return

    def _spawn(self, name: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=self.environment_of(name),
        )

    def _follow(self, name: str, process: subprocess.Popen[bytes]) -> int:
        """Read a worker's lines to their end, then reap it."""
        assert process.stdout is not None
        assert process.stdin is not None
        with process.stdout, process.stdin:
            for line in process.stdout:
                self.on_line(name, line.decode("utf-8", "replace").rstrip("\n"))
            return process.wait()
