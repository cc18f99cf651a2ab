"""Start one child for a warden: own session, limits, user and folder, nothing inherited but three descriptors.

posix_spawn does it without copying the process (a third of a fork's cost). What it cannot set, the warden sets on
itself for the moment of the call: folder, limits, badness for the out-of-memory killer. So the child has all of it from
its first instruction. Only hard limits follow a moment later: no process may raise its own again.

A child with a user of its own is forked: the warden itself must never be that user, not for a moment, or a process of
that user could kill it.

Wardens import this module: it uses nothing that costs them memory.
"""

import contextlib
import errno
import os
import resource
import signal

from clawjob.runner.wire import NONE, Order

WORST_BADNESS = b"1000"
"""The out-of-memory killer takes a child before anything else on the machine."""
_CAUGHT = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_DATA_FACTOR = 2


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
        self._own = b"0"
        try:
            self._file = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
            self._own = os.read(self._file, 16).strip()
        except OSError:
            # Some sandboxes have no such file or forbid it; the child then has the worker's standing.
            self._file = NONE

    def worsen(self) -> None:
        """Take the worst value, for the child to be."""
        self._write(WORST_BADNESS)

    def restore(self) -> None:
        """Take the own value again: a warden must outlive its child."""
        self._write(self._own)

    def _write(self, value: bytes) -> None:
        with contextlib.suppress(OSError):
            os.pwrite(self._file, value, 0)


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
        start = _spawn if order.uid == NONE else _fork_as_user
        # Opened before the child's limit for open files holds here too.
        nothing = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return start(order, (nothing, *descriptors))
        finally:
            os.close(nothing)
    except OSError as error:
        raise CannotStartError("program", error.errno or 0) from None
    finally:
        badness.restore()
        os.chdir("/")


def _spawn(order: Order, streams: tuple[int, ...]) -> int:
    limits = _limits(order)
    own = _set_soft(limits)
    try:
        pid = os.posix_spawn(
            order.program,
            order.argv,
            order.environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, source, at) for at, source in enumerate(streams)],
            setsid=True,
            setsigmask=[],
            setsigdef=_CAUGHT,
        )
        for kind, soft, hard in limits:
            # The child may have ended already; its soft limit held in any case.
            with contextlib.suppress(OSError, ValueError):
                resource.prlimit(pid, kind, (soft, hard))
    finally:
        for kind, values in own:
            resource.setrlimit(kind, values)
    return pid


def _fork_as_user(order: Order, streams: tuple[int, ...]) -> int:
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
        if pid == 0:
            _become_child(order, streams, write)
    finally:
        os.close(write)
        # An error's number, or the end of the stream when the program executes.
        number = os.read(read, 16)
        os.close(read)
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)))
    return pid


def _become_child(order: Order, streams: tuple[int, ...], problem: int) -> None:
    try:
        os.setsid()
        for at, source in enumerate(streams):
            os.dup2(source, at)
        signal.set_wakeup_fd(-1)
        for number in _CAUGHT:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for kind, soft, hard in _limits(order):
            resource.setrlimit(kind, (soft, hard))
        os.setgroups([])
        os.setresgid(order.uid, order.uid, order.uid)
        os.setresuid(order.uid, order.uid, order.uid)
        os.execve(order.program, order.argv, order.environment)  # noqa: S606 - without a shell is right
    except OSError as error:
        os.write(problem, b"%d" % (error.errno or 0))
    except ValueError:
        os.write(problem, b"%d" % errno.EINVAL)
    finally:
        os._exit(127)


def _limits(order: Order) -> list[tuple[int, int, int]]:
    """Return kind, soft and hard value of each limit, none above this process's own hard one."""
    wanted = []
    if order.open_files != NONE:
        wanted.append((resource.RLIMIT_NOFILE, order.open_files, order.open_files))
    if order.cpu_seconds != NONE:
        # First SIGXCPU, which names the cause; a child that ignores it is killed 5 s of processor time later.
        wanted.append((resource.RLIMIT_CPU, order.cpu_seconds, order.cpu_seconds + 5))
    if order.memory_bytes != NONE:
        size = order.memory_bytes * _DATA_FACTOR
        wanted.append((resource.RLIMIT_DATA, size, size))
    limits = []
    for kind, soft, hard in wanted:
        _, highest = resource.getrlimit(kind)
        if highest != resource.RLIM_INFINITY:
            hard = min(hard, highest)
        limits.append((kind, min(soft, hard), hard))
    return limits


def _set_soft(limits: list[tuple[int, int, int]]) -> list[tuple[int, tuple[int, int]]]:
    """Take the soft limits on this process, for the child to inherit; returns the own ones."""
    own = []
    for kind, soft, _ in limits:
        values = resource.getrlimit(kind)
        own.append((kind, values))
        resource.setrlimit(kind, (soft, values[1]))
    return own
