"""Working folders of runs: made for one attempt, given to the slot's user, removed with all that is in them.

Each worker process has a folder of its own under the root, held by a lock. What a killed worker leaves is removed by
its head warden, and where that was killed too, by the next worker that starts on the same root.
"""

import fcntl
import logging
import os
import re
import stat
import threading
from pathlib import Path

from clawjob.runner.removal import remove_folder

_log = logging.getLogger(__name__)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NAME = 120
TEMPORARY = "tmp"
_SPARE = "spare"
_MOST_SPARES = 4
"""Kept for each user; a slot needs one."""


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
        self.runs = self.folder / "runs"
        """Holds the folders of the attempts in execution, and nothing else."""
        self._prefix = f"{self.runs}/"
        self._guard = threading.Lock()
        self._spares: dict[int | None, list[str]] = {}
        self._made = 0
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
        self.runs.mkdir(mode=0o711, exist_ok=True)
        (self.folder / _SPARE).mkdir(mode=0o700, exist_ok=True)

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

    def make(self, name: str, uid: int | None) -> str:
        """Make the folder of one attempt, with a folder for temporary files in it.

        Raises:
            OSError: it cannot be made.
        """
        folder = f"{self._prefix}{safe_name(name)}"
        try:
            return self._take_spare(folder, uid) or _make(folder, uid)
        except FileExistsError:
            remove_folder(folder)
            return _make(folder, uid)

    def remove(self, folder: str, uid: int | None) -> None:
        """Remove the folder of an attempt; what cannot be removed is logged and tried again by the next worker.

        A folder that is empty as it was made becomes the next attempt's: making and removing costs most of what a run
        without files costs us, and on some disks several milliseconds of waiting.
        """
        if self._keep_spare(folder, uid):
            return
        problem = remove_folder(folder)
        if problem:
            _log.warning("working folder not removed: %s", problem)

    def _take_spare(self, folder: str, uid: int | None) -> str:
        with self._guard:
            spares = self._spares.get(uid)
            spare = spares.pop() if spares else ""
        if not spare:
            return ""
        if os.path.lexists(folder):
            raise FileExistsError(folder)
        os.rename(spare, folder)  # noqa: PTH104 - paths as objects cost more than the call, for every run
        return folder

    def _keep_spare(self, folder: str, uid: int | None) -> bool:
        try:
            if not _is_as_made(folder, os.geteuid() if uid is None else uid):
                return False
            with self._guard:
                spares = self._spares.setdefault(uid, [])
                if len(spares) >= _MOST_SPARES:
                    return False
                self._made += 1
                spare = f"{self.folder}/{_SPARE}/{self._made}"
                os.rename(folder, spare)  # noqa: PTH104 - as above
                spares.append(spare)
        except OSError:
            return False
        return True

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


def _make(folder: str, uid: int | None) -> str:
    temporary = f"{folder}/{TEMPORARY}"
    os.mkdir(folder, 0o700)  # noqa: PTH102 - paths as objects cost more than the call, for every run
    os.mkdir(temporary, 0o700)  # noqa: PTH102 - as above
    if uid is not None:
        os.chown(temporary, uid, uid)
        os.chown(folder, uid, uid)
    return folder


def _is_as_made(folder: str, uid: int) -> bool:
    """Tell whether a child left its folder exactly as it got it."""
    temporary = f"{folder}/{TEMPORARY}"
    for path, names in ((folder, [TEMPORARY]), (temporary, [])):
        facts = os.lstat(path)
        if facts.st_mode != stat.S_IFDIR | 0o700 or facts.st_uid != uid or os.listxattr(path, follow_symlinks=False):
            return False
        with os.scandir(path) as entries:
            if [entry.name for entry in entries] != names:
                return False
    return True


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
