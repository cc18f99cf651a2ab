"""Dead letters through the API."""

from typing import Any

import pytest

from clawjob.domain.messages import RunMessage
from support.api import Client
from support.clock import START
from support.letters import LOW, dead_in, put_dead
from support.service import Service

RUN_ID = "0123456789ab-m00000001"
BODY = RunMessage(RUN_ID, 2).to_body()


def test_they_are_counted_and_shown_for_each_queue(api: Client, service: Service) -> None:
    (message_id,) = put_dead(service, BODY)
    answer = api("GET", "/dead-letters")
    assert answer.status == 200
    shown = {one["queue"]: one for one in answer.json["items"]}
    assert {name: (one["kind"], one["count"]) for name, one in shown.items()} == {
        "runs-default-high": ("run", 0),
        LOW: ("run", 1),
        "results": ("report", 0),
        "ticks": ("tick", 0),
    }
    assert shown[LOW]["messages"] == [
        {
            "message_id": message_id,
            "sent_at": START.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "receives": 1,
            "what": f"run {RUN_ID}, retry 2",
            "why": "Its run is not kept any more: sent back, it does nothing.",
            "run_id": RUN_ID,
            "job": None,
            "attempt": None,
            "retry": 2,
        }
    ]


def test_one_queue_can_be_asked_for_and_its_messages_left_out(api: Client, service: Service) -> None:
    put_dead(service, BODY)
    (one,) = api("GET", f"/dead-letters?queue={LOW}&limit=0").json["items"]
    assert (one["count"], one["held"], one["messages"]) == (1, 0, [])
    missing = api("GET", "/dead-letters?queue=nothing")
    assert missing.status == 404
    assert LOW in missing.json["detail"]


def test_they_are_sent_back_all_or_one(api: Client, service: Service) -> None:
    ids = put_dead(service, *(BODY for _ in range(12)))
    one = api("POST", f"/dead-letters/{LOW}/redrive", {"message_id": ids[0]})
    assert one.json == {"queue": LOW, "sent_back": 1, "refused": 0, "has_more": False}
    assert api("POST", f"/dead-letters/{LOW}/redrive", {"message_id": ids[0]}).status == 404


def test_all_are_sent_back_without_a_body(api: Client, service: Service) -> None:
    put_dead(service, *(BODY for _ in range(12)))
    answer = api("POST", f"/dead-letters/{LOW}/redrive")
    assert (answer.status, answer.json["sent_back"]) == (200, 12)
    assert len(service.receive()) == 10
    assert dead_in(service) == []


def test_a_tick_is_not_sent_back_and_the_remedy_is_said(api: Client, service: Service) -> None:
    put_dead(service, "{}", queue="ticks")
    refused = api("POST", "/dead-letters/ticks/redrive")
    assert refused.status == 409
    assert refused.json["type"].endswith(":conflict")
    assert "drop it" in refused.json["detail"]
    assert api("GET", "/dead-letters?queue=ticks").json["items"][0]["count"] == 1


@pytest.mark.parametrize(
    ("queue", "note"),
    [
        (LOW, "sends a run again whose message is gone"),
        ("results", "counts as a lost attempt"),
        ("ticks", "the next tick does"),
    ],
)
def test_a_drop_says_how_many_and_what_follows(api: Client, service: Service, queue: str, note: str) -> None:
    put_dead(service, BODY, "no JSON", queue=queue)
    answer = api("DELETE", f"/dead-letters/{queue}?all=true")
    assert (answer.status, answer.json["dropped"], answer.json["has_more"]) == (200, 2, False)
    assert note in answer.json["note"]
    assert api("DELETE", f"/dead-letters/{queue}?all=true").json["dropped"] == 0


def test_one_is_dropped_by_its_id(api: Client, service: Service) -> None:
    ids = put_dead(service, BODY, "no JSON")
    assert api("DELETE", f"/dead-letters/{LOW}?message_id={ids[1]}").json["dropped"] == 1
    (left,) = service.sqs.get_queue_attributes(
        QueueUrl=service.urls.dead[LOW], AttributeNames=["ApproximateNumberOfMessages"]
    )["Attributes"].values()
    assert left in ("0", "1")


@pytest.mark.parametrize("query", ["", "?all=false", "?all=true&message_id=x", "?message_id=x&all=yes", "?al=true"])
def test_nothing_is_dropped_that_was_not_named(api: Client, service: Service, query: str) -> None:
    put_dead(service, BODY)
    assert api("DELETE", f"/dead-letters/{LOW}{query}").status == 400
    assert dead_in(service) == [BODY]


@pytest.mark.parametrize("body", [{"message_id": 5}, {"id": "x"}, []])
def test_nothing_is_sent_back_for_a_body_that_cannot_be_taken(api: Client, service: Service, body: Any) -> None:
    put_dead(service, BODY)
    assert api("POST", f"/dead-letters/{LOW}/redrive", body).status == 400
    assert dead_in(service) == [BODY]
