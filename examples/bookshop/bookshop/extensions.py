"""Tells clawjob what the crawl brought."""

import json
import os
from pathlib import Path

from scrapy import signals
from scrapy.exceptions import NotConfigured


class ClawjobResult:
    """Writes the count of items and the statistics into the file named by CLAWJOB_RESULT, when the spider closes."""

    def __init__(self, path, stats):
        self.path = Path(path)
        self.stats = stats

    @classmethod
    def from_crawler(cls, crawler):
        path = os.environ.get("CLAWJOB_RESULT")
        if not path:
            raise NotConfigured("not started by clawjob")
        extension = cls(path, crawler.stats)
        crawler.signals.connect(extension.spider_closed, signal=signals.spider_closed)
        return extension

    def spider_closed(self, reason):
        numbers = {key: value for key, value in self.stats.get_stats().items() if isinstance(value, int | float)}
        result = {"items": numbers.get("item_scraped_count", 0), "stats": numbers, "values": {"reason": reason}}
        self.path.write_text(json.dumps(result))
