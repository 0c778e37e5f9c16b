"""Explain: why a schedule has not run, or why a run did or did not, by the engine's own decision."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain.instants import Instant
from tidegate.ports.control import ControlStore


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
    `earliest`: when it can go on at the earliest; `release`: what would let it go on, where that is no instant."""

    verdict: str
    summary: str
    blocker: str | None
    earliest: Instant | None
    release: str | None
    tree: Node


async def of_schedule(store: ControlStore, namespace: str, name: str) -> Explanation:
    raise NotImplementedError


async def of_run(store: ControlStore, run_id: str) -> Explanation:
    raise NotImplementedError
