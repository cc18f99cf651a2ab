"""clawjob: schedules and runs crawl jobs on AWS with no server to keep."""
