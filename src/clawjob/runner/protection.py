"""Keeps the container service from choosing a busy worker when it must end one.

Asked for through the endpoint of the agent beside the worker; without one there is nothing to do. Whatever goes wrong
there is logged and never touches the work: told to stop, a worker hands its runs back.
"""

import json
import logging
import math
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from http.client import HTTPConnection, HTTPException
from typing import Final
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

PATH: Final = "/task-protection/v1/state"
LONGEST: Final = timedelta(hours=2)
"""In a row: protected workers hold up a deploy, and CloudFormation waits three hours for one."""
_EACH: Final = timedelta(minutes=30)
"""What is asked for at a time; a worker that hangs is free to be ended after it."""
_RENEW: Final = timedelta(minutes=10)
_AGAIN: Final = timedelta(minutes=1)
"""After a refusal: while a deploy goes on, old workers may hold all the protection there is."""
_LINGER: Final = timedelta(seconds=20)
"""Idle for so long before it is given back: not asked twice for each short run."""
_PATIENCE: Final = 5.0


class TaskProtection:
    """The protection of this worker's container."""

    def __init__(self, agent_uri: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Ask nothing yet.

        Args:
            agent_uri: the agent's address; empty: there is none.
            monotonic: a clock that is never set.
        """
        self._agent_uri = agent_uri
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._busy = False
        self._idle_since = 0.0
        self._since: float | None = None
        """When we began to ask for protection; None: we have none."""
        self._ask_at = 0.0
        self._news = False
        self._closed = False
        self._thread = threading.Thread(target=self._keep, name="protection", daemon=True)

    def start(self) -> None:
        """Begin, if there is an agent."""
        if self._agent_uri:
            self._thread.start()

    def close(self) -> None:
        """End; what is held runs out by itself, as the worker is being stopped."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def set_busy(self, busy: bool) -> None:
        """Tell whether the worker has runs; never waits for the agent."""
        with self._changed:
            if busy != self._busy:
                self._busy = busy
                self._idle_since = self._monotonic()
                self._news = True
                self._changed.notify()

    def look(self) -> float | None:
        """Do what is due now; gives the seconds until it must be called again, None: when something changes."""
        now = self._monotonic()
        with self._changed:
            busy, idle_since = self._busy, self._idle_since
        if busy:
            return self._hold(now)
        if self._since is None:
            return None
        if (wait := idle_since + _LINGER.total_seconds() - now) > 0:
            return wait
        self._since, self._ask_at = None, 0.0
        self._put({"ProtectionEnabled": False})
        return None

    def _hold(self, now: float) -> float | None:
        if self._since is None:
            self._since = now
        left = LONGEST.total_seconds() - (now - self._since)
        if left <= 0:
            return None
        if now >= self._ask_at:
            minutes = math.ceil(min(_EACH.total_seconds(), left) / 60)
            granted = self._put({"ProtectionEnabled": True, "ExpiresInMinutes": minutes})
            self._ask_at = now + (_RENEW if granted else _AGAIN).total_seconds()
        return self._ask_at - now

    def _keep(self) -> None:
        while True:
            wait = self.look()
            with self._changed:
                if self._closed:
                    return
                if not self._news:
                    self._changed.wait(wait)
                self._news = False

    def _put(self, body: dict[str, bool | int]) -> bool:
        parts = urlsplit(self._agent_uri)
        try:
            connection = HTTPConnection(parts.netloc, timeout=_PATIENCE)
            try:
                headers = {"Content-Type": "application/json"}
                connection.request("PUT", f"{parts.path.rstrip('/')}{PATH}", json.dumps(body), headers)
                response = connection.getresponse()
                text = response.read(4096).decode("utf-8", "replace")
            finally:
                connection.close()
        except (OSError, HTTPException, ValueError) as error:
            log.warning("protection not changed", extra={"wanted": body, "why": f"{type(error).__name__}: {error}"})
            return False
        # A refusal by the service comes as a good answer with a failure in it.
        if response.status != 200 or '"failure"' in text or '"error"' in text:
            log.warning("protection not changed", extra={"wanted": body, "why": f"{response.status} {text}"})
            return False
        return True
