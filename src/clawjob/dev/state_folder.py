"""A folder that outlives the process: the token and, now and then, what the emulator holds. One process at a time."""

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from clawjob.dev.moto_server import MotoServer
from clawjob.dev.private_file import lock_file, replace_private
from clawjob.dev.snapshot import Snapshot
from clawjob.domain.instants import to_text

_TOKEN_FILE: Final = Path("token")
_LOCK_FILE: Final = Path("lock")


class StateInUseError(Exception):
    """Another process keeps its state in the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"another `clawjob dev` keeps its state in {folder}; end it, or name another folder")


class ClockWentBackError(Exception):
    """The state is from an instant that has not come yet."""

    def __init__(self, folder: Path, taken_at: datetime) -> None:
        self.folder = folder
        self.taken_at = taken_at
        super().__init__(
            f"the state in {folder} was left at {to_text(taken_at)}, which is still to come; "
            f"start with --at {to_text(taken_at)} or later, or name another folder"
        )


class StateFolder:
    """Held from its making to `close`."""

    def __init__(self, folder: Path) -> None:
        """Take the folder, which is made if needed.

        Raises:
            StateInUseError: another process that lives has it.
        """
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = lock_file(folder / _LOCK_FILE)
        if descriptor is None:
            raise StateInUseError(folder)
        self._descriptor = descriptor
        self._saved_at_change = 0

    def token(self, make: Callable[[], str]) -> str:
        """Give the token that was kept, or keep a new one."""
        path = self.folder / _TOKEN_FILE
        kept = path.read_text().strip() if path.exists() else ""
        if not kept:
            kept = make()
            replace_private(path, f"{kept}\n")
        return kept

    def load(self, now: datetime) -> Snapshot | None:
        """Read what was kept; None when nothing was.

        Raises:
            UnreadableSnapshotError: the file is damaged or of another version.
            ClockWentBackError: it was kept later than now.
        """
        kept = Snapshot.load(self.folder)
        if kept is not None and kept.taken_at > now:
            raise ClockWentBackError(self.folder, kept.taken_at)
        return kept

    def save(self, server: MotoServer, now: datetime) -> bool:
        """Keep what the emulator holds, if it changed since the last time; returns whether it did."""
        changes = server.changes
        if changes == self._saved_at_change:
            return False
        Snapshot.take(server, now).save(self.folder)
        self._saved_at_change = changes
        return True

    def close(self) -> None:
        """Give the folder back."""
        (self.folder / _LOCK_FILE).unlink(missing_ok=True)
        os.close(self._descriptor)
