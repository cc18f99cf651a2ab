"""The bodies of messages between scheduler, worker and results: versioned JSON, read with care, never trusted."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from clawjob.domain.errors import UnreadableRecordError
from clawjob.domain.instants import from_text, to_text
from clawjob.domain.run import AttemptResult, Outcome
from clawjob.domain.stored_version import check_version

VERSION: Final = 1
MAX_DETAIL: Final = 300
"""Characters of an attempt's explanation that are kept."""
MAX_OUTPUTS_BYTES: Final = 4096
MAX_LOG_TAIL_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class RunMessage:
    """Says that a run can be taken. `retry` tells a message of an earlier try from the present one."""

    run_id: str
    retry: int

    def to_body(self) -> str:
        """Write the body."""
        return json.dumps({"v": VERSION, "run_id": self.run_id, "retry": self.retry}, separators=(",", ":"))

    @classmethod
    def from_body(cls, body: str) -> "RunMessage":
        """Read a body.

        Raises:
            UnreadableRecordError: it is none of ours.
        """
        fields = _fields(body, "run message")
        run_id, retry = fields.get("run_id"), fields.get("retry")
        if not isinstance(run_id, str) or not run_id or type(retry) is not int or retry < 0:
            raise UnreadableRecordError("run message", "run_id or retry is missing or wrong")
        return cls(run_id, retry)


def result_to_body(result: AttemptResult) -> str:
    """Write the body that reports an attempt; long texts are cut, an output too big is left out and said."""
    outputs, detail = result.outputs, result.detail
    if len(json.dumps(outputs).encode()) > MAX_OUTPUTS_BYTES:
        outputs, detail = {}, f"{detail} (outputs over {MAX_OUTPUTS_BYTES} bytes left out)".strip()
    body = {
        "v": VERSION,
        "run_id": result.run_id,
        "token": result.token,
        "worker": result.worker,
        "outcome": result.outcome.value,
        "started_at": to_text(result.started_at),
        "ended_at": to_text(result.ended_at),
        "duration_seconds": round(result.duration_seconds, 3),
        "exit_code": result.exit_code,
        "signal": result.signal,
        "detail": detail[:MAX_DETAIL],
        "items": result.items,
        "outputs": outputs,
        "log_tail": _last_bytes(result.log_tail, MAX_LOG_TAIL_BYTES),
        "log_bytes": result.log_bytes,
        "log_dropped_bytes": result.log_dropped_bytes,
    }
    return json.dumps({name: value for name, value in body.items() if value not in (None, "", {})})


def result_from_body(body: str) -> AttemptResult:
    """Read the report of an attempt.

    Raises:
        UnreadableRecordError: it is none of ours.
    """
    fields = _fields(body, "result message")
    try:
        return AttemptResult(
            run_id=_text(fields["run_id"]),
            token=_number(fields["token"]),
            worker=_text(fields["worker"]),
            outcome=Outcome(fields["outcome"]),
            started_at=from_text(_text(fields["started_at"])),
            ended_at=from_text(_text(fields["ended_at"])),
            duration_seconds=float(fields["duration_seconds"]),
            exit_code=None if (code := fields.get("exit_code")) is None else _number(code),
            signal=None if (name := fields.get("signal")) is None else _text(name),
            detail=_text(fields.get("detail", ""))[:MAX_DETAIL],
            items=None if (items := fields.get("items")) is None else _number(items),
            outputs=_object(fields.get("outputs", {})),
            log_tail=_last_bytes(_text(fields.get("log_tail", "")), MAX_LOG_TAIL_BYTES),
            log_bytes=_number(fields.get("log_bytes", 0)),
            log_dropped_bytes=_number(fields.get("log_dropped_bytes", 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableRecordError("result message", f"{type(error).__name__}: {error}") from error


def _fields(body: str, kind: str) -> Mapping[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnreadableRecordError(kind, "not JSON") from error
    if not isinstance(fields, dict):
        raise UnreadableRecordError(kind, "not an object")
    check_version(kind, fields.get("v"), VERSION)
    return fields


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r:.40} is no whole number")
    return value


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.40} is no object")
    return value


def _last_bytes(text: str, limit: int) -> str:
    encoded = text.encode()
    return text if len(encoded) <= limit else encoded[-limit:].decode(errors="ignore")
