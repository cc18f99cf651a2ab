"""The kept logs of a machine: `logs/run id/attempt/`, bounded by removing the oldest runs."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from clawjob.runner.work_folder import safe_name

_PRUNE_EVERY: Final = 60.0


class LogFolder:
    """All logs of all workers on one root; each worker prunes it now and then."""

    def __init__(self, root: Path, *, keep_bytes: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.root = root / "logs"
        self._keep_bytes = keep_bytes
        self._monotonic = monotonic
        self._guard = threading.Lock()
        self._live: dict[str, int] = {}
        self._pruned_at = float("-inf")

    def of(self, run_id: str, attempt: int) -> Path:
        """Return the folder of an attempt's log."""
        return self.root / safe_name(run_id) / str(attempt)

    @contextmanager
    def in_use(self, run_id: str) -> Iterator[None]:
        """Keep a run's logs from being pruned meanwhile."""
        name = safe_name(run_id)
        with self._guard:
            self._live[name] = self._live.get(name, 0) + 1
        try:
            yield
        finally:
            with self._guard:
                self._live[name] -= 1
                if not self._live[name]:
                    del self._live[name]

    def prune_when_due(self) -> None:
        """Prune, unless that was done within the last minute."""
        with self._guard:
            now = self._monotonic()
            if now - self._pruned_at < _PRUNE_EVERY:
                return
            self._pruned_at = now
        self.prune()

    def prune(self) -> int:
        """Remove the logs of the oldest runs beyond the bound, never those in use; returns the bytes kept."""
        runs = []
        for folder in self.root.iterdir() if self.root.is_dir() else ():
            try:
                sizes = [path.stat().st_size for path in folder.rglob("*.log")]
                runs.append((folder.stat().st_mtime, sum(sizes), folder))
            except OSError:
                # Another worker on this machine was first.
                continue
        with self._guard:
            live = set(self._live)
        kept = 0
        for _, size, folder in sorted(runs, reverse=True):
            if kept + size > self._keep_bytes and folder.name not in live:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                kept += size
        return kept
