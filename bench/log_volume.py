"""Prints as JSON how many bytes each function logs in one call, and the metrics in them; a process of its own.

Lambda takes the log from a process's standard output, so that is what is measured. Tick and count find nothing to do;
the results function settles a run that succeeded; the API lists no jobs; the worker takes and ends one run.
"""

import io
import json
import logging
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any, Final

from bench.account import TABLE, hourly, use_no_account
from bench.life import Life
from bench.stage import stage
from clawjob.domain.metrics import Metric
from clawjob.operations.apply_job import create_job
from clawjob.operations.trigger_run import trigger_run
from clawjob.runner.log_lines import JsonLines, metrics
from clawjob.settings import ApiSettings, ResultsSettings, SchedulerSettings

NAMESPACE: Final = "clawjob-dev"
_WORKER: Final = "ip-10-0-1-17-4711"


class LambdaContext:
    """As the functions look at it."""

    function_name = "clawjob-dev-ControlSchedulerFunction0A1B2C3D-abcdefghijkl"
    function_version = "17"
    memory_limit_in_mb = 512
    invoked_function_arn = f"arn:aws:lambda:us-east-1:123456789012:function:{function_name}:live"
    aws_request_id = "11111111-2222-3333-4444-555555555555"

    def get_remaining_time_in_millis(self) -> int:
        """Enough."""
        return 50_000


def measure() -> dict[str, Any]:
    """Call each function once with its log in our hands."""
    from clawjob.handlers.api import ApiHandler
    from clawjob.handlers.entry import lambda_entry
    from clawjob.handlers.results import ResultsHandler
    from clawjob.handlers.scheduler import SchedulerHandler

    log = io.StringIO()
    found: dict[str, Any] = {}
    with stage() as on, redirect_stdout(log):
        queues = {pool: {str(name): url for name, url in urls.items()} for pool, urls in on.urls.run.items()}
        _set_environment(json.dumps(queues), on.urls.results)
        life = Life(on, _WORKER)
        create_job(life.context, hourly(schedule=None))
        trigger_run(life.context, "daily_news_crawl", {}, None)
        found["worker"] = _worker_bytes(life)
        messages = on.sqs.receive_message(QueueUrl=on.urls.results, MaxNumberOfMessages=10)["Messages"]
        records = [{"messageId": one["MessageId"], "body": one["Body"]} for one in messages]
        request = {
            "rawPath": "/api/v1/jobs",
            "requestContext": {
                "authorizer": {"lambda": {"token_id": "anna", "role": "viewer"}},
                "http": {"method": "GET"},
                "stage": "$default",
                "requestId": "11111111-2222-3333",
            },
        }
        scheduler = lambda_entry("scheduler", SchedulerSettings, SchedulerHandler)
        results = lambda_entry("results", ResultsSettings, ResultsHandler)
        api = lambda_entry("api", ApiSettings, ApiHandler)
        calls: dict[str, Callable[[], object]] = {
            "tick": lambda: scheduler({}, LambdaContext()),
            "count": lambda: scheduler({"count": True}, LambdaContext()),
            "results": lambda: results({"Records": records}, LambdaContext()),
            "api": lambda: api(request, LambdaContext()),
        }
        for name, call in calls.items():
            log.seek(0)
            log.truncate()
            call()
            found[name] = _read(log.getvalue())
    return found


def _set_environment(queues: str, results: str) -> None:
    os.environ.update(
        CLAWJOB_TABLE=TABLE,
        CLAWJOB_RUN_QUEUES=queues,
        CLAWJOB_RESULTS_QUEUE=results,
        CLAWJOB_NAMESPACE=NAMESPACE,
    )


def _read(text: str) -> dict[str, Any]:
    lines = [json.loads(line) for line in text.splitlines()]
    names = {
        metric["Name"]
        for line in lines
        for one in line.get("_aws", {}).get("CloudWatchMetrics", [])
        for metric in one["Metrics"]
    }
    return {"bytes": len(text.encode()), "metrics": len(names)}


def _worker_bytes(life: Life) -> dict[str, Any]:
    """A run, and what a worker says of itself each minute."""
    form = JsonLines(lambda: life.stage.now, {"service": "worker", "worker": _WORKER})
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    handler.setFormatter(form)
    logger = logging.getLogger("clawjob")
    logger.handlers[:], logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
    if life.work() != 1:
        raise RuntimeError("the run was not taken")
    run = len(log.getvalue().encode())
    log.seek(0)
    log.truncate()
    sizes = {Metric.WORKERS: 1, Metric.SLOTS: 5, Metric.SLOTS_IN_USE: 5, Metric.MEMORY_LIMIT: 2 * 1024**3}
    logger.info("worker lives", extra=metrics(sizes, "default", NAMESPACE, life.stage.now))
    logger.handlers[:] = []
    return {"run_bytes": run, "minute_bytes": len(log.getvalue().encode()), "metrics": len(sizes)}


if __name__ == "__main__":
    use_no_account()
    sys.stdout.write(json.dumps(measure()))
