"""Templates in a job's args and env values: `{{.Yesterday}}`, `{{.params.page}}`, `{{.Now | date "%H"}}`.

Promise: a closed list of names and two filters, no attributes, no expressions; what is saved can be rendered; time and
size of the work are bounded by the text. Dates come from the civil time that the run stands for, in the job's zone,
so each attempt of a run renders the same, however late it starts.
"""

import pkgutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cached_property, lru_cache
from io import BytesIO
from typing import Final
from zoneinfo import ZoneInfo

from clawjob.domain.date_format import formatted
from clawjob.domain.definition import Definition, ParamValue
from clawjob.domain.errors import InvalidInputError
from clawjob.domain.showing import shown
from clawjob.domain.template_syntax import DATES, MOMENTS, PARAMS, Placeholder, Shift, parts_of
from clawjob.domain.zone import zone_names

MAX_RENDERED_BYTES: Final = 64 * 1024
"""Of one element. Linux takes at most 131,072 bytes."""
MAX_TOTAL_BYTES: Final = 512 * 1024
"""Of command, args and env of one attempt together. Linux takes about 2 MB where the stack may have its usual size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderValues:
    """What templates of one attempt may show."""

    run_id: str
    job_name: str
    attempt: int
    scheduled_at: datetime
    """The nominal instant, aware."""
    timezone: str
    """The job's zone."""
    now: datetime
    """The start of the attempt, aware."""
    params: Mapping[str, ParamValue]
    """Every declared param with the run's value or its default."""
    nominal_local: datetime | None = None
    """The civil time that the run stands for, naive; None: the one of `scheduled_at`."""


def check(text: str, params: Collection[str], field: str) -> None:
    """Refuse a text that could not be rendered.

    Args:
        text: an element of args or a value of env.
        params: names that the job declares.
        field: path of the text, for the error.

    Raises:
        InvalidInputError: a name or filter is not known, or a placeholder cannot be read.
    """
    for _ in parts_of(text, params, field):
        pass


def render(text: str, values: RenderValues, field: str = "") -> str:
    """Put values in place of the placeholders; all other text stays as it is.

    Raises:
        InvalidInputError: the text cannot be rendered, or the result is longer than 64 KiB or cannot be passed on.
    """
    return _Renderer(values).render(text, field)


def render_command(definition: Definition, values: RenderValues) -> tuple[list[str], dict[str, str]]:
    """Make the argument list and the job's part of the environment of one attempt.

    Each element of args gives exactly one argument, whatever its values hold; nothing is split, quoted or joined.

    Raises:
        InvalidInputError: an element cannot be rendered, or all together are longer than 512 KiB.
    """
    renderer = _Renderer(values)
    argv = [definition.command]
    argv += [renderer.render(text, f"args[{index}]") for index, text in enumerate(definition.args)]
    env = {name: renderer.render(text, f"env.{name}") for name, text in definition.env.items()}
    total = sum(len(text.encode()) + 1 for text in (*argv, *env, *env.values()))
    if total > MAX_TOTAL_BYTES:
        raise InvalidInputError.of(
            "args",
            f"Command, args and env take {total:,} bytes.",
            f"Keep them within {MAX_TOTAL_BYTES:,}; pass large values in a file.",
        )
    return argv, env


@lru_cache(maxsize=128)
def _load_zone(name: str) -> tzinfo:
    """A zone from the `tzdata` package, so that the host's files have no say."""
    data = pkgutil.get_data("tzdata", f"zoneinfo/{name}") if name in zone_names() else None
    if data is None:
        raise InvalidInputError.of("timezone", f"{shown(name)} is no time zone.", "Save the job with a known one.")
    return ZoneInfo.from_file(BytesIO(data), key=name)


class _Renderer:
    """Renders the texts of one attempt."""

    def __init__(self, values: RenderValues) -> None:
        self._values = values

    def render(self, text: str, field: str) -> str:
        """Render one text."""
        rendered: list[str] = []
        size = 0
        for part in parts_of(text, self._values.params, field):
            piece = part if isinstance(part, str) else self._value(part)
            size += _size(piece, field)
            if size > MAX_RENDERED_BYTES:
                raise InvalidInputError.of(
                    field,
                    f"With its values it is longer than {MAX_RENDERED_BYTES:,} bytes.",
                    "Pass large values in a file.",
                )
            rendered.append(piece)
        return "".join(rendered)

    def _value(self, wanted: Placeholder) -> str:
        name = wanted.name
        if name in DATES:
            return self._date(wanted)
        if name in MOMENTS:
            return self._moment(wanted)
        match name:
            case "RunID":
                return self._values.run_id
            case "Attempt":
                return str(self._values.attempt)
            case "JobName":
                return self._values.job_name
        return _text_of(self._values.params[name.removeprefix(PARAMS)])

    def _date(self, wanted: Placeholder) -> str:
        days = DATES[wanted.name] + sum(shift.days for shift in wanted.shifts)
        day = self._nominal.date() + timedelta(days=days)
        return day.isoformat() if wanted.pattern is None else formatted(_start_of(day), wanted.pattern)

    def _moment(self, wanted: Placeholder) -> str:
        is_now = wanted.name == "Now"
        if not is_now and (wanted.shifts or wanted.pattern):
            moment = self._nominal
        else:
            moment = (self._values.now if is_now else self._values.scheduled_at).astimezone(self._zone)
        for shift in wanted.shifts:
            moment = _shifted(moment, shift)
        return moment.isoformat(timespec="seconds") if wanted.pattern is None else formatted(moment, wanted.pattern)

    @cached_property
    def _zone(self) -> tzinfo:
        return _load_zone(self._values.timezone)

    @cached_property
    def _nominal(self) -> datetime:
        """The civil time that the run stands for, with the zone; in an hour that comes twice, the pass that was due."""
        actual = self._values.scheduled_at.astimezone(self._zone)
        civil = self._values.nominal_local
        if civil is None or civil == actual.replace(tzinfo=None):
            return actual
        return civil.replace(tzinfo=self._zone)


def _shifted(moment: datetime, shift: Shift) -> datetime:
    """A step of days keeps the time of day in the zone; one of seconds is that much later, whatever the clock shows."""
    if shift.days:
        return moment + timedelta(days=shift.days)
    return (moment.astimezone(UTC) + timedelta(seconds=shift.seconds)).astimezone(moment.tzinfo)


def _start_of(day: date) -> datetime:
    # Only directives of dates reach it, so the offset is never shown.
    return datetime.combine(day, time(), UTC)


def _text_of(value: ParamValue) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
    return str(value)


def _size(text: str, field: str) -> int:
    if "\0" in text:
        raise InvalidInputError.of(field, "It holds a NUL character, which no process can be given.", "Take it out.")
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidInputError.of(field, "It holds half a surrogate pair.", "Give valid Unicode text.") from error
