"""At rest nothing waits that should have been taken: no event that completes a trigger, no deadline that has passed, no
subscription that would sleep through what it needs, no deadline that is not stored."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.domain.instants import SECOND
from tidegate.domain.progress import advance
from tidegate.sim.history import History, TreeFact, Violation, when
from tidegate.sim.memory.event_rows import SubscriptionRow

LAW = "nothing_forgotten"
SLACK = 15 * SECOND


def check(history: History) -> Iterator[Violation]:
    if history.calm_since is None:
        return
    for tree in history.trees:
        if tree.collecting is not None:
            yield from _tree(history, tree)


def _tree(history: History, tree: TreeFact) -> Iterator[Violation]:
    one = tree.collecting
    assert one is not None
    trigger = one.revision.spec.trigger
    if tree.deadlines and tree.deadlines[0].at < history.end - SLACK:
        yield Violation(LAW, f"{tree.name}: nobody looked at its deadline {when(tree.deadlines[0].at)}")
    now = advance(trigger, one.progress, one.bulk, one.given, one.facts)
    late = [fire for fire in now.fires if fire.at < history.end - SLACK]
    if late:
        yield Violation(LAW, f"{tree.name}: it should have fired at {when(late[0].at)}")
    stored = advance(trigger, one.progress, (), (), one.facts)
    wanted = min((deadline.at for deadline in stored.deadlines), default=None)
    if wanted is not None and not any(deadline.at <= wanted for deadline in tree.deadlines):
        yield Violation(LAW, f"{tree.name}: no deadline is stored for {when(wanted)}")
    for subscription, need in stored.needs.items():
        for (node, topic), row in tree.places.items():
            if node == subscription.node and history.topic_names[topic] == subscription.topic:
                yield from _sleeps(tree, node, row, (need.n, need.rows, need.bytes))


def _sleeps(tree: TreeFact, node: int, row: SubscriptionRow, needs: tuple[int | None, ...]) -> Iterator[Violation]:
    seen = (row.seen, row.seen_rows, row.seen_bytes)
    for need, before, stored in zip(needs, seen, row.marks, strict=True):
        if need is not None and (stored is None or stored > before + need):
            yield Violation(LAW, f"{tree.name}, leaf {node}: it is woken at {stored}, and needs {before + need}")
