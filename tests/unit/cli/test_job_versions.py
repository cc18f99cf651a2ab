"""`clawjob job versions`, `diff`, `rollback`, and reasons."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.api import job


@pytest.fixture
def changed(run: Any) -> Any:
    run("job", "create", "-f", "-", stdin=json.dumps(job(timeout="10m")))
    run("job", "apply", "-f", "-", stdin=json.dumps(job(timeout="20m", retry={"delay": "2m"})))
    run("job", "pause", "news", "--why", "site is down")
    return run


def test_versions_are_listed_with_who_and_why(changed: Any) -> None:
    shown = changed("job", "versions", "news")
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert len([line for line in lines if "tests" in line]) == 3
    assert any("paused" in line and "site is down" in line for line in lines)
    assert [one["version"] for one in json.loads(changed("job", "versions", "news", "-o", "json").stdout)] == [3, 2, 1]
    assert changed("job", "versions", "nothing").exit_code == 3


def test_a_diff_shows_what_a_version_changed(changed: Any) -> None:
    shown = changed("job", "diff", "news", "2").stdout
    assert '  - "10m"\n  + "20m"' in shown
    assert "retry.delay:" in shown
    newest = changed("job", "diff", "news").stdout
    assert newest == "enabled:\n  - true\n  + false\n"
    back = json.loads(changed("job", "diff", "news", "1", "3", "-o", "json").stdout)
    assert {"field": "timeout", "before": "20m", "after": "10m"} in back


def test_a_diff_with_a_file_shows_what_apply_would_change_and_changes_nothing(changed: Any, tmp_path: Path) -> None:
    path = tmp_path / "news.json"
    path.write_text(json.dumps(job(timeout="30m", retry={"delay": "2m"}, enabled=False)))
    assert changed("job", "diff", "-f", str(path)).stdout == 'timeout:\n  - "20m"\n  + "30m"\n'
    assert [one["version"] for one in json.loads(changed("job", "versions", "news", "-o", "json").stdout)] == [3, 2, 1]
    changed("job", "apply", str(path))
    assert changed("job", "diff", "-f", str(path)).stdout == "Nothing differs.\n"
    path.write_text(json.dumps(job("other")))
    assert changed("job", "diff", "-f", str(path)).exit_code == 3
    path.write_text(json.dumps(job(timeout="never")))
    assert changed("job", "diff", "-f", str(path)).exit_code == 2
    assert changed("job", "diff").exit_code == 2


def test_a_rollback_goes_one_version_back_or_to_the_one_that_is_named(changed: Any) -> None:
    done = changed("job", "rollback", "news", "--why", "was better")
    assert "as in version 2 again, now version 4" in done.stdout
    assert json.loads(changed("job", "show", "news", "-o", "json").stdout)["enabled"] is True
    assert changed("job", "rollback", "news", "1").exit_code == 0
    assert json.loads(changed("job", "show", "news", "-o", "json").stdout)["timeout"] == "10m"
    assert changed("job", "rollback", "news", "9").exit_code == 3
    assert changed("job", "rollback", "news", "5").exit_code == 2


def test_a_job_with_one_version_has_none_to_go_back_to(run: Any) -> None:
    run("job", "create", "-f", "-", stdin=json.dumps(job()))
    refused = run("job", "rollback", "news")
    assert refused.exit_code == 2
    assert "in force" in refused.stderr
