"""The scheduler function as Lambda starts it."""

from clawjob.handlers.entry import lambda_entry
from clawjob.handlers.scheduler import SchedulerHandler
from clawjob.settings import SchedulerSettings

handler = lambda_entry("scheduler", SchedulerSettings, SchedulerHandler)
