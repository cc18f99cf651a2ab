"""Writes docs/openapi.json from the routes of the API."""

import json
import sys
from pathlib import Path

from clawjob.api.app import describe

FILE = Path(__file__).with_name("openapi.json")


def openapi_file() -> str:
    """Return the text of the file."""
    return json.dumps(describe(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(openapi_file())
    sys.stdout.write(f"wrote {FILE.name}\n")
