"""The checker of histories sees what is wrong: each law is broken by a history in which one thing is not as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos.history import AttemptRow, History, Line, RunRow, Stretch, Told
from chaos.laws import LAWS, judge
from chaos.workload import COUNTS, GRIDS, TAKES_ALL

S = 1_000_000
FROM, TO = 1_200 * S, 1_212 * S


def right() -> History:
    """A short history in which all is well: grids of twelve seconds, six events, one run by hand."""
    runs, attempts, journal, told, answers = [], [], [], {}, []
    number = 0

    def run(schedule: str, at: int, cause: str, events: int = 0) -> None:
        nonlocal number
        number += 1
        key, id = (at, len(schedule), number), f"r{number}"
        runs.append(RunRow(schedule, *key, at if cause == "fire" else None, cause, "succeeded", at, at))
        attempts.append(AttemptRow(key, 1, number, "succeeded", at, at + 1000))
        journal.append(Line("B", id, 1, number, schedule, at + 10))
        journal.append(Line("E", id, 1, number, schedule, at + 20))
        told[key, "run.started"] = told[key, "run.succeeded"] = 1
        answers.append({"id": id, "schedule": schedule, "state": "succeeded", "cause": {"events": {"count": events}}})

    for schedule, width in GRIDS.items():
        for at in range(FROM + width, TO + 1, width):
            run(schedule, at, "fire")
    log = [("user.tick", f"t{n}") for n in range(6)] + [("dataset.updated", f"d{n}") for n in range(8)]
    log += [("user.tock", f"k{n}") for n in range(2)]
    for schedule, (kind, each) in COUNTS.items():
        for n in range(sum(one == kind for one, _ in log) // each):
            run(schedule, FROM + n * S, "evidence")
    for n in range(6):
        run("follows", FROM + n * S + 500, "evidence")
    for schedule in TAKES_ALL:
        run(schedule, FROM + 5, "evidence", 8 if schedule == "pair" else 2)
    run("by-hand", FROM, "manual")
    run("once", FROM + 7, "fire")
    sent = [Told(n, "run.started", f"chaos/{'ab'[n % 2]}") for n in range(1, 9)]
    return History(
        journal=journal,
        runs=runs,
        attempts=attempts,
        stretches=[],
        reigns=dict.fromkeys([*GRIDS, "once"], (FROM, TO)),
        log=log,
        told=told,
        owed=list(sent),
        arrived=list(sent),
        left={"runs that neither ended nor go on": 0},
        answers=answers,
        published=list(log),
        triggered=["r-by-hand"],
        once_at=FROM + 7,
    )


def without_fire(one: History) -> History:
    gone = next(run for run in one.runs if run.schedule == "every-second")
    return replace(one, runs=[run for run in one.runs if run is not gone])


def doubled(one: History) -> History:
    again = next(run for run in one.runs if run.schedule == "odd-cron")
    return replace(one, runs=[*one.runs, again._replace(ord=9999)])


def missed(one: History) -> History:
    less = without_fire(one)
    return replace(less, stretches=[Stretch("every-second", FROM + S, FROM + S, 1, "missed")])


def unrecorded(one: History) -> History:
    return replace(one, attempts=one.attempts[1:])


def before_record(one: History) -> History:
    return replace(one, journal=[one.journal[0]._replace(at=FROM - S), *one.journal[1:]])


def twice(one: History) -> History:
    return replace(one, journal=[*one.journal, one.journal[0]])


def same_fence(one: History) -> History:
    return replace(one, journal=[*one.journal, one.journal[0]._replace(attempt=2)])


def never_ended(one: History) -> History:
    return replace(one, journal=[line for line in one.journal if line != one.journal[1]])


def zombie(one: History) -> History:
    return replace(one, attempts=[one.attempts[0]._replace(outcome="lost"), *one.attempts[1:]])


def second_success(one: History) -> History:
    return replace(one, attempts=[*one.attempts, one.attempts[0]._replace(number=2, fence=9999)])


def not_sent(one: History) -> History:
    return replace(one, arrived=one.arrived[1:])


def sent_twice(one: History) -> History:
    return replace(one, arrived=[*one.arrived, one.arrived[-1]])


def sent_early(one: History) -> History:
    first, second, third, *others = one.arrived
    return replace(one, arrived=[third, second, first, *others])


def sent_for_nothing(one: History) -> History:
    return replace(one, arrived=[*one.arrived, Told(99, "run.started", "chaos/a")])


def at_once(one: History) -> History:
    return replace(one, journal=[one.journal[0], one.journal[1]._replace(at=FROM + 3 * S), *one.journal[2:]])


def lost_event(one: History) -> History:
    return replace(one, log=one.log[1:])


def counted_twice(one: History) -> History:
    return replace(one, runs=[*one.runs, next(run for run in one.runs if run.schedule == "three")._replace(ord=9999)])


def not_followed(one: History) -> History:
    gone = next(run for run in one.runs if run.schedule == "follows")
    return replace(one, runs=[run for run in one.runs if run is not gone])


def stuck(one: History) -> History:
    return replace(one, left={"attempts that are open": 1})


def untold(one: History) -> History:
    return replace(one, told={key: n for key, n in one.told.items() if key != next(iter(one.told))})


def unanswered(one: History) -> History:
    return replace(one, answers=one.answers[1:])


BREAKS: list[tuple[Callable[[History], History], str]] = [
    (without_fire, "every_fire_has_one_outcome"),
    (doubled, "every_fire_has_one_outcome"),
    (missed, "every_fire_has_one_outcome"),
    (unrecorded, "what_began_was_on_record"),
    (before_record, "what_began_was_on_record"),
    (twice, "an_attempt_begins_once"),
    (same_fence, "an_attempt_begins_once"),
    (never_ended, "ends_are_what_programs_did"),
    (zombie, "ends_are_what_programs_did"),
    (second_success, "a_run_succeeds_once"),
    (at_once, "limits_are_kept"),
    (lost_event, "every_event_counts_once"),
    (counted_twice, "every_event_counts_once"),
    (not_followed, "what_follows_follows"),
    (stuck, "nothing_is_left"),
    (untold, "everything_is_told_once"),
    (not_sent, "every_event_reaches_the_sink"),
    (sent_twice, "every_event_reaches_the_sink"),
    (sent_early, "every_event_reaches_the_sink"),
    (sent_for_nothing, "every_event_reaches_the_sink"),
    (unanswered, "the_doors_tell_the_same"),
]


def test_a_right_history_breaks_no_law() -> None:
    assert {law: faults for law, faults in judge(right()).items() if faults} == {}


@pytest.mark.parametrize(("change", "law"), BREAKS, ids=[change.__name__ for change, _ in BREAKS])
def test_what_is_wrong_is_seen(change: Callable[[History], History], law: str) -> None:
    assert judge(change(right()))[law]


def test_each_law_can_be_broken() -> None:
    assert {law for _, law in BREAKS} == {law.__name__ for law in LAWS}
