"""What every operation needs, wired once by the composition root: stores, queues, clock, times, ids, chance."""

from collections.abc import Callable
from dataclasses import dataclass

from clawjob.aws.job_store import JobStore
from clawjob.aws.queues import Queues
from clawjob.aws.run_store import RunStore
from clawjob.aws.token_store import TokenStore
from clawjob.domain.instants import Clock
from clawjob.domain.times import Times


@dataclass(frozen=True, slots=True)
class Context:
    """The service's parts."""

    jobs: JobStore
    runs: RunStore
    tokens: TokenStore
    queues: Queues
    clock: Clock
    times: Times
    new_uid: Callable[[], str]
    """A job's uid, never given before."""
    new_unique: Callable[[], str]
    """A short text, never given before, for the id of a manual run."""
    new_secret: Callable[[], str]
    """Of an access token: letters and digits that nobody can guess."""
    chance: Callable[[], float]
    """From 0 to below 1."""
