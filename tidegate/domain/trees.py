"""The shape of a trigger's tree: who is inside whom, and which time leaves fire by themselves.

A time leaf is *alone* when its tick satisfies the whole tree: at the root, or under `any` all the way up. Every other
time leaf only *latches*: its tick is remembered while the others are awaited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.domain.triggers import TIME_TRIGGERS, AfterFinish, AnyOf, TimeTrigger, Trigger, below

_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Tree:
    """A trigger and all inside it, by place in preorder. What is inside node i is `range(i + 1, ends[i])`."""

    nodes: tuple[Trigger, ...]
    ends: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    alone: tuple[tuple[int, TimeTrigger], ...]
    latching: tuple[tuple[int, TimeTrigger], ...]


_trees: dict[int, tuple[Trigger, Tree]] = {}


def tree_of(trigger: Trigger) -> Tree:
    """The shape of a trigger; remembered by identity, since values of triggers are shared and cannot all be hashed."""
    known = _trees.get(id(trigger))
    if known is not None and known[0] is trigger:
        return known[1]
    made = _build(trigger)
    if len(_trees) >= _KEPT:
        _trees.clear()
    _trees[id(trigger)] = (trigger, made)  # holds the trigger, so that nobody else gets its identity
    return made


def _build(trigger: Trigger) -> Tree:
    nodes: list[Trigger] = []
    ends: list[int] = []
    children: list[tuple[int, ...]] = []
    alone: list[tuple[int, TimeTrigger]] = []
    latching: list[tuple[int, TimeTrigger]] = []

    def visit(node: Trigger, by_itself: bool) -> int:
        place = len(nodes)
        nodes.append(node)
        ends.append(0)
        children.append(())
        if isinstance(node, TIME_TRIGGERS):
            (alone if by_itself else latching).append((place, node))
        inside = by_itself and isinstance(node, AnyOf)
        children[place] = tuple([visit(inner, inside) for inner in below(node)])
        ends[place] = len(nodes)
        return place

    visit(trigger, True)
    return Tree(tuple(nodes), tuple(ends), tuple(children), tuple(alone), tuple(latching))


def clockwork(trigger: Trigger) -> Trigger:
    """What decides the fires of a tree: its clock if it has just one, else the tree itself."""
    if isinstance(trigger, AnyOf) and len(found := clocks(trigger)) == 1:
        return found[0]
    return trigger


def clocks(trigger: Trigger) -> Sequence[TimeTrigger]:
    """The time triggers by which a tree fires on its own, each once. Of a single time trigger itself; `after_finish`
    is one only at the root."""
    if isinstance(trigger, TIME_TRIGGERS):
        return (trigger,)
    if not isinstance(trigger, AnyOf):
        return ()
    return tuple(dict.fromkeys(leaf for _, leaf in tree_of(trigger).alone if not isinstance(leaf, AfterFinish)))
