"""Weeks in seconds: every nominal instant is started, skipped, missed or expired, exactly once.

The real domain, stores and operations on moto; ticks only where something is due, and one an hour. The nominal instants
are enumerated in another way than the product does. `CLAWJOB_SIMULATE_DAYS` makes the long run longer or shorter.
"""

import os
from collections import Counter
from typing import Any

import pytest

from clawjob.domain.run import State
from support.clock import ManualClock
from support.simulation import Simulation
from support.world import make_world

SEEDS = (20240309,)


def _told(simulation: Simulation) -> str:
    states = Counter(run.state.value for run in simulation.finals.values())
    return f"seed {simulation.seed}: {dict(states)}, trouble {dict(simulation.happened)}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_thirty_days_of_twenty_jobs_with_random_faults_account_for_every_instant(
    aws: Any, clock: ManualClock, seed: int
) -> None:
    simulation = Simulation(make_world(clock), days=30, seed=seed)
    simulation.run()
    assert simulation.problems == [], _told(simulation)
    states = Counter(run.state for run in simulation.finals.values())
    assert sum(states.values()) > 1200, _told(simulation)
    assert {State.SUCCEEDED, State.FAILED, State.SKIPPED, State.MISSED, State.EXPIRED} <= states.keys(), _told(
        simulation
    )
    assert len(simulation.happened) == 6, _told(simulation)


def test_without_faults_every_try_is_executed_exactly_once(aws: Any, clock: ManualClock) -> None:
    simulation = Simulation(make_world(clock), days=3, seed=1, faults=False)
    simulation.run()
    assert simulation.problems == []
    assert set(simulation.executed.values()) == {1}
    assert all(run.losses == 0 for run in simulation.finals.values())
    assert {run.state for run in simulation.finals.values()} <= {State.SUCCEEDED, State.FAILED, State.SKIPPED}


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_thousand_days_account_for_every_instant(aws: Any, clock: ManualClock) -> None:
    days = int(os.environ.get("CLAWJOB_SIMULATE_DAYS", "1000"))
    seed = int(os.environ.get("CLAWJOB_SIMULATE_SEED", "7"))
    simulation = Simulation(make_world(clock), days=days, seed=seed)
    simulation.run()
    print(_told(simulation))  # noqa: T201  # what `make simulate` tells
    assert simulation.problems == [], _told(simulation)
