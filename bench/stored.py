"""Puts many stored jobs into moto at once: their items go straight into its table, made from one template."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType, Item

from bench.account import NO_ACCOUNT, POOLS, TABLE, hourly
from bench.stage import Stage
from clawjob.aws.codec import encode_item
from clawjob.aws.job_item import item_of
from clawjob.aws.job_store import JobStore
from clawjob.aws.run_item import due_keys
from clawjob.aws.run_item import item_of as run_item
from clawjob.aws.table import state_key
from clawjob.domain.ids import scheduled_run_id
from clawjob.domain.job_state import JobDecision, JobState
from clawjob.domain.run import Attempt, Outcome, Reason, Run, RunKind, State, close_run
from clawjob.domain.schedule import ScheduleSpec

DUE: Final = 10


class _Text(DynamoType):
    """A text that is compared as one: moto casts both sides of each of millions of comparisons in a query."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DynamoType) and bool(self.value == other.value)

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < other.value)

    def __hash__(self) -> int:
        return hash(self.value)


def table() -> Any:
    """Moto's own table."""
    return dynamodb_backends[DEFAULT_ACCOUNT_ID][NO_ACCOUNT["AWS_DEFAULT_REGION"]].get_table(TABLE)


def job_state(on: Stage, number: int, due: datetime) -> JobState:
    """State row of a job that runs each hour and had a run before."""
    uid = on.context.new_uid()
    return JobState(
        uid=uid,
        name=f"job_{number:06d}",
        version=1,
        enabled=True,
        planned_until=due - timedelta(hours=1),
        created_at=on.now - timedelta(days=1),
        changed_at=on.now - timedelta(days=1),
        due_at=due - on.context.times.look_ahead,
        decision=JobDecision(reason=Reason.DISPATCHED, at=on.now, scheduled_at=due - timedelta(hours=1), count=1),
    )


def last_run(on: Stage, state: JobState) -> Run:
    """The run of the hour before, which ended well and had the overlap slot."""
    instant = state.planned_until
    end = instant + timedelta(minutes=1)
    run = Run(
        run_id=scheduled_run_id(state.uid, instant),
        uid=state.uid,
        job=state.name,
        kind=RunKind.SCHEDULED,
        state=State.RUNNING,
        version=state.version,
        pool=POOLS[0],
        scheduled_at=instant,
        not_before=instant,
        queued_at=instant - timedelta(seconds=100),
        token=1,
        lease_until=end,
        deadline_at=end,
        message_id="5fea7756-0ea4-451a-a703-a558b933e274",
        attempt=Attempt(
            number=1,
            worker="ip-10-0-1-17-4711",
            started_at=instant,
            ended_at=end,
            outcome=Outcome.SUCCEEDED,
            exit_code=0,
            duration_seconds=60.1,
            log_bytes=12_345,
        ),
    )
    return close_run(run, State.SUCCEEDED, Reason.COMPLETED, end, on.context.times.retention)


class _Straight:
    """A client that puts items straight into moto's table: its own way takes some 30 ms for each."""

    def transact_write_items(self, TransactItems: list[dict[str, Any]]) -> None:  # noqa: N803 - the client's form
        for entry in TransactItems:
            self.put_item(entry["Put"]["Item"])

    def put_item(self, Item: dict[str, Any], **_: object) -> None:  # noqa: N803 - as above
        insert(Item)


def insert(item: dict[str, Any]) -> None:
    """Put an item into moto's table."""
    key, sort = DynamoType(item["pk"]), DynamoType(item["sk"])
    table().items[key][sort] = Item(key, sort, item)


def create_due_jobs(on: Stage, how_many: int, due: datetime) -> None:
    """Make jobs whose next run a tick has to dispatch, with their definitions and their last runs."""
    spec = ScheduleSpec(cron=f"{due.minute} * * * *")
    client: Any = _Straight()
    jobs = JobStore(client, TABLE, on.context.times.retention)
    for number in range(how_many):
        state = job_state(on, number, due)
        last = last_run(on, state)
        insert(encode_item(run_item(last)))
        jobs.create(replace(state, active=last.run_id), hourly(state.name, schedule=spec))


def insert_stored_jobs(on: Stage, how_many: int, due: datetime) -> None:
    """Put in the state rows of jobs that are not due; all share what they have in common, so that memory suffices."""
    rows = table().items
    template = encode_item(item_of(job_state(on, 0, due)))
    shared = {name: _Text(value) if "S" in value else DynamoType(value) for name, value in template.items()}
    for number in range(how_many):
        # In the order of the index, which moto sorts anew in each query.
        due_at = due + timedelta(seconds=number * 3600 // how_many)
        uid, name = on.context.new_uid(), f"job_{number:06d}"
        fields = {"pk": state_key(uid)[0], "name": name, "list_sort": name, **due_keys(uid, due_at)}
        own = {label: _Text({"S": value}) for label, value in fields.items()}
        item = Item(own["pk"], shared["sk"], {})
        item.attrs.update({**shared, **own})
        rows[DynamoType({"S": fields["pk"]})][DynamoType({"S": state_key(uid)[1]})] = item
