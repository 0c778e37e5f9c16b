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


def picture() -> list[str]:
    """A run's life, drawn from the table of moves. The ends that several states may come to are drawn as one."""
    began = [state for state in State if state in ENDS and state not in NEVER_STARTED]
    unbegun = [state for state in State if state in NEVER_STARTED and state in MOVES[State.WAITING]]
    lines = ["```mermaid", "stateDiagram-v2", f'    state "{", ".join(unbegun)}" as never']
    lines += [f'    state "{", ".join(began)}" as ended', "    [*] --> waiting: its trigger is satisfied"]
    for state in State:
        moves = MOVES[state]
        lines += [f"    {state} --> {other}" for other in State if other in moves and other not in ENDS]
        if moves & set(unbegun):
            lines.append(f"    {state} --> never")
        if moves & set(began):
            lines.append(f"    {state} --> ended")
    missed = [str(state) for state in NEVER_STARTED if not any(state in moves for moves in MOVES.values())]
    lines += [f"    [*] --> {state}: no run is made" for state in missed]
    return [*lines, "```"]


def page() -> str:
    """The whole page."""
    told = meanings()
    lines = [
        "# A run's states",
        "",
        "Made from the code by `python tools/run_states.py > docs/reference/run-states.md`; a test keeps it equal.",
        "",
        *picture(),
        "",
        "| State | What it means, and which part moves it on | May become |",
        "| --- | --- | --- |",
    ]
    for state in State:
        kind = "*(end, never started)* " if state in NEVER_STARTED else "*(end)* " if state in ENDS else ""
        moves = ", ".join([after for after in State if after in MOVES[state]]) or "-"
        lines.append(f"| {state} | {kind}{told[state.name]} | {moves} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
