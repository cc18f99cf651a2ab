"""The environment of a child and the user it is."""

import os

import pytest

from clawjob.runner.environment import child_environment, slot_uid


def made(job: dict[str, str]) -> dict[str, str]:
    return child_environment(job, {"RUN_ID": "r"}, folder="/w", path="/bin", lang="C.UTF-8")


def test_it_holds_what_is_documented_and_nothing_else() -> None:
    assert made({"SITE": "a"}) == {
        "PATH": "/bin",
        "LANG": "C.UTF-8",
        "HOME": "/w",
        "TMPDIR": "/w/tmp",
        "SITE": "a",
        "CLAWJOB_RUN_ID": "r",
    }


def test_a_job_may_replace_the_common_names_but_none_of_ours() -> None:
    found = made({"PATH": "/opt", "HOME": "/h", "CLAWJOB_RUN_ID": "fake", "CLAWJOB_TABLE": "x"})
    assert (found["PATH"], found["HOME"], found["CLAWJOB_RUN_ID"]) == ("/opt", "/h", "r")
    assert "CLAWJOB_TABLE" not in found


def test_no_base_means_the_workers_own_user() -> None:
    assert slot_uid(None, 3) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change user")
def test_each_slot_has_a_user_of_its_own() -> None:
    assert [slot_uid(60_000, slot) for slot in range(3)] == [60_000, 60_001, 60_002]


@pytest.mark.parametrize("base", [-1, 0, 999])
def test_a_base_that_could_be_a_real_user_is_refused(base: int) -> None:
    with pytest.raises(ValueError, match="1000"):
        slot_uid(base, 0)


def test_a_worker_that_is_not_root_cannot_have_a_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ValueError, match="only a worker that runs as root"):
        slot_uid(60_000, 0)
