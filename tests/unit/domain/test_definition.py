import json
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings

from clawjob.domain.definition import Definition, RetryPolicy, stored_size
from clawjob.domain.errors import UnreadableRecordError
from clawjob.domain.schedule import ScheduleSpec
from support.definitions import definitions


def _through_json(definition: Definition) -> Any:
    return json.loads(json.dumps(definition.to_stored()))


@settings(max_examples=25, deadline=None)
@given(definitions())
def test_what_was_stored_is_read_back_equal(definition: Definition) -> None:
    stored = _through_json(definition)
    again = Definition.from_stored(stored)
    assert again == definition
    # Equality takes 1, 1.0 and true for one value; the text does not.
    assert json.dumps(again.to_stored()) == json.dumps(stored)


def test_a_small_job_is_stored_small() -> None:
    job = Definition(
        name="daily_news_crawl",
        command="/data/spiders/news_spider",
        args=("--date", "{{.Yesterday}}"),
        schedule=ScheduleSpec(cron="0 2 * * *"),
        timeout=timedelta(minutes=30),
        max_retry=2,
    )
    assert job.to_stored() == {
        "v": 1,
        "name": "daily_news_crawl",
        "command": "/data/spiders/news_spider",
        "args": ["--date", "{{.Yesterday}}"],
        "schedule": {"cron": "0 2 * * *"},
        "timeout_seconds": 1800,
        "max_retry": 2,
    }
    assert stored_size(job) < 200


def test_defaults_are_left_out() -> None:
    assert Definition(name="a", command="b").to_stored() == {"v": 1, "name": "a", "command": "b"}


@pytest.mark.parametrize("number", [1.5, 0.1234567, 1.1, 0.1 + 0.2, 1e-300, 5e-324, 1.7976931348623157e308, -0.0])
def test_floats_keep_their_exact_value_through_json_text(number: float) -> None:
    """DB-02."""
    job = Definition(name="a", command="b", params={"x": number}, retry=RetryPolicy(factor=abs(number), jitter=0.25))
    again = Definition.from_stored(_through_json(job))
    assert repr(again.params["x"]) == repr(number)
    assert again.retry.factor == abs(number)


def test_empty_values_stay_empty() -> None:
    """DB-12: not null and not missing."""
    job = Definition(name="a", command="b", args=("", "x", ""), env={"EMPTY": ""}, params={"q": ""}, labels={"l": ""})
    again = Definition.from_stored(_through_json(job))
    assert again.args == ("", "x", "")
    assert again.env == {"EMPTY": ""}
    assert again.params == {"q": ""}
    assert again.labels == {"l": ""}


def test_the_zone_is_the_schedules_or_the_jobs_own() -> None:
    assert Definition(name="a", command="b", timezone="Asia/Tokyo").zone == "Asia/Tokyo"
    with_schedule = Definition(name="a", command="b", schedule=ScheduleSpec(cron="@daily", timezone="Europe/Berlin"))
    assert with_schedule.zone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"v": 2}, "definition"),
        ({"v": None}, "definition"),
        ({"v": True}, "definition"),
        ({"v": "1"}, "definition"),
        ({"name": 1}, "definition.name"),
        ({"args": "x"}, "definition.args"),
        ({"args": [1]}, "definition.args"),
        ({"env": [1]}, "definition.env"),
        ({"env": {"a": 1}}, "definition.env"),
        ({"params": {"a": None}}, "definition.params"),
        ({"params": {"a": float("nan")}}, "definition.params"),
        ({"enabled": 1}, "definition.enabled"),
        ({"max_retry": True}, "definition.max_retry"),
        ({"timeout_seconds": 1.5}, "definition.timeout_seconds"),
        ({"timeout_seconds": 10**30}, "definition.timeout_seconds"),
        ({"overlap": "queue"}, "definition.overlap"),
        ({"overlap": []}, "definition.overlap"),
        ({"schedule": "0 2 * * *"}, "definition.schedule"),
        ({"schedule": {"cron": 1}}, "schedule.cron"),
        ({"retry": {"factor": "2"}}, "definition.retry.factor"),
        ({"retry": {"jitter": float("inf")}}, "definition.retry.jitter"),
        ({"retry": {"delays_seconds": [True]}}, "definition.retry.delays_seconds"),
        ({"retry": {"retry_on": [None]}}, "definition.retry.retry_on"),
        ({"retry": {"retry_on": [True]}}, "definition.retry.retry_on"),
        ({"retry": []}, "definition.retry"),
        ({"catch_up": {"mode": "some"}}, "definition.catch_up.mode"),
        ({"resources": {"gpu": 1}}, "definition.resources.gpu"),
        ({"upstreams": ["a"]}, "definition.upstreams"),
        ({"priority\n\u202e": 1}, "definition.priority\\n\\u202e"),
    ],
)
def test_what_clawjob_does_not_write_is_not_guessed_at(change: dict[str, Any], key: str) -> None:
    stored = {"v": 1, "name": "a", "command": "b", **change}
    with pytest.raises(UnreadableRecordError) as refused:
        Definition.from_stored(stored)
    assert refused.value.key == key
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("missing", ["v", "name", "command"])
def test_a_definition_without_what_it_needs_cannot_be_read(missing: str) -> None:
    stored = {"v": 1, "name": "a", "command": "b"}
    del stored[missing]
    with pytest.raises(UnreadableRecordError):
        Definition.from_stored(stored)


@pytest.mark.parametrize("stored", [None, [], "x", 1])
def test_a_record_of_another_shape_cannot_be_read(stored: Any) -> None:
    with pytest.raises(UnreadableRecordError):
        Definition.from_stored(stored)


def test_what_workers_and_schedulers_import_is_light() -> None:
    code = (
        "import sys, clawjob.domain.definition, clawjob.domain.template, clawjob.domain.retry; "
        "print([name for name in ('pydantic', 'click', 'rich', 'httpx', 'boto3') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
