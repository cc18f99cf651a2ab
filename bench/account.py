"""Names that all measures share, and a job like most; imports nothing that production does not."""

import os
from typing import Any, Final

from clawjob.domain.definition import Definition
from clawjob.domain.schedule import ScheduleSpec

TABLE: Final = "clawjob"
POOLS: Final = ("default",)
NO_ACCOUNT: Final = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


def use_no_account() -> None:
    """Make sure that no measure can reach a real account."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(NO_ACCOUNT)


def hourly(name: str = "daily_news_crawl", **more: Any) -> Definition:
    """A job like most."""
    values = {"command": "/data/spiders/news_spider", "args": ("--date", "{{.Yesterday}}"), **more}
    values.setdefault("schedule", ScheduleSpec(cron="0 * * * *"))
    return Definition(name=name, **values)
