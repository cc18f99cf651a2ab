"""The demo's three jobs, as documents that anybody could send to the API."""

import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

BOOKS: Final = "books"
FLAKY: Final = "flaky"
STUCK: Final = "stuck"
BOOKS_IN_THE_SHOP: Final = 24


def examples_folder() -> Path:
    """Where the example crawlers are: inside of the installed package, or in the checkout."""
    installed = Path(__file__).parent / "examples"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "examples"


@dataclass(frozen=True, slots=True)
class Stage:
    """What the jobs need to know."""

    folder: Path
    """Holds what a job keeps from one attempt to the next."""
    site: str
    """URL of the shop."""
    first_at: datetime
    """When all three start."""

    @property
    def counter(self) -> Path:
        """How often the flaky job was started."""
        return self.folder / "flaky.starts"

    @property
    def pids(self) -> Path:
        """Process ids of the stuck job and its child."""
        return self.folder / "stuck.pids"

    def documents(self) -> tuple[dict[str, Any], ...]:
        """Write the three documents."""
        examples = examples_folder()
        shop = str(examples / "bookshop")
        hour = timedelta(hours=1)
        offset = (self.first_at - datetime(1970, 1, 1, tzinfo=UTC)) % hour
        at = {"at": self.first_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        mark = {"DEMO_FOLDER": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        return (
            {
                "name": BOOKS,
                "description": "Crawls the bookshop with Scrapy.",
                "command": sys.executable,
                "args": ["-m", "scrapy", "crawl", "books", "-a", f"site={self.site}"],
                "env": {**mark, "PYTHONPATH": shop, "SCRAPY_SETTINGS_MODULE": "bookshop.settings"},
                "schedule": {"every": "1h", "offset": int(offset.total_seconds())},
                "timeout": "1m",
                "min_items": BOOKS_IN_THE_SHOP,
            },
            {
                "name": FLAKY,
                "description": "Fails twice with exit code 2, then succeeds.",
                "command": sys.executable,
                "args": [str(examples / "flaky.py"), str(self.counter)],
                "env": mark,
                "schedule": at,
                "max_retry": 2,
                "retry": "1s",
            },
            {
                "name": STUCK,
                "description": "Hangs, with a child that ignores the order to end.",
                "command": sys.executable,
                "args": [str(examples / "stuck.py"), str(self.pids)],
                "env": mark,
                "schedule": at,
                "timeout": "3s",
                "grace": "1s",
                "max_retry": 0,
            },
        )
