"""The wheel in an environment of its own, outside of the checkout.

Proves that the wheel holds all that `clawjob dev` and `clawjob demo` need, that nothing is read from the checkout, and
that every package that the code imports is declared. The packages themselves are those of the environment of the
tests, lent by their path without its own install of clawjob; so it does not prove that they can be had.
"""

import ast
import ensurepip
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Callable, Iterator
from email import message_from_bytes
from importlib.metadata import packages_distributions
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by the project's own build backend, without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with `python` and `clawjob` of a new environment that has the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    # The pip that Python itself brings, run from its archive: to install it first would take longer than all the rest.
    (pip,) = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
    options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-compile"]
    command = [sys.executable, f"{pip}/pip", "--python", str(python), "install", *options, str(wheel)]
    subprocess.run(command, check=True)
    lent = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    # A line of a .pth file adds the path only: the .pth file by which the checkout is installed there is not read.
    Path(own, "lent.pth").write_text("".join(f"{path}\n" for path in lent))
    return folder / "bin"


@pytest.fixture
def outside() -> Iterator[dict[str, str]]:
    """The environment variables of a user who has no checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CLAWJOB_", "AWS_"))}


def until(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.05)


def test_the_wheel_runs_the_whole_service_without_the_checkout(programs: Path, outside, tmp_path: Path) -> None:
    code = "import clawjob, clawjob.dev.demo_jobs as d; print(clawjob.__file__, d.examples_folder(), sep='\\n')"
    said = subprocess.run(
        [programs / "python", "-c", code], cwd=tmp_path, env=outside, check=True, capture_output=True, text=True
    ).stdout.split()
    assert all(Path(place).is_relative_to(programs.parent) for place in said), said
    assert (Path(said[1]) / "bookshop" / "scrapy.cfg").is_file()

    address = tmp_path / ".clawjob" / "dev.json"
    with subprocess.Popen(
        [programs / "clawjob", "dev", "--port", "0"],
        cwd=tmp_path,
        env=outside,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as dev:
        try:
            until(lambda: dev.poll() is not None or (address.exists() and bool(address.read_text())))
            assert dev.poll() is None
            (tmp_path / "hello.json").write_text(
                json.dumps({"name": "hello", "command": "echo", "args": ["{{.RunID}}"]})
            )
            url, token = (json.loads(address.read_text())[name] for name in ("url", "token"))
            for command in (["job", "create", "-f", "hello.json"], ["job", "trigger", "hello", "--wait"]):
                arguments = [programs / "clawjob", *command]
                done = subprocess.run(arguments, cwd=tmp_path, env=outside, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stdout + done.stderr
            jobs = httpx.get(f"{url}/api/v1/jobs", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
            assert [job["name"] for job in jobs.json()["items"]] == ["hello"]
        finally:
            dev.send_signal(signal.SIGINT)
            output, _ = dev.communicate(timeout=60)
        assert dev.returncode == 0, output
        assert output.rstrip().endswith("Ended. Nothing is left running.")
    assert not address.exists()


def test_every_package_that_the_wheel_imports_is_declared(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        declared = {
            re.split(r"[^\w.-]", text, maxsplit=1)[0].lower().replace("_", "-")
            for text in message_from_bytes(files.read(name)).get_all("Requires-Dist", [])
        }
        sources = {name: files.read(name) for name in files.namelist() if name.endswith(".py")}
    imported = {
        (module.partition(".")[0], name) for name, source in sources.items() for module in _imports(ast.parse(source))
    }
    own = {"clawjob", "bookshop", *sys.stdlib_module_names}
    own |= {"botocore", "pydantic_core"}  # of boto3 and pydantic, which each pin theirs
    homes = packages_distributions()
    missing = {
        (module, name)
        for module, name in imported
        if module not in own
        and not module.startswith("mypy_boto3_")  # for types alone
        and not {home.lower().replace("_", "-") for home in homes.get(module, ())} & declared
    }
    assert not missing


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
