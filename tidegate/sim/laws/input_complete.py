"""No data is lost between runs, and none is handed out twice: the inputs of started runs follow each other, and what a
run that never started was given is given to the next, or was behind what had been handed out already."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.domain.runs import Cause
from tidegate.sim.history import History, RunFact, TreeFact, Violation

LAW = "input_complete"


def check(history: History) -> Iterator[Violation]:
    by_id = {str(run.key): run for run in history.runs}
    runs: dict[int, list[RunFact]] = {}
    for run in history.runs:
        if run.inputs is not None and run.moved:
            runs.setdefault(run.key.schedule_id, []).append(run)
    for tree in history.trees:
        if tree.collecting is not None:
            yield from _tree(tree, [run for run in runs.get(tree.schedule_id, []) if run.rev >= tree.resets[-1].rev])
    yield from _again(history, by_id)


def _tree(tree: TreeFact, runs: list[RunFact]) -> Iterator[Violation]:
    for run in runs:
        if run.started_at is None and run.finished_at is not None:
            yield from _returned(tree, run, runs)
    for dataset, owed in tree.owed.items():
        given = [(run.inputs[dataset], run) for run in runs if run.inputs and dataset in run.inputs]
        ranges = sorted((one["from_n"], one["to_n"], run.started_at is not None) for one, run in given)
        ranges = [one for one in ranges if one[1] > one[0]]
        started = [one for one in ranges if one[2]]
        for one, after in zip(started, started[1:], strict=False):
            if after[0] < one[1]:
                yield Violation(LAW, f"{tree.name}: {dataset} {one} and {after} were given to two runs")
        reached = ranges[0][0] if ranges else owed.n
        for low, high, _ in ranges:
            if low > reached:
                yield Violation(LAW, f"{tree.name}: {dataset} from {reached} to {low} was given to nobody")
            reached = max(reached, high)
        last = max((high for _, high, begun in ranges if begun), default=None)
        if last is not None and owed.n < last:
            yield Violation(LAW, f"{tree.name}: {dataset} is owed from {owed.n}, and was given up to {last}")


def _returned(tree: TreeFact, run: RunFact, runs: list[RunFact]) -> Iterator[Violation]:
    """What it was given is still owed, or another was given it since, or had been given something later by then."""
    assert run.inputs is not None and run.finished_at is not None
    for dataset, given in run.inputs.items():
        low, high = given["from_n"], given["to_n"]
        owed = tree.owed.get(dataset)
        if low == high or owed is None or owed.n <= low:
            continue
        for other in runs:
            if other.key != run.key and other.inputs and dataset in other.inputs:
                one = other.inputs[dataset]
                later = one["from_n"] >= high and (other.ready_at or 0) <= run.finished_at
                if later or (one["from_n"] <= low and one["to_n"] >= high):
                    break
        else:
            what = f"{dataset} from {low} to {high} was given to {run.key}, which never started, and to nobody since"
            yield Violation(LAW, f"{tree.name}: {what}")


def _again(history: History, by_id: dict[str, RunFact]) -> Iterator[Violation]:
    """A run that is run again has the identical input."""
    for run in history.runs:
        if run.cause is Cause.RERUN and run.inputs is not None:
            old = by_id.get(run.again or "")
            if old is not None and old.inputs is not None and old.inputs != run.inputs:
                yield Violation(LAW, f"run {run.key}: its input is not that of {old.key}, which it repeats")
