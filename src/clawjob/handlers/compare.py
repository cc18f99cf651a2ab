"""The hook before a new scheduler gets the ticks: it and the old one tell what they will do, and must say the same.

Both are asked as of the same instant. Nothing is let through that was not compared, unless the deployment says that it
changes schedules on purpose; a new version that cannot answer never is.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from clawjob.aws.deployments import LIVE, Answered, Deployments, FunctionFailedError
from clawjob.domain.comparing import Comparison, tells_decisions
from clawjob.domain.instants import to_text
from clawjob.handlers.measures import Publish, nowhere
from clawjob.services import Services
from clawjob.settings import CompareSettings

log = logging.getLogger(__name__)

_ROUNDS: Final = 3
"""Questions to both, while a tick or a person changed something between the two."""
_SHOWN: Final = 20
"""Differences in the log."""


@dataclass(frozen=True, slots=True)
class CompareHandler:
    """Judges one deployment."""

    settings: CompareSettings
    services: Services
    publish: Publish = nowhere

    def __call__(self, event: Mapping[str, Any], context: Any) -> bool:
        """Tell whether the new version may have the ticks."""
        del event, context
        comparison = Comparison()
        for _ in range(_ROUNDS):
            at = {"dry": True, "at": to_text(self.services.context.clock())}
            old = self._ask_old(at)
            if old.version > self.settings.new_version:
                # Nobody may be kept from going back: least of all by the version that is at fault.
                log.info("a way back is not compared", extra={"from_version": old.version})
                return True
            new = self._ask(str(self.settings.new_version), at)
            if not tells_decisions(new.body):
                log.error("the new version tells no decisions", extra={"to_version": new.version})
                return False
            if not tells_decisions(old.body):
                return self._accepts("the old version tells no decisions that can be compared")
            comparison.take(old.body, new.body)
            if not comparison.changed:
                break
        return self._judge(comparison)

    def _judge(self, comparison: Comparison) -> bool:
        about = {"compared": len(comparison.compared), "changed_meanwhile": len(comparison.changed)}
        for one in list(comparison.differences.values())[:_SHOWN]:
            extra = {"id": one.id, "job": one.name, "old": one.old, "new": one.new}
            log.warning("decided otherwise", extra=extra)
        if comparison.differences:
            count = len(comparison.differences)
            return self._accepts(f"the new version decides otherwise about {count} jobs or runs", **about)
        if comparison.says_nothing:
            return self._accepts("everything changed while it was compared", **about)
        log.info("both versions decide alike", extra=about)
        return True

    def _accepts(self, why: str, **about: int) -> bool:
        accepted = self.settings.accept_changes
        log.log(logging.WARNING if accepted else logging.ERROR, why, extra={**about, "accepted": accepted})
        return accepted

    def _ask_old(self, event: Mapping[str, Any]) -> Answered:
        """Ask it; one so broken that it does not answer tells nothing."""
        try:
            return self._ask(LIVE, event)
        except FunctionFailedError as error:
            log.warning("the old version does not answer", extra={"why": str(error)})
            return Answered(error.version, {})

    def _ask(self, qualifier: str, event: Mapping[str, Any]) -> Answered:
        clients = self.services.clients
        return Deployments(clients.codedeploy, clients.functions).ask(self.settings.function, qualifier, event)
