"""Run one child from start to end, in the thread of its slot: the one call that the worker's loop makes.

Promises: the call comes back with the child's end, its timeout or the wish to stop, each within a bound; no process of
the run is left then, its working folder is gone, no descriptor stays open; the child never waits for its output to be
read; a wall clock that is set meanwhile changes neither the timeout nor the duration.
"""

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from clawjob.aws.log_streams import stream_name
from clawjob.domain.instants import Clock, to_text
from clawjob.domain.run import Outcome
from clawjob.runner.attempt import AttemptEnd, ChildSpec
from clawjob.runner.cannot_start import UnusableCommandError, explain, find_program
from clawjob.runner.cgroup import GroupUse
from clawjob.runner.environment import DEFAULT_LANG, DEFAULT_PATH, child_environment
from clawjob.runner.log_folder import LogFolder
from clawjob.runner.log_shipper import LogShipper, ShippedLog
from clawjob.runner.memory import OomCounter
from clawjob.runner.outcome import Cause, Facts, Rules, judge
from clawjob.runner.output import OutputCapture
from clawjob.runner.pieces import PieceLog
from clawjob.runner.result_file import NAME as RESULT_NAME
from clawjob.runner.result_file import ChildResult, read_result
from clawjob.runner.stop import StopRequest
from clawjob.runner.wardens import WardenLostError, Wardens
from clawjob.runner.watch import Ending, Pipes, Watch, cause_of
from clawjob.runner.wire import write_order
from clawjob.runner.work_folder import WorkFolders, safe_name

__all__ = ["AttemptEnd", "ChildSpec", "Supervisor", "SupervisorSettings"]

_WARDEN_LOST: Final = "the process that looked after the run was killed, so the run was ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorSettings:
    """How a worker treats its children."""

    path: str = DEFAULT_PATH
    """PATH of the children."""
    lang: str = DEFAULT_LANG
    """LANG of the children."""
    changes_user: bool = False
    """Whether children get a uid of their own."""
    group_use: GroupUse = GroupUse.FOR_MEMORY
    group_parent: str = ""
    """The control group (version 2) in which runs get theirs; empty takes the worker's own."""
    piece_bytes: int = 1024 * 1024
    """Of a log on disk."""
    pieces: int = 8
    """Of one attempt's log on disk."""
    keep_bytes: int = 512 * 1024 * 1024
    """Of all logs on disk."""


