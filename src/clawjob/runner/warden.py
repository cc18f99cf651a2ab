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

from clawjob.runner.removal import remove_folder
from clawjob.runner.run_tree import RunTree
from clawjob.runner.spawn import Badness, CannotStartError, spawn
from clawjob.runner.wire import (
    END,
    LEFTOVER_GRACE,
    NONE,
    ORDER,
    ORPHANED_GRACE,
    STUCK_AFTER,
    Inbox,
    Order,
    read_order,
)

_WATCH_EVERY = 1.0


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


class Warden:
    """Takes orders for one slot, one after the other, until its worker is gone."""

    def __init__(self, link: socket.socket, badness: Badness) -> None:
        self._link = link
        self._inbox = Inbox(link)
        self._badness = badness
        self._wakeups = Wakeups()
        self._tree: RunTree | None = None
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
        for kind, body, descriptors in self._inbox.receive():
            if kind == ORDER:
                self._begin(read_order(body), descriptors)
            elif kind == END:
                self._end(float(body))
        if self._inbox.is_closed:
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
        run = RunTree(order)
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

    def _look_after(self, run: RunTree) -> None:
        if self._reap(run):
            self._finish(run)
            return
        now = time.monotonic()
        if run.status is not None and not run.told:
            self._tell(run)
            self._end_leftovers(run, now)
        if run.watch_at is not None and now >= run.watch_at:
            self._watch(run, now)
        if run.kill_at is not None and now >= run.kill_at:
            run.kill(now)
            if run.killed_since is not None and now - run.killed_since > STUCK_AFTER and not run.given_up:
                # The worker goes on without this warden, which stays to end what is left.
                run.given_up = True
                self._report(run, run.count())

    def _reap(self, run: RunTree) -> bool:
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

    def _end_leftovers(self, run: RunTree, now: float) -> None:
        # What was told to end together with the child has its grace still: a shell ends at once on TERM, the crawler
        # that it started may have something to save.
        if run.killed_since is None and not run.asked:
            run.left_behind = run.signal_all(signal.SIGTERM)
            run.kill_at = now + LEFTOVER_GRACE

    def _watch(self, run: RunTree, now: float) -> None:
        run.watch_at = now + _WATCH_EVERY
        held = run.memory()
        if held > run.order.memory_bytes and run.killed_since is None:
            run.over = held
            run.watch_at = None
            run.kill_at = now

    def _tell(self, run: RunTree, then: str = "") -> None:
        run.told = True
        kills = run.killed_for_memory or run.group.memory_kills()
        status = f"{run.status} {int(run.asked)} {run.over} {kills} {run.peak_kib} {run.cpu_seconds:.3f}"
        self._say(f"ended {status}{then}")

    def _finish(self, run: RunTree) -> None:
        # The report is the last thing: what comes after it may meet the slot's next order.
        self._tree = None
        if not run.told and run.status is not None:
            run.killed_for_memory = run.group.memory_kills()
        run.group.remove()
        if not run.given_up:
            self._report(run, 0)

    def _report(self, run: RunTree, stuck: int) -> None:
        gone = f"gone {run.left_behind} {stuck}"
        if run.told or run.status is None:
            self._say(gone)
        else:
            self._tell(run, f"\n{gone}")
