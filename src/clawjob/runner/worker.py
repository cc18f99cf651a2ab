"""The worker: polls for messages while a slot is free, gives each to a slot, and leaves in good order when told to.

Promises: a message is only taken when there is a place and memory for it; told to stop, the worker takes nothing new,
lets runs end until its deadline, then hands them back; every thread but the slots' is idle when there is nothing to do.
"""

import logging
import os
import queue
import select
import signal
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from clawjob.aws.authority import ClockGuard
from clawjob.aws.log_streams import LogStreams
from clawjob.aws.queues import BATCH, Received
from clawjob.domain.errors import UnavailableError
from clawjob.domain.metrics import Metric
from clawjob.domain.priority import order_of
from clawjob.operations.context import Context
from clawjob.runner.child import Supervisor, SupervisorSettings
from clawjob.runner.environment import DEFAULT_PATH, hide_worker
from clawjob.runner.keeper import LeaseKeeper
from clawjob.runner.log_lines import log_to_stdout, metrics
from clawjob.runner.log_shipper import LogShipper
from clawjob.runner.memory import READ_EVERY, MemoryGate
from clawjob.runner.protection import TaskProtection
from clawjob.runner.slot import Slot, SlotParts
from clawjob.services import services_from
from clawjob.settings import WorkerSettings

log = logging.getLogger(__name__)

_POLL_AGAIN: Final = 5.0
"""Seconds after a poll that failed."""
_POLL_WAIT: Final = timedelta(seconds=1)
"""Of an idle worker at each queue in turn; the other queue's runs wait so long. Messages become visible a second before
their runs are due, so that no start is late for it."""
_KILL_GRACE: Final = timedelta(seconds=10)
"""Between TERM and KILL for what must be handed back."""
_HAND_BACK: Final = timedelta(seconds=15)
_LAST_POLL: Final = 3.0
"""Seconds for the poll under way: what the queue gives to one that nobody waits for is hidden as long as a lease."""
_LAST_LOGS: Final = 5.0
"""Seconds for shipping what the last runs wrote."""
_LOOK_AGAIN: Final = 1.0
"""Seconds between two looks for a further signal while the worker drains."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How one worker works."""

    name: str
    pool: str
    slots: int = 5
    drain: timedelta = timedelta(seconds=90)
    """From the signal until runs are handed back; the rest of the container's stop timeout is for doing it."""
    uid_base: int | None = None
    namespace: str = "clawjob"
    """Of its metrics."""


