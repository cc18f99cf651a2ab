"""What `clawjob login` keeps: addresses and tokens by the name of a profile, in a file that only its owner can read.

One writer at a time; a reader finds the whole old or the whole new content.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clawjob.cli.failures import NotFound, WrongUse
from clawjob.dev.private_file import replace_private

DEFAULT: Final = "default"
MAX_NAME: Final = 64


@dataclass(frozen=True, slots=True)
class Profile:
    """Where an API is and what it asks for."""

    url: str
    token: str


class Profiles:
    """The profiles of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Profiles":
        """Those of the user whose environment it is: below `XDG_CONFIG_HOME`, or `~/.config`."""
        given = Path(environment.get("XDG_CONFIG_HOME", ""))
        # The specification has programs ignore a relative path.
        folder = given if given.is_absolute() else Path(environment.get("HOME") or Path.home()) / ".config"
        return cls(folder / "clawjob" / "config.json")

    def get(self, name: str) -> Profile | None:
        """Give a profile; None when there is none of this name.

        Raises:
            WrongUse: the file cannot be read.
        """
        kept = self._read()["profiles"].get(name)
        if kept is None:
            return None
        if not isinstance(kept, dict) or not all(isinstance(kept.get(key), str) for key in ("url", "token")):
            raise WrongUse(f"{self.path}: profile {name!r} has no url and token. Make it anew with `clawjob login`.")
        return Profile(kept["url"], kept["token"])

    def names(self) -> list[str]:
        """Name all profiles."""
        return sorted(self._read()["profiles"])

    def put(self, name: str, profile: Profile) -> None:
        """Keep a profile, in the place of one of its name.

        Raises:
            WrongUse: the file cannot be read or written.
        """
        with self._changing() as content:
            content["profiles"][name] = {"url": profile.url, "token": profile.token}

    def remove(self, name: str) -> None:
        """Forget a profile.

        Raises:
            NotFound: there is none of this name.
            WrongUse: the file cannot be read or written.
        """
        with self._changing() as content:
            if content["profiles"].pop(name, None) is None:
                raise NotFound(f"There is no profile {name!r} in {self.path}.")

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.path.parent, os.O_RDONLY)
        except OSError as error:
            raise WrongUse(f"{self.path.parent} cannot be used ({error.strerror}).") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            content = self._read()
            yield content
            # Who keeps settings elsewhere and links to them wants the link to stay.
            replace_private(self.path.resolve(), json.dumps(content, indent=2) + "\n")
        except OSError as error:
            raise WrongUse(f"{self.path} cannot be written ({error.strerror}).") from error
        finally:
            os.close(descriptor)

    def _read(self) -> dict[str, Any]:
        try:
            read = json.loads(self.path.read_text("utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return {"profiles": {}}
        except (OSError, ValueError) as error:
            raise WrongUse(f"{self.path} cannot be read ({error}). Mend or remove it.") from error
        if not isinstance(read, dict) or not isinstance(read.setdefault("profiles", {}), dict):
            raise WrongUse(f"{self.path} holds no profiles. Mend or remove it.")
        return read
