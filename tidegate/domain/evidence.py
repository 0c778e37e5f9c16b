"""Why a run is there, as JSON that is kept with it, and its input: what programs, people and reruns are told.

Evidence tells what each leaf collected: `leaves` [{node, type, topics [{key_id, type, key, from_n, to_n}], n, rows,
bytes, names, first_at, last_at, tick}], `timed_out_waiting`, `fire_time`, `at`. Ranges are of a topic's numbers, open
at `from_n`, closed at `to_n`; a topic has several where another run took what lies between. Pinning adds `events` (the
first and last ten) and `upstream`. Evidence that joins a waiting run is united with what the run has.

Input is, by dataset, everything from where the last started run's input ended (`Owed`) up to a number of its topic.
Both stores write these documents by the functions here. Instants in evidence are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tidegate.domain import events
from tidegate.domain.collected import Advance, Evidence, Facts, Progress, Subscription
from tidegate.domain.ids import RunKey
from tidegate.domain.instants import Instant, format_instant
from tidegate.domain.progress import advance
from tidegate.domain.schedules import JsonObject
from tidegate.domain.trees import tree_of
from tidegate.domain.triggers import DataSize, Elapsed, Happened, Partition, Since, Trigger

MOST_NAMES = 1000
"""Names of partitions in one leaf's evidence, and in one input."""
MOST_EVENTS = 10
"""Events that evidence tells from the beginning of its ranges, and from their end."""


EMPTY: JsonObject = {"leaves": [], "timed_out_waiting": False, "fire_time": None, "at": 0}
"""The evidence of a run that nothing made."""


# ── what a fire consumed ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How one subscription's topic was read: from `base` (where its progress began) over a bulk up to `bulk`, then the
    arrivals `singles` (pos, at, number), ascending."""

    subscription: Subscription
    key_id: int
    base: int
    bulk: int
    singles: tuple[tuple[int, Instant, int], ...] = ()

    @property
    def end(self) -> int:
        return self.singles[-1][2] if self.singles else self.bulk

    def consumed_by(self, fire: Evidence) -> int:
        """The number up to which a fire consumed this topic."""
        upto = self.bulk
        for pos, at, number in self.singles:
            if (pos > fire.pos) if fire.pos is not None else (at > fire.at):
                break
            upto = number
        return upto


def after(readings: Sequence[Reading], fire: Evidence) -> tuple[Reading, ...]:
    """The readings as they stand when a fire has consumed its part: the next one's ranges begin there."""
    return tuple([replace(one, base=max(one.base, one.consumed_by(fire))) for one in readings])


def document(trigger: Trigger, fire: Evidence, readings: Sequence[Reading]) -> dict[str, Any]:
    """The evidence of one fire."""
    nodes = tree_of(trigger).nodes
    leaves = []
    for node, tally in sorted(fire.tallies.items()):
        mine = [one for one in readings if one.subscription.node == node]
        leaves.append(
            {
                "node": node,
                "type": nodes[node].TYPE,
                "topics": [_range(one, fire) for one in mine],
                "n": tally.amount.n,
                "rows": tally.amount.rows,
                "bytes": tally.amount.bytes,
                "names": list(tally.names[:MOST_NAMES]),
                "first_at": tally.first_at,
                "last_at": tally.last_at,
                "tick": tally.tick,
            }
        )
    return {"leaves": leaves, "timed_out_waiting": fire.timed_out, "fire_time": fire.fire_time, "at": fire.at}


def _range(one: Reading, fire: Evidence) -> dict[str, Any]:
    topic = one.subscription.topic
    upto = max(one.base, one.consumed_by(fire))
    return {"key_id": one.key_id, "type": topic.type, "key": topic.key, "from_n": one.base, "to_n": upto}


def united(one: JsonObject | None, more: JsonObject) -> JsonObject:
    """Evidence that joins other evidence."""
    if not one:
        return more
    leaves = {leaf["node"]: leaf for leaf in one["leaves"]}
    for leaf in more["leaves"]:
        there = leaves.get(leaf["node"])
        leaves[leaf["node"]] = leaf if there is None else _united_leaf(there, leaf)
    return {
        **one,
        "leaves": [leaves[node] for node in sorted(leaves)],
        "timed_out_waiting": one["timed_out_waiting"] or more["timed_out_waiting"],
        "fire_time": _latest((one["fire_time"], more["fire_time"])),
        "at": max(one["at"], more["at"]),
    }


