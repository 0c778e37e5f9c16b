"""Several runs of one schedule that wait: which of them a further fire joins, and which give way to it.

Under `merge` one run waits and takes in what comes; under `latest` the newest takes the place of the older ones; and
whatever the policy, no more than `max` wait. What a person asked for never merges and takes nobody's place
(`runs.MERGING`), nor does a run that had an attempt: it is not among those that wait here. What a backfill made is not
counted: its own limit says how many there are. While a schedule is held (`Mode.HOLD`) everything merges, fires of
clocks too. Both stores decide by this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.domain.ids import RunKey
from tidegate.domain.runs import MERGING, Cause, State
from tidegate.domain.schedules import Mode, Revision, Waiting, WaitingPolicy

TOO_MANY = "More than waiting.max runs of the schedule waited; this was the oldest."
NEWER = "A newer run of the schedule takes its place (waiting: latest)."


def policy_under(newest: Revision) -> WaitingPolicy:
    """The policy by which further runs of a schedule join or replace those that wait."""
    policy = newest.spec.waiting
    return replace(policy, runs=Waiting.MERGE) if newest.mode is Mode.HOLD else policy


def why_joined(newest: Revision, into: RunKey) -> str:
    """What stands in the row of a fire that joined an older run."""
    by = "suspended: hold" if newest.mode is Mode.HOLD else "waiting: merge"
    return f"It joined {into}, which was waiting ({by})."


def joined(
    policy: WaitingPolicy, *, claimed: RunKey | None, ticked: RunKey | None, survivor: RunKey | None
) -> RunKey | None:
    """The run that takes what a fire of a tree collected; None: the fire makes one.

    `claimed`: the run that the admitter is just letting go takes every fire. `ticked`: where a tick completed the tree,
    the clock's own run of that instant, whatever became of it, or the run that this one joined. `survivor`: the oldest
    that waits and merges.
    """
    if claimed is not None:
        return claimed
    if ticked is not None:
        return ticked
    return survivor if policy.runs is Waiting.MERGE else None


def crowded_out(policy: WaitingPolicy, waiting: Sequence[tuple[RunKey, Cause]]) -> Sequence[tuple[RunKey, State, str]]:
    """The runs that end since newer ones were added, as what, and why. `waiting`: oldest first, the added ones too."""
    mergers = [key for key, cause in waiting if cause in MERGING]
    replaced = mergers[:-1] if policy.runs is Waiting.LATEST else []
    left = [key for key, cause in waiting if key not in replaced and cause is not Cause.BACKFILL]
    surplus = left[: max(0, len(left) - policy.max)]
    return [
        *((key, State.SUPERSEDED, NEWER) for key in replaced),
        *((key, State.EXPIRED, TOO_MANY) for key in surplus),
    ]
