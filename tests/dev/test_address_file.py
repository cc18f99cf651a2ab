"""The file by which the command line finds a running one-machine mode."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from clawjob.dev.address_file import AddressFile, AlreadyRunningError

HOLD = """
import sys
from pathlib import Path
from clawjob.dev.address_file import AddressFile
file = AddressFile(Path(sys.argv[1]))
file.write("http://127.0.0.1:1", "cj_x")
print("ready", flush=True)
sys.stdin.read()
"""


def test_it_says_where_and_with_what_and_only_to_its_owner(tmp_path: Path) -> None:
    file = AddressFile(tmp_path)
    file.write("http://127.0.0.1:8321", "cj_dev_x")
    path = tmp_path / ".clawjob" / "dev.json"
    assert json.loads(path.read_text()) == {"url": "http://127.0.0.1:8321", "token": "cj_dev_x"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    file.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_there_or_holds_more_stays(tmp_path: Path) -> None:
    (tmp_path / ".clawjob").mkdir()
    AddressFile(tmp_path).remove()
    assert [path.name for path in tmp_path.iterdir()] == [".clawjob"]
    (tmp_path / ".clawjob").rmdir()
    file = AddressFile(tmp_path)
    (tmp_path / ".clawjob" / "note").touch()
    file.remove()
    assert [path.name for path in (tmp_path / ".clawjob").iterdir()] == ["note"]


def test_a_second_one_in_the_folder_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(AlreadyRunningError, match="another `clawjob dev` runs in this folder"):
            AddressFile(tmp_path)
        assert json.loads((tmp_path / ".clawjob" / "dev.json").read_text())["token"] == "cj_x"
        other.kill()
        other.wait()
    assert (tmp_path / ".clawjob" / "dev.json").exists()
    taken_over = AddressFile(tmp_path)
    assert not (tmp_path / ".clawjob" / "dev.json").exists()
    taken_over.remove()
    assert list((tmp_path / ".clawjob").iterdir()) == []


def test_its_children_do_not_hold_the_file_open(tmp_path: Path) -> None:
    file = AddressFile(tmp_path)
    assert not os.get_inheritable(file._descriptor)
    file.remove()
