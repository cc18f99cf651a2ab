"""`clawjob login`, `logout`, `whoami`, and which of the places that name a service wins."""

import json
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from clawjob.cli.address import find_address
from clawjob.cli.failures import Failure
from clawjob.cli.profiles import Profile, Profiles
from support.api import TOKEN

NOTHING = {"CLAWJOB_URL": "", "CLAWJOB_TOKEN": ""}
OTHER = f"cj_other_{'a' * 40}"


@pytest.fixture
def bare(run: Any) -> Any:
    """The program, where no variable names a service."""

    def call(*arguments: str, **more: Any) -> Any:
        return run(*arguments, **{**more, "env": {**NOTHING, **more.get("env", {})}})

    return call


@pytest.fixture
def profiles(tmp_path: Path) -> Profiles:
    return Profiles.of({"XDG_CONFIG_HOME": str(tmp_path / "config")})


def test_after_a_login_commands_need_no_variables(bare: Any, url: str, profiles: Profiles) -> None:
    done = bare("login", url, stdin=f"{TOKEN}\n")
    assert done.exit_code == 0, done.output
    assert "'tests', role admin" in done.stdout
    assert TOKEN not in done.output
    assert bare("job", "list").exit_code == 0
    assert bare("logout").exit_code == 0
    assert bare("job", "list").exit_code == 5
    assert profiles.names() == []


