"""The few process flags of Linux that Python has no call for.

Each function speaks of the calling process and raises OSError when the kernel refuses.
"""

import ctypes
import os

_SET_DUMPABLE = 4
_GET_DUMPABLE = 3
_SET_CHILD_SUBREAPER = 36
_SET_NO_NEW_PRIVS = 38
_AMBIENT = 47
_AMBIENT_CLEAR_ALL = 4

_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent has ended."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def set_dumpable(dumpable: bool) -> None:
    """Allow or forbid other processes of the same user to read this one's memory, environment and open files."""
    _prctl(_SET_DUMPABLE, int(dumpable))


def is_dumpable() -> bool:
    """Tell whether processes of the same user may read this one."""
    return _prctl(_GET_DUMPABLE, 0) == 1


def forbid_new_privileges() -> None:
    """Take from this process and all that it starts the power to gain rights by running a setuid program."""
    _prctl(_SET_NO_NEW_PRIVS, 1)


def drop_ambient_capabilities() -> None:
    """Forget the rights that would be kept by a child that is another user."""
    _prctl(_AMBIENT, _AMBIENT_CLEAR_ALL)


def _prctl(option: int, value: int) -> int:
    arguments = [ctypes.c_ulong(number) for number in (value, 0, 0, 0)]
    answer = int(_libc.prctl(ctypes.c_int(option), *arguments))
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
