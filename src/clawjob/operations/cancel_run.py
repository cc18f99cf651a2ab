"""Cancels a run: at once while it waits, through its worker's next renewal of the lease while it runs."""

from dataclasses import replace

from clawjob.domain.claiming import cancelled
from clawjob.domain.errors import RunNotFoundError, UnavailableError
from clawjob.domain.run import CancelRequest, Run, State
from clawjob.operations.context import Context

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
            asked = ctx.runs.request_cancel(run_id, request)
            if asked.cancel is not None or asked.is_final:
                return asked
            continue
        ended = cancelled(replace(seen, cancel=request), ctx.clock(), ctx.times)
        moved = ctx.runs.end_unstarted(seen, ended)
        if moved.made:
            return ended
    raise UnavailableError("cancel", "the run changes all the time")
