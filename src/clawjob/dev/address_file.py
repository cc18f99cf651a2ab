"""The file by which the command line finds a running one-machine mode: `.clawjob/dev.json` in the current folder.

It appears, whole, when the service answers, and goes with it. A lock beside it tells a living service from what a
killed one left.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from clawjob.dev.private_file import lock_file, replace_private

FOLDER: Final = ".clawjob"
NAME: Final = "dev.json"
_LOCK: Final = "dev.lock"


class AlreadyRunningError(Exception):
    """Another one-machine mode serves this folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"another `clawjob dev` runs in this folder ({path} is its address); "
            "use that one, end it, or start in another folder"
        )


class AddressFileError(Exception):
    """The file cannot be written."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"cannot write {path} ({why}); start in a folder of your own")


class AddressFile:
    """Held from its making to `remove`."""

    def __init__(self, folder: Path) -> None:
        """Take the file for this process.

        Raises:
            AlreadyRunningError: another process that lives has it.
            AddressFileError: the folder cannot be written.
        """
        self.path = folder / FOLDER / NAME
        self._lock = folder / FOLDER / _LOCK
        self._made_folder = not self.path.parent.exists()
        try:
            self.path.parent.mkdir(exist_ok=True)
            descriptor = lock_file(self._lock)
            if descriptor is None:
                raise AlreadyRunningError(self.path)
            self._descriptor = descriptor
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise AddressFileError(self.path, error.strerror or str(error)) from error

    def write(self, url: str, token: str) -> None:
        """Tell where the API is and what it asks for."""
        replace_private(self.path, json.dumps({"url": url, "token": token}) + "\n")

    def remove(self) -> None:
        """Take the file away, and its folder if this process made it and nothing else came in."""
        self.path.unlink(missing_ok=True)
        self._lock.unlink(missing_ok=True)
        os.close(self._descriptor)
        if self._made_folder:
            with suppress(OSError):
                self.path.parent.rmdir()
