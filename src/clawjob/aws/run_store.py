"""Runs in the table. Each method is one move of a run, made only from the state that the caller saw.

A refused move answers with the run as it is now and changes nothing; a move that was made although its answer was lost
is recognised. So every method may be repeated.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from clawjob.aws import dynamo
from clawjob.aws.codec import Value, decode_item
from clawjob.aws.dynamo import Condition, Item, Refused, Write
from clawjob.aws.job_item import state_of
from clawjob.aws.run_item import attempt_fields, attempt_of, item_of, run_of
from clawjob.aws.table import (
    PK,
    SK,
    TTL,
    part_key,
    run_key,
    runs_of,
    state_key,
)
from clawjob.domain.errors import LeaseLostError, UnreadableRecordError
from clawjob.domain.ids import uid_of
from clawjob.domain.instants import to_text
from clawjob.domain.job_state import JobState
from clawjob.domain.run import Attempt, CancelRequest, Run, State, check_move

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ABSENT: Final = "attribute_not_exists(#pk)"
_LONGEST_OPEN: Final = timedelta(days=60)
"""A run may wait long for its retries, however short the retention is: so long its params are kept before it."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Whether a move was made, and the run as it is now (None: it is not there)."""

    made: bool
    run: Run | None


@dataclass(frozen=True, slots=True)
class RunParts:
    """What belongs to a run beside its own item."""

    attempts: tuple[Attempt, ...]
    outputs: dict[str, Any]
    params: dict[str, Any]
    log_tails: dict[int, str]


