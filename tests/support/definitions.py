"""Definitions and documents of jobs for tests: the founding one, and a strategy for all that can be saved."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from clawjob.domain.definition import CatchUp, CatchUpMode, Definition, Overlap, Resources, RetryPolicy
from clawjob.domain.schedule import Missing, Repeated, ScheduleSpec

NOW = datetime(2026, 1, 15, 12, 0, 30, tzinfo=UTC)
POOLS = ("default", "big")

FOUNDING: dict[str, Any] = {
    "name": "daily_news_crawl",
    "command": "/data/spiders/news_spider",
    "args": ["--date", "{{.Yesterday}}"],
    "schedule": "0 2 * * *",
    "timeout": "30m",
    "max_retry": 2,
}

_ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati"])
_NAMES = st.from_regex("[A-Za-z0-9_][A-Za-z0-9._-]{0,12}", fullmatch=True)
_PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_TEXTS = _PLAIN.filter(lambda text: "{{" not in text)
_ENDS = st.lists(
    st.one_of(st.integers(1, 255), st.sampled_from(["failed", "signalled", "timed_out", "cannot_start", "empty"])),
    max_size=4,
    unique=True,
).map(tuple)


def _seconds(lowest: int, highest: int) -> st.SearchStrategy[timedelta]:
    return st.integers(lowest, highest).map(lambda seconds: timedelta(seconds=seconds))


def _instants(first: datetime, last: datetime) -> st.SearchStrategy[datetime]:
    return st.integers(int(first.timestamp()), int(last.timestamp())).map(lambda at: datetime.fromtimestamp(at, UTC))


_WINDOWS: dict[str, Any] = {
    "timezone": _ZONES,
    "start_at": st.none() | _instants(datetime(2020, 1, 1, tzinfo=UTC), NOW),
    "end_at": st.none() | _instants(datetime(2027, 6, 1, tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC)),
}
schedules = st.one_of(
    st.builds(
        ScheduleSpec,
        cron=st.sampled_from(["0 2 * * *", "*/15 * * * *", "H 3 * * mon-fri", "30 2 1 * *", "@daily"]),
        missing=st.sampled_from(Missing),
        repeated=st.sampled_from(Repeated),
        jitter=_seconds(0, 200),
        **_WINDOWS,
    ),
    st.integers(2, 86_400).flatmap(
        lambda every: st.builds(
            ScheduleSpec,
            every=st.just(timedelta(seconds=every)),
            offset=_seconds(0, every - 1),
            jitter=_seconds(0, (every - 1) // 2),
            **_WINDOWS,
        )
    ),
    st.builds(ScheduleSpec, at=_instants(NOW, datetime(2030, 1, 1, tzinfo=UTC)), timezone=_ZONES),
)


@st.composite
def _retries(draw: st.DrawFn) -> RetryPolicy:
    several = draw(st.booleans())
    delays = draw(st.lists(_seconds(0, 604_800), min_size=2 if several else 1, max_size=5 if several else 1))
    return RetryPolicy(
        delays=tuple(delays),
        factor=1.0 if several else draw(st.floats(1, 10)),
        cap=None if several else draw(st.none() | _seconds(int(delays[0].total_seconds()), 604_800)),
        jitter=draw(st.floats(0, 1)),
        retry_on=draw(_ENDS),
        fail_on=draw(_ENDS),
    )


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    """Any definition that a document can make at NOW."""
    params = draw(
        st.dictionaries(
            _NAMES,
            st.one_of(
                _PLAIN,
                st.booleans(),
                st.integers(-(2**63), 2**63 - 1),
                st.floats(allow_nan=False, allow_infinity=False),
            ),
            max_size=4,
        )
    )
    placeholders = ["{{.Yesterday}}", '{{ .ScheduledAt | shift "-1d" | date "%Y%m%d" }}', '{{"{{"}}']
    placeholders += [f"{{{{.params.{name}}}}}" for name in params]
    templates = st.lists(_TEXTS | st.sampled_from(placeholders), max_size=3).map("|".join)
    schedule = draw(st.none() | schedules)
    codes = draw(st.sampled_from([((0,), ()), ((0,), (4, 5)), ((0,), (7,))]))
    return Definition(
        name=draw(_NAMES),
        description=draw(_PLAIN),
        labels=draw(st.dictionaries(_NAMES, st.text("abc é漢😀", max_size=9), max_size=3)),
        command=draw(_TEXTS.filter(str.strip)),
        args=tuple(draw(st.lists(templates, max_size=4))),
        env=draw(st.dictionaries(_NAMES.filter(lambda name: not name.startswith("CLAWJOB_")), templates, max_size=3)),
        params=params,
        enabled=draw(st.booleans()),
        schedule=schedule,
        timezone=draw(_ZONES) if schedule is None else "UTC",
        timeout=draw(_seconds(1, 41_400)),
        grace=draw(_seconds(0, 110)),
        queue_deadline=draw(st.none() | _seconds(1, 1_209_600)),
        catch_up=CatchUp(
            draw(st.sampled_from(CatchUpMode)), draw(_seconds(60, 2_592_000)), draw(st.integers(1, 1_000))
        ),
        overlap=draw(st.sampled_from(Overlap)),
        max_retry=draw(st.integers(0, 100)),
        retry=draw(_retries()),
        resources=Resources(
            draw(st.none() | st.integers(2**24, 2**40)),
            draw(st.none() | st.integers(1, 604_800)),
            draw(st.none() | st.integers(16, 2**20)),
        ),
        pool=draw(st.sampled_from(POOLS)),
        success_exit_codes=codes[0],
        empty_exit_codes=codes[1],
        min_items=draw(st.none() | st.integers(1, 10**9)),
    )
