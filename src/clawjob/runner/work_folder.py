"""Working folders of runs: made for one attempt, given to the slot's user, removed with all that is in them.

Each worker process has a folder of its own under the root, held by a lock. What a killed worker leaves is removed by
its head warden, and where that was killed too, by the next worker that starts on the same root.
"""

import contextlib
import fcntl
import logging
import os
import re
from pathlib import Path

from clawjob.runner.removal import remove_folder

_log = logging.getLogger(__name__)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NAME = 120
TEMPORARY = "tmp"


def safe_name(text: str) -> str:
    """Make one path component of a text: no separators, no hidden names, bounded."""
    return _UNSAFE.sub("_", text)[:_LONGEST_NAME].lstrip(".") or "_"


class WorkFolders:
    """The working folders of one worker."""

    def __init__(self, root: Path, worker: str) -> None:
        self._root = root / "work"
        # With the process id: the head warden of a dead worker must not take the folder of its successor.
        name = f"{safe_name(worker)}.{os.getpid()}"
        self.folder = self._root / name
        self._lock_path = self._root / f"{name}.lock"
        self._lock: int | None = None

    def open(self) -> None:
        """Make the worker's folder, lock it, and remove what dead workers left.

        Raises:
            OSError: the folder cannot be made, or is in use.
        """
        # Children of another user must pass through, but need not list what is there.
        self._root.mkdir(mode=0o711, parents=True, exist_ok=True)
        self._lock = _lock(self._lock_path)
        self._sweep()
        problem = remove_folder(str(self.folder))
        if problem:
            _log.warning("left by an earlier worker and not removed: %s", problem)
        self.folder.mkdir(mode=0o711, exist_ok=True)

    def close(self) -> None:
        """Remove the worker's folder and let go of the lock."""
        if self._lock is None:
            return
        problem = remove_folder(str(self.folder))
        if problem:
            _log.warning("working folder not removed: %s", problem)
        self._lock_path.unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = None

    def make(self, name: str, uid: int | None) -> Path:
        """Make the folder of one attempt, with a folder for temporary files in it.

        Raises:
            OSError: it cannot be made.
        """
        folder = self.folder / safe_name(name)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            remove_folder(str(folder))
            folder.mkdir(mode=0o700)
        temporary = folder / TEMPORARY
        temporary.mkdir(mode=0o700)
        if uid is not None:
            os.chown(temporary, uid, uid)
            os.chown(folder, uid, uid)
        return folder

    def remove(self, folder: Path) -> None:
        """Remove the folder of an attempt; what cannot be removed is logged and tried again by the next worker."""
        with contextlib.suppress(OSError):
            (folder / TEMPORARY).rmdir()
        problem = remove_folder(str(folder))
        if problem:
            _log.warning("working folder not removed: %s", problem)

    def _sweep(self) -> None:
        for path in self._root.glob("*.lock"):
            if path == self._lock_path:
                continue
            try:
                lock = _lock(path)
            except OSError:
                continue
            problem = remove_folder(str(path.with_name(path.name.removesuffix(".lock"))))
            if problem:
                _log.warning("left by a dead worker and not removed: %s", problem)
            else:
                path.unlink(missing_ok=True)
            os.close(lock)


def _lock(path: Path) -> int:
    """Lock a file, making it; it may be removed by a sweep between the opening and the lock."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_ino == path.stat().st_ino:
                return lock
        except FileNotFoundError:
            pass
        except OSError:
            os.close(lock)
            raise
        os.close(lock)