def test_only_its_owner_can_read_what_a_login_keeps(bare: Any, url: str, profiles: Profiles) -> None:
    bare("login", url, stdin=TOKEN)
    assert stat.S_IMODE(profiles.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(profiles.path.parent.stat().st_mode) == 0o700


def test_a_token_that_the_service_does_not_take_is_not_kept(bare: Any, url: str, profiles: Profiles) -> None:
    refused = bare("login", url, stdin=OTHER)
    assert refused.exit_code == 4
    assert "token is not accepted" in refused.stderr
    assert profiles.names() == []


def test_a_service_that_does_not_answer_is_not_kept(bare: Any, profiles: Profiles) -> None:
    assert bare("login", "http://127.0.0.1:9", stdin=TOKEN).exit_code == 5
    assert profiles.names() == []


@pytest.mark.parametrize(
    ("address", "stdin", "says"),
    [
        ("http://example.org", TOKEN, "https"),
        ("http://127.0.0.1.example.org", TOKEN, "https"),
        ("ftp://example.org", TOKEN, "no address"),
        ("", TOKEN, "Which service?"),
        ("https://example.org", "", "no token came"),
        ("https://example.org", "wJalrXUtnFEMI/K7MDENG", "no token"),
        ("https://example.org", f"{TOKEN} {TOKEN}", "no token"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anybody_is_asked(
    bare: Any, profiles: Profiles, address: str, stdin: str, says: str
) -> None:
    refused = bare("login", address, stdin=stdin)
    assert refused.exit_code == 2
    assert says in refused.stderr
    assert not profiles.path.exists()


def test_a_new_token_is_kept_for_the_address_that_the_profile_has(bare: Any, url: str, profiles: Profiles) -> None:
    bare("login", url, "--profile", "prod", stdin=TOKEN)
    newer = bare("--profile", "prod", "token", "create", "ci", "--role", "viewer").stdout.strip()
    assert bare("--profile", "prod", "login", stdin=newer).exit_code == 0
    kept = profiles.get("prod")
    assert kept is not None
    assert kept.token == newer
    assert kept.url == f"{url}/api/v1"


def test_whoami_says_where_and_as_whom(bare: Any, url: str) -> None:
    bare("login", url, "--profile", "prod", stdin=TOKEN)
    for shown in (bare("--profile", "prod", "whoami"), bare("whoami", env={"CLAWJOB_PROFILE": "prod"})):
        assert "role admin" in shown.stdout
        assert url in shown.stdout
        assert "profile 'prod'" in shown.stdout
    answer = json.loads(bare("--profile", "prod", "whoami", "--output", "json").stdout)
    assert answer["role"] == "admin"
    assert "profile 'prod'" in answer["source"]


def test_the_nearest_place_that_names_a_service_wins(tmp_path: Path, profiles: Profiles) -> None:
    found = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    for name in ("default", "prod", "stage"):
        profiles.put(name, Profile(f"https://{name}", OTHER))
    folder = tmp_path / "folder"
    (folder / ".clawjob").mkdir(parents=True)

    def host(profile: str | None = None, **more: str) -> str:
        return find_address({**found, **more}, folder, profile).url.split("/")[2]

    assert host() == "default"
    (folder / ".clawjob/dev.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "token": TOKEN}))
    assert host() == "127.0.0.1:1"
    assert host(CLAWJOB_PROFILE="prod") == "prod"
    named = {"CLAWJOB_PROFILE": "prod", "CLAWJOB_URL": "https://env", "CLAWJOB_TOKEN": OTHER}
    assert host(**named) == "env"
    assert host("stage", **named) == "stage"


def test_a_profile_that_is_not_there_is_told_with_those_that_are(bare: Any, profiles: Profiles) -> None:
    profiles.put("prod", Profile("https://prod", OTHER))
    for wrong in (bare("--profile", "pord", "job", "list"), bare("job", "list", env={"CLAWJOB_PROFILE": "pord"})):
        assert wrong.exit_code == 2
        assert "'pord'" in wrong.stderr
        assert "known are: prod" in wrong.stderr
    assert "--profile (prod)" in bare("job", "list").stderr
    assert bare("logout", "--profile", "pord").exit_code == 3


def test_half_of_address_and_token_in_the_environment_is_told(bare: Any) -> None:
    assert "CLAWJOB_TOKEN is not" in bare("job", "list", env={"CLAWJOB_URL": "https://host"}).stderr
    assert "CLAWJOB_URL is not" in bare("job", "list", env={"CLAWJOB_TOKEN": OTHER}).stderr


def test_a_logout_says_that_the_token_is_still_good(bare: Any, profiles: Profiles) -> None:
    profiles.put("default", Profile("https://host", OTHER))
    assert "clawjob token revoke other" in bare("logout").stdout


@pytest.mark.parametrize("content", ["", "{", "[]", '{"profiles": []}', '{"profiles": {"default": {"url": 1}}}', "\0"])
def test_a_damaged_file_is_told_by_its_name_and_stays(bare: Any, profiles: Profiles, content: str) -> None:
    profiles.path.parent.mkdir(parents=True)
    profiles.path.write_text(content)
    wrong = bare("job", "list")
    assert wrong.exit_code == 2
    assert str(profiles.path) in wrong.stderr
    assert profiles.path.read_text() == content


def test_what_else_stands_in_the_file_stays(profiles: Profiles) -> None:
    profiles.path.parent.mkdir(parents=True)
    profiles.path.write_text('{"later": 1, "profiles": {"a": {"url": "https://a", "token": "t"}}}')
    profiles.put("b", Profile("https://b", OTHER))
    assert json.loads(profiles.path.read_text())["later"] == 1
    assert profiles.names() == ["a", "b"]


def test_a_link_to_the_file_stays_a_link(tmp_path: Path, profiles: Profiles) -> None:
    target = tmp_path / "dotfiles.json"
    target.write_text("{}")
    profiles.path.parent.mkdir(parents=True)
    profiles.path.symlink_to(target)
    profiles.put("a", Profile("https://a", OTHER))
    assert profiles.path.is_symlink()
    assert "https://a" in target.read_text()


def test_two_logins_at_once_both_stay(profiles: Profiles) -> None:
    names = [f"p{number}" for number in range(16)]
    start = threading.Barrier(len(names))

    def put(name: str) -> None:
        start.wait()
        Profiles(profiles.path).put(name, Profile(f"https://{name}", OTHER))

    threads = [threading.Thread(target=put, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert profiles.names() == sorted(names)


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a file where a folder should be")
    with pytest.raises(Failure, match="cannot be used"):
        Profiles.of({"XDG_CONFIG_HOME": str(tmp_path / "config")}).put("a", Profile("https://a", OTHER))


def test_a_relative_config_folder_is_ignored(tmp_path: Path) -> None:
    path = Profiles.of({"XDG_CONFIG_HOME": "here", "HOME": str(tmp_path)}).path
    assert path == tmp_path / ".config/clawjob/config.json"
