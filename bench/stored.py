"""Puts many stored jobs into moto at once: their items go straight into its table, made from one template."""

from datetime import datetime, timedelta
from typing import Any, Final

from moto.core import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType, Item

from bench.life import hourly
from bench.stage import NO_ACCOUNT, TABLE, Stage
from clawjob.aws.dynamo import encode_item
from clawjob.aws.job_item import item_of
from clawjob.aws.run_item import due_keys
from clawjob.aws.table import state_key
from clawjob.domain.job_state import JobDecision, JobState
from clawjob.domain.run import Reason
from clawjob.domain.schedule import ScheduleSpec

DUE: Final = 10


class _Text(DynamoType):  # type: ignore[misc]  # moto is not typed for us
    """A text that is compared as one: moto casts both sides of each of millions of comparisons in a query."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DynamoType) and bool(self.value == other.value)

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < other.value)

    def __hash__(self) -> int:
        return hash(self.value)


def table() -> Any:
    """moto's own table."""
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


def create_due_jobs(on: Stage, how_many: int, due: datetime) -> None:
    """Make jobs whose next run a tick has to dispatch, with their definitions."""
    spec = ScheduleSpec(cron=f"{due.minute} * * * *")
    for number in range(how_many):
        state = job_state(on, number, due)
        on.context.jobs.create(state, hourly(state.name, schedule=spec))


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
        item.attrs = {**shared, **own}
        rows[DynamoType({"S": fields["pk"]})][DynamoType({"S": state_key(uid)[1]})] = item