def _united_leaf(one: JsonObject, more: JsonObject) -> dict[str, Any]:
    return {
        **one,
        "topics": _united_ranges([*one["topics"], *more["topics"]]),
        **{measure: one[measure] + more[measure] for measure in ("n", "rows", "bytes")},
        "names": list(dict.fromkeys([*one["names"], *more["names"]]))[:MOST_NAMES],
        "first_at": min((at for at in (one["first_at"], more["first_at"]) if at is not None), default=None),
        "last_at": _latest((one["last_at"], more["last_at"])),
        "tick": _latest((one["tick"], more["tick"])),
    }


def _united_ranges(topics: Sequence[JsonObject]) -> list[JsonObject]:
    """Ranges that touch become one; between others lies what a run has that is gone."""
    found: list[JsonObject] = []
    for topic in sorted(topics, key=lambda one: (one["key_id"], one["from_n"], one["to_n"])):
        last = found[-1] if found else None
        if last is not None and last["key_id"] == topic["key_id"] and topic["from_n"] <= last["to_n"]:
            found[-1] = {**last, "to_n": max(last["to_n"], topic["to_n"])}
        else:
            found.append(topic)
    return found


def _latest(instants: Iterable[Instant | None]) -> Instant | None:
    return max((one for one in instants if one is not None), default=None)


# ── what a waiting run takes along ─────────────────────────────────────────────────────────────────────────────────


def take(trigger: Trigger, done: Advance, facts: Facts, now: Instant) -> Advance:
    """Everything collected so far goes into the run that is being admitted: the progress begins anew, as after a fire,
    but the tree has not fired. The last of `fires` is what was taken, if there was anything."""
    kept = {node: tally for node, tally in done.progress.tallies.items() if _is_kept(trigger, node)}
    taken = {node: tally for node, tally in done.progress.tallies.items() if node not in kept}
    if not taken:
        return done
    rest = Progress(tallies=kept, fired_at=done.progress.fired_at, seen=done.progress.seen)
    fresh = advance(trigger, rest, (), (), facts)
    return replace(fresh, fires=(*done.fires, shown(trigger, done.progress, now), *fresh.fires))


def shown(trigger: Trigger, progress: Progress, now: Instant) -> Evidence:
    """Progress as evidence, consumed by nobody: what a run that a person asks for takes as its input. It is all of it,
    also what arrived after `now`, the instant from which the reader looked."""
    arrived = _latest(tally.last_at for tally in progress.tallies.values())
    return Evidence(
        at=now if arrived is None else max(now, arrived),
        pos=None,
        fire_time=_latest(tally.tick for tally in progress.tallies.values()),
        tallies={node: tally for node, tally in progress.tallies.items() if not _is_kept(trigger, node)},
        timed_out=bool(progress.forced),
    )


def _is_kept(trigger: Trigger, node: int) -> bool:
    """`elapsed since last_event` keeps the last event: a fire does not consume it."""
    leaf = tree_of(trigger).nodes[node]
    return isinstance(leaf, Elapsed) and leaf.since is Since.LAST_EVENT


# ── input ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def datasets(trigger: Trigger) -> tuple[str, ...]:
    """Every dataset that a tree names, once, in preorder."""
    named = []
    for leaf in tree_of(trigger).nodes:
        match leaf:
            case Partition() | DataSize():
                named.append(leaf.dataset)
            case Happened(event=events.DATASET_UPDATED, key=str(dataset)):
                named.append(dataset)
    return tuple(dict.fromkeys(named))


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """Up to which number of its topic, and up to which snapshot, a dataset was handed to a started run."""

    n: int
    snapshot: int | str | None = None


