"""Keep what the emulator holds in a file, because moto itself forgets everything.

A snapshot is whole or not there: it is written beside the old one and takes its place in one step.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from clawjob.dev.moto_server import MotoServer, backend_of
from clawjob.dev.private_file import replace_private
from clawjob.domain.instants import from_text, to_text

VERSION: Final = 1
_NAME: Final = "emulator.json"


class UnreadableSnapshotError(Exception):
    """The file is none that this version wrote."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"cannot read {path}: {why}; move it away to start with nothing")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that is kept: the tables' items, the queues' messages, the runs' logs."""

    taken_at: datetime
    tables: Mapping[str, list[dict[str, Any]]]
    queues: Mapping[str, list[dict[str, Any]]]
    logs: Mapping[str, Mapping[str, list[list[Any]]]]

    @classmethod
    def take(cls, server: MotoServer, now: datetime) -> "Snapshot":
        """Copy what the emulator holds, while nobody changes it."""
        with server.lock:
            tables = {
                name: [item.to_json()["Attributes"] for item in table.all_items()]
                for name, table in backend_of("dynamodb").tables.items()
            }
            queues = {
                name: [_message_to_json(message) for message in queue._messages]  # noqa: SLF001 - moto shows visible ones only
                for name, queue in backend_of("sqs").queues.items()
            }
            logs = {
                name: {
                    stream_name: [[event.timestamp, event.message] for event in stream.events]
                    for stream_name, stream in group.streams.items()
                }
                for name, group in backend_of("logs").groups.items()
            }
        return cls(now, tables, queues, logs)

    def put_back(self, server: MotoServer) -> None:
        """Fill an emulator whose tables, queues and log groups are made and empty; what is not there is left out."""
        with server.lock:
            for name, items in self.tables.items():
                table = backend_of("dynamodb").tables.get(name)
                for item in items if table is not None else ():
                    table.put_item(item)
            for name, messages in self.queues.items():
                queue = backend_of("sqs").queues.get(name)
                if queue is not None:
                    queue._messages.extend(_message_from_json(message) for message in messages)  # noqa: SLF001 - as above
            logs = backend_of("logs")
            for name, streams in self.logs.items():
                group = logs.groups.get(name)
                for stream_name, events in streams.items() if group is not None else ():
                    group.create_log_stream(stream_name)
                    stream = group.streams[stream_name]
                    stream.put_log_events([{"timestamp": at, "message": text} for at, text in events])

    def save(self, folder: Path) -> None:
        """Write the file, readable by its owner only: a job's environment may hold secrets."""
        content = {
            "v": VERSION,
            "taken_at": to_text(self.taken_at),
            "tables": self.tables,
            "queues": self.queues,
            "logs": self.logs,
        }
        replace_private(folder / _NAME, json.dumps(content, separators=(",", ":")))

    @classmethod
    def load(cls, folder: Path) -> "Snapshot | None":
        """Read the file; None when there is none.

        Raises:
            UnreadableSnapshotError: it is damaged or of another version.
        """
        path = folder / _NAME
        try:
            content = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise UnreadableSnapshotError(path, str(error)) from error
        if not isinstance(content, dict) or content.get("v") != VERSION:
            raise UnreadableSnapshotError(path, f"it is no snapshot of version {VERSION}")
        try:
            return cls(from_text(content["taken_at"]), content["tables"], content["queues"], content["logs"])
        except (KeyError, ValueError) as error:
            raise UnreadableSnapshotError(path, f"{type(error).__name__}: {error}") from error


def _message_to_json(message: Any) -> dict[str, Any]:
    return {
        "id": message.id,
        "body": message.body,
        "sent": message.sent_timestamp,
        "first_received": message.approximate_first_receive_timestamp,
        "receives": message.approximate_receive_count,
        "visible_at": message.visible_at,
        "delayed_until": message.delayed_until,
    }


def _message_from_json(kept: Mapping[str, Any]) -> Any:
    from moto.sqs.models import Message

    message = Message(kept["id"], kept["body"])
    message.sent_timestamp = kept["sent"]
    message.approximate_first_receive_timestamp = kept["first_received"]
    message.approximate_receive_count = kept["receives"]
    message.visible_at = kept["visible_at"]
    message.delayed_until = kept["delayed_until"]
    return message
