"""The authorizer function as Lambda starts it."""

from clawjob.handlers.authorizer import AuthorizerHandler
from clawjob.handlers.entry import lambda_entry
from clawjob.settings import AuthorizerSettings

handler = lambda_entry("authorizer", AuthorizerSettings, AuthorizerHandler)
