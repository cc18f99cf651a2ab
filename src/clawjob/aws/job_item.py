"""How a job's state row is written into its item and read back."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from clawjob.aws.codec import Value
from clawjob.aws.dynamo import Item
from clawjob.aws.run_item import due_keys, optional_instant
from clawjob.aws.table import ALL_JOBS, DUE_AT, LIST_KEY, LIST_SORT, PK, SK, state_key
from clawjob.domain.errors import UnreadableRecordError
from clawjob.domain.instants import from_text, to_text
from clawjob.domain.job_state import JobDecision, JobState
from clawjob.domain.job_version import Change, Editor, JobVersion
from clawjob.domain.run import Reason
from clawjob.domain.stored_version import check_version

VERSION: Final = 1
T = TypeVar("T")


def item_of(state: JobState) -> Item:
    """Write a state row; a deleted job is in no index."""
    pk, sk = state_key(state.uid)
    item: Item = {
        PK: pk,
        SK: sk,
        "v": VERSION,
        "name": state.name,
        "version": state.version,
        "enabled": state.enabled,
        "planned_until": to_text(state.planned_until),
        "created_at": to_text(state.created_at),
        "changed_at": to_text(state.changed_at),
    }
    if state.deleted_at is None:
        item |= {LIST_KEY: ALL_JOBS, LIST_SORT: state.name, **due_keys(state.uid, state.due_at)}
    optional: Item = {
        "active": state.active,
        "decision": decision_value(state.decision),
        "deleted_at": to_text(state.deleted_at) if state.deleted_at else None,
        "invalid": state.invalid,
    }
    return item | {name: value for name, value in optional.items() if value is not None}


def decision_value(decision: JobDecision | None) -> Value:
    """Write a decision as one attribute of at most 200 bytes."""
    if decision is None:
        return None
    value: dict[str, Value] = {"reason": decision.reason.value, "at": to_text(decision.at)}
    if decision.scheduled_at is not None:
        value["scheduled_at"] = to_text(decision.scheduled_at)
    if decision.count:
        value["count"] = decision.count
    return value


def state_of(item: Item) -> JobState:
    """Read a state row.

    Raises:
        NewerRecordError: a newer version wrote the item.
        UnreadableRecordError: the item is damaged.
    """
    key = f"{item.get(PK)}/{item.get(SK)}"
    check_version(key, item.get("v"), VERSION)
    try:
        return _state_of(item)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableRecordError(key, f"{type(error).__name__}: {error}") from error


def _state_of(item: dict[str, Any]) -> JobState:
    return JobState(
        uid=item[PK].removeprefix("JOB#"),
        name=item["name"],
        version=_typed(item["version"], int),
        enabled=_typed(item["enabled"], bool),
        planned_until=from_text(item["planned_until"]),
        created_at=from_text(item["created_at"]),
        changed_at=from_text(item["changed_at"]),
        due_at=optional_instant(item.get(DUE_AT)),
        active=item.get("active"),
        decision=_decision_of(item.get("decision")),
        deleted_at=optional_instant(item.get("deleted_at")),
        invalid=item.get("invalid"),
    )


def _decision_of(value: Any) -> JobDecision | None:
    if value is None:
        return None
    return JobDecision(
        reason=Reason(value["reason"]),
        at=from_text(value["at"]),
        scheduled_at=optional_instant(value.get("scheduled_at")),
        count=value.get("count", 0),
    )


def _typed(value: T, kind: type[T]) -> T:
    if type(value) is not kind:
        raise TypeError(f"{value!r:.40} is no {kind.__name__}")
    return value


def version_fields(at: datetime, change: Change, editor: Editor) -> dict[str, Value]:
    """Write what is kept of a version beside its definition; what is empty is left out."""
    said = {"change": change.value, "written_by": editor.by, "writer": editor.name, "why": editor.why}
    return {"written_at": to_text(at), **{name: value for name, value in said.items() if value}}


def version_of(item: Mapping[str, Value]) -> JobVersion:
    """Read it; versions that were written before it was kept say only when."""
    change = item.get("change")
    return JobVersion(
        version=int(str(item[SK]).removeprefix("V#")),
        at=from_text(str(item["written_at"])),
        change=Change(change) if change in tuple(Change) else None,
        editor=Editor(str(item.get("written_by", "")), str(item.get("writer", "")), str(item.get("why", ""))),
    )
