"""A world for each module of tests, as it was in the beginning for each test."""

from collections.abc import Iterator

import pytest

from support.clock import ManualClock
from support.world import World, make_world


@pytest.fixture(scope="module")
def used_world() -> Iterator[World]:
    """The whole system on one clock. A due index of two shards saves most of a tick's queries."""
    from moto import mock_aws

    with pytest.MonkeyPatch.context() as patch, mock_aws():
        patch.setattr("clawjob.domain.ids.SHARDS", 2)
        patch.setattr("clawjob.operations.tick.SHARDS", 2)
        clock = ManualClock()
        yield make_world(clock)
        clock.stop()


@pytest.fixture
def world(used_world: World) -> World:
    """The world, with nothing in it."""
    used_world.reset()
    return used_world
