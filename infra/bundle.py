"""The functions' code as one folder: our packages and what they need from elsewhere, for the stage's platform.

Made without Docker, by the app itself when it is missing. The same input gives the same files, so the same hash. boto3
is left to Lambda's runtime.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from infra.config import StageConfig

ROOT: Final = Path(__file__).parents[1]
REQUIREMENTS: Final = ROOT / "requirements" / "functions.txt"
ARM64: Final = "aarch64-manylinux2014"
_PACKAGES: Final = ("domain", "aws", "operations", "api", "handlers")
_MODULES: Final = ("__init__.py", "py.typed", "services.py", "settings.py")
_SOURCE: Final = ROOT / "src" / "clawjob"


def bundle_folder(config: StageConfig, build: Path = ROOT / "build") -> Path:
    """Give the folder of a stage's bundle; make it first when it is missing or of other code.

    Args:
        config: its platform and Python version; on platform `host` those of this process.
        build: bundles are folders in here, named by their input's hash.

    Raises:
        subprocess.CalledProcessError: the packages cannot be installed; uv has said why on stderr.
    """
    python = config.python if config.platform == "arm64" else ".".join(map(str, sys.version_info[:2]))
    target = build / f"functions-{config.platform}-py{python.replace('.', '')}-{_input_hash(python)}"
    if not target.exists():
        build.mkdir(parents=True, exist_ok=True)
        # Two at once make the same: each in a folder of its own, and the first to finish gives its name.
        with tempfile.TemporaryDirectory(dir=build, prefix="making-") as folder:
            made = Path(folder) / "bundle"
            _make(made, python, ARM64 if config.platform == "arm64" else None)
            try:
                made.rename(target)
            except OSError:
                if not target.exists():
                    raise
        print(f"functions: {folder_size(target) / 1e6:.1f} MB in {target}", file=sys.stderr)  # noqa: T201 - said once
    return target


def folder_size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _input_hash(python: str) -> str:
    digest = hashlib.sha256(python.encode())
    for path in (REQUIREMENTS, Path(__file__), *sorted(_sources())):
        digest.update(f"{path.relative_to(ROOT)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _sources() -> Iterator[Path]:
    for package in _PACKAGES:
        yield from (_SOURCE / package).rglob("*.py")
    yield from (_SOURCE / module for module in _MODULES)
    yield from (ROOT / "functions").rglob("*.py")


def _make(target: Path, python: str, platform: str | None) -> None:
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--require-hashes", "-r", str(REQUIREMENTS)]
    command += ["--target", str(target), "--python-version", python, "--only-binary", ":all:", "--no-deps"]
    subprocess.run([*command, *(("--python-platform", platform) if platform else ())], check=True)
    for extra in ("bin", ".lock"):
        path = target / extra
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    for record in target.glob("*.dist-info/RECORD"):
        # It lists the scripts that are left out, and hashes of files by the installer's own order.
        record.unlink()
    for source in _sources():
        base = ROOT / "src" if source.is_relative_to(_SOURCE) else ROOT
        copy = target / source.relative_to(base)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    for path in target.rglob("*"):
        # What an installer leaves of umask and extraction time would change the archive.
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (0, 0))
