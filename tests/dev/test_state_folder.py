"""The folder that keeps the state of the one-machine mode."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clawjob.dev.moto_server import MotoServer
from clawjob.dev.snapshot import Snapshot
from clawjob.dev.state_folder import ClockWentBackError, StateFolder, StateInUseError

NOW = datetime(2024, 3, 10, 7, tzinfo=UTC)


def test_the_token_is_made_once_and_kept_private(tmp_path: Path) -> None:
    for made in ("cj_dev_1", "cj_dev_2"):
        state = StateFolder(tmp_path / "new" / "folder")
        assert state.token(lambda made=made: made) == "cj_dev_1"
        state.close()
    assert stat.S_IMODE((tmp_path / "new" / "folder" / "token").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["token"]


def test_one_folder_serves_one_process_at_a_time(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    with pytest.raises(StateInUseError, match="another `clawjob dev` keeps its state in"):
        StateFolder(tmp_path)
    state.close()
    StateFolder(tmp_path).close()


def test_a_state_from_the_future_is_refused_with_the_way_out(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    Snapshot(NOW, {}, {}, {}).save(tmp_path)
    assert state.load(NOW + timedelta(seconds=1)) == Snapshot(NOW, {}, {}, {})
    with pytest.raises(ClockWentBackError, match=r"start with --at 2024-03-10T07:00:00\.000Z or later"):
        state.load(NOW - timedelta(seconds=1))
    state.close()


def test_it_saves_only_what_changed(tmp_path: Path, moto_server: MotoServer, make_client) -> None:
    state = StateFolder(tmp_path)
    make_client("sqs", moto_server.url).create_queue(QueueName="q")
    assert state.save(moto_server, NOW)
    assert not state.save(moto_server, NOW)
    kept = state.load(NOW)
    assert kept is not None
    assert list(kept.queues) == ["q"]
    state.close()
