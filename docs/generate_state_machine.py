"""Writes the picture and the table of docs/state-machine.md from the transition table of the code."""

import sys
from pathlib import Path

from clawjob.domain.run import FINAL, OPEN, TRANSITIONS, State

PAGE = Path(__file__).with_name("state-machine.md")
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"


def generated() -> str:
    """Return the generated part of the page."""
    moves = sorted({(move.source, move.target) for move in TRANSITIONS}, key=lambda move: _order(*move))
    picture = ["```mermaid", "stateDiagram-v2"]
    picture += [f"    {source.value if source else '[*]'} --> {target.value}" for source, target in moves]
    picture += [f"    {state.value} --> [*]" for state in State if state in FINAL]
    picture.append("```")
    table = ["| from | to | who | when |", "|---|---|---|---|"]
    table += [
        f"| {move.source.value if move.source else '(new)'} | {move.target.value} | {move.actor.value} | {move.when} |"
        for move in sorted(TRANSITIONS, key=lambda move: _order(move.source, move.target))
    ]
    counts = f"{len(OPEN)} open states, {len(FINAL)} final ones, {len(moves)} moves. No move leaves a final state."
    return "\n".join([counts, "", *picture, "", *table])


def with_generated(page: str) -> str:
    """Return the page with its generated part as it should be."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n\n{generated()}\n\n{END}{rest.split(END)[1]}"


def _order(source: State | None, target: State) -> tuple[int, int]:
    states = list(State)
    return (-1 if source is None else states.index(source), states.index(target))


if __name__ == "__main__":
    PAGE.write_text(with_generated(PAGE.read_text()))
    sys.stdout.write(f"wrote {PAGE.name}\n")
