"""What is left of a stack that is destroyed."""

from support.deployed import Stack


def test_destroying_leaves_exactly_what_is_written_here(deployed: Stack) -> None:
    print(deployed.destroy())
    print(deployed.resources())
