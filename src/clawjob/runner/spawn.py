"""Start one child for a warden: own session, limits, user and folder, nothing inherited but three descriptors.

posix_spawn does it without copying the process (a third of a fork's cost). What it cannot set, the warden sets on
itself for the moment of the call (user, group, folder, badness for the out-of-memory killer), so the child has it from
its first instruction; limits follow by prlimit a few microseconds later, before the child has loaded its libraries.

Wardens import this module: it uses nothing that costs them memory.
"""

import os
import resource
import signal

from clawjob.runner.wire import NONE, Order

WORST_BADNESS = b"1000"
"""The out-of-memory killer takes a child before anything else on the machine."""
_CAUGHT = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_DATA_FACTOR = 2
MOST_PROCESSES = 4096
"""Processes and threads of a slot's own user; without a user of its own the worker would be counted too."""


class CannotStartError(Exception):
    """The child could not be started."""

    def __init__(self, stage: str, number: int) -> None:
        self.stage = stage
        """`folder`, or `program`."""
        self.number = number
        super().__init__(stage, number)


class Badness:
    """The warden's own standing with the out-of-memory killer, which its child inherits."""

    def __init__(self) -> None:
        self._file = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        self._own = os.read(self._file, 16).strip()

    def worsen(self) -> None:
        """Take the worst value, for the child to be."""
        self._write(WORST_BADNESS)

    def restore(self) -> None:
        """Take the own value again: a warden must outlive its child."""
        self._write(self._own)

    def _write(self, value: bytes) -> None:
        try:
            os.pwrite(self._file, value, 0)
        except OSError:
            # Some sandboxes forbid it; the child then has the worker's standing.
            return


def spawn(order: Order, descriptors: list[int], badness: Badness) -> int:
    """Start the child of an order; returns its pid.

    Raises:
        CannotStartError: its folder cannot be entered or its program cannot be executed.
    """
    try:
        os.chdir(order.folder)
    except OSError as error:
        raise CannotStartError("folder", error.errno or 0) from None
    badness.worsen()
    try:
        return _spawn_as(order, descriptors)
    except OSError as error:
        raise CannotStartError("program", error.errno or 0) from None
    finally:
        badness.restore()
        os.chdir("/")


def _spawn_as(order: Order, descriptors: list[int]) -> int:
    out, err = descriptors
    changes_user = order.uid != NONE
    if changes_user:
        os.setgroups([])
        os.setresgid(order.uid, order.uid, order.uid)
        # The child takes the real user as its effective one and, executing, as its saved one.
        os.setresuid(order.uid, 0, 0)
    try:
        pid = os.posix_spawn(
            order.program,
            order.argv,
            order.environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, out, 1),
                (os.POSIX_SPAWN_DUP2, err, 2),
            ],
            resetids=changes_user,
            setsid=True,
            setsigmask=[],
            setsigdef=_CAUGHT,
        )
        _limit(pid, order)
    finally:
        if changes_user:
            os.setresuid(0, 0, 0)
    return pid


def _limit(pid: int, order: Order) -> None:
    limits = []
    if order.uid != NONE:
        limits.append((resource.RLIMIT_NPROC, MOST_PROCESSES, MOST_PROCESSES))
    if order.open_files != NONE:
        limits.append((resource.RLIMIT_NOFILE, order.open_files, order.open_files))
    if order.cpu_seconds != NONE:
        # First SIGXCPU, which names the cause; a child that ignores it is killed 5 s of processor time later.
        limits.append((resource.RLIMIT_CPU, order.cpu_seconds, order.cpu_seconds + 5))
    if order.memory_bytes != NONE:
        size = order.memory_bytes * _DATA_FACTOR
        limits.append((resource.RLIMIT_DATA, size, size))
    for kind, soft, hard in limits:
        try:
            _, highest = resource.prlimit(pid, kind)
            if highest != resource.RLIM_INFINITY:
                hard = min(hard, highest)
            resource.prlimit(pid, kind, (min(soft, hard), hard))
        except (OSError, ValueError):
            # Ended already, or a value that this kernel refuses: the run goes on with the worker's limit.
            continue
