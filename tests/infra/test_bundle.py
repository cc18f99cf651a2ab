"""The functions' bundle: the same input gives the same files, for each platform the same ones, and none of boto3."""

import hashlib
import re
from pathlib import Path

from infra.bundle import bundle_folder
from infra.config import stage_config

ARM64 = stage_config({"stage": "dev"})
HOST = stage_config({"stage": "emulator"})


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.stat()
        found.update(f"{path.relative_to(folder)} {status.st_mode:o} {status.st_mtime:.0f}\n".encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


def names(folder: Path) -> set[str]:
    """Files without what differs by platform: a compiled module's tag."""
    files = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return {re.sub(r"\.cpython-[^/]*\.so$", ".so", name) for name in files}


def test_the_same_input_gives_the_same_files(tmp_path: Path) -> None:
    first, second = (bundle_folder(ARM64, tmp_path / name) for name in ("one", "two"))
    assert first.name == second.name
    assert digest(first) == digest(second)


def test_a_bundle_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    made = bundle_folder(HOST, tmp_path)
    (made / "mark").touch()
    assert (bundle_folder(HOST, tmp_path) / "mark").exists()


def test_every_platform_has_the_same_files_but_for_compiled_ones_names() -> None:
    assert names(bundle_folder(ARM64)) == names(bundle_folder(HOST))


def test_compiled_modules_are_of_the_platform_that_runs_them() -> None:
    compiled = [path.name for path in bundle_folder(ARM64).rglob("*.so")]
    assert compiled
    assert all("aarch64" in name for name in compiled)


def test_boto3_is_left_to_the_runtime_and_ours_is_there() -> None:
    found = names(bundle_folder(ARM64))
    assert not {name for name in found if name.split("/")[0] in {"boto3", "botocore", "s3transfer"}}
    assert {"functions/scheduler/handler.py", "clawjob/handlers/scheduler.py", "clawjob/settings.py"} <= found
    assert not {name for name in found if name.startswith(("clawjob/cli/", "clawjob/runner/", "clawjob/dev/"))}
