"""W-10: why a child cannot be started, in plain words."""

import errno
from pathlib import Path

import pytest

from clawjob.runner.cannot_start import UnusableCommandError, explain, find_program


def refused(argv: list[str], environment: dict[str, str] | None = None) -> str:
    with pytest.raises(UnusableCommandError) as caught:
        find_program(argv, environment or {})
    return str(caught.value)


@pytest.mark.parametrize("argv", [[], [""], ["", "x"]])
def test_an_empty_command_is_refused(argv: list[str]) -> None:
    assert refused(argv) == "the command is empty"


def test_a_nul_is_refused_wherever_it_stands() -> None:
    for argv, environment in ((["a\0"], {}), (["a", "b\0c"], {}), (["a"], {"B": "\0"}), (["a"], {"B\0": ""})):
        assert "NUL" in refused(argv, environment)


def test_a_name_that_no_environment_can_hold_is_refused() -> None:
    assert "equals sign" in refused(["a"], {"A=B": "c"})
    assert "empty" in refused(["a"], {"": "c"})


def test_half_a_character_is_refused() -> None:
    assert "half a character" in refused(["a", "\ud83d"])


def test_a_command_of_many_megabytes_is_refused_before_it_is_copied() -> None:
    assert "too long" in refused(["a", *["x" * 2**20] * 9])


def test_a_path_is_taken_as_it_is() -> None:
    assert find_program(["/no/such"], {}) == "/no/such"
    assert find_program(["./spider"], {}) == "./spider"


def test_a_name_is_searched_on_the_childs_path(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        (folder / "tool").write_text("")
    (second / "tool").chmod(0o755)
    assert find_program(["tool"], {"PATH": f"relative:{first}:{second}"}) == f"{second}/tool"
    assert "not executable" in refused(["tool"], {"PATH": str(first)})
    assert "was not found on PATH" in refused(["nothing"], {"PATH": str(first)})


def test_a_folder_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "tool").mkdir()
    assert "was not found on PATH" in refused(["tool"], {"PATH": str(tmp_path)})


def test_a_missing_interpreter_is_told_from_a_missing_program(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/python\n")
    assert "the interpreter that its first line names is not" in explain(errno.ENOENT, str(script))
    assert explain(errno.ENOENT, str(tmp_path / "other")).endswith("was not found")


def test_a_name_in_a_reason_is_short_and_printable() -> None:
    reason = explain(errno.ENOENT, "/x\x1b[31m\u202e\n" + "y" * 10_000)
    assert reason.isascii()
    assert reason.isprintable()
    assert len(reason) < 250


def test_every_error_has_words() -> None:
    for number in errno.errorcode:
        assert explain(number, "/bin/x")
