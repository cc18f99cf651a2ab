"""Jobs in the table: names, state rows, definitions.

The scheduler writes only its own attributes, and only from the version that it saw, so that no pass of it can undo what
a user changed.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from clawjob.aws import dynamo
from clawjob.aws.codec import Value, encode_item
from clawjob.aws.dynamo import Condition, Item, Refused, Write
from clawjob.aws.job_item import decision_value, item_of, state_of, version_fields, version_of
from clawjob.aws.run_item import due_keys
from clawjob.aws.table import (
    ALL_JOBS,
    DUE_AT,
    DUE_INDEX,
    DUE_SHARD,
    MAX_VERSION,
    PK,
    SK,
    TICK,
    TTL,
    definition_key,
    name_key,
    run_key,
    state_key,
)
from clawjob.domain.definition import Definition
from clawjob.domain.errors import (
    DuplicateJobError,
    JobNotFoundError,
    StaleVersionError,
    UnavailableError,
    UnreadableRecordError,
)
from clawjob.domain.ids import SHARDS
from clawjob.domain.instants import to_text
from clawjob.domain.job_state import JobDecision, JobState
from clawjob.domain.job_version import NOBODY, Change, Editor, JobVersion
from clawjob.domain.run import Reason, Run

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ABSENT: Final = "attribute_not_exists(#pk)"
_REMEMBERED: Final = 4096
"""Definitions kept in memory; they never change."""


@dataclass(frozen=True, slots=True)
class DuePage:
    """A page of the due index: ids only, and where the next page begins."""

    uids: tuple[str, ...]
    run_ids: tuple[str, ...]
    others: tuple[tuple[str, str], ...]
    """Keys of no kind that we know."""
    last: Item | None


@dataclass(frozen=True)
class JobStore:
    """The jobs of one table."""

    client: "DynamoDBClient"
    table: str
    retention: timedelta
    _definitions: dict[tuple[str, int], Definition] = field(default_factory=dict)

    def create(
        self, state: JobState, definition: Definition, change: Change = Change.CREATED, editor: Editor = NOBODY
    ) -> None:
        """Write a job with its first definition, all or nothing.

        Raises:
            DuplicateJobError: the name is taken.
        """
        pk, sk = name_key(state.name)
        refusals = dynamo.transact(
            self.client,
            [
                # Of many creates at once the first to take the name wins.
                dynamo.put(self.table, {PK: pk, SK: sk, "uid": state.uid}, Condition((_ABSENT,))),
                dynamo.put(self.table, item_of(state)),
                self._definition(state, definition, change, editor),
            ],
        )
        if refusals and refusals[0]:
            taken = refusals[0].item
            # The answer to our own first try was lost and the call repeated by the client.
            if taken is None or taken.get("uid") != state.uid:
                raise DuplicateJobError(state.name)

    def uid_of(self, name: str) -> str:
        """Look up a job's uid.

        Raises:
            JobNotFoundError: no job has this name now.
        """
        item = dynamo.get(self.client, self.table, name_key(name))
        if item is None:
            raise JobNotFoundError(name)
        return str(item["uid"])

    def get(self, name: str) -> JobState:
        """Read a job's state row as it is now.

        Raises:
            JobNotFoundError: no job has this name now.
        """
        state = self.get_by_uid(self.uid_of(name))
        if state is None or state.deleted_at is not None:
            raise JobNotFoundError(name)
        return state

    def get_by_uid(self, uid: str) -> JobState | None:
        """Read a state row as it is now; deleted jobs have one until their retention is over."""
        item = dynamo.get(self.client, self.table, state_key(uid))
        return state_of(item) if item else None

    def get_items(self, uids: Iterable[str]) -> dict[str, Item]:
        """Read the state rows' items of many jobs, unread, so that one that cannot be read harms no other."""
        ids = list(uids)
        found = dynamo.get_many(self.client, self.table, [state_key(uid) for uid in ids])
        return {uid: found[key] for uid in ids if (key := state_key(uid)) in found}

    def definition(self, uid: str, version: int) -> Definition:
        """Return one version of a job's definition.

        Raises:
            UnreadableRecordError: it is not there or cannot be read.
        """
        found = self.definitions([(uid, version)])[uid, version]
        if isinstance(found, UnreadableRecordError):
            raise found
        return found

    def definitions(
        self, wanted: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], Definition | UnreadableRecordError]:
        """Return many definitions; what cannot be read answers with its error."""
        pairs = list(dict.fromkeys(wanted))
        # Taken out first: what is read now may clear the memory, as may another thread.
        known = {pair: found for pair in pairs if (found := self._definitions.get(pair)) is not None}
        unknown = [pair for pair in pairs if pair not in known]
        items = dynamo.get_many(self.client, self.table, [definition_key(*pair) for pair in unknown]) if unknown else {}
        answers: dict[tuple[str, int], Definition | UnreadableRecordError] = {}
        for pair in unknown:
            key = definition_key(*pair)
            answers[pair] = self._read_definition(pair, items.get(key))
        return {pair: answers[pair] if pair in answers else known[pair] for pair in pairs}

    def change(
        self,
        seen: JobState,
        after: JobState,
        definition: Definition,
        change: Change = Change.REPLACED,
        editor: Editor = NOBODY,
    ) -> None:
        """Put the next definition in force, from the version that was seen.

        Raises:
            StaleVersionError: the job was changed meanwhile.
            JobNotFoundError: it was deleted meanwhile.
        """
        refusals = dynamo.transact(
            self.client,
            [
                dynamo.update(
                    self.table,
                    state_key(seen.uid),
                    # Only what the change is about: a slot taken or an advance made meanwhile stays.
                    dynamo.changes_between(item_of(seen), item_of(after)),
                    Condition(
                        (
                            # Another change came first: the caller must look at it.
                            "#version = :seen_version",
                            # Deleted meanwhile: the name may already belong to another job.
                            "attribute_not_exists(#deleted_at)",
                        ),
                        {":seen_version": seen.version},
                    ),
                ),
                self._definition(after, definition, change, editor),
            ],
        )
        if refusals:
            self._explain(seen, after, definition)

    def delete(self, seen: JobState, after: JobState) -> None:
        """Free the name and close the state row; runs that wait will see it.

        Raises:
            StaleVersionError: the job was changed meanwhile.
            JobNotFoundError: it was deleted meanwhile.
        """
        gone: dict[str, Value] = {
            TTL: int((after.changed_at + self.retention).timestamp()),
            DUE_AT: None,
            DUE_SHARD: None,
        }
        # The name may belong to a job made since.
        name_is_ours = Condition(("#uid = :uid",), {":uid": seen.uid})
        # Changed meanwhile: the caller must look at it.
        unchanged = Condition(("#version = :seen_version",), {":seen_version": seen.version})
        changes = dynamo.changes_between(item_of(seen), item_of(after)) | gone
        refusals = dynamo.transact(
            self.client,
            [
                dynamo.delete(self.table, name_key(seen.name), name_is_ours),
                dynamo.update(self.table, state_key(seen.uid), changes, unchanged),
            ],
        )
        if refusals:
            self._explain(seen, after)

    def forget_definitions(self, state: JobState) -> None:
        """Let the definitions of a deleted job go with its row; runs show them until then."""
        expiry = int((state.changed_at + self.retention).timestamp())
        for version in range(1, self.last_version(state.uid) + 1):
            present = Condition(("attribute_exists(#pk)",))
            dynamo.write(
                self.client, dynamo.update(self.table, definition_key(state.uid, version), {TTL: expiry}, present)
            )

    def advance(
        self,
        seen: JobState,
        planned_until: datetime,
        due_at: datetime | None,
        decision: JobDecision,
        active: str | None,
    ) -> bool:
        """Move a job past what was dispatched or recorded; `active` takes the overlap slot, None leaves it.

        Returns:
            Whether this pass moved it; if not, another pass or a user's change came first.
        """
        changes: dict[str, Value] = {
            "planned_until": to_text(planned_until),
            "decision": decision_value(decision),
            **(due_keys(seen.uid, due_at) or {DUE_AT: None, DUE_SHARD: None}),
        }
        clauses: tuple[str, ...] = (
            # Another pass advanced it: moving it again could jump over instants that nobody dispatched.
            "#due_at = :seen_due" if seen.due_at else "attribute_not_exists(#due_at)",
            # A user changed it: the plan is of an old definition.
            "#version = :seen_version",
        )
        values: dict[str, Value] = {":seen_version": seen.version}
        if seen.due_at:
            values[":seen_due"] = to_text(seen.due_at)
        if active is not None:
            clauses = (*clauses, _slot_unchanged(seen))
            changes["active"] = active
            if seen.active:
                values[":seen_active"] = seen.active
        one = dynamo.update(self.table, state_key(seen.uid), changes, Condition(clauses, values))
        refused = dynamo.write(self.client, one)
        if refused is None:
            return True
        if active is None or refused.item is None or refused.item.get("active") == seen.active:
            return False
        # Only the slot went to another run meanwhile: that stands, the advance itself is still right.
        return self.advance(seen, planned_until, due_at, decision, None)

    def take_slot(self, seen: JobState, run_id: str, displaced: Run | None = None) -> bool:
        """Give the overlap slot to a run, if it is still where it was seen.

        Args:
            seen: the state row, with the slot's holder.
            run_id: who takes it.
            displaced: the holder, where it is open but has not started: it is told in the same transaction, so that it
                cannot start by what it read before.

        Returns:
            Whether the run has the slot.
        """
        values: dict[str, Value] = {":seen_active": seen.active} if seen.active else {}
        condition = Condition((_slot_unchanged(seen),), values)
        one = dynamo.update(self.table, state_key(seen.uid), {"active": run_id}, condition)
        refused: Refused | None
        if displaced is None:
            refused = dynamo.write(self.client, one)
        else:
            # Started meanwhile: it keeps the slot.
            unstarted = Condition(
                ("#state = :state", "attribute_not_exists(#token)"), {":state": displaced.state.value}
            )
            told = dynamo.update(self.table, run_key(displaced.run_id), {"displaced": run_id}, unstarted)
            refusals = dynamo.transact(self.client, [one, told])
            refused = next((refusal for refusal in refusals or [] if refusal), None)
        return refused is None or (refused.item is not None and refused.item.get("active") == run_id)

    def set_aside(self, seen: Mapping[str, Value], why: str, at: datetime) -> bool:
        """Take a job whose row or definition cannot be read out of the due index; the next edit heals it.

        Args:
            seen: the row's item as it was seen, readable or not.
            why: what is wrong.
            at: the present instant.
        """
        decision = decision_value(JobDecision(reason=Reason.INVALID, at=at))
        changes: dict[str, Value] = {DUE_AT: None, DUE_SHARD: None, "invalid": why[:200], "decision": decision}
        # An edit or another pass came meanwhile: what we saw is of the past, and maybe healed.
        clauses = ["#due_at = :seen_due"]
        values: dict[str, Value] = {":seen_due": seen.get(DUE_AT)}
        if seen.get("version") is not None:
            clauses.append("#version = :seen_version")
            values[":seen_version"] = seen["version"]
        one = dynamo.update(self.table, (str(seen[PK]), str(seen[SK])), changes, Condition(tuple(clauses), values))
        return dynamo.write(self.client, one) is None

    def rewrite(self, state: JobState) -> None:
        """Write anew a state row that cannot be read."""
        dynamo.write(self.client, dynamo.put(self.table, item_of(state)))

    def last_version(self, uid: str) -> int:
        """The highest version of a job's definition that is there; 0 for none."""
        pages = dynamo.query_pages(
            self.client,
            TableName=self.table,
            KeyConditionExpression="#pk = :pk AND begins_with(#sk, :prefix)",
            ExpressionAttributeNames={"#pk": PK, "#sk": SK},
            ExpressionAttributeValues={":pk": {"S": state_key(uid)[0]}, ":prefix": {"S": "V#"}},
            ScanIndexForward=False,
            ConsistentRead=True,
            Limit=1,
        )
        items, _ = next(pages)
        return int(str(items[0][SK]).removeprefix("V#")) if items else 0

    def version(self, uid: str, number: int) -> JobVersion | None:
        """Read what is known of one version; None when it is not there."""
        item = dynamo.get(self.client, self.table, definition_key(uid, number))
        return version_of(item) if item else None

    def versions(self, uid: str, limit: int, before: int | None) -> tuple[tuple[JobVersion, ...], int | None]:
        """List a job's versions, newest first: a page, and the number of its last one when there may be more.

        Args:
            uid: of the job.
            limit: of versions.
            before: only those with a lower number; None for all.
        """
        if before == 1:
            return (), None
        pages = dynamo.query_pages(
            self.client,
            TableName=self.table,
            KeyConditionExpression="#pk = :pk AND #sk BETWEEN :lowest AND :top",
            ExpressionAttributeNames={"#pk": PK, "#sk": SK},
            ExpressionAttributeValues={
                ":pk": {"S": state_key(uid)[0]},
                ":lowest": {"S": definition_key(uid, 1)[1]},
                ":top": {"S": definition_key(uid, (before or MAX_VERSION) - 1)[1]},
            },
            ScanIndexForward=False,
            ConsistentRead=True,
            Limit=limit,
        )
        items, last = next(pages)
        found = tuple(version_of(item) for item in items)
        return found, found[-1].version if last and found else None

    def due_page(self, shard: int, until: datetime, limit: int, start: Item | None) -> DuePage:
        """Read a page of what is due in a shard, oldest first. The index lags: only the base items decide."""
        pages = dynamo.query_pages(
            self.client,
            TableName=self.table,
            IndexName=DUE_INDEX,
            KeyConditionExpression="#due_shard = :shard AND #due_at <= :until",
            ExpressionAttributeNames={"#due_shard": DUE_SHARD, "#due_at": DUE_AT},
            ExpressionAttributeValues={":shard": {"S": f"D#{shard}"}, ":until": {"S": to_text(until)}},
            Limit=limit,
            **({"ExclusiveStartKey": encode_item(start)} if start else {}),
        )
        items, last = next(pages)
        keys = [(str(item[PK]), str(item[SK])) for item in items]
        return DuePage(
            uids=tuple(pk.removeprefix("JOB#") for pk, _ in keys if pk.startswith("JOB#")),
            run_ids=tuple(pk.removeprefix("RUN#") for pk, _ in keys if pk.startswith("RUN#")),
            others=tuple(key for key in keys if not key[0].startswith(("JOB#", "RUN#"))),
            last=last,
        )

    def list_all(self, limit: int, start: Item | None) -> tuple[tuple[JobState, ...], Item | None]:
        """List jobs by name: a page, and where the next one begins."""
        keys, last = dynamo.list_page(self.client, self.table, ALL_JOBS, limit, start)
        uids = [pk.removeprefix("JOB#") for pk, _ in keys]
        items = self.get_items(uids)
        states: list[JobState] = []
        for uid in uids:
            try:
                state = state_of(items[uid])
            except (KeyError, UnreadableRecordError):
                # Deleted since the index was written, or damaged: `why` speaks of it, a list goes on.
                continue
            if state.deleted_at is None:
                states.append(state)
        return tuple(states), last

    def count_active(self) -> int:
        """Count the jobs that have something to come; it reads all of the due index."""
        return sum(self._count_shard(shard) for shard in range(SHARDS))

    def _count_shard(self, shard: int) -> int:
        pages = dynamo.query_pages(
            self.client,
            TableName=self.table,
            IndexName=DUE_INDEX,
            KeyConditionExpression="#due_shard = :shard",
            ExpressionAttributeNames={"#due_shard": DUE_SHARD},
            ExpressionAttributeValues={":shard": {"S": f"D#{shard}"}},
        )
        # A filter would read, and pay, the same.
        return sum(str(item[PK]).startswith("JOB#") for items, _ in pages for item in items)

    def record_tick(self, facts: Mapping[str, Value]) -> None:
        """Leave the last tick's facts where people can read them."""
        dynamo.write(self.client, dynamo.put(self.table, {PK: TICK, SK: TICK, **facts}))

    def last_tick(self) -> dict[str, Any]:
        """Read the last tick's facts; empty before the first."""
        return dynamo.get(self.client, self.table, (TICK, TICK)) or {}

    def _definition(self, state: JobState, definition: Definition, change: Change, editor: Editor) -> Write:
        pk, sk = definition_key(state.uid, state.version)
        return dynamo.put(
            self.table,
            {
                PK: pk,
                SK: sk,
                "definition": json.dumps(definition.to_stored(), ensure_ascii=False, separators=(",", ":")),
                **version_fields(state.changed_at, change, editor),
            },
        )

    def _read_definition(self, pair: tuple[str, int], item: Item | None) -> Definition | UnreadableRecordError:
        key = "/".join(definition_key(*pair))
        if item is None:
            return UnreadableRecordError(key, "it is not there")
        try:
            definition = Definition.from_stored(json.loads(str(item["definition"])))
        except UnreadableRecordError as error:
            return error
        except (KeyError, ValueError) as error:
            return UnreadableRecordError(key, f"{type(error).__name__}: {error}")
        if len(self._definitions) >= _REMEMBERED:
            self._definitions.clear()
        self._definitions[pair] = definition
        return definition

    def _explain(self, seen: JobState, after: JobState, definition: Definition | None = None) -> None:
        """Say why a write was refused; come back if it was made already, by a call whose answer was lost."""
        now = self.get_by_uid(seen.uid)
        if now is None or (now.deleted_at is not None and after.deleted_at is None):
            raise JobNotFoundError(seen.name)
        # As stored: an instant loses its microseconds there. Two changes of one moment differ in the definition.
        key = (now.uid, now.version)
        if item_of(now) == item_of(after) and (definition is None or self.definitions([key])[key] == definition):
            return
        if now.version == seen.version:
            raise UnavailableError("TransactWriteItems", "the job changed while it was written")
        raise StaleVersionError(seen.name, seen.version, now.version)


def _slot_unchanged(seen: JobState) -> str:
    # Another run took the slot: whoever decided from the old holder must look again.
    return "#active = :seen_active" if seen.active else "attribute_not_exists(#active)"
