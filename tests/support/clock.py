"""A clock that tests move. moto's own clock (delays, visibility) moves with it."""

from datetime import UTC, datetime, timedelta

import time_machine

START = datetime(2024, 3, 9, 11, 58, tzinfo=UTC)


class ManualClock:
    """Stands still until it is moved; call it for the present instant."""

    def __init__(self, start: datetime = START) -> None:
        self.start = self._now = start
        self._travel = time_machine.travel(start, tick=False)
        self._traveller = self._travel.start()

    def __call__(self) -> datetime:
        return self._now

    def move_to(self, instant: datetime) -> None:
        """Set the instant, also backwards."""
        self._now = instant
        self._traveller.move_to(instant)

    def advance(self, duration: timedelta) -> None:
        """Go on by a duration."""
        self.move_to(self._now + duration)

    def stop(self) -> None:
        """Give the real time back."""
        self._travel.stop()
