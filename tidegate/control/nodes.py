"""What every explanation is made of."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain.instants import Instant


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
