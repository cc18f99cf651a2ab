"""All tests of the stack run in one process of pytest-xdist, so that the CDK starts once."""

from pathlib import Path

import pytest


# Before xdist looks for the groups, also where this folder is named on the command line.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of this folder in one group."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.xdist_group("infra"))
