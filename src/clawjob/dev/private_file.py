"""Files that only their owner may read, and locks that one process holds at a time."""

import fcntl
import os
from pathlib import Path


def replace_private(path: Path, text: str) -> None:
    """Write a file so that a reader finds the old or the new content, never a part."""
    beside = path.with_name(f".{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def lock_file(path: Path) -> int | None:
    """Hold a file, made if needed, until the descriptor is closed or this process ends; None when another holds it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        try:
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)  # its holder removed it between our two steps: take the new one
