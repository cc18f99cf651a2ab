"""The api function as Lambda starts it."""

from clawjob.handlers.api import ApiHandler
from clawjob.handlers.entry import lambda_entry
from clawjob.settings import ApiSettings

handler = lambda_entry("api", ApiSettings, ApiHandler)