@dataclass(frozen=True)
class RunStore:
    """The runs of one table."""

    client: "DynamoDBClient"
    table: str
    retention: timedelta

    def put_new(self, run: Run, params: Mapping[str, Any] | None = None) -> Run | None:
        """Write a run, with its params where a person gave some, unless its id is there already.

        Returns:
            None when it was written, else the run that was there first.
        """
        # The id is made of what the run stands for, so whoever comes second stands for the same thing.
        first = Condition((_ABSENT,))
        if not params:
            refused = dynamo.write(self.client, dynamo.put(self.table, item_of(run), first))
        else:
            pk, sk = part_key(run.run_id, "INPUT")
            given: Item = {
                PK: pk,
                SK: sk,
                "params": json.dumps(params),
                TTL: self._expiry(run.queued_at + _LONGEST_OPEN),
            }
            refusals = dynamo.transact(
                self.client, [dynamo.put(self.table, item_of(run), first), dynamo.put(self.table, given)]
            )
            refused = refusals[0] if refusals else None
        if refused is None:
            return None
        return run_of(refused.item) if refused.item else self.get(run.run_id)

    def get(self, run_id: str) -> Run | None:
        """Read a run as it is now."""
        item = dynamo.get(self.client, self.table, run_key(run_id))
        return run_of(item) if item else None

    def get_items(self, run_ids: Iterable[str]) -> dict[str, Item]:
        """Read the items of many runs, unread, so that one that cannot be read harms no other."""
        ids = list(run_ids)
        found = dynamo.get_many(self.client, self.table, [run_key(run_id) for run_id in ids])
        return {run_id: found[key] for run_id in ids if (key := run_key(run_id)) in found}

    def get_with_job(self, run_id: str) -> tuple[Run | None, JobState | None]:
        """Read a run and its job's state row in one call, both as they are now."""
        keys = run_key(run_id), state_key(uid_of(run_id))
        found = dynamo.get_many(self.client, self.table, keys)
        run, state = (found.get(key) for key in keys)
        return (run_of(run) if run else None), (state_of(state) if state else None)

    def claim(self, seen: Run, claimed: Run, lost: Attempt | None) -> Moved:
        """Take a run: RUNNING with the next token; `lost` closes the attempt of a worker that vanished."""
        clauses, values = _as_seen(seen)
        if seen.state is State.RUNNING:
            # A renewal after we looked proves that the worker lives.
            clauses, values = _same_lease(clauses, values, seen)
        else:
            # A run that took the overlap slot from this one says so here: look at it first.
            clauses, values = _same_displaced(clauses, values, seen)
        clauses = _no_new_cancel(clauses, seen)
        moved = self._move(seen, claimed, Condition(clauses, values), self._close(seen, lost))
        if moved.made or moved.run is None:
            return moved
        # The answer to our own first try was lost and the call repeated by the client.
        ours = (
            moved.run.state is State.RUNNING
            and moved.run.token == claimed.token
            and moved.run.message_id == claimed.message_id
            and _as_stored(moved.run.attempt) == _as_stored(claimed.attempt)
        )
        return Moved(ours, moved.run)

    def extend_lease(self, run_id: str, token: int, until: datetime) -> CancelRequest | None:
        """Keep the lease of a running attempt; answers with a cancel request if there is one.

        Raises:
            LeaseLostError: the run has another token or is not running any more.
        """
        condition = Condition(
            (
                # Another claim raised the token: the attempt is no longer ours.
                "#token = :token",
                # Settled, handed back or closed by the scheduler.
                "#state = :running",
            ),
            {":token": token, ":running": State.RUNNING.value},
        )
        one = dynamo.update(self.table, run_key(run_id), {"lease_until": to_text(until)}, condition)
        try:
            answer = dynamo.call(
                "UpdateItem", lambda: self.client.update_item(**one.parameters, ReturnValues="ALL_NEW")
            )
        except self.client.exceptions.ConditionalCheckFailedException as error:
            raise LeaseLostError(run_id, token) from error
        return run_of(decode_item(answer["Attributes"])).cancel

    def settle(
        self,
        seen: Run,
        settled: Run,
        closed: Attempt | None,
        outputs: Mapping[str, Any],
        log_tail: str,
        closed_at: datetime,
    ) -> Moved:
        """Close the present attempt: a final state, or RETRY_WAIT with the attempt kept as an item (`closed`)."""
        clauses, values = _as_seen(seen)
        if settled.state is not State.SUCCEEDED:
            # A cancel that came meanwhile turns every end but success into CANCELLED: decide again.
            clauses = _no_new_cancel(clauses, seen)
        more = self._close(seen, closed)
        if outputs:
            pk, sk = part_key(seen.run_id, "OUTPUT")
            item: Item = {PK: pk, SK: sk, "outputs": json.dumps(outputs), TTL: self._expiry(closed_at)}
            more.append(dynamo.put(self.table, item))
        if log_tail:
            pk, sk = part_key(seen.run_id, "LOG", seen.token)
            more.append(dynamo.put(self.table, {PK: pk, SK: sk, "text": log_tail, TTL: self._expiry(closed_at)}))
        return self._move(seen, settled, Condition(clauses, values), more)

    def end_unstarted(self, seen: Run, ended: Run) -> Moved:
        """Close a run that waits: SKIPPED, EXPIRED or CANCELLED, decided before its next attempt."""
        return self._move(seen, ended, Condition(*_as_seen(seen)), [])

    def hand_back(self, seen: Run, queued: Run, interrupted: Attempt) -> Moved:
        """Give up a running attempt in good order: QUEUED again, or CANCELLED where that was asked."""
        clauses, values = _as_seen(seen)
        return self._move(
            seen, queued, Condition(_no_new_cancel(clauses, seen), values), self._close(seen, interrupted)
        )

    def lose(self, seen: Run, after: Run) -> Moved:
        """Count the worker of a running attempt as gone: QUEUED with its token still good, or a final state."""
        clauses, values = _same_lease(*_as_seen(seen), seen)
        return self._move(seen, after, Condition(_no_new_cancel(clauses, seen), values), [])

    def close_overdue(self, seen: Run, after: Run) -> Moved:
        """End a run whose worker renews its lease although deadline, grace and a request to stop are long over."""
        return self._move(seen, after, Condition(*_as_seen(seen)), [])

    def postpone_check(self, seen: Run, after: Run) -> Moved:
        """Move the instant at which the scheduler looks at a run again, and nothing else."""
        clauses, values = _as_seen(seen)
        # Two ticks at once: one moves the check.
        clauses = (*clauses, "#checks = :checks" if seen.checks else "attribute_not_exists(#checks)")
        if seen.checks:
            values = {**values, ":checks": seen.checks}
        return self._move(seen, after, Condition(clauses, values), [])

    def request_cancel(self, seen: Run, request: CancelRequest, due_at: datetime | None = None) -> Moved:
        """Ask that a running attempt end; the first request stands.

        Args:
            seen: the run as the caller saw it, RUNNING.
            request: who asks, when and why.
            due_at: when the scheduler looks again; None leaves it.
        """
        asked = replace(seen, cancel=seen.cancel or request, due_at=due_at or seen.due_at)
        clauses, values = _as_seen(seen)
        # Only a run that is RUNNING has a worker to hear it: one that waits is cancelled at once, not asked.
        clauses = (*clauses, "#state = :running")
        values = {**values, ":running": State.RUNNING.value}
        return self._move(seen, asked, Condition(_no_new_cancel(clauses, seen), values), [])

    def set_aside(self, seen: Item, why: str) -> None:
        """Take a run that cannot be read out of the due index, as it was seen."""
        changes: dict[str, Value] = {"due_at": None, "due_shard": None, "invalid": why[:200]}
        # Somebody moved it meanwhile: then somebody can read it.
        condition = Condition(("#due_at = :seen_due",), {":seen_due": seen.get("due_at")})
        dynamo.write(self.client, dynamo.update(self.table, (str(seen[PK]), str(seen[SK])), changes, condition))

    def list_of(self, uid: str, limit: int, start: Item | None) -> tuple[tuple[Run, ...], Item | None]:
        """List a job's runs, newest first: a page, and where the next one begins."""
        keys, last = dynamo.list_page(self.client, self.table, runs_of(uid), limit, start, forward=False)
        ids = [pk.removeprefix("RUN#") for pk, _ in keys]
        items = self.get_items(ids)
        runs: list[Run] = []
        for run_id in ids:
            # Removed since the index was written, or damaged: a list goes on without it.
            with suppress(KeyError, UnreadableRecordError):
                runs.append(run_of(items[run_id]))
        return tuple(runs), last

    def parts(self, run_id: str) -> RunParts:
        """Read what belongs to a run: earlier attempts, outputs, params, log tails."""
        attempts: list[Attempt] = []
        parts = RunParts((), {}, {}, {})
        for item in self._part_items(run_id):
            kind, _, number = str(item[SK]).partition("#")
            if kind == "ATTEMPT":
                attempts.append(attempt_of(item))
            elif kind == "OUTPUT":
                parts.outputs.update(json.loads(str(item["outputs"])))
            elif kind == "INPUT":
                parts.params.update(json.loads(str(item["params"])))
            elif kind == "LOG":
                parts.log_tails[int(number)] = str(item["text"])
        return RunParts(tuple(attempts), parts.outputs, parts.params, parts.log_tails)

    def params(self, run_id: str) -> dict[str, Any]:
        """Read the params that a person gave to a manual run."""
        item = dynamo.get(self.client, self.table, part_key(run_id, "INPUT"))
        params: dict[str, Any] = json.loads(str(item["params"])) if item else {}
        return params

    def _part_items(self, run_id: str) -> Iterator[Item]:
        pages = dynamo.query_pages(
            self.client,
            TableName=self.table,
            KeyConditionExpression="#pk = :pk",
            ExpressionAttributeNames={"#pk": PK},
            ExpressionAttributeValues={":pk": {"S": run_key(run_id)[0]}},
            ConsistentRead=True,
        )
        for items, _ in pages:
            yield from items

    def _close(self, seen: Run, closed: Attempt | None) -> list[Write]:
        if closed is None:
            return []
        pk, sk = part_key(seen.run_id, "ATTEMPT", closed.number)
        expiry: Item = {TTL: self._expiry(closed.ended_at or closed.started_at)}
        return [dynamo.put(self.table, {PK: pk, SK: sk, **attempt_fields(closed), **expiry})]

    def _expiry(self, since: datetime) -> int:
        return int((since + self.retention).timestamp())

    def _move(self, seen: Run, after: Run, condition: Condition, more: list[Write]) -> Moved:
        check_move(seen.state, after.state)
        changes = dynamo.changes_between(item_of(seen), item_of(after))
        if not changes:
            return Moved(True, seen)
        one = dynamo.update(self.table, run_key(seen.run_id), changes, condition)
        refused: Refused | None
        if more:
            refusals = dynamo.transact(self.client, [one, *more])
            refused = refusals[0] if refusals else None
        else:
            refused = dynamo.write(self.client, one)
        if refused is None:
            return Moved(True, after)
        return Moved(False, run_of(refused.item) if refused.item else None)


