"""A world for each test."""

from typing import Any

import pytest

from support.clock import ManualClock
from support.world import World, make_world


@pytest.fixture
def world(aws: Any, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> World:
    """The whole system on one clock. A due index of two shards saves most of a tick's queries."""
    monkeypatch.setattr("clawjob.domain.ids.SHARDS", 2)
    monkeypatch.setattr("clawjob.operations.tick.SHARDS", 2)
    return make_world(clock)
