"""Finds out whether anything that was started is still running."""

import time

import psutil

_LOOK_AGAIN = 0.1


class Leftovers:
    """Remembers every process seen below this one; a process keeps its identity when its parent dies."""

    def __init__(self) -> None:
        self._own = psutil.Process()
        self._seen: set[psutil.Process] = set()

    @property
    def count(self) -> int:
        """How many different processes were seen."""
        return len(self._seen)

    def look(self) -> None:
        """Remember what runs now."""
        self._seen.update(self._own.children(recursive=True))

    def add(self, pid: int) -> None:
        """Remember one more, which may be gone already."""
        try:
            self._seen.add(psutil.Process(pid))
        except psutil.NoSuchProcess:
            return

    def alive(self, patience: float) -> list[str]:
        """Wait until all are gone, at most so many seconds; returns what is still there."""
        ends_at = time.monotonic() + patience
        while (left := [text for process in self._seen if (text := _text(process))]) and time.monotonic() < ends_at:
            time.sleep(_LOOK_AGAIN)
        return left


def _text(process: psutil.Process) -> str:
    """Describe a process that runs; empty for one that has ended."""
    try:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return ""
        return f"process {process.pid}: {' '.join(process.cmdline())[:200]}"
    except psutil.NoSuchProcess:
        return ""
    except psutil.AccessDenied:
        return f"process {process.pid}"