class Supervisor:
    """Executes children for all slots of a worker; `run_child` may be called from one thread for each slot."""

    def __init__(
        self,
        root: Path,
        worker: str,
        *,
        clock: Clock,
        shipper: LogShipper | None = None,
        settings: SupervisorSettings | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is made before `start`.

        Args:
            root: the folder for working folders and logs.
            worker: the worker's name, for its folder.
            clock: gives the instants that are reported.
            shipper: takes the output; None keeps it on disk only.
            settings: how children are treated.
            monotonic: measures timeouts and durations.
        """
        self.clock = clock
        self.monotonic = monotonic
        self.shipper = shipper
        self.settings = settings or SupervisorSettings()
        self.folders = WorkFolders(root, worker)
        self.logs = LogFolder(root, keep_bytes=self.settings.keep_bytes, monotonic=monotonic)
        self.oom_kills = OomCounter()
        self.wardens = Wardens(
            changes_user=self.settings.changes_user,
            group_use=self.settings.group_use,
            group_parent=self.settings.group_parent,
            folder=str(self.folders.folder),
        )

    def start(self) -> None:
        """Make the worker's folder and start the head warden.

        Raises:
            OSError: the folder cannot be made, or the head warden cannot be started.
        """
        self.folders.open()
        self.oom_kills.open()
        try:
            self.wardens.start()
        except OSError:
            self.folders.close()
            raise

    def close(self) -> None:
        """End the wardens and remove the worker's folder; every `run_child` must have come back."""
        self.wardens.close()
        self.folders.close()
        self.oom_kills.close()

    def run_child(self, spec: ChildSpec, *, stop: StopRequest) -> AttemptEnd:
        """Execute one attempt; comes back when no process of it is left.

        Args:
            spec: what to execute.
            stop: lets other threads end it.
        """
        with self.logs.in_use(spec.run_id):
            attempt = _Attempt(self, spec, stop)
            try:
                end = attempt.execute()
            finally:
                attempt.give_back()
        if end.log_bytes:
            self.logs.prune_when_due()
        return end


class _Attempt:
    """One call of `run_child`."""

    def __init__(self, supervisor: Supervisor, spec: ChildSpec, stop: StopRequest) -> None:
        self._by = supervisor
        self._spec = spec
        self._stop = stop
        self._started_at = supervisor.clock()
        self._start = supervisor.monotonic()
        self._folder: str | None = None
        self._program = ""
        self._pipes = Pipes()
        self._shipped: ShippedLog | None = None
        if supervisor.shipper is not None:
            self._shipped = supervisor.shipper.open(stream_name(spec.run_id, spec.attempt))
        self._capture = OutputCapture(self._pieces(), self._shipped, self._now_ms)

    def execute(self) -> AttemptEnd:
        stop = self._stop.asked
        if stop is not None:
            ending = Ending(cause=cause_of(stop.kind), why=stop.reason, at=self._by.monotonic())
            return self._report(ending, ChildResult())
        try:
            order = self._order()
        except UnusableCommandError as error:
            return self._not_started(str(error))
        except OSError as error:
            return self._not_started(f"the working folder cannot be made: {error.strerror}")
        oom_kills = self._by.oom_kills.count()
        try:
            ending = self._run(order)
        except (WardenLostError, OSError) as error:
            return self._not_started(f"the worker cannot start a process now: {error}")
        if ending.cannot is not None:
            stage, number = ending.cannot
            if stage == "folder":
                return self._not_started(f"the working folder cannot be entered: {os.strerror(number)}")
            return self._not_started(explain(number, self._program))
        if ending.status is not None and os.WIFSIGNALED(ending.status):
            ending.memory_kills += self._by.oom_kills.count() != oom_kills
        return self._report(ending, self._result())

    def give_back(self) -> None:
        """Return all that was taken, whatever happened."""
        self._pipes.close()
        self._capture.finish()
        if self._shipped is not None:
            self._shipped.finish()
        if self._folder is not None:
            self._by.folders.remove(self._folder, self._spec.uid)

    def _pieces(self) -> PieceLog:
        settings = self._by.settings
        logs, spec = self._by.logs, self._spec
        return PieceLog(
            lambda: logs.of(spec.run_id, spec.attempt), piece_bytes=settings.piece_bytes, pieces=settings.pieces
        )

    def _now_ms(self) -> int:
        elapsed = self._by.monotonic() - self._start
        return int((self._started_at.timestamp() + elapsed) * 1000)

    def _order(self) -> bytes:
        spec = self._spec
        name = safe_name(f"{spec.run_id}.{spec.attempt}")
        folder = self._folder = self._by.folders.make(name, spec.uid)
        own = {
            "RUN_ID": spec.run_id,
            "JOB": spec.job_name,
            "ATTEMPT": str(spec.attempt),
            "SCHEDULED_AT": to_text(spec.scheduled_at),
            "RESULT": f"{folder}/{RESULT_NAME}",
            "DEADLINE": to_text(self._started_at + spec.timeout),
        }
        settings = self._by.settings
        environment = child_environment(spec.env, own, folder=folder, path=settings.path, lang=settings.lang)
        self._program = find_program(spec.argv, environment)
        group = self._by.wardens.group_for(name, bounds_memory=spec.resources.memory_bytes is not None)
        return write_order(
            program=self._program,
            argv=spec.argv,
            environment=environment,
            folder=folder,
            grace=spec.grace.total_seconds(),
            uid=spec.uid,
            memory_bytes=spec.resources.memory_bytes,
            cpu_seconds=spec.resources.cpu_seconds,
            open_files=spec.resources.open_files,
            cgroup=group,
        )

    def _run(self, order: bytes) -> Ending:
        """Start the child and watch it to its end.

        Raises:
            WardenLostError: there is no warden that could start it.
        """
        spec = self._spec
        with self._stop.listening() as wake:
            watch = Watch(
                link=self._by.wardens.of(spec.slot),
                pipes=self._pipes,
                capture=self._capture,
                stop=self._stop,
                deadline=self._start + spec.timeout.total_seconds(),
                grace=spec.grace,
                timeout_text=_duration(spec.timeout),
                memory_limit=spec.resources.memory_bytes,
                monotonic=self._by.monotonic,
            )
            with self._pipes.opened() as write_ends:
                try:
                    watch.link.start(order, write_ends)
                except WardenLostError:
                    # It was killed while it had nothing to do: nothing was started.
                    self._by.wardens.replace(spec.slot)
                    watch.link = self._by.wardens.of(spec.slot)
                    watch.link.start(order, write_ends)
            try:
                watch.until_gone(wake)
            except WardenLostError:
                self._lose_warden(watch)
            except BaseException:
                # Whatever it is: the slot must not go on with a child of this run below its warden.
                self._by.wardens.replace(spec.slot)
                raise
            if watch.ending.stuck:
                self._by.wardens.forget(spec.slot)
            watch.read_rest()
        return watch.ending

    def _lose_warden(self, watch: Watch) -> None:
        """Its processes are ended by the head warden; what the child did until then is told as it is."""
        with contextlib.suppress(WardenLostError):
            # Without a new one now, the slot gets one at its next run.
            self._by.wardens.replace(self._spec.slot)
        ending = watch.ending
        ending.at = ending.at or self._by.monotonic()
        if ending.cause is None and ending.status is None:
            ending.cause, ending.why = Cause.WARDEN_LOST, _WARDEN_LOST

    def _result(self) -> ChildResult:
        if self._folder is None:
            return ChildResult()
        return read_result(self._folder, self._spec.uid)

    def _report(self, ending: Ending, result: ChildResult) -> AttemptEnd:
        spec = self._spec
        facts = Facts(
            status=ending.status,
            cause=ending.cause,
            why=ending.why,
            items=result.items,
            memory_peak_bytes=ending.memory_peak_bytes,
            killed_for_memory=ending.memory_kills > 0,
            left_behind=ending.left_behind,
            stuck=ending.stuck,
            result_problem=result.problem,
        )
        rules = Rules(
            success_exit_codes=spec.success_exit_codes,
            empty_exit_codes=spec.empty_exit_codes,
            min_items=spec.min_items,
            memory_bytes=spec.resources.memory_bytes,
            cpu_seconds=spec.resources.cpu_seconds,
        )
        verdict = judge(facts, rules)
        duration = max(0.0, ending.at - self._start)
        ended_well = verdict.outcome in {Outcome.SUCCEEDED, Outcome.EMPTY}
        return AttemptEnd(
            outcome=verdict.outcome,
            started_at=self._started_at,
            ended_at=self._started_at + timedelta(seconds=duration),
            duration_seconds=duration,
            exit_code=verdict.exit_code,
            signal=verdict.signal,
            detail=verdict.detail,
            items=result.items,
            outputs=result.outputs,
            log_tail="" if ended_well else self._capture.tail(),
            log_bytes=self._capture.bytes_seen,
            log_dropped_bytes=self._dropped_bytes(),
            cpu_seconds=ending.cpu_seconds,
            memory_peak_bytes=ending.memory_peak_bytes,
            lease_lost=ending.cause is Cause.LEASE_LOST,
        )

    def _not_started(self, why: str) -> AttemptEnd:
        duration = max(0.0, self._by.monotonic() - self._start)
        return AttemptEnd(
            outcome=Outcome.CANNOT_START,
            started_at=self._started_at,
            ended_at=self._started_at + timedelta(seconds=duration),
            duration_seconds=duration,
            detail=why[:300],
        )

    def _dropped_bytes(self) -> int:
        """Bytes missing in the log on disk or in the shipped one, whichever misses more."""
        self._capture.finish()
        shipped = self._shipped.dropped_bytes if self._shipped is not None else 0
        return max(self._capture.dropped_bytes, shipped)


def _duration(length: timedelta) -> str:
    seconds = length.total_seconds()
    return f"{seconds:g} s" if seconds < 120 else str(length)
