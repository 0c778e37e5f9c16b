"""Prints docs/reference/run-states.md from the code: the states, who moves them, and the moves that exist."""

from __future__ import annotations

import ast
import inspect

from tidegate.domain import runs
from tidegate.domain.runs import ENDS, MOVES, NEVER_STARTED, State


def meanings() -> dict[str, str]:
    """Each state's sentence: the string below the member in the source."""
    [states] = [
        node
        for node in ast.parse(inspect.getsource(runs)).body
        if isinstance(node, ast.ClassDef) and node.name == "State"
    ]
    told: dict[str, str] = {}
    for member, sentence in zip(states.body, states.body[1:], strict=False):
        if isinstance(member, ast.Assign) and isinstance(sentence, ast.Expr):
            told[ast.unparse(member.targets[0])] = str(ast.literal_eval(sentence.value))
    return told


def page() -> str:
    """The whole page."""
    told = meanings()
    lines = [
        "# A run's states",
        "",
        "Made from the code by `python tools/run_states.py > docs/reference/run-states.md`; a test keeps it equal.",
        "",
        "| State | What it means, and which part moves it on | May become |",
        "| --- | --- | --- |",
    ]
    for state in State:
        kind = "*(end, never started)* " if state in NEVER_STARTED else "*(end)* " if state in ENDS else ""
        moves = ", ".join(sorted(MOVES[state], key=list(State).index)) or "-"
        lines.append(f"| {state} | {kind}{told[state.name]} | {moves} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
