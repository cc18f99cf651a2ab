"""Which of a pool's two queues a run waits in, and which queue a worker asks first.

Both are served whenever both hold runs, the high one more often, and an empty one costs the other nothing.
"""

from enum import StrEnum
from typing import Final

DEFAULT_PRIORITY: Final = 3
_HIGH_FROM: Final = 4
_TURNS: Final = 10
_LOW_FIRST: Final = frozenset({2, 5, 8})
"""Turns of ten at which the low queue is asked first: 3, spread."""


class QueueClass(StrEnum):
    """One of a pool's two queues."""

    HIGH = "high"
    LOW = "low"


def queue_class_of(priority: int) -> QueueClass:
    """Give the queue of a job's priority, 1 to 5: 4 and 5 wait in the high one."""
    return QueueClass.HIGH if priority >= _HIGH_FROM else QueueClass.LOW


def order_of(turn: int) -> tuple[QueueClass, QueueClass]:
    """Give the order in which a worker asks the queues at turn 0, 1, ...; 7 of 10 begin with the high one."""
    if turn % _TURNS in _LOW_FIRST:
        return QueueClass.LOW, QueueClass.HIGH
    return QueueClass.HIGH, QueueClass.LOW
