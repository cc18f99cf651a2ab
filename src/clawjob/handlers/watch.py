"""The hook after a new scheduler got the ticks: three of its ticks in a row must leave nothing undone.

It reads the record that each tick leaves at its end. A tick that raises leaves none.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from clawjob.handlers.measures import Publish, nowhere
from clawjob.services import Services
from clawjob.settings import WatchSettings

log = logging.getLogger(__name__)

TICKS: Final = 3
LOOK_SECONDS: Final = 15
"""Well under a minute, so that no tick's record is missed."""
_RESERVE_MS: Final = 30_000
"""Left for the answer."""


@dataclass(frozen=True, slots=True)
class WatchHandler:
    """Judges one deployment."""

    settings: WatchSettings
    services: Services
    publish: Publish = nowhere
    wait: Callable[[float], None] = time.sleep

    def __call__(self, event: Mapping[str, Any], context: Any) -> bool:
        """Tell whether the new version may keep the ticks."""
        del event
        good: list[str] = []
        seen = ""
        record: Mapping[str, Any] = {}
        while context.get_remaining_time_in_millis() > _RESERVE_MS:
            record = self.services.context.jobs.last_tick()
            if record.get("at", "") != seen and record.get("function_version") == str(self.settings.new_version):
                seen = str(record["at"])
                good = [*good, seen] if _left_nothing(record) else []
                log.info("a tick of the new version ended", extra={"good_in_a_row": len(good), "tick": record})
                if len(good) >= TICKS:
                    return True
            self.wait(LOOK_SECONDS)
        log.error("the new version made no good ticks", extra={"good_in_a_row": len(good), "last_tick": record})
        return False


def _left_nothing(record: Mapping[str, Any]) -> bool:
    return not record.get("left") and not record.get("invalid")
