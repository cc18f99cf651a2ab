"""Cancels a run: at once while it waits, through its worker's next renewal of the lease while it runs."""

import logging
from dataclasses import replace

from clawjob.domain.claiming import cancelled
from clawjob.domain.errors import RunNotFoundError, UnavailableError
from clawjob.domain.run import CancelRequest, Run, State
from clawjob.operations.context import Context

log = logging.getLogger(__name__)

_TRIES = 5


def cancel_run(ctx: Context, run_id: str, by: str, why: str) -> Run:
    """Cancel a run; one that is final stays as it is, and the first request stands.

    Args:
        ctx: the service.
        run_id: which run.
        by: who asks.
        why: the reason, which the worker and the run's page show.

    Raises:
        RunNotFoundError: there is no such run.
    """
    for _ in range(_TRIES):
        seen = ctx.runs.get(run_id)
        if seen is None:
            raise RunNotFoundError(run_id)
        if seen.is_final:
            return seen
        request = CancelRequest(at=ctx.clock(), by=by[:60], why=why[:60])
        if seen.state is State.RUNNING:
            asked = ctx.runs.request_cancel(seen, request)
            if asked.made and asked.run is not None:
                log.info("cancel asked for", extra={"run_id": run_id, "by": request.by, "why": request.why})
                return asked.run
            continue
        ended = cancelled(replace(seen, cancel=request), ctx.clock(), ctx.times)
        moved = ctx.runs.end_unstarted(seen, ended)
        if moved.made:
            log.info("run cancelled", extra={"run_id": run_id, "by": request.by, "why": request.why})
            return ended
    raise UnavailableError("cancel", "the run changes all the time")
