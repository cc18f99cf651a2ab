"""How a run is written into its item and read back. A plain run's item stays under 1 KB, so it costs one unit."""

from datetime import datetime
from typing import Any, Final

from clawjob.aws.codec import Value
from clawjob.aws.dynamo import Item
from clawjob.aws.table import DUE_AT, DUE_SHARD, LIST_KEY, LIST_SORT, PK, SK, TTL, run_key, runs_of
from clawjob.domain.errors import UnreadableRecordError
from clawjob.domain.ids import shard_of
from clawjob.domain.instants import from_text, to_text
from clawjob.domain.priority import QueueClass
from clawjob.domain.run import Attempt, CancelRequest, Outcome, Reason, Run, RunKind, State
from clawjob.domain.stored_version import check_version

VERSION: Final = 1


def due_keys(identifier: str, due_at: datetime | None) -> Item:
    """The due index's attributes of an item; empty when nothing is due."""
    return {} if due_at is None else {DUE_SHARD: f"D#{shard_of(identifier)}", DUE_AT: to_text(due_at)}


def item_of(run: Run) -> Item:
    """Write a run as an item; what is nothing is left out."""
    pk, sk = run_key(run.run_id)
    item: Item = {
        PK: pk,
        SK: sk,
        "v": VERSION,
        "job": run.job,
        "kind": run.kind.value,
        "state": run.state.value,
        "version": run.version,
        "pool": run.pool,
        "scheduled_at": to_text(run.scheduled_at),
        "not_before": to_text(run.not_before),
        "queued_at": to_text(run.queued_at),
        LIST_KEY: runs_of(run.uid),
        LIST_SORT: f"{to_text(run.scheduled_at)}#{run.run_id}",
        **due_keys(run.run_id, run.due_at),
    }
    optional: dict[str, Value] = {
        "queue": run.queue.value if run.queue is not QueueClass.LOW else None,
        "nominal_local": run.nominal_local.isoformat(timespec="seconds") if run.nominal_local else None,
        "checks": run.checks,
        "retry": run.retry,
        "token": run.token,
        "losses": run.losses,
        "lost_token": run.lost_token,
        "lease_until": to_text(run.lease_until) if run.lease_until else None,
        "deadline_at": to_text(run.deadline_at) if run.deadline_at else None,
        "message_id": run.message_id,
        "cancel": _cancel_value(run.cancel),
        "displaced": run.displaced,
        "reason": run.reason.value if run.reason else None,
        "why": run.why,
        "input_hash": run.input_hash,
        "gap_until": to_text(run.gap_until) if run.gap_until else None,
        "gap_count": run.gap_count,
        "final_at": to_text(run.final_at) if run.final_at else None,
        TTL: run.expires_at,
        **(attempt_fields(run.attempt) if run.attempt else {}),
    }
    optional.pop("number", None)
    item.update({name: value for name, value in optional.items() if value not in (None, "", 0)} | _zeros(run.attempt))
    return item


def _zeros(attempt: Attempt | None) -> Item:
    """Zeros that say something: an exit code of 0 is not the same as none."""
    if attempt is None:
        return {}
    said: dict[str, Value] = {
        "exit_code": attempt.exit_code,
        "items": attempt.items,
        "duration_seconds": attempt.duration_seconds,
    }
    return {name: value for name, value in said.items() if value is not None}


def attempt_fields(attempt: Attempt) -> Item:
    """Write an attempt's attributes, on the run or as an item of its own."""
    fields: Item = {
        "number": attempt.number,
        "worker": attempt.worker,
        "started_at": to_text(attempt.started_at),
        "ended_at": to_text(attempt.ended_at) if attempt.ended_at else None,
        "outcome": attempt.outcome.value if attempt.outcome else None,
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
        "detail": attempt.detail,
        "duration_seconds": attempt.duration_seconds,
        "items": attempt.items,
        "log_bytes": attempt.log_bytes,
        "log_dropped_bytes": attempt.log_dropped_bytes,
    }
    return {name: value for name, value in fields.items() if value not in (None, "")}


def run_of(item: Item) -> Run:
    """Read a run.

    Raises:
        NewerRecordError: a newer version wrote the item.
        UnreadableRecordError: the item is damaged.
    """
    key = f"{item.get(PK)}/{item.get(SK)}"
    check_version(key, item.get("v"), VERSION)
    try:
        return _run_of(item)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableRecordError(key, f"{type(error).__name__}: {error}") from error


def _run_of(item: dict[str, Any]) -> Run:
    run_id = item[PK].removeprefix("RUN#")
    return Run(
        run_id=run_id,
        uid=item[LIST_KEY].removeprefix("RUNS#"),
        job=item["job"],
        kind=RunKind(item["kind"]),
        state=State(item["state"]),
        version=_whole(item["version"]),
        pool=item["pool"],
        scheduled_at=from_text(item["scheduled_at"]),
        not_before=from_text(item["not_before"]),
        queued_at=from_text(item["queued_at"]),
        queue=QueueClass(item.get("queue", QueueClass.LOW)),
        nominal_local=_local(item.get("nominal_local")),
        due_at=optional_instant(item.get(DUE_AT)),
        checks=_whole(item.get("checks", 0)),
        retry=_whole(item.get("retry", 0)),
        token=_whole(item.get("token", 0)),
        losses=_whole(item.get("losses", 0)),
        lost_token=item.get("lost_token"),
        lease_until=optional_instant(item.get("lease_until")),
        deadline_at=optional_instant(item.get("deadline_at")),
        message_id=item.get("message_id"),
        attempt=attempt_of({**item, "number": item["token"]}) if "worker" in item else None,
        cancel=_cancel_of(item.get("cancel")),
        displaced=item.get("displaced"),
        reason=Reason(item["reason"]) if "reason" in item else None,
        why=item.get("why", ""),
        input_hash=item.get("input_hash"),
        gap_until=optional_instant(item.get("gap_until")),
        gap_count=item.get("gap_count", 0),
        final_at=optional_instant(item.get("final_at")),
        expires_at=item.get(TTL),
    )


def attempt_of(item: dict[str, Any]) -> Attempt:
    """Read an attempt's attributes."""
    return Attempt(
        number=item["number"],
        worker=item["worker"],
        started_at=from_text(item["started_at"]),
        ended_at=optional_instant(item.get("ended_at")),
        outcome=Outcome(item["outcome"]) if "outcome" in item else None,
        exit_code=item.get("exit_code"),
        signal=item.get("signal"),
        detail=item.get("detail", ""),
        duration_seconds=item.get("duration_seconds"),
        items=item.get("items"),
        log_bytes=item.get("log_bytes", 0),
        log_dropped_bytes=item.get("log_dropped_bytes", 0),
    )


def _cancel_value(cancel: CancelRequest | None) -> Value:
    if cancel is None:
        return None
    value: dict[str, Value] = {"at": to_text(cancel.at), "by": cancel.by, "why": cancel.why}
    return value | {"overdue": True} if cancel.is_overdue else value


def _cancel_of(value: Any) -> CancelRequest | None:
    if not value:
        return None
    return CancelRequest(from_text(value["at"]), value["by"], value["why"], bool(value.get("overdue", False)))


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r:.40} is no whole number")
    return value


def optional_instant(text: Any) -> datetime | None:
    """Read an instant that may be missing."""
    return None if text is None else from_text(text)


def _local(text: Any) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
