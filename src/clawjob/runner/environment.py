"""What a child may know and who it is: a clean environment, a user of its own, nothing of the worker."""

import os
from collections.abc import Mapping

from clawjob.runner import prctl
from clawjob.runner.work_folder import TEMPORARY

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEFAULT_LANG = "C.UTF-8"
OWN_PREFIX = "CLAWJOB_"


def child_environment(
    job_environment: Mapping[str, str], own: Mapping[str, str], *, folder: str, path: str, lang: str
) -> dict[str, str]:
    """Make the whole environment of a child.

    Args:
        job_environment: the job's `env`; it may replace PATH, LANG, HOME and TMPDIR, never a `CLAWJOB_` name.
        own: the `CLAWJOB_` names without their prefix.
        folder: the run's working folder.
        path: PATH of the worker's image.
        lang: LANG of the worker's image.
    """
    return {
        "PATH": path,
        "LANG": lang,
        "HOME": folder,
        "TMPDIR": f"{folder}/{TEMPORARY}",
        **{name: value for name, value in job_environment.items() if not name.startswith(OWN_PREFIX)},
        **{OWN_PREFIX + name: value for name, value in own.items()},
    }


def hide_worker() -> None:
    """Forbid children to read the worker's environment, memory and open files; called once, before the first run.

    It stops other processes of the same user. Against a child that is root only a user of its own helps.
    """
    prctl.set_dumpable(False)


def slot_uid(base: int | None, slot: int) -> int | None:
    """Return the user and group id of a slot's children; None for the worker's own.

    Raises:
        ValueError: the worker may not change user, or the base could name a real user.
    """
    if base is None:
        return None
    if base < 1000:
        raise ValueError(f"uid base {base} could be a user of the system; take one from 1000 on")
    if os.geteuid() != 0:
        raise ValueError("a uid base is set, but only a worker that runs as root can change user")
    return base + slot
