"""Find the processes below one process and signal exactly those.

Everything is read from /proc. A process id may be taken over by a stranger between the look and the signal, so a signal
goes through a descriptor of the process, after its start time was compared once more.

Wardens import this module: it uses nothing that costs them memory.
"""

import os
import signal

_STARTED = 19
"""Place of the start time, counted from the state."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process:
    """One line of the process table."""

    __slots__ = ("parent", "pid", "session", "started", "state")

    def __init__(self, pid: int, state: str, parent: int, session: int, started: int) -> None:
        self.pid = pid
        self.state = state
        self.parent = parent
        self.session = session
        self.started = started
        """In clock ticks since boot; with the pid it names a process for ever."""

    def __repr__(self) -> str:
        return f"Process({self.pid}, {self.state!r}, parent={self.parent})"


def read_process(pid: int) -> Process | None:
    """Read one process; None when it is not there."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - pathlib costs a warden 1.5 MiB
            text = file.read(1024)
    except OSError:
        return None
    # The command's name stands in brackets and may itself hold brackets and blanks.
    fields = text.rpartition(b")")[2].split()
    if len(fields) < _STARTED + 1:
        return None
    return Process(pid, fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[_STARTED]))


def processes() -> dict[int, Process]:
    """Read the process table."""
    table = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - as above
        if name.isdigit():
            process = read_process(int(name))
            if process is not None:
                table[process.pid] = process
    return table


def below(root: int, table: dict[int, Process]) -> list[Process]:
    """Return all descendants of a process, parents before their children; zombies too."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        for process in children.get(waiting.pop(), ()):
            found.append(process)
            waiting.append(process.pid)
    return found


def send_signal(process: Process, number: int) -> bool:
    """Signal a process; False when it is gone, ended, or another one by now."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        now = read_process(process.pid)
        if now is None or now.started != process.started or now.state in "ZX":
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def private_memory(found: list[Process]) -> int:
    """Return the bytes of memory that these processes hold and do not share with files: a quick upper bound.

    Memory that a process shares with those it forked counts once for each.
    """
    pages = 0
    for process in found:
        try:
            with open(f"/proc/{process.pid}/statm", "rb", buffering=0) as file:  # noqa: PTH123 - as above
                numbers = file.read(256).split()
        except OSError:
            continue
        if len(numbers) > 2:
            pages += int(numbers[1]) - int(numbers[2])
    return pages * _PAGE


def proportional_memory(found: list[Process]) -> int | None:
    """Return the bytes of memory of these processes, shared ones divided; None where the kernel does not let us look.

    It is slow for big processes (it walks their pages), so it comes after `private_memory` only.
    """
    total = 0
    for process in found:
        try:
            with open(f"/proc/{process.pid}/smaps_rollup", "rb", buffering=0) as file:  # noqa: PTH123 - as above
                text = file.read(4096)
        except PermissionError:
            return None
        except OSError:
            continue
        for line in text.splitlines():
            if line.startswith((b"Pss_Anon:", b"Pss_Shmem:")):
                total += int(line.split()[1]) * 1024
    return total
