"""What every explanation is made of."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.control.sentences import times_of
from tidegate.domain.instants import Instant
from tidegate.domain.runs import State
from tidegate.ports.records import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One condition. `satisfied` None: nothing to say yes or no to."""

    node: str
    satisfied: bool | None
    value: object
    threshold: object
    why: str
    children: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """`verdict`: a word (disabled, idle, due, waiting, ready, running, or an end); `blocker`: what stands in the way;
    `earliest`: when it can go on at the earliest; `release`: the smallest change that would let it go on."""

    verdict: str
    summary: str
    blocker: str | None
    earliest: Instant | None
    release: str | None
    tree: Node


def attempt_nodes(record: RunRecord) -> tuple[Node, ...]:
    """Each attempt of a run, the first one first."""
    return tuple(
        Node(
            node=f"attempt {one.key.number}",
            satisfied=one.state == State.SUCCEEDED,
            value=one.state,
            threshold=None,
            why=times_of(one),
        )
        for one in record.attempts
    )