def input_of(
    owed: Owed, to_n: int, payloads: Sequence[JsonObject], *, rows: int | None = None, bytes: int | None = None
) -> dict[str, Any]:
    """One dataset's input: everything after what was owed up to number `to_n`. `payloads` are those of its events in
    order (their first and last suffice when `rows` and `bytes` are given, but partitions are named by all)."""
    last = payloads[-1] if payloads else {}
    begin = owed.snapshot
    if begin is None and payloads:
        begin = payloads[0].get("previous_snapshot")
    if any(one.get("snapshot") is not None and one.get("previous_snapshot") is None for one in payloads):
        begin = None  # the table began anew meanwhile: everything in it is new
    names = dict.fromkeys(
        name for one in payloads for which in ("partitions_added", "partitions_changed") for name in one.get(which, ())
    )
    return {
        "from_snapshot": begin,
        "to_snapshot": last.get("snapshot", begin),
        "table_uuid": last.get("table_uuid"),
        "rows": sum(one.get("rows") or 0 for one in payloads) if rows is None else rows,
        "bytes": sum(one.get("bytes") or 0 for one in payloads) if bytes is None else bytes,
        "events": max(0, to_n - owed.n),
        "partitions": list(names)[:MOST_NAMES],
        "from_n": owed.n,
        "to_n": max(to_n, owed.n),
    }


def returned(owed: Owed, given: JsonObject) -> Owed | None:
    """Where a dataset stands when a run that has this input never starts; None: somebody took a later range."""
    if owed.n != given["to_n"] or given["to_n"] == given["from_n"]:
        return None
    return Owed(n=given["from_n"], snapshot=given["from_snapshot"])


def taken(given: JsonObject) -> Owed:
    """Where a dataset stands when this input was handed out."""
    return Owed(n=given["to_n"], snapshot=given["to_snapshot"])


def ranges(evidence: JsonObject) -> Mapping[int, tuple[int, int]]:
    """key_id -> (from_n, to_n), over all leaves."""
    found: dict[int, tuple[int, int]] = {}
    for leaf in evidence["leaves"]:
        for one in leaf["topics"]:
            low, high = found.get(one["key_id"], (one["from_n"], one["to_n"]))
            found[one["key_id"]] = (min(low, one["from_n"]), max(high, one["to_n"]))
    return found


T = TypeVar("T")


def first_and_last(events: Sequence[T]) -> list[T]:
    """The first ten and the last ten of what is in order."""
    if len(events) <= 2 * MOST_EVENTS:
        return list(events)
    return [*events[:MOST_EVENTS], *events[-MOST_EVENTS:]]


# ── what is told of events and runs ────────────────────────────────────────────────────────────────────────────────


def event_document(
    pos: int,
    type: str,
    key: str,
    id: str | None,
    source: str,
    time: Instant | None,
    at: Instant,
    payload: JsonObject,
) -> dict[str, Any]:
    """An event as a program is told of it: `time` is the publisher's, `arrived_at` the database's."""
    return {
        "pos": pos,
        "type": type,
        "key": key,
        "id": id,
        "source": source,
        "time": None if time is None else format_instant(time),
        "arrived_at": format_instant(at),
        "payload": payload,
    }


def upstream_of(
    run: RunKey,
    namespace: str,
    schedule: str,
    program: str,
    outcome: str,
    fire_time: Instant | None,
    arguments: JsonObject | None,
) -> dict[str, Any]:
    """The run that made this one run, as a program is told of it."""
    return {
        "id": str(run),
        "namespace": namespace,
        "schedule": schedule,
        "program": program,
        "outcome": outcome,
        "fire_time": None if fire_time is None else format_instant(fire_time),
        "arguments": dict(arguments or {}),
    }


def told(evidence: JsonObject | None, inputs: Mapping[str, JsonObject] | None) -> dict[str, Any]:
    """What the context of a run says of both: `events`, `evidence`, `inputs`, `upstream`, `timed_out_waiting`."""
    known = evidence or EMPTY
    return {
        "events": list(known.get("events", ())),
        "evidence": list(known["leaves"]),
        "inputs": dict(inputs or {}),
        "upstream": known.get("upstream"),
        "timed_out_waiting": known["timed_out_waiting"],
    }
