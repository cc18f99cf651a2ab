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
from clawjob.domain.metrics import Metric
from clawjob.domain.run import AttemptResult
from clawjob.handlers.measures import Measure, Publish, measures_of_end, nowhere
from clawjob.operations.settle_attempt import settle_attempt
from clawjob.services import Services
from clawjob.settings import CoreSettings

log = logging.getLogger(__name__)

_TOO_LITTLE_MS: Final = 3000
"""With less time left, messages are left for the next call instead of being cut off in the middle."""
_COUNTED: Final = (Metric.SETTLED, Metric.IGNORED, Metric.MALFORMED, Metric.RETRIED)


@dataclass(frozen=True, slots=True)
class ResultsHandler:
    """Takes batches of the results queue."""

    settings: CoreSettings
    services: Services
    publish: Publish = nowhere

    def __call__(self, event: Mapping[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
        """Settle a batch; an event of another shape raises, and all of it comes again."""
        records = [(str(record["messageId"]), record["body"]) for record in event["Records"]]
        counts: Counter[Metric] = Counter(dict.fromkeys(_COUNTED, 0))
        of_runs: list[Measure] = []
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
                counts[Metric.MALFORMED] += 1
                continue
            if not self._settle(message_id, result, counts, of_runs):
                failed.append(message_id)
        counts[Metric.RETRIED] = len(failed)
        self.publish([*(Measure(name, count) for name, count in counts.items()), *of_runs])
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}

    def _settle(self, message_id: str, result: AttemptResult, counts: Counter[Metric], of_runs: list[Measure]) -> bool:
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
        counts[Metric.SETTLED if settled.changed else Metric.IGNORED] += 1
        if settled.changed and settled.run is not None:
            of_runs.append(Measure(Metric.ATTEMPT_DURATION, result.duration_seconds, settled.run.pool))
            of_runs += measures_of_end(settled.run)
        return True
