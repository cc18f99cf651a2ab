"""The job document, loaded when it is first needed: pydantic and the model take longer than all the rest of the API.

`load` is for those who start a process that will need it: at Lambda's start CPU is free.
"""

from collections.abc import Collection
from datetime import datetime

from clawjob.domain.definition import Definition
from clawjob.domain.schedule import ScheduleSpec


def load() -> None:
    """Load it now."""
    import clawjob.domain.job  # noqa: F401 - loading is the point


def parse_document(data: object, now: datetime, pools: Collection[str], kept: ScheduleSpec | None = None) -> Definition:
    """Read a document; see `clawjob.domain.job.parse_document`."""
    from clawjob.domain import job

    return job.parse_document(data, now, pools, kept)


def document_of(definition: Definition) -> dict[str, object]:
    """Write a document; see `clawjob.domain.job.document_of`."""
    from clawjob.domain import job

    return job.document_of(definition)
