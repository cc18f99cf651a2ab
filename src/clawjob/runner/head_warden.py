"""The head warden: makes the wardens, and ends what a killed warden leaves.

One small process for each worker, started from a clean environment and without the worker's memory. Wardens are forks
of it, so they share their memory. It is a subreaper too: the processes of a warden that was killed become its children,
and a child of it that is no warden can only be such a process.
"""

import contextlib
import os
import resource
import select
import signal
import socket
import sys
import time

from clawjob.runner import cgroup, prctl, tree
from clawjob.runner.removal import remove_folder
from clawjob.runner.spawn import Badness
from clawjob.runner.warden import Wakeups, Warden
from clawjob.runner.wire import FAREWELL

_REQUEST_BYTES = 64
_ANSWER_WITHIN = 5.0
"""Seconds that the worker is kept waiting for the end of leftovers; they are ended all the same after that."""
MOST_PROCESSES = 4096
"""Processes and threads of a slot's own user; without a user of its own the worker would be counted too."""
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 1.0


class HeadWarden:
    """Serves one worker until it closes the control link or dies."""

    def __init__(self, control: socket.socket, *, changes_user: bool) -> None:
        self.worker_died = True
        """Whether the worker left without a word."""
        self._control = control
        self._changes_user = changes_user
        self._wakeups = Wakeups()
        self._wardens: set[int] = set()
        self._worker_is_gone = False
        self._look_at: float | None = None
        """When to look for leftovers again; None when there are none."""
        self._pause = _FIRST_PAUSE

    def serve(self) -> None:
        """Work until the worker is gone and every warden with it."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wakeups.read_end, select.POLLIN)
        while not self._worker_is_gone or self._wardens or self._look_at is not None:
            for descriptor, _ in poll.poll(self._pause_ms()):
                if descriptor == self._wakeups.read_end:
                    self._wakeups.drain()
                    if self._reap():
                        self._begin_to_end_leftovers()
                elif not self._hear():
                    self._worker_is_gone = True
                    poll.unregister(self._control)
            if self._look_at is not None and time.monotonic() >= self._look_at:
                self._end_leftovers()

    def _pause_ms(self) -> float | None:
        if self._look_at is None:
            return None
        return max(0.0, self._look_at - time.monotonic()) * 1000 + 1

    def _hear(self) -> bool:
        try:
            request, descriptors, _, _ = socket.recv_fds(self._control, _REQUEST_BYTES, 1)
        except OSError:
            return False
        if request == FAREWELL:
            self.worker_died = False
            return True
        if not request or not descriptors:
            return False
        # recv_fds of Python 3.11 forgets the flag that asks for it.
        os.set_inheritable(descriptors[0], False)
        self._replace(int(request))
        try:
            answer = self._fork(descriptors[0])
        except OSError as error:
            answer = -(error.errno or 1)
        finally:
            os.close(descriptors[0])
        try:
            self._control.sendall(b"%d\n" % answer)
        except OSError:
            return False
        return True

    def _replace(self, warden: int) -> None:
        """See to it that a warden which no longer answers is gone, and its processes with it."""
        if warden in self._wardens:
            os.kill(warden, signal.SIGKILL)
            os.waitpid(warden, 0)
            self._wardens.discard(warden)
            self._begin_to_end_leftovers()
            until = time.monotonic() + _ANSWER_WITHIN
            while self._look_at is not None and time.monotonic() < until:
                time.sleep(max(0.0, self._look_at - time.monotonic()))
                self._reap()
                self._end_leftovers()

    def _fork(self, link: int) -> int:
        # A process that may not be read may not open its own files in /proc either, which the warden must once.
        prctl.set_dumpable(True)
        pid = os.fork()
        if pid == 0:
            try:
                self._become_warden(link)
            finally:
                os._exit(1)
        prctl.set_dumpable(False)
        self._wardens.add(pid)
        return pid

    def _become_warden(self, link: int) -> None:
        badness = Badness()
        prctl.set_dumpable(False)
        prctl.adopt_orphans()
        if self._changes_user:
            # A setuid program would take a child out of its slot's user.
            prctl.forbid_new_privileges()
            _, highest = resource.getrlimit(resource.RLIMIT_NPROC)
            most = MOST_PROCESSES if highest == resource.RLIM_INFINITY else min(MOST_PROCESSES, highest)
            resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        with contextlib.suppress(OSError):
            prctl.drop_ambient_capabilities()
        self._control.close()
        self._wakeups.close()
        Warden(socket.socket(fileno=link), badness).serve()
        os._exit(0)

    def _reap(self) -> bool:
        """Take ended children; True when a warden did not end by itself."""
        killed = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return killed
            if pid == 0:
                return killed
            if pid in self._wardens:
                self._wardens.discard(pid)
                killed = killed or status != 0

    def _begin_to_end_leftovers(self) -> None:
        self._look_at = time.monotonic()
        self._pause = _FIRST_PAUSE

    def _end_leftovers(self) -> None:
        """Kill what killed wardens left: all that is below this process but not below a warden."""
        table = tree.processes()
        left = [
            process for process in table.values() if process.parent == os.getpid() and process.pid not in self._wardens
        ]
        if not left:
            self._look_at = None
            return
        for process in left:
            for each in (process, *tree.below(process.pid, table)):
                tree.send_signal(each, signal.SIGKILL)
        self._look_at = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


def main() -> None:
    """Serve the worker that started this process; the arguments are written by `wardens.py`."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    changes_user = sys.argv[2] == "1"
    group, folder = sys.argv[3:5]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        # The worker decides when children end; a Ctrl-C for the whole terminal must not reach wardens.
        signal.signal(number, signal.SIG_IGN)
    # A warden takes a child's limit for processor time on itself for a moment, and may be older than that.
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    prctl.set_dumpable(False)
    prctl.adopt_orphans()
    head = HeadWarden(control, changes_user=changes_user)
    head.serve()
    if group:
        cgroup.remove(group)
    if folder and head.worker_died:
        remove_folder(folder)
