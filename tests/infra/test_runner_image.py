"""The images: linted, never root, no shell between the container service and the worker."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "runner_image" / "Dockerfile", ROOT / "runner_image" / "example" / "Dockerfile"]
BIN = Path(sys.executable).parent


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_it_has_nothing_that_the_linter_would_change(path: Path) -> None:
    done = subprocess.run([BIN / "hadolint", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_it_is_not_root_and_its_program_gets_signals_itself(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("USER ")][-1] == "USER 10001:10001"
    assert all(line.split(" ", 1)[1].startswith("[") for line in lines if line.startswith(("ENTRYPOINT ", "CMD ")))


def test_the_install_steps_give_a_worker_that_starts(tmp_path: Path) -> None:
    search = os.pathsep.join([str(BIN), os.environ["PATH"]])
    environment = {**os.environ, "PATH": search, "PYTHON": str(Path(sys.executable).resolve())}
    shell = shutil.which("sh")
    assert shell is not None
    target = tmp_path / "clawjob"
    subprocess.run([shell, "runner_image/install.sh", target], cwd=ROOT, env=environment, check=True)
    done = subprocess.run([target / "bin" / "clawjob", "worker", "--help"], env={}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [one.name for one in (target / "bin").iterdir()] == ["clawjob"]
