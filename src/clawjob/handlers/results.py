"""The results function: settles what workers reported. Each message is judged alone, and none can stop the others.

Answers name the messages that are to come again, and only those. What is no report is logged, counted and dropped; a
report of a newer version comes again, for the newer function of a deployment that is under way.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from clawjob.domain.errors import NewerRecordError, UnavailableError, UnreadableRecordError
from clawjob.domain.messages import result_from_body
from clawjob.domain.run import AttemptResult, Run, State
from clawjob.handlers.measures import Measure, Publish, nowhere
from clawjob.operations.settle_attempt import settle_attempt
from clawjob.services import Services
from clawjob.settings import CoreSettings

log = logging.getLogger(__name__)

_TOO_LITTLE_MS: Final = 3000
"""With less time left, messages are left for the next call instead of being cut off in the middle."""
_COUNTED: Final = ("Settled", "Ignored", "Malformed", "Retried", "RunsSucceeded", "RunsFailed", "RunsCancelled")
_FINAL: Final = {
    State.SUCCEEDED: "RunsSucceeded",
    State.FAILED: "RunsFailed",
    State.TIMED_OUT: "RunsFailed",
    State.CANCELLED: "RunsCancelled",
}


@dataclass(frozen=True, slots=True)
class ResultsHandler:
    """Takes batches of the results queue."""

    settings: CoreSettings
    services: Services
    publish: Publish = nowhere

    def __call__(self, event: Mapping[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
        """Settle a batch; an event of another shape raises, and all of it comes again."""
        records = [(str(record["messageId"]), record["body"]) for record in event["Records"]]
        counts: Counter[str] = Counter(dict.fromkeys(_COUNTED, 0))
        durations: list[Measure] = []
        failed: list[str] = []
        for message_id, body in records:
            if context.get_remaining_time_in_millis() < _TOO_LITTLE_MS:
                log.warning("message is left for the next call", extra={"message_id": message_id})
                failed.append(message_id)
                continue
            try:
                result = result_from_body(body if isinstance(body, str) else "")
            except NewerRecordError as error:
                log.warning("message comes again", extra={"message_id": message_id, "why": error.why})
                failed.append(message_id)
                continue
            except UnreadableRecordError as error:
                about = {"message_id": message_id, "why": error.why, "body": str(body)[:200]}
                log.warning("message dropped", extra=about)
                counts["Malformed"] += 1
                continue
            durations.append(Measure("AttemptDuration", result.duration_seconds, "Seconds"))
            if not self._settle(message_id, result, counts):
                failed.append(message_id)
        counts["Retried"] = len(failed)
        self.publish([*(Measure(name, count) for name, count in counts.items()), *durations])
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}

    def _settle(self, message_id: str, result: AttemptResult, counts: Counter[str]) -> bool:
        """Settle one report; False when it is to come again."""
        about = {"message_id": message_id, "run_id": result.run_id, "attempt": result.token}
        try:
            settled = settle_attempt(self.services.context, result)
        except UnavailableError as error:
            log.warning("result comes again", extra={**about, "why": str(error)})
            return False
        except UnreadableRecordError as error:
            # The queue keeps it among its dead letters, for when the record is mended.
            log.error("result of a run that cannot be read", extra={**about, "why": str(error)})  # noqa: TRY400 - the cause says it all
            return False
        except Exception:
            log.exception("result could not be settled", extra=about)
            return False
        counts["Settled" if settled.changed else "Ignored"] += 1
        if settled.changed and (name := _final(settled.run)):
            counts[name] += 1
        return True


def _final(run: Run | None) -> str | None:
    return None if run is None else _FINAL.get(run.state)
