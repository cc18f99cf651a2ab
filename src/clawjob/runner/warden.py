"""A warden: the small process above one slot's children. It starts a child, ends its tree and reports.

It is the subreaper of all that it starts, so every process of a run stays below the run's warden whatever it does
(another session, another group, a double fork, a cleared environment), and nothing below it belongs to another run.
"No process of the run is left" is one system call here: waiting says that there are no children.

It holds nothing worth stealing: no credentials, no queue, a clean environment. When its worker dies, it ends the tree,
removes the run's folder and goes.
"""

import os
import select
import signal
import socket
import time

from clawjob.runner import tree
from clawjob.runner.cgroup import RunGroup, own_group
from clawjob.runner.removal import remove_folder
from clawjob.runner.spawn import Badness, CannotStartError, spawn
from clawjob.runner.wire import (
    END,
    LEFTOVER_GRACE,
    NONE,
    ORDER,
    ORPHANED_GRACE,
    STUCK_AFTER,
    Order,
    read_order,
    receive,
)

_WATCH_EVERY = 1.0
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 1.0


class Wakeups:
    """Makes SIGCHLD readable: a descriptor to poll together with the socket."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)

    def drain(self) -> None:
        """Forget the wake-ups so far."""
        try:
            os.read(self.read_end, 4096)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Give the descriptors back."""
        signal.set_wakeup_fd(-1)
        os.close(self.read_end)
        os.close(self._write_end)


def _ignore(_number: int, _frame: object) -> None:
    """A handler must be there for the wake-up descriptor to be written."""


class _Tree:
    """One run: its child, and all that is below the warden while the run lasts."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.child = 0
        self.status: int | None = None
        self.peak_kib = 0
        self.cpu_seconds = 0.0
        self.asked = False
        """Whether an end was asked for before the child had ended by itself."""
        self.over = 0
        """Bytes of memory held when that was found over the job's limit."""
        self.told = False
        self.kill_at: float | None = None
        self.killed_since: float | None = None
        self.pause = _FIRST_PAUSE
        self.left_behind = 0
        self.watch_at: float | None = None
        self.group = RunGroup(os.fsdecode(order.cgroup), own_group() if order.cgroup else "")

    def signal_all(self, number: int) -> int:
        """Signal every process below this one; returns how many there were."""
        found = [process for process in tree.below(os.getpid(), tree.processes()) if process.state not in "ZX"]
        sent = sum(tree.send_signal(process, number) for process in found)
        if number == signal.SIGTERM:
            for process in found:
                if process.state in "Tt":
                    tree.send_signal(process, signal.SIGCONT)
        return sent

    def kill(self, now: float) -> None:
        """Kill every process below this one, and plan to look again for those that were made meanwhile."""
        self.group.kill()
        self.signal_all(signal.SIGKILL)
        if self.killed_since is None:
            self.killed_since = now
        elif self.order.uid != NONE:
            _kill_user(self.order.uid)
        self.kill_at = now + self.pause
        self.pause = min(self.pause * 2, _LONGEST_PAUSE)

    def memory(self) -> int:
        """Return the memory that the tree holds, precisely only when it may be over the limit."""
        found = tree.below(os.getpid(), tree.processes())
        held = tree.private_memory(found)
        if held <= self.order.memory_bytes:
            return held
        precise = tree.proportional_memory(found)
        return held if precise is None else precise


def _kill_user(uid: int) -> None:
    """Kill all processes of a user in one step, which no tree that grows faster than we list it survives."""
    os.setresuid(uid, uid, 0)
    try:
        os.kill(-1, signal.SIGKILL)
    except OSError:
        # None was left.
        return
    finally:
        os.setresuid(0, 0, 0)


