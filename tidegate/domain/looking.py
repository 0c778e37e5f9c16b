"""What a tree listens to, and when it is to be looked at again: topics, deadlines, and how much more must come.

Whatever cannot change a tree is not looked at: leaves that are satisfied, and everything inside a part that stays
satisfied until the tree fires.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.domain.collected import NOTHING, Deadline, Need, Node, Subscription, Topic
from tidegate.domain.folding import Fold
from tidegate.domain.latches import FOREVER, limited
from tidegate.domain.plugins import plugin_of
from tidegate.domain.trees import tree_of
from tidegate.domain.triggers import (
    TIME_TRIGGERS,
    All,
    AnyOf,
    Custom,
    DataSize,
    Elapsed,
    Happened,
    NOf,
    Partition,
    ProgramStatus,
    Quiet,
    Since,
    Trigger,
)


def subscriptions(trigger: Trigger) -> tuple[Subscription, ...]:
    """What the leaves of a tree listen to, in preorder.

    `elapsed since last_run` listens to no topic: the store looks at the schedule when a run of it ends.
    """
    found: list[Subscription] = []
    for node, leaf in enumerate(tree_of(trigger).nodes):
        found += (Subscription(node=node, topic=topic) for topic in topics(leaf))
    return tuple(found)


def topics(leaf: Trigger) -> Sequence[Topic]:
    """What one leaf listens to. The payload of a run's event says whether it was part of a backfill."""
    match leaf:
        case Partition() | DataSize():
            return (Topic("dataset.updated", leaf.dataset),)
        case Happened():
            return (Topic(leaf.event, leaf.key, None if leaf.match is None else canonical(leaf.match)),)
        case ProgramStatus():
            which = None if leaf.backfill else canonical({"backfill": False})
            return [Topic(f"run.{outcome}", leaf.program, which) for outcome in dict.fromkeys(leaf.outcomes)]
        case Elapsed(since=Since.LAST_EVENT):
            assert leaf.event is not None
            return (Topic(leaf.event, leaf.key),)
        case Custom():
            return tuple(dict.fromkeys(plugin_of(leaf.plugin).topics(leaf.parameters)))
        case _:
            return ()


def canonical(match: Mapping[str, Any]) -> str:
    """Equal JSON as equal text: the `match` of a topic."""
    return json.dumps(match, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def deadlines(fold: Fold) -> tuple[Deadline, ...]:
    """Those that are to be stored: of nodes that can still change the tree."""
    live = _live(fold)
    found = {Deadline(at=at, node=node) for at, node in (*fold.moments(), *fold.ticks()) if node in live}
    return tuple(sorted(found, key=lambda one: (one.at, one.node)))


def needs(fold: Fold) -> Mapping[Subscription, Need]:
    """How much more of each topic must come."""
    live = _live(fold)
    found: dict[Subscription, Need] = {}
    for node, leaf in enumerate(fold.tree.nodes):
        listens = topics(leaf)
        for topic in listens:
            named = isinstance(leaf, Partition | Custom) and not fold.leaf_satisfied(node)  # no sum tells these
            matters = node in live or named
            need = _need(fold, node, len(listens), waited=live.get(node, False)) if matters else Need()
            found[Subscription(node=node, topic=topic)] = need
    return found


def _need(fold: Fold, node: Node, topics: int, *, waited: bool) -> Need:
    """Of one of a leaf's topics. `waited`: a longest wait begins with whatever comes first."""
    leaf, amount = fold.tree.nodes[node], fold.tallies.get(node, NOTHING).amount
    match leaf:
        case Elapsed():
            return Need(n=1) if fold.elapsed_at(node, leaf) is None else Need()  # the end of a silence
        case _ if waited:
            return Need(n=1)
        case DataSize():
            if leaf.bytes is not None and amount.bytes < leaf.bytes:
                return Need(bytes=leaf.bytes - amount.bytes)
            return Need(rows=(leaf.rows or 0) - amount.rows)
        case Happened() | ProgramStatus():
            return Need(n=-(-(leaf.count - amount.n) // topics))  # one of them has its share before all have it
        case _:
            return Need(n=1)


def _live(fold: Fold) -> Mapping[Node, bool]:
    """The nodes that can still change the tree, and whether an `all` above waits for its first arrival."""
    lasting = _lasting(fold)
    found: dict[Node, bool] = {}
    open_ = [(0, False)]
    while open_:
        node, waited = open_.pop()
        if lasting[node]:
            continue
        trigger = fold.tree.nodes[node]
        if isinstance(trigger, All) and trigger.max_wait is not None:
            waited = waited or not _begun_for_good(fold, node)
        found[node] = waited
        open_ += ((child, waited) for child in fold.tree.children[node])
    return found


def _begun_for_good(fold: Fold, node: Node) -> bool:
    """Whether something came for a node that stays until the tree fires: an event, or a tick that holds."""
    inside = range(node, fold.tree.ends[node])
    held = (place for place, leaf in fold.tree.latching if place in inside and not limited(leaf))
    return any(tally.amount.n for _, tally in fold.arrived(node)) or any(place in fold.tallies for place in held)


def _lasting(fold: Fold) -> list[bool]:
    """Whether each node is satisfied and stays so until the tree fires, whatever comes."""
    answer = [False] * len(fold.tree.nodes)
    for node in range(len(answer) - 1, -1, -1):
        trigger = fold.tree.nodes[node]
        inner = [answer[child] for child in fold.tree.children[node]]
        match trigger:
            case Quiet():
                waited = fold.settled.get(node, FOREVER) + (trigger.max_wait or FOREVER)
                answer[node] = inner[0] and fold.now >= waited
            case All():
                answer[node] = node in fold.forced or node in fold.kept or all(inner)
            case AnyOf():
                answer[node] = any(inner)
            case NOf():
                answer[node] = sum(inner) >= trigger.n
            case Elapsed():
                pass
            case _:
                lasts = not (isinstance(trigger, TIME_TRIGGERS) and limited(trigger))
                answer[node] = lasts and fold.leaf_satisfied(node)
    return answer
