"""Find the program of a child, and say in plain words why it cannot be started."""

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

MAX_COMMAND_BYTES: Final = 8 * 1024 * 1024
"""Of arguments and environment together; far above what any kernel takes, so that nothing endless is copied."""


class UnusableCommandError(Exception):
    """A child cannot be started; the message is for the person who wrote the job."""


def find_program(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the path of the program, searched on the child's PATH when its name has no slash.

    Raises:
        UnusableCommandError: the command cannot be executed, as far as can be told without trying.
    """
    if not argv or not argv[0]:
        raise UnusableCommandError("the command is empty")
    whole = "".join((*argv, *environment, *environment.values()))
    if "\0" in whole:
        raise UnusableCommandError("the command, an argument or the environment holds a NUL character")
    if any(not name or "=" in name for name in environment):
        raise UnusableCommandError("a name in the environment is empty or holds an equals sign")
    try:
        size = len(os.fsencode(whole))
    except UnicodeEncodeError:
        raise UnusableCommandError("the command or the environment holds half a character") from None
    if size > MAX_COMMAND_BYTES:
        raise UnusableCommandError(explain(errno.E2BIG, argv[0]))
    if "/" in argv[0]:
        return argv[0]
    return _search(argv[0], environment.get("PATH", ""))


def _search(name: str, path: str) -> str:
    seen = ""
    for folder in path.split(":"):
        if not folder.startswith("/"):
            # A relative folder would mean the run's own, where nothing is yet.
            continue
        candidate = f"{folder}/{name}"
        try:
            mode = Path(candidate).stat().st_mode
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(mode):
            if mode & 0o111:
                return candidate
            seen = candidate
    if seen:
        raise UnusableCommandError(explain(errno.EACCES, seen))
    raise UnusableCommandError(f"the program {_short(name)} was not found on PATH ({_short(path, 200)})")


def explain(number: int, program: str) -> str:
    """Say why the kernel refused to execute a program."""
    name = _short(program)
    if number == errno.ENOENT and _there(program):
        return f"{name} is there, but the interpreter that its first line names is not"
    return {
        errno.ENOENT: f"the program {name} was not found",
        errno.ENOTDIR: f"the program {name} was not found: a part of its path is no folder",
        errno.EACCES: f"{name} may not be executed: it is not executable, is a folder, or its path is not open to us",
        errno.ENOEXEC: f"{name} is not in an executable format; a script needs a first line such as #!/bin/sh",
        errno.E2BIG: "the arguments and the environment are too long for the system",
        errno.ENOMEM: "the machine has no memory left for another process",
        errno.EAGAIN: "the machine allows no more processes",
        errno.ELOOP: f"the path of {name} has too many symbolic links",
        errno.ENAMETOOLONG: f"the path of {name} is too long",
        errno.ETXTBSY: f"{name} is being written to",
    }.get(number, f"{name} cannot be executed: {os.strerror(number)}")


def _there(program: str) -> bool:
    try:
        return program.startswith("/") and Path(program).is_file()
    except (OSError, ValueError):
        return False


def _short(text: str, most: int = 100) -> str:
    shown = repr(text if len(text) <= most else text[:most] + "...")
    return shown.encode("ascii", "backslashreplace").decode()
