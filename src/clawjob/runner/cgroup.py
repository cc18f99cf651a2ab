"""A control group (version 2) of its own for one run, where the machine lets us make one.

It ends a whole tree in one call and, where the memory controller is handed to us, bounds the memory of the tree. All
calls do without it when the kernel says no: a group is a better way, never a condition.

Wardens import this module: it uses nothing that costs them memory.
"""

import os
from enum import Enum

ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
"""Where version 2 is mounted: alone, or beside version 1."""


class GroupUse(Enum):
    """Which runs get a group of their own; making one costs a third of starting a small program."""

    NEVER = "never"
    FOR_MEMORY = "for memory"
    """Runs with a memory limit, where the kernel lets the group bound it."""
    ALWAYS = "always"


def own_group(table: str = "/proc/self/cgroup", roots: tuple[str, ...] = ROOTS) -> str:
    """Return the folder of this process's version 2 group; empty when there is none."""
    for line in _read(table).splitlines():
        if line.startswith("0::/"):
            for root in roots:
                folder = f"{root}/{line[4:]}".rstrip("/")
                if _read(f"{folder}/cgroup.controllers") or _exists(f"{folder}/cgroup.procs"):
                    return folder
    return ""


def make_parent(name: str, inside: str) -> str:
    """Make the group that holds a worker's run groups; returns its folder, empty when that is not allowed."""
    folder = f"{inside}/{name}"
    if not inside:
        return ""
    try:
        os.mkdir(folder)  # noqa: PTH102 - pathlib costs a warden 1.5 MiB
    except OSError:
        return ""
    if not _exists(f"{folder}/cgroup.kill"):
        remove(folder)
        return ""
    _write(f"{folder}/cgroup.subtree_control", "+memory")
    return folder


def can_bound_memory(folder: str) -> bool:
    """Tell whether the groups made in a folder can bound their memory."""
    return "memory" in _read(f"{folder}/cgroup.subtree_control").split()


class RunGroup:
    """The control group of one run."""

    def __init__(self, folder: str, home: str) -> None:
        self._folder = folder
        self._home = home
        self.made = False
        self.bounds_memory = False

    def make(self, memory_bytes: int) -> None:
        """Make the group, with a bound for its memory unless that is negative."""
        try:
            os.mkdir(self._folder)  # noqa: PTH102 - as above
        except OSError:
            return
        self.made = True
        if memory_bytes >= 0 and _write(f"{self._folder}/memory.max", str(memory_bytes)):
            self.bounds_memory = True
            _write(f"{self._folder}/memory.swap.max", "0")
            _write(f"{self._folder}/memory.oom.group", "1")

    def enter(self) -> None:
        """Move this process in, so that a child is born inside."""
        if self.made and not _write(f"{self._folder}/cgroup.procs", "0"):
            self.remove()

    def leave(self) -> None:
        """Move this process out again."""
        if self.made:
            _write(f"{self._home}/cgroup.procs", "0")

    def kill(self) -> None:
        """Kill every process in the group at once."""
        if self.made:
            _write(f"{self._folder}/cgroup.kill", "1")

    def memory_kills(self) -> int:
        """Return how many processes of the group the kernel killed because the group's memory was at its bound."""
        for line in _read(f"{self._folder}/memory.events").splitlines() if self.bounds_memory else ():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
        return 0

    def remove(self) -> None:
        """Remove the group; it must be empty."""
        if self.made:
            self.made = not remove(self._folder)


def remove(folder: str) -> bool:
    """Remove an empty group and the empty groups in it."""
    try:
        inner = [entry.path for entry in os.scandir(folder) if entry.is_dir()]
        for path in inner:
            os.rmdir(path)  # noqa: PTH106 - as above
        os.rmdir(folder)  # noqa: PTH106 - as above
    except OSError:
        return False
    return True


def _exists(path: str) -> bool:
    return os.access(path, os.F_OK)


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 - as above
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> bool:
    try:
        with open(path, "w", encoding="ascii") as file:  # noqa: PTH123 - as above
            file.write(text)
    except OSError:
        return False
    return True
