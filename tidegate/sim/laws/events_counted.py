"""No event is lost or counted twice: what runs were made of and what is still being collected adds up, for each leaf
of each schedule, to all that came since it was enabled or last changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.domain.runs import MERGING
from tidegate.domain.schedules import Mode
from tidegate.domain.trees import tree_of
from tidegate.domain.triggers import All, Custom, Elapsed, Partition, Then, Trigger
from tidegate.sim.history import History, RunFact, TreeFact, Violation
from tidegate.sim.memory.event_rows import Reset

LAW = "events_counted"


def check(history: History) -> Iterator[Violation]:
    runs: dict[int, list[RunFact]] = {}
    for run in history.runs:
        if run.evidence is not None and run.cause in MERGING:
            runs.setdefault(run.key.schedule_id, []).append(run)
    for tree in history.trees:
        reset = tree.resets[-1]
        if tree.collecting is not None and not tree.set_aside:
            since = [run for run in runs.get(tree.schedule_id, []) if run.rev >= reset.rev]
            if Mode.KEEP not in tree.modes:  # what came while it was kept is passed by
                yield from _counted(history, tree, reset, since)
            if Mode.HOLD not in tree.modes:  # what the oldest took in came before and after what others have
                yield from _once(tree, reset, since)


def _counted(history: History, tree: TreeFact, reset: Reset, runs: Sequence[RunFact]) -> Iterator[Violation]:
    assert tree.collecting is not None
    trigger = tree.collecting.revision.spec.trigger
    for node in sorted(countable(trigger)):
        came, rows = 0, 0
        for (place, topic), row in tree.places.items():
            if place == node:
                base = reset.bases[place, topic]
                came += row.seen - base
                rows += sum(arrival.amount.rows for arrival in history.topics[topic][base : row.seen])
        leaves = [leaf for run in runs for leaf in (run.evidence or {})["leaves"] if leaf["node"] == node]
        tally = tree.collecting.progress.tallies.get(node)
        counted = sum(leaf["n"] for leaf in leaves) + (tally.amount.n if tally else 0)
        counted_rows = sum(leaf["rows"] for leaf in leaves) + (tally.amount.rows if tally else 0)
        if (counted, counted_rows) != (came, rows):
            what = f"{tree.name}, leaf {node}: {came} events with {rows} rows came, {counted} with {counted_rows} count"
            yield Violation(LAW, what)


def _once(tree: TreeFact, reset: Reset, runs: Sequence[RunFact]) -> Iterator[Violation]:
    """No two runs have the same piece of a topic."""
    taken: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for run in runs:
        for leaf in (run.evidence or {})["leaves"]:
            for one in leaf["topics"]:
                if one["to_n"] > one["from_n"]:
                    taken.setdefault((leaf["node"], one["key_id"]), []).append((one["from_n"], one["to_n"]))
    for (node, topic), ranges in taken.items():
        ranges.sort()
        if ranges[0][0] < reset.bases.get((node, topic), 0):
            yield Violation(LAW, f"{tree.name}, leaf {node}: something from before it was enabled counts")
        for one, after in zip(ranges, ranges[1:], strict=False):
            if after[0] < one[1]:
                yield Violation(LAW, f"{tree.name}, leaf {node}: {one} and {after} of topic {topic} are of two runs")


def countable(trigger: Trigger) -> set[int]:
    """Leaves that count every event that reaches them exactly once, where nothing is ever given up: not partitions,
    of which each name counts once, nor what keeps no count; and nothing in a tree that discards."""
    tree = tree_of(trigger)
    if any(isinstance(node, All) and node.then is Then.DISCARD for node in tree.nodes):
        return set()
    return {
        place
        for place, leaf in enumerate(tree.nodes)
        if not tree.children[place] and not isinstance(leaf, Partition | Elapsed | Custom)
    }
