"""The function that compares a new scheduler with the old one, as CodeDeploy calls it."""

from clawjob.handlers.compare import CompareHandler
from clawjob.handlers.hooks import hook_entry
from clawjob.settings import CompareSettings

handler = hook_entry("compare", CompareSettings, CompareHandler)
