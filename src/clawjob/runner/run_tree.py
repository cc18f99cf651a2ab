"""The processes of one run, as its warden sees them: all that is below the warden.

Wardens import this module: it uses nothing that costs them memory.
"""

import os
import signal

from clawjob.runner import tree
from clawjob.runner.cgroup import RunGroup, own_group
from clawjob.runner.wire import NONE, Order

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 1.0


class RunTree:
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
        self.killed_for_memory = 0
        """Processes that the kernel killed because the run's group was at its bound."""
        self.told = False
        """Whether the worker knows that the child has ended."""
        self.given_up = False
        """Whether the worker was told that something cannot be ended."""
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
        found = self.signal_all(signal.SIGKILL)
        if self.killed_since is None:
            self.killed_since = now
            if self.told and not self.asked:
                self.left_behind = max(self.left_behind, found)
        elif self.order.uid != NONE:
            _kill_user(self.order.uid)
        self.kill_at = now + self.pause
        self.pause = min(self.pause * 2, _LONGEST_PAUSE)

    def count(self) -> int:
        """Return how many processes there are."""
        return len(tree.below(os.getpid(), tree.processes()))

    def memory(self) -> int:
        """Return the memory that the tree holds, precisely only when it may be over the limit."""
        found = tree.below(os.getpid(), tree.processes())
        held = tree.private_memory(found)
        if held <= self.order.memory_bytes:
            return held
        precise = tree.proportional_memory(found)
        return held if precise is None else precise


def _kill_user(uid: int) -> None:
    """Kill all processes of a user in one step, which no tree that grows faster than we list it survives.

    A fork does it, as that user: the warden would have to be the user itself for a moment, and could be killed by it.
    """
    if os.fork() == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            # Every process that this user may signal, except the one that asks.
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
