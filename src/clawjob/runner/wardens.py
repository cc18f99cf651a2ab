"""The worker's side of its wardens: starts the head warden, asks it for wardens, speaks to them.

One `Wardens` serves all slots of a worker; its methods may be called from any thread. No method waits without a bound.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from clawjob.runner import cgroup
from clawjob.runner.cgroup import GroupUse
from clawjob.runner.wire import FAREWELL, send_end, send_order

_PATIENCE = 15.0
"""Seconds for an answer of the head warden, which may have to end a killed warden's processes first."""
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from clawjob.runner.head_warden import main; main()"


class WardenLostError(Exception):
    """A warden was killed, or does not answer."""


class _HeadLostError(WardenLostError):
    """The head warden was killed, or does not answer."""


class WardenLink:
    """One warden, spoken to by one slot."""

    def __init__(self, pid: int, head: int, link: socket.socket) -> None:
        self.pid = pid
        self.head = head
        """Pid of the head warden that made it."""
        self._link = link
        self._unread = b""
        self._handle = os.pidfd_open(pid)

    def fileno(self) -> int:
        """The descriptor that is readable when the warden has said something."""
        return self._link.fileno()

    def start(self, order: bytes, descriptors: tuple[int, int]) -> None:
        """Give an order, as `write_order` wrote it.

        Raises:
            WardenLostError: it cannot take it.
        """
        try:
            send_order(self._link, order, descriptors)
        except OSError as error:
            raise WardenLostError(str(error)) from None

    def end(self, grace: float) -> None:
        """Ask for the end of the tree: TERM, then KILL after the grace."""
        # A warden that is gone shows it at the next reading.
        with contextlib.suppress(OSError):
            send_end(self._link, grace)

    def hear(self) -> list[list[str]]:
        """Read what the warden said, as words of each line.

        Raises:
            WardenLostError: it is gone.
        """
        try:
            said = self._link.recv(4096)
        except OSError as error:
            raise WardenLostError(str(error)) from None
        if not said:
            raise WardenLostError("it was killed")
        *lines, self._unread = (self._unread + said).split(b"\n")
        return [line.decode().split() for line in lines]

    def close(self) -> None:
        """Let the warden go; it ends what is left of its run."""
        self._link.close()
        os.close(self._handle)

    def kill(self) -> None:
        """Kill the warden itself, which does not answer."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)


class Wardens:
    """All wardens of one worker, one for each slot that was used."""

    def __init__(
        self,
        *,
        folder: str = "",
        changes_user: bool = False,
        group_use: GroupUse = GroupUse.NEVER,
        group_parent: str = "",
    ) -> None:
        """Prepare; nothing is started.

        Args:
            folder: the worker's folder, which the head warden removes when the worker has died.
            changes_user: whether children get a uid of their own.
            group_use: which runs get a control group of their own.
            group_parent: where those are made; empty takes the worker's own group.
        """
        self._folder = folder
        self._changes_user = changes_user
        self._group_use = group_use
        self._group_parent = group_parent
        self._lock = threading.Lock()
        self._head: subprocess.Popen[bytes] | None = None
        self._parted: list[subprocess.Popen[bytes]] = []
        self._control: socket.socket | None = None
        self._links: dict[int, WardenLink] = {}
        self._group = ""

    def start(self) -> None:
        """Start the head warden, unless it runs."""
        with self._lock:
            self._start()

    def _start(self) -> None:
        if self._head is not None and self._head.poll() is None:
            return
        self._part()
        self._make_group()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_PATIENCE)
        source = Path(__file__).resolve().parents[2]
        with theirs:
            self._head = subprocess.Popen(
                [
                    sys.executable,
                    *("-I", "-S", "-c", _START, str(source)),
                    *(str(theirs.fileno()), str(int(self._changes_user)), self._group, self._folder),
                ],
                # Some builds of Python do not find their library without it; children get nothing of this.
                env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._control = ours

    def _make_group(self) -> None:
        if self._group_use is GroupUse.NEVER or self._group:
            return
        parent = self._group_parent or cgroup.own_group()
        self._group = cgroup.make_parent(f"clawjob-{os.getpid()}-{id(self):x}", parent)
        if self._group_use is GroupUse.FOR_MEMORY and not cgroup.can_bound_memory(self._group):
            cgroup.remove(self._group)
            self._group = ""

    def group_for(self, name: str, *, bounds_memory: bool) -> str:
        """Return the control group that a run gets; empty for none."""
        if not self._group or (self._group_use is GroupUse.FOR_MEMORY and not bounds_memory):
            return ""
        return f"{self._group}/{name}"

    def of(self, slot: int) -> WardenLink:
        """Return the slot's warden, making it at first use.

        Raises:
            WardenLostError: none can be made now.
        """
        with self._lock:
            link = self._links.get(slot)
            if link is None:
                link = self._links[slot] = self._make(0)
            return link

    def replace(self, slot: int) -> None:
        """Kill a slot's warden; when this returns, the head warden has ended what it left.

        Raises:
            WardenLostError: no new one can be made; the slot gets one at its next run.
        """
        with self._lock:
            old = self._links.pop(slot, None)
            if old is None:
                return
            old.kill()
            old.close()
            known = self._head is not None and self._head.pid == old.head
            self._links[slot] = self._make(old.pid if known else 0)

    def forget(self, slot: int) -> None:
        """Let a slot's warden go without waiting for it: something that it keeps cannot be ended."""
        with self._lock:
            link = self._links.pop(slot, None)
            if link is not None:
                link.close()

    def pids(self) -> dict[str, int]:
        """Return the pids of the head warden (`head`) and of each slot's warden, for tests and for people."""
        with self._lock:
            found = {str(slot): link.pid for slot, link in self._links.items()}
            if self._head is not None:
                found["head"] = self._head.pid
            return found

    def close(self) -> None:
        """Let all go: wardens end what is left of their runs, then end themselves."""
        with self._lock:
            for link in self._links.values():
                link.close()
            self._links.clear()
            self._part()
            for head in self._parted:
                try:
                    # It may still be ending what others left.
                    head.wait(_PATIENCE)
                except subprocess.TimeoutExpired:
                    head.kill()
                    head.wait()
            self._parted.clear()

    def _make(self, replaced: int) -> WardenLink:
        try:
            return self._ask(replaced)
        except _HeadLostError:
            # Killed just now; what it was asked to replace is no concern of the next one.
            return self._ask(0)

    def _ask(self, replaced: int) -> WardenLink:
        self._start()
        if self._control is None or self._head is None:
            raise _HeadLostError("it is not there")
        ours, theirs = socket.socketpair()
        # A live warden always takes an order; the bound is for one that was stopped.
        ours.settimeout(_PATIENCE)
        try:
            with theirs:
                socket.send_fds(self._control, [b"%d" % replaced], [theirs.fileno()])
                answer = self._control.recv(64)
        except OSError as error:
            ours.close()
            self._part()
            raise _HeadLostError(f"the head warden does not answer: {error}") from None
        pid = int(answer or b"0")
        if pid > 0:
            return WardenLink(pid, self._head.pid, ours)
        ours.close()
        if pid == 0:
            self._part()
            raise _HeadLostError("the head warden was killed")
        raise WardenLostError(os.strerror(-pid))

    def _part(self) -> None:
        """Part with the head warden, if there is one: it ends by itself when its wardens have."""
        if self._control is not None:
            # It must not take the end of the link for the worker's death and remove the worker's folder.
            with contextlib.suppress(OSError):
                self._control.send(FAREWELL)
            self._control.close()
        if self._head is not None:
            self._parted.append(self._head)
        self._control = self._head = None
        self._parted = [head for head in self._parted if head.poll() is None]