def _as_stored(attempt: Attempt | None) -> Item:
    # An instant loses its microseconds in the store, so an attempt that comes from there equals no other.
    return attempt_fields(attempt) if attempt else {}


def _as_seen(seen: Run) -> tuple[tuple[str, ...], dict[str, Value]]:
    clauses = (
        # Somebody moved it, or it is gone.
        "#state = :seen_state",
        # Somebody else claimed it: what we know of its attempt is of the past.
        "#token = :seen_token" if seen.token else "attribute_not_exists(#token)",
        # A retry was granted since: our message is of an earlier try.
        "#retry = :seen_retry" if seen.retry else "attribute_not_exists(#retry)",
    )
    values: dict[str, Value] = {":seen_state": seen.state.value}
    if seen.token:
        values[":seen_token"] = seen.token
    if seen.retry:
        values[":seen_retry"] = seen.retry
    return clauses, values


def _same_lease(
    clauses: tuple[str, ...], values: dict[str, Value], seen: Run
) -> tuple[tuple[str, ...], dict[str, Value]]:
    if seen.lease_until is None:
        return clauses, values
    return (*clauses, "#lease_until = :seen_lease"), {**values, ":seen_lease": to_text(seen.lease_until)}


def _same_displaced(
    clauses: tuple[str, ...], values: dict[str, Value], seen: Run
) -> tuple[tuple[str, ...], dict[str, Value]]:
    if seen.displaced is None:
        return (*clauses, "attribute_not_exists(#displaced)"), values
    return (*clauses, "#displaced = :seen_displaced"), {**values, ":seen_displaced": seen.displaced}


def _no_new_cancel(clauses: tuple[str, ...], seen: Run) -> tuple[str, ...]:
    return clauses if seen.cancel else (*clauses, "attribute_not_exists(#cancel)")