class Warden:
    """Takes orders for one slot, one after the other, until its worker is gone."""

    def __init__(self, link: socket.socket, badness: Badness) -> None:
        self._link = link
        self._badness = badness
        self._wakeups = Wakeups()
        self._tree: _Tree | None = None
        self._folder = ""
        self._worker_is_gone = False

    def serve(self) -> None:
        """Work until the worker closes the link or dies."""
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        poll.register(self._wakeups.read_end, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll(self._pause_ms()):
                if descriptor == self._wakeups.read_end:
                    self._wakeups.drain()
                else:
                    self._hear()
                    if self._worker_is_gone:
                        poll.unregister(self._link)
            if self._tree is not None:
                self._look_after(self._tree)
            if self._worker_is_gone and self._tree is None:
                remove_folder(self._folder)
                return

    def _pause_ms(self) -> float | None:
        run = self._tree
        if run is None:
            return None
        times = [moment for moment in (run.kill_at, run.watch_at) if moment is not None]
        if not times:
            return None
        return max(0.0, min(times) - time.monotonic()) * 1000 + 1

    def _hear(self) -> None:
        try:
            kind, body, descriptors = receive(self._link)
        except OSError:
            kind, body, descriptors = b"", b"", []
        if kind == ORDER:
            self._begin(read_order(body), descriptors)
        elif kind == END:
            self._end(float(body))
        else:
            self._worker_is_gone = True
            if self._tree is not None:
                self._end(min(self._tree.order.grace, ORPHANED_GRACE))

    def _say(self, line: str) -> None:
        try:
            self._link.sendall(line.encode() + b"\n")
        except OSError:
            # The end of the stream will be read next.
            return

    def _begin(self, order: Order, descriptors: list[int]) -> None:
        run = _Tree(order)
        self._folder = os.fsdecode(order.folder)
        if order.cgroup:
            run.group.make(order.memory_bytes)
            run.group.enter()
            if run.group.bounds_memory:
                order.memory_bytes = NONE
        try:
            run.child = spawn(order, descriptors, self._badness)
        except CannotStartError as error:
            run.group.leave()
            run.group.remove()
            self._say(f"cannot {error.stage} {error.number}")
            return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        run.group.leave()
        if order.memory_bytes != NONE:
            run.watch_at = time.monotonic() + _WATCH_EVERY
        self._tree = run

    def _end(self, grace: float) -> None:
        run = self._tree
        if run is None:
            return
        self._reap(run)
        run.asked = run.asked or run.status is None
        now = time.monotonic()
        if grace <= 0:
            run.kill_at = now
        elif run.kill_at is None or now + grace < run.kill_at:
            run.kill_at = now + grace
            run.signal_all(signal.SIGTERM)

    def _look_after(self, run: _Tree) -> None:
        if self._reap(run):
            self._finish(run, 0)
            return
        now = time.monotonic()
        if run.status is not None and not run.told:
            self._tell(run)
            self._end_leftovers(run, now)
        if run.watch_at is not None and now >= run.watch_at:
            self._watch(run, now)
        if run.kill_at is None or now < run.kill_at:
            return
        if run.killed_since is not None and now - run.killed_since > STUCK_AFTER:
            self._finish(run, len(tree.below(os.getpid(), tree.processes())))
        else:
            run.kill(now)

    def _reap(self, run: _Tree) -> bool:
        """Take the ends of children and of adopted orphans; True when no process is left below this one."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == run.child and run.status is None:
                run.status = status
                run.peak_kib = usage.ru_maxrss
                run.cpu_seconds = usage.ru_utime + usage.ru_stime

    def _end_leftovers(self, run: _Tree, now: float) -> None:
        if run.killed_since is None:
            run.left_behind = run.signal_all(signal.SIGTERM)
            latest = now + LEFTOVER_GRACE
            run.kill_at = latest if run.kill_at is None else min(run.kill_at, latest)

    def _watch(self, run: _Tree, now: float) -> None:
        run.watch_at = now + _WATCH_EVERY
        held = run.memory()
        if held > run.order.memory_bytes and run.killed_since is None:
            run.over = held
            run.watch_at = None
            run.kill_at = now

    def _tell(self, run: _Tree, then: str = "") -> None:
        run.told = True
        kills = run.group.memory_kills()
        status = f"{run.status} {int(run.asked)} {run.over} {kills} {run.peak_kib} {run.cpu_seconds:.3f}"
        self._say(f"ended {status}{then}")

    def _finish(self, run: _Tree, stuck: int) -> None:
        gone = f"gone {run.left_behind} {stuck}"
        if run.told or run.status is None:
            self._say(gone)
        else:
            self._tell(run, f"\n{gone}")
        run.group.remove()
        self._tree = None
