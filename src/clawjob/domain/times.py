"""The service's times, in one place, with the relations that make them safe."""

from dataclasses import dataclass, fields, replace
from datetime import timedelta

from clawjob.domain.errors import InvalidInputError, Problem

_ZERO = timedelta(0)


@dataclass(frozen=True, slots=True)
class Times:
    """How long things may take. `check` must hold for every set that is used."""

    tick: timedelta = timedelta(seconds=60)
    """Between two passes of the scheduler."""
    look_ahead: timedelta = timedelta(seconds=150)
    """How far before its due instant a run is put on its queue; one lost tick must harm nothing."""
    lease: timedelta = timedelta(seconds=120)
    """A worker's right to an attempt, and the visibility timeout of its message."""
    keep: timedelta = timedelta(seconds=30)
    """Between two renewals of the lease."""
    check: timedelta = timedelta(minutes=15)
    """When the scheduler first looks whether a run that it dispatched came to its end."""
    longest_check: timedelta = timedelta(hours=6)
    """The wait between two looks doubles up to this."""
    lost_after: timedelta = timedelta(minutes=10)
    """How long after its lease a run counts as lost; until then its result may still be queued."""
    overdue: timedelta = timedelta(minutes=3)
    """How long after deadline and grace a live run is told to stop, and again until it is closed."""
    send_check: timedelta = timedelta(seconds=120)
    """When the scheduler looks whether a retry that was sent at once came to its start."""
    longest_delay: timedelta = timedelta(seconds=900)
    """The queue's own longest delay."""
    early: timedelta = timedelta(seconds=3)
    """A run that reaches a worker at most this early waits in its slot; earlier it goes back."""
    retention: timedelta = timedelta(days=30)
    """How long a final run is kept."""
    max_losses: int = 3
    """After so many lost workers a run is LOST."""
    pass_limit: int = 150
    """Instants of one job planned in one pass."""
    pace: float = 1.0
    """How fast the service's clock runs: 60 in a trial in which an hour passes in a minute. Children live at 1."""

    def check_relations(self) -> None:
        """Refuse a set that could lose or double runs.

        Raises:
            InvalidInputError: names each field that does not fit.
        """
        problems = [
            Problem(field.name, "It must be positive.", "Give a value above 0.")
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None and not _positive(value)
        ]
        if self.keep * 4 > self.lease:
            problems.append(Problem("keep", "It must be at most a quarter of the lease.", "Shorten it."))
        if self.look_ahead < self.tick * 2:
            problems.append(
                Problem("look_ahead", "It must span two ticks, so that a lost one is harmless.", "Lengthen it.")
            )
        if self.look_ahead > self.longest_delay:
            problems.append(Problem("look_ahead", "It must not pass the queue's longest delay.", "Shorten it."))
        if self.check <= self.look_ahead:
            problems.append(Problem("check", "It must come after the look-ahead.", "Lengthen it."))
        if problems:
            raise InvalidInputError(problems)

    def scaled(self, factor: float) -> "Times":
        """Stretch what a clock `factor` times as fast as the world must stretch; not the queue's own limit."""
        return replace(
            self,
            tick=self.tick * factor,
            look_ahead=self.look_ahead * factor,
            lease=self.lease * factor,
            keep=self.keep * factor,
            check=self.check * factor,
            longest_check=self.longest_check * factor,
            lost_after=self.lost_after * factor,
            overdue=self.overdue * factor,
            send_check=self.send_check * factor,
            early=self.early * factor,
            pace=self.pace * factor,
        )


def _positive(value: timedelta | float) -> bool:
    return value > _ZERO if isinstance(value, timedelta) else value > 0
