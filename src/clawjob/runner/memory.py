"""How much memory the worker's container allows, and whether another run fits into it.

The limit may be lowered from outside while the worker runs, so it is read again each minute: from control groups of
version 2 or 1, whichever bounds more, and from the machine's own memory where neither says anything.
"""

import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

CGROUPS: Final = Path("/sys/fs/cgroup")
PROC: Final = Path("/proc")
READ_EVERY: Final = 60.0
_OOM_KILL: Final = re.compile(rb"^oom_kill ([0-9]+)$", re.MULTILINE)
_NO_LIMIT: Final = 1 << 60
"""Version 1 writes a number near 2^63 for none."""


def memory_limit(cgroups: Path = CGROUPS, proc: Path = PROC) -> int:
    """Return the bytes that this process and all its children may use together."""
    found = [_read_number(path) for path in _limit_files(cgroups, proc)]
    limits = [number for number in found if number is not None and 0 < number < _NO_LIMIT]
    return min([*limits, _machine_memory(proc)])


def memory_in_use(cgroups: Path = CGROUPS, proc: Path = PROC) -> int | None:
    """Return the bytes that the worker's own control group uses; None where it is not known."""
    for folder, version in _groups(cgroups, proc):
        number = _read_number(folder / ("memory.current" if version == 2 else "memory.usage_in_bytes"))
        if number is not None:
            return number
    return None


def _limit_files(cgroups: Path, proc: Path) -> Iterable[Path]:
    for folder, version in _groups(cgroups, proc):
        yield folder / ("memory.max" if version == 2 else "memory.limit_in_bytes")


def _groups(cgroups: Path, proc: Path) -> Iterable[tuple[Path, int]]:
    """List the groups that bound this process, the own one first: a parent's limit holds too.

    In a container the table may show a path of the host that is not mounted here: only the mount's root exists then.
    """
    for line in _read_text(proc / "self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            version, mounts = 2, [cgroups, cgroups / "unified"]
        elif "memory" in controllers.split(","):
            version, mounts = 1, [cgroups / "memory"]
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for mount in mounts:
            for depth in range(len(parts), -1, -1):
                yield mount.joinpath(*parts[:depth]), version


def _machine_memory(proc: Path) -> int:
    for line in _read_text(proc / "meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return _NO_LIMIT


def _read_number(path: Path) -> int | None:
    text = _read_text(path).strip()
    return int(text) if text.isdigit() else None


def _read_text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""


class MemoryGate:
    """Says whether another run may be taken. Called by the worker's loop before each poll for work."""

    def __init__(
        self,
        *,
        slots: int,
        reserve_bytes: int,
        slot_bytes: int | None = None,
        read_limit: Callable[[], int] = memory_limit,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the limit for the first time.

        Args:
            slots: how many runs the worker executes at once.
            reserve_bytes: what the worker itself needs.
            slot_bytes: what a run without a memory limit of its own counts; None takes an equal share of the limit
                as it is now, so that all slots are used until the limit is lowered.
            read_limit: gives the limit.
            monotonic: a clock that is never set.
        """
        self._reserve = reserve_bytes
        self._read_limit = read_limit
        self._monotonic = monotonic
        self._read_at = monotonic()
        self.limit_bytes = read_limit()
        """For the worker's metrics."""
        self.slot_bytes = slot_bytes if slot_bytes is not None else max(self.limit_bytes - reserve_bytes, 0) // slots

    def refresh(self) -> bool:
        """Read the limit again when a minute has passed; True when it has changed."""
        now = self._monotonic()
        if now - self._read_at < READ_EVERY:
            return False
        self._read_at = now
        before, self.limit_bytes = self.limit_bytes, self._read_limit()
        return self.limit_bytes != before

    def refusal(self, in_use: Iterable[int | None], wanted: int | None = None) -> str:
        """Say in words why no run may be taken now; an empty text says that one may.

        Args:
            in_use: the memory limits of the runs in execution, None for a run without one.
            wanted: the memory limit of the run to take, where it is known.
        """
        runs = [self.slot_bytes if limit is None else limit for limit in (*in_use, wanted)]
        needed = self._reserve + sum(runs)
        if needed <= self.limit_bytes:
            return ""
        return (
            f"{needed} bytes would be needed for {len(runs)} runs and the worker itself; "
            f"the limit is {self.limit_bytes} bytes"
        )


class OomCounter:
    """Counts what the kernel killed for want of memory: in our own group where it tells, else on the machine."""

    def __init__(self, cgroups: Path = CGROUPS, proc: Path = PROC) -> None:
        self._cgroups = cgroups
        self._proc = proc
        self._file: int | None = None

    def open(self) -> None:
        """Find the nearest file that counts them; it stays open, because every run asks."""
        candidates = [
            folder / ("memory.events" if version == 2 else "memory.oom_control")
            for folder, version in _groups(self._cgroups, self._proc)
        ]
        for path in (*candidates, self._proc / "vmstat"):
            try:
                self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            if self.count() is not None:
                return
            self.close()

    def count(self) -> int | None:
        """Return the count; None where the kernel keeps none, and before `open`."""
        if self._file is None:
            return None
        try:
            text = os.pread(self._file, 1 << 16, 0)
        except OSError:
            return None
        found = _OOM_KILL.search(text)
        return int(found[1]) if found else None

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
