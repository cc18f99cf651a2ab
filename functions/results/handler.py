"""The results function as Lambda starts it."""

from clawjob.handlers.entry import lambda_entry
from clawjob.handlers.results import ResultsHandler
from clawjob.settings import ResultsSettings

handler = lambda_entry("results", ResultsSettings, ResultsHandler)
