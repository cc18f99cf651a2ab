"""Remove a folder with all that a child may have left in it.

Promises: follows no symbolic link, gets into folders that their owner made unreadable, needs no recursion however deep
they lie, and never raises for what it cannot remove: it says what is left.

Wardens import this module: it uses nothing that costs them memory.
"""

import os
import stat

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 64
"""Levels held open at once; deeper folders are moved up first."""


def remove_folder(path: str) -> str:
    """Remove a folder; returns an empty text, or why something is left."""
    try:
        os.rmdir(path)  # noqa: PTH106 - pathlib costs a warden 1.5 MiB
    except FileNotFoundError:
        return ""
    except OSError:
        return _remove_full(path)
    return ""


def _remove_full(path: str) -> str:
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)  # noqa: PTH108 - as above
            return ""
        top = _open_folder(path, None)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path}: {error.strerror}"
    problems: list[str] = []
    try:
        _Emptier(top, problems).empty()
    finally:
        os.close(top)
    try:
        os.rmdir(path)  # noqa: PTH106 - as above
    except FileNotFoundError:
        return ""
    except OSError as error:
        problems.append(f"{path}: {error.strerror}")
    return problems[0] if problems else ""


class _Emptier:
    """Empties one folder through descriptors, so that no swapped link leads it elsewhere."""

    def __init__(self, top: int, problems: list[str]) -> None:
        self._top = top
        self._problems = problems
        self._moved = 0

    def empty(self) -> None:
        moved = -1
        # What lay too deep was moved into the top folder, and may itself hold deep folders.
        while self._moved != moved and not self._problems:
            moved = self._moved
            self._empty(self._top, 0)

    def _empty(self, folder: int, depth: int) -> None:
        try:
            # Entries go while they are listed: a folder of a million files costs no list of a million names.
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._remove(folder, entry, depth)
        except OSError as error:
            self._note("a folder", error)

    def _remove(self, folder: int, entry: "os.DirEntry[str]", depth: int) -> None:
        try:
            if entry.is_dir(follow_symlinks=False):
                self._remove_folder(folder, entry.name, depth)
            else:
                os.unlink(entry.name, dir_fd=folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._note(entry.name, error)

    def _remove_folder(self, parent: int, name: str, depth: int) -> None:
        if depth >= _DEEPEST:
            self._moved += 1
            os.rename(name, f".deep-{self._moved}", src_dir_fd=parent, dst_dir_fd=self._top)
            return
        inner = _open_folder(name, parent)
        try:
            self._empty(inner, depth + 1)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=parent)

    def _note(self, name: str, error: OSError) -> None:
        if len(self._problems) < 3:
            self._problems.append(f"{name}: {error.strerror}")


def _open_folder(name: str, parent: int | None) -> int:
    """Open a folder with full rights on it; its owner may have taken them away."""
    try:
        folder = os.open(name, _FLAGS, dir_fd=parent)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent)
        folder = os.open(name, _FLAGS, dir_fd=parent)
    if os.fstat(folder).st_mode & 0o700 != 0o700:
        try:
            os.fchmod(folder, 0o700)
        except OSError:
            os.close(folder)
            raise
    return folder