class Worker:
    """One worker process."""

    def __init__(
        self,
        ctx: Context,
        guard: ClockGuard,
        supervisor: Supervisor,
        memory: MemoryGate,
        options: WorkerOptions,
        protection: TaskProtection,
    ) -> None:
        self._ctx = ctx
        self._guard = guard
        self._supervisor = supervisor
        self._memory = memory
        self._options = options
        self._protection = protection
        self._keeper = LeaseKeeper(ctx)
        self._draining = threading.Event()
        parts = SlotParts(
            ctx, supervisor, self._keeper, options.name, options.uid_base, self._draining, options.namespace
        )
        self._slots = [Slot(parts, number) for number in range(options.slots)]
        self._work: queue.SimpleQueue[Received | None] = queue.SimpleQueue()
        self._free = threading.Semaphore(options.slots)
        self._freed = threading.Event()
        self._busy = 0
        self._publish_at = time.monotonic()
        self._turn = 0
        self._is_quiet = False
        self._lock = threading.Condition()
        self._poller = threading.Thread(target=self._poll, name="poller", daemon=True)
        self._threads = [
            threading.Thread(target=self._serve, args=(slot,), name=f"slot-{number}", daemon=True)
            for number, slot in enumerate(self._slots)
        ]

    def run(self) -> None:
        """Work until TERM or INT; call it in the main thread."""
        hide_worker()
        with _Signals() as signals:
            self._work_until(signals)

    def _work_until(self, signals: "_Signals") -> None:
        self._supervisor.start()
        self._keeper.start()
        self._protection.start()
        for thread in self._threads:
            thread.start()
        self._poller.start()
        log.info(
            "worker started",
            extra={
                "worker": self._options.name,
                "pool": self._options.pool,
                "slots": len(self._slots),
                "memory_limit": self._memory.limit_bytes,
            },
        )
        signals.wait(None)
        self._draining.set()
        self._drain(signals)

    def _poll(self) -> None:
        while not self._draining.is_set():
            places = self._take_places()
            if not places:
                continue
            received, failed = self._receive(places)
            self._return_places(places - len(received))
            for message in received:
                self._hand_out(message)
            if failed:
                self._draining.wait(_POLL_AGAIN)

    def _receive(self, places: int) -> tuple[list[Received], bool]:
        """Ask the pool's queues in turn for as many messages as there are places; also whether one did not answer."""
        received: list[Received] = []
        wait = _POLL_WAIT if self._is_quiet else timedelta(0)
        try:
            for queue_class in order_of(self._turn):
                if len(received) < places and not self._draining.is_set():
                    patience = timedelta(0) if received else wait
                    left = places - len(received)
                    received += self._ctx.queues.receive(self._options.pool, queue_class, left, patience)
        except UnavailableError as error:
            log.warning("poll failed", extra={"why": str(error)})
            return received, True
        self._turn += 1
        self._is_quiet = not received
        return received, False

    def _take_places(self) -> int:
        """Wait for a free slot, then take as many as are free and as the memory allows, up to a batch; 0 for none."""
        if not self._free.acquire(timeout=READ_EVERY):
            self._look_at_memory()
            return 0
        self._look_at_memory()
        places = 1
        while places < BATCH and self._free.acquire(blocking=False):
            places += 1
        allowed, refusal = self._allowed(places)
        self._return_places(places - allowed)
        if not allowed:
            log.warning("no run is taken for want of memory", extra={"why": refusal})
            self._freed.clear()
            self._freed.wait(READ_EVERY)
        return allowed

    def _return_places(self, count: int) -> None:
        for _ in range(count):
            self._free.release()

    def _allowed(self, places: int) -> tuple[int, str]:
        """How many of some places there is memory for, and why not for more."""
        known = [resources.memory_bytes for slot in self._slots if (resources := slot.resources) is not None]
        # A message in hand is not claimed yet: its run may want as much as a slot has.
        in_use = known + [None] * max(0, self._busy - len(known))
        for count in range(places):
            refusal = self._memory.refusal(in_use + [None] * count)
            if refusal:
                return count, refusal
        return places, ""

    def _look_at_memory(self) -> None:
        """Read the limit again each minute, and publish it: lowered from outside, it would kill a run at night."""
        before = self._memory.limit_bytes
        if self._memory.refresh():
            about = {"memory_limit": self._memory.limit_bytes, "memory_limit_before": before}
            log.warning("memory limit changed", extra=about)
        now = time.monotonic()
        if now >= self._publish_at:
            self._publish_at = now + READ_EVERY
            sizes = {
                Metric.WORKERS: 1,
                Metric.SLOTS: len(self._slots),
                Metric.SLOTS_IN_USE: self._busy,
                Metric.MEMORY_LIMIT: self._memory.limit_bytes,
            }
            options = self._options
            log.info("worker lives", extra=metrics(sizes, options.pool, options.namespace, self._ctx.clock()))

    def _hand_out(self, message: Received) -> None:
        if self._draining.is_set() or not self._guard.measured.is_set():
            self._give_back(message)
            self._free.release()
            return
        with self._lock:
            self._busy += 1
            self._protection.set_busy(True)
        self._work.put(message)

    def _give_back(self, message: Received) -> None:
        try:
            self._ctx.queues.set_visibility(message, 0)
        except UnavailableError as error:
            log.warning("message not given back", extra={"message_id": message.message_id, "why": str(error)})

    def _serve(self, slot: Slot) -> None:
        while (message := self._work.get()) is not None:
            try:
                slot.handle(message)
            except Exception:
                # The slot must live on; the message comes back when its visibility ends.
                log.exception("slot failed", extra={"message_id": message.message_id})
            finally:
                with self._lock:
                    self._busy -= 1
                    self._protection.set_busy(self._busy > 0)
                    self._lock.notify_all()
                self._free.release()
                self._freed.set()

    def _drain(self, signals: "_Signals") -> None:
        patience = self._options.drain
        log.info("worker drains", extra={"busy": self._busy, "drain_seconds": patience.total_seconds()})
        self._poller.join(_LAST_POLL)
        if not self._idle(patience, signals):
            for slot in self._slots:
                if slot.stop is not None:
                    slot.stop.interrupt("the worker was told to stop", _KILL_GRACE)
            self._idle(_KILL_GRACE + _HAND_BACK, None)
        for _ in self._slots:
            self._work.put(None)
        self._keeper.close()
        self._protection.close()
        self._supervisor.close()
        log.info("worker ended", extra={"worker": self._options.name})

    def _idle(self, patience: timedelta, signals: "_Signals | None") -> bool:
        """Wait until no slot is busy; False when the time is up, or a further signal says to hurry."""
        deadline = time.monotonic() + patience.total_seconds()
        while (left := deadline - time.monotonic()) > 0:
            with self._lock:
                if not self._busy:
                    return True
                self._lock.wait(min(left, _LOOK_AGAIN))
            if signals is not None and signals.wait(0.0):
                return False
        return not self._busy


class _Signals:
    """TERM and INT as something to wait for. The handlers do nothing: what they called could hold a lock already."""

    def __enter__(self) -> "_Signals":
        self._read_end, self._write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: None)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        os.close(self._read_end)
        os.close(self._write_end)

    def wait(self, seconds: float | None) -> bool:
        """Wait for a signal; True when one came."""
        ready, _, _ = select.select([self._read_end], [], [], seconds)
        if ready:
            os.read(self._read_end, 512)
        return bool(ready)


def run_worker(settings: WorkerSettings) -> None:
    """Wire a worker and work until TERM or INT; call it in the main thread.

    Args:
        settings: of this worker.

    Raises:
        OSError: its folder is held by another live worker of the same name.
    """
    services = services_from(settings)
    log_to_stdout(services.context.clock, service="worker", worker=settings.name)
    shipper = None
    if settings.log_group:
        shipper = LogShipper(LogStreams(services.clients.logs, settings.log_group))
        shipper.start()
    supervisor = Supervisor(
        settings.work_dir,
        settings.name,
        clock=services.context.clock,
        shipper=shipper,
        settings=SupervisorSettings(
            path=os.environ.get("PATH", DEFAULT_PATH), changes_user=settings.uid_base is not None
        ),
    )
    memory = MemoryGate(slots=settings.slots, reserve_bytes=settings.memory_reserve, slot_bytes=settings.slot_memory)
    options = WorkerOptions(
        name=settings.name,
        pool=settings.pool,
        slots=settings.slots,
        drain=settings.drain,
        uid_base=settings.uid_base,
        namespace=settings.namespace,
    )
    protection = TaskProtection(settings.agent_uri)
    Worker(services.context, services.guard, supervisor, memory, options, protection).run()
    if shipper is not None:
        shipper.close(_LAST_LOGS)
