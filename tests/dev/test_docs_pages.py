"""The page of the API's reference: whole, and from this machine only."""

import json
import re
import urllib.request
from collections.abc import Iterator

import pytest

from clawjob.api.app import describe
from clawjob.dev.docs_pages import DocsPages
from clawjob.dev.http_edge import HttpEdge
from support.clock import ManualClock


@pytest.fixture
def url(clock: ManualClock) -> Iterator[str]:
    edge = HttpEdge(clock, lambda: "request-1", pages=DocsPages(describe).answer)
    edge.start(lambda _event, _context: {"statusCode": 204}, lambda _event, _context: {"isAuthorized": False})
    yield edge.url
    edge.close()


def get(url: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.headers["content-type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["content-type"], error.read().decode()


def test_the_page_and_all_that_it_loads_are_here(url: str) -> None:
    status, media_type, page = get(f"{url}/docs")
    assert (status, media_type) == (200, "text/html; charset=utf-8")
    wanted = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert [one for one in wanted if not one.startswith(("/docs/", "data:"))] == []
    for path in wanted:
        if path.startswith("/"):
            assert get(url + path)[0] == 200
    start = get(f"{url}/docs/start.js")[2]
    assert "validatorUrl: null" in start
    assert json.loads(get(url + re.findall(r'url: "([^"]+)"', start)[0])[2]) == describe()


def test_the_browser_is_told_to_load_nothing_from_elsewhere(url: str) -> None:
    with urllib.request.urlopen(f"{url}/docs", timeout=10) as answer:
        policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "http" not in policy


@pytest.mark.parametrize("path", ["/docs/other.js", "/docs/../dev.json", "/docs/%2e%2e/index.css"])
def test_no_other_file_is_given(url: str, path: str) -> None:
    assert get(url + path)[0] == 404


def test_what_is_no_page_goes_to_the_gateway(url: str) -> None:
    assert get(f"{url}/docsother")[0] == 401
    assert get(f"{url}/api/v1/jobs")[0] == 401
