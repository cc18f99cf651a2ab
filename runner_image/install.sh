#!/bin/sh
# Installs the worker into a folder, complete with its own Python; run in the project's root, with uv on the machine.
# PYTHON=... takes that Python instead of one of its own.
set -eu
target=$1
if [ -z "${PYTHON:-}" ]; then
    uv python install --install-dir "$target/python" 3.13
    # With a dot: beside the folder of the release there may be a link without one.
    set -- "$target"/python/cpython-3.13.*/bin/python3.13
    PYTHON=$1
fi
uv venv --quiet --python "$PYTHON" "$target/venv"
uv pip install --quiet --python "$target/venv/bin/python" --require-hashes -r requirements/runtime.txt
uv pip install --quiet --python "$target/venv/bin/python" --no-deps .
# Not the whole folder of programs: a crawler's `python` must be the crawler's.
mkdir -p "$target/bin"
ln -sf ../venv/bin/clawjob "$target/bin/clawjob"
