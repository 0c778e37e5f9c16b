"""The fires of a trigger are those of a fold over single events, one after the other, however they were batched, and
whatever failed meanwhile.

What is timed depends on who was late, and what listens to several topics on which of two publishers came first, whose
order is known only where nothing failed: there all trees are folded, elsewhere those of one topic without anything
timed. `elapsed since last_run`, which depends on runs, is left to the other laws. Merging runs take along what was
collected, so only schedules whose runs all start are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.domain.collected import Arrival, Deadline, Evidence, Given, Subscription, Tick
from tidegate.domain.fires import ticking
from tidegate.domain.looking import subscriptions
from tidegate.domain.progress import advance, begin
from tidegate.domain.runs import MERGING, Cause
from tidegate.domain.schedules import Mode, Waiting
from tidegate.domain.trees import tree_of
from tidegate.domain.triggers import TIME_TRIGGERS, All, Elapsed, Quiet, Since, Trigger
from tidegate.sim.history import History, RunFact, TreeFact, Violation, when

LAW = "fires_folded"


def check(history: History) -> Iterator[Violation]:
    runs: dict[int, list[RunFact]] = {}
    for run in history.runs:
        if run.cause in MERGING:
            runs.setdefault(run.key.schedule_id, []).append(run)
    for tree in history.trees:
        one = tree.collecting
        if one is None or tree.set_aside or one.revision.spec.waiting.runs is not Waiting.ALL:
            continue
        if tree.modes & {Mode.KEEP, Mode.HOLD}:  # what came was passed by, or merged
            continue
        trigger = one.revision.spec.trigger
        plain = not _timed(trigger) and len({topic for _, topic in tree.places}) == 1
        if not _of_runs(trigger) and (plain or not history.injected):
            yield from _tree(history, tree, runs.get(tree.schedule_id, []))


def _tree(history: History, tree: TreeFact, runs: list[RunFact]) -> Iterator[Violation]:
    mine = [run for run in runs if run.rev >= tree.resets[-1].rev]
    had = sorted(_told(run.evidence) for run in mine if run.evidence is not None)
    ticks = [run.key.slot for run in mine if run.cause is Cause.FIRE and run.key.slot > tree.resets[-1].at]
    wanted = sorted(_folded(history, tree, ticks))
    if had != wanted:
        first = next((pair for pair in zip(had, wanted, strict=False) if pair[0] != pair[1]), None)
        what = f"{len(had)} fires, the fold has {len(wanted)}; the first that differ: {first}"
        yield Violation(LAW, f"{tree.name}, since {when(tree.resets[-1].at)}: {what}")


def _folded(history: History, tree: TreeFact, ticks: list[int]) -> list[tuple[Any, ...]]:
    """Event by event."""
    assert tree.collecting is not None
    trigger, reset = tree.collecting.revision.spec.trigger, tree.resets[-1]
    facts = tree.collecting.facts
    given: list[Given] = list(_arrivals(history, tree))
    given += [Tick(at=at, nodes=nodes) for at in ticks if (nodes := ticking(trigger, at))]
    seen = tree.collecting.progress.seen
    given.append(Deadline(at=max(reset.at, seen or 0), node=0))
    given.sort(key=lambda one: (one.at, (0, one.pos) if isinstance(one, Arrival) else (1, 0)))
    if not _timed(trigger):
        given = [one for one in given if isinstance(one, Arrival)]
    made = begin(trigger, facts)
    fires: list[Evidence] = []
    for one in given:
        made = advance(trigger, made.progress, (), [one], facts)
        fires += made.fires
    return [
        tuple(sorted((node, tally.amount.n, tally.amount.rows) for node, tally in fire.tallies.items()))
        for fire in fires
    ]


def _told(evidence: Any) -> tuple[Any, ...]:
    return tuple((leaf["node"], leaf["n"], leaf["rows"]) for leaf in evidence["leaves"])


def _arrivals(history: History, tree: TreeFact) -> Iterator[Arrival]:
    """Every event that reached it since it was enabled and was read, by position."""
    assert tree.collecting is not None
    trigger = tree.collecting.revision.spec.trigger
    found: dict[int, tuple[Any, list[Subscription]]] = {}
    for subscription in subscriptions(trigger):
        for (node, topic), row in tree.places.items():
            if node == subscription.node and history.topic_names[topic] == subscription.topic:
                base = tree.resets[-1].bases[node, topic]
                for arrival in history.topics[topic][base : row.seen]:
                    found.setdefault(arrival.pos, (arrival, []))[1].append(subscription)
    at = 0
    for pos, (arrival, ones) in sorted(found.items()):
        at = max(at, arrival.at)
        yield Arrival(
            pos=pos, at=at, subscriptions=tuple(ones), amount=arrival.amount, payload=arrival.event.payload or {}
        )


def _of_runs(trigger: Trigger) -> bool:
    return any(isinstance(node, Elapsed) and node.since is Since.LAST_RUN for node in tree_of(trigger).nodes)


def _timed(trigger: Trigger) -> bool:
    return any(
        isinstance(node, (*TIME_TRIGGERS, Quiet, Elapsed)) or (isinstance(node, All) and node.max_wait is not None)
        for node in tree_of(trigger).nodes
    )
