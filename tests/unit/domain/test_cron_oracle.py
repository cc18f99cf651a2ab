"""Against another implementation: in UTC, croniter must agree wherever it reads an expression rightly."""

from datetime import UTC, datetime, timedelta
from itertools import islice

from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from clawjob.domain.schedule import Schedule, ScheduleSpec


def items(low: int, high: int) -> st.SearchStrategy[str]:
    """One item of a list; without `a-a` and stepped wraps, which croniter reads wrongly."""
    value = st.integers(low, high)
    step = st.integers(1, high - low + 1)
    ascending = st.tuples(value, value).filter(lambda pair: pair[0] < pair[1])
    unequal = st.tuples(value, value).filter(lambda pair: pair[0] != pair[1])
    return st.one_of(
        value.map(str),
        unequal.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(ascending, step).map(lambda found: f"{found[0][0]}-{found[0][1]}/{found[1]}"),
        st.tuples(st.integers(low, high - 1), step).map(lambda found: f"{found[0]}/{found[1]}"),
    )


def fields(low: int, high: int, *others: str) -> st.SearchStrategy[str]:
    several = st.lists(items(low, high), min_size=1, max_size=3).map(",".join)
    star_step = st.integers(1, high - low + 1).map(lambda step: f"*/{step}")
    return st.one_of(st.just("*"), star_step, several, *(st.just(other) for other in others))


plain = st.tuples(
    fields(0, 59),
    fields(0, 23),
    fields(1, 31, "L", "1,L"),
    fields(1, 12, "feb", "JAN-mar"),
    fields(0, 6, "mon-fri", "7"),
).map(" ".join)
special = st.tuples(
    fields(0, 59),
    fields(0, 23),
    st.one_of(
        st.integers(1, 28).map(lambda day: f"{day}W *"),
        st.tuples(st.integers(0, 6), st.integers(1, 5)).map(lambda found: f"* {found[0]}#{found[1]}"),
        st.integers(0, 6).map(lambda day: f"* L{day}"),
    ),
).map(lambda found: "{} {} {} * {}".format(*found[:2], *found[2].split()))
starts = st.integers(0, 3_786_912_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


@settings(max_examples=150, deadline=None)
@given(st.one_of(plain, special), starts)
def test_croniter_finds_the_same_instants_in_utc(text: str, start: datetime) -> None:
    ours = [found.scheduled_at for found in islice(Schedule(ScheduleSpec(cron=text), "").after(start), 4)]
    horizon = start + timedelta(days=28 * 365)
    theirs = croniter(text, start, datetime, implement_cron_bug=True, max_years_between_matches=29)
    for instant in ours:
        if instant > horizon:
            return
        assert next(theirs) == instant
