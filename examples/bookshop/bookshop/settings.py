"""Settings of the project: polite, small, and with the extension that reports to clawjob."""

BOT_NAME = "bookshop"
SPIDER_MODULES = ["bookshop.spiders"]

CONCURRENT_REQUESTS = 2
ROBOTSTXT_OBEY = True
TELNETCONSOLE_ENABLED = False
LOG_LEVEL = "INFO"
EXTENSIONS = {"bookshop.extensions.ClawjobResult": 500}
REMOTE_CONTROL_ENABLED = False  # else each crawl opens a port and leaves a file in the user's profile
