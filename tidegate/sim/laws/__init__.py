"""The laws, one file each. A law looks at a `History` and yields `Violation`s; it knows nothing of engine or store.

one_outcome            each owed fire has exactly one outcome, and nothing that no revision owed is on record
grace_kept             what was late by less than the grace ran
catch_up_kept          what was later ran only as its policy allows
one_run_a_key          no identity started twice, no run under way twice at a time
no_stale_writes        nobody wrote after being declared dead; leases are granted to one at a time, with rising tokens
limits_kept            concurrency and slots, as the backend saw them, at every moment
gates_kept             what was admitted met its constraints then, nothing was skipped while it still waited
rates_kept             first starts in any span, and the time since the last one
crashes_waited         who crashed unwatched starts again when schedulers have been up a while, as was said once
order_kept             nobody who waits for a slot is passed by one of a later rank
counters_add_up        counters, pools and statistics equal what the runs say
no_attempt_unaccounted what ran and what is on record agree, attempt by attempt
backfills_kept         no instant of a backfill twice, none lost, no more at a time than it may, and true counts
people_obeyed          what was cancelled, disabled or deleted starts no more
events_told            the event log tells each run's life once
events_counted         what runs were made of and what is being collected adds up to what came, leaf by leaf
fires_folded           triggers fired as a fold over single events says
input_complete         the inputs of started runs follow each other without a gap, and a rerun has the same
nothing_forgotten      at rest no trigger waits for what has come, or for an instant that has passed
sinks_told             every event reaches each sink that wants it, and first in the order of its lane
published_once         what was acknowledged is in the log, once, and topics number it without gaps
nothing_stuck          after the faults, what is due is decided and what lives moves on
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tidegate.sim.history import History, Violation
from tidegate.sim.laws import (
    backfills_kept,
    catch_up_kept,
    counters_add_up,
    crashes_waited,
    events_counted,
    events_told,
    fires_folded,
    gates_kept,
    grace_kept,
    input_complete,
    limits_kept,
    no_attempt_unaccounted,
    no_stale_writes,
    nothing_forgotten,
    nothing_stuck,
    one_outcome,
    one_run_a_key,
    order_kept,
    people_obeyed,
    published_once,
    rates_kept,
    sinks_told,
)

Law = Callable[[History], Iterator[Violation]]

LAWS: tuple[tuple[str, Law], ...] = (
    ("one_outcome", one_outcome.check),
    ("grace_kept", grace_kept.check),
    ("catch_up_kept", catch_up_kept.check),
    ("one_run_a_key", one_run_a_key.check),
    ("no_stale_writes", no_stale_writes.check),
    ("limits_kept", limits_kept.check),
    ("gates_kept", gates_kept.check),
    ("rates_kept", rates_kept.check),
    ("crashes_waited", crashes_waited.check),
    ("order_kept", order_kept.check),
    ("counters_add_up", counters_add_up.check),
    ("no_attempt_unaccounted", no_attempt_unaccounted.check),
    ("people_obeyed", people_obeyed.check),
    ("backfills_kept", backfills_kept.check),
    ("events_told", events_told.check),
    ("nothing_stuck", nothing_stuck.check),
    ("events_counted", events_counted.check),
    ("fires_folded", fires_folded.check),
    ("input_complete", input_complete.check),
    ("nothing_forgotten", nothing_forgotten.check),
    ("published_once", published_once.check),
    ("sinks_told", sinks_told.check),
)


NOT_AFTER_A_LOSS: Mapping[str, str] = {
    "limits_kept": "what a forgotten admission let go still runs, and holds nothing on record",
    "no_attempt_unaccounted": "a start may be on record under another token, and a run asked for by hand on none",
    "no_stale_writes": "a takeover may be forgotten, and numbers and tokens be given a second time",
    "crashes_waited": "that a scheduler came up may be forgotten",
    "people_obeyed": "what was asked for may be forgotten",
    "published_once": "what was acknowledged may be forgotten",
}
"""Laws that need every commit, and what stands against them where a standby took over without the last ones. The others
hold all the same: among them that each fire has one outcome, that no identity runs twice, and that nothing is stuck."""


def judge(history: History) -> list[Violation]:
    """Everything that is against a law, and every exception that no part should have raised."""
    found = [Violation("no_part_breaks", fault) for fault in history.faults]
    for name, check in LAWS:
        if not history.losses or name not in NOT_AFTER_A_LOSS:
            found.extend(check(history))
    return found
