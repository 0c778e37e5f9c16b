"""What was decided within the grace after it was due ran; only what was later than that may be missed."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.domain.runs import State
from tidegate.sim.history import History, Violation, when

LAW = "grace_kept"


def check(history: History) -> Iterator[Violation]:
    schedules = {schedule.id: schedule for schedule in history.schedules}
    for stretch in history.stretches:
        if stretch.outcome is not State.MISSED:
            continue
        schedule = schedules[stretch.schedule_id]
        ruling = [one for one in schedule.revisions if one.valid_from < stretch.last][-1]
        if stretch.decided_at <= stretch.last + ruling.spec.catch_up.grace:
            yield Violation(
                LAW,
                f"{schedule.name}: the fire {when(stretch.last)} is missed, though it was decided at "
                f"{when(stretch.decided_at)}, within its grace",
            )
