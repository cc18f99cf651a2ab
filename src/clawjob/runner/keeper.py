"""Keeps the leases of a worker's attempts, and ends an attempt whose lease is lost or whose cancel was asked for."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from clawjob.aws.queues import Received
from clawjob.domain.errors import LeaseLostError, UnavailableError, UnreadableRecordError
from clawjob.domain.run import CancelRequest
from clawjob.operations.context import Context

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Held:
    """An attempt in this worker's hands, with its message."""

    run_id: str
    token: int
    message: Received
    on_cancel: Callable[[CancelRequest], None]
    on_lost: Callable[[], None]
    renewed_at: float
    """When the lease was last known to be ours; monotonic seconds."""
    lost: bool = False


class LeaseKeeper:
    """Renews all leases of one worker from one thread, every keep interval; sleeps for good while there is none."""

    def __init__(self, ctx: Context, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._ctx = ctx
        self._monotonic = monotonic
        self._held: dict[tuple[str, int], Held] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._interval = ctx.times.keep / ctx.times.pace
        self._lease = ctx.times.lease / ctx.times.pace
        self._thread = threading.Thread(target=self._keep, name="lease-keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End the thread; leases that are still held run out by themselves."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout=5)

    def hold(self, held: Held) -> None:
        """Keep a lease from now on; it was given just now."""
        with self._changed:
            self._held[held.run_id, held.token] = held
            self._changed.notify()

    def release(self, held: Held) -> None:
        """Stop keeping a lease."""
        with self._changed:
            self._held.pop((held.run_id, held.token), None)

    def renew_all(self) -> None:
        """Renew every lease once."""
        with self._changed:
            held = list(self._held.values())
        # All leases first: a queue that hangs must not cost a lease.
        for one in held:
            self._renew(one)
        for one in held:
            if not one.lost:
                self._extend_visibility(one)

    def _keep(self) -> None:
        due = self._monotonic()
        while True:
            with self._changed:
                if not self._held and not self._closed:
                    self._changed.wait()
                    due = self._monotonic() + self._interval.total_seconds()
                while not self._closed and (wait := due - self._monotonic()) > 0:
                    self._changed.wait(wait)
                if self._closed:
                    return
            self.renew_all()
            due = self._monotonic() + self._interval.total_seconds()

    def _renew(self, held: Held) -> None:
        ctx = self._ctx
        about = {"run_id": held.run_id, "attempt": held.token}
        asked_at = self._monotonic()
        try:
            cancel = ctx.runs.extend_lease(held.run_id, held.token, ctx.clock() + ctx.times.lease)
        except (LeaseLostError, UnreadableRecordError) as error:
            log.warning("lease lost", extra={**about, "why": str(error)})
            self._lose(held)
            return
        except UnavailableError as error:
            log.warning("lease not renewed", extra={**about, "why": str(error)})
            self._lose_what_ran_out()
            return
        held.renewed_at = asked_at
        if cancel is not None:
            held.on_cancel(cancel)

    def _lose_what_ran_out(self) -> None:
        """End every attempt whose lease ran out while nobody answered: another worker may have it by now."""
        with self._changed:
            held = list(self._held.values())
        for one in held:
            if timedelta(seconds=self._monotonic() - one.renewed_at) > self._lease:
                log.warning("lease ran out", extra={"run_id": one.run_id, "attempt": one.token})
                self._lose(one)

    def _extend_visibility(self, held: Held) -> None:
        ctx = self._ctx
        try:
            seconds = round(ctx.times.lease.total_seconds())
            if not ctx.queues.set_visibility(held.message, seconds):
                # The lease in the table is what counts: whoever receives the message is refused by it.
                log.warning("message left our hands", extra={"run_id": held.run_id})
        except UnavailableError as error:
            log.warning("visibility not extended", extra={"run_id": held.run_id, "why": str(error)})

    def _lose(self, held: Held) -> None:
        self.release(held)
        held.lost = True
        held.on_lost()
