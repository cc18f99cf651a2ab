"""The function that watches a new scheduler after it has the ticks, as CodeDeploy calls it."""

from clawjob.handlers.hooks import hook_entry
from clawjob.handlers.watch import WatchHandler
from clawjob.settings import WatchSettings

handler = hook_entry("watch", WatchSettings, WatchHandler)
