"""What collecting means, said as simply as possible: keep everything that came, and look at every instant.

Time is in steps of a second; besides, each step is looked at a microsecond later, when a tick may cease to hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.domain.collected import Amount, Evidence, Tally
from tidegate.domain.triggers import (
    All,
    AnyOf,
    At,
    DataSize,
    Elapsed,
    Happened,
    Interval,
    NOf,
    Partition,
    ProgramStatus,
    Quiet,
    Since,
    Then,
    Trigger,
    below,
    nodes,
)

STEP = 1_000_000


def ticks_at(leaf: Trigger, at: int) -> bool:
    """Whether a time leaf has a fire at an instant."""
    if isinstance(leaf, At):
        return leaf.time == at
    return isinstance(leaf, Interval) and at % (int(leaf.every[2:-1]) * STEP) == 0


@dataclass(frozen=True)
class Came:
    """An event: how much, which partitions it adds, which leaves it reaches."""

    at: int
    pos: int
    nodes: tuple[int, ...]
    rows: int
    bytes: int
    added: tuple[str, ...]
    changed: tuple[str, ...]


@dataclass
class Model:
    trigger: Trigger
    enabled_at: int
    now: int = 0
    busy: bool = False
    last_start: int | None = None
    last_end: int = 0
    fired_at: int | None = None
    came: list[tuple[int, Came]] = field(default_factory=list)  # by leaf, not consumed
    ticked: list[tuple[int, int]] = field(default_factory=list)  # by leaf
    heard: dict[int, int] = field(default_factory=dict)  # by leaf: of the last event there ever was
    since: dict[int, int] = field(default_factory=dict)
    decided: dict[int, str] = field(default_factory=dict)
    fires: list[Evidence] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = list(nodes(self.trigger))

    # ── what happens ───────────────────────────────────────────────────────────────────────────────────────────────

    def arrive(self, event: Came) -> None:
        self.now = event.at
        for node in event.nodes:
            self.heard[node] = event.at
            if not isinstance(self.nodes[node], Elapsed):
                self.came.append((node, event))
        self.look(event.pos)

    def pass_time(self, at: int) -> None:
        """It is `at`, after everything that arrived at that instant."""
        self.now = at
        self.ticked += [
            (node, at) for node, leaf in enumerate(self.nodes) if at > self.enabled_at and ticks_at(leaf, at)
        ]
        self.look(None)

    def look(self, pos: int | None) -> None:
        if self.holds(0):
            self.fires.append(self.evidence(pos))
            self.forget(0)
            self.fired_at, self.busy = self.now, True

    # ── the definition ─────────────────────────────────────────────────────────────────────────────────────────────

    def inside(self, node: int) -> range:
        return range(node, node + sum(1 for _ in nodes(self.nodes[node])))

    def children(self, node: int) -> Iterator[int]:
        child = node + 1
        for inner in below(self.nodes[node]):
            yield child
            child += sum(1 for _ in nodes(inner))

    def holds(self, node: int) -> bool:
        trigger = self.nodes[node]
        inner = [self.holds(child) for child in self.children(node)]
        match trigger:
            case AnyOf():
                return any(inner)
            case NOf():
                return sum(inner) >= trigger.n
            case Quiet():
                if not inner[0]:
                    self.since.pop(node, None)
                    return False
                self.since.setdefault(node, self.now)
                last = max([self.heard_of(place) for place in self.inside(node)])
                waited = trigger.max_wait is not None and self.now >= self.since[node] + trigger.max_wait
                return self.now >= last + trigger.silence or waited
            case All():
                if node in self.decided:
                    return True
                first = [self.first(place) for place in self.inside(node)]
                began = min([one for one in first if one is not None], default=None)
                if trigger.max_wait is None or began is None or self.now < began + trigger.max_wait:
                    return all(inner)
                if all(inner):
                    self.decided[node] = "kept"
                elif trigger.then is Then.RUN:
                    self.decided[node] = "forced"
                else:
                    self.forget(node)
                return node in self.decided
            case _:
                return self.leaf_holds(node)

    def heard_of(self, node: int) -> int:
        """The last event that counts for a quiet above: of progress, or of a silence."""
        if isinstance(self.nodes[node], Elapsed):
            return self.heard.get(node, -(10**12))
        return max((event.at for place, event in self.came if place == node), default=-(10**12))

    def first(self, node: int) -> int | None:
        """When the first came of what a leaf has now."""
        events = [event.at for place, event in self.came if place == node]
        return min(events) if events else self.latched_since(node)

    def latched_since(self, node: int) -> int | None:
        """Since when a time leaf's ticks have held without a break, if they hold now."""
        leaf = self.nodes[node]
        ticks = sorted(at for place, at in self.ticked if place == node)
        if not ticks or not isinstance(leaf, At | Interval):
            return None
        if leaf.latch is None:
            return ticks[0]
        if ticks[-1] + leaf.latch < self.now:
            return None
        since = ticks.pop()
        while ticks and ticks[-1] + leaf.latch >= since - 1:
            since = ticks.pop()
        return since

    def elapsed_at(self, node: int, leaf: Elapsed) -> int | None:
        if leaf.since is Since.LAST_RUN:
            bases = (self.enabled_at, self.last_start or 0, self.fired_at or 0)
            return None if self.busy else max(max(bases) + leaf.after, self.last_end)
        at = max(self.enabled_at, self.heard.get(node, 0)) + leaf.after
        return None if self.fired_at is not None and self.fired_at >= at else at

    def leaf_holds(self, node: int) -> bool:
        leaf, events = self.nodes[node], [event for place, event in self.came if place == node]
        match leaf:
            case Partition():
                return len(self.names(leaf, events)) >= leaf.count
            case DataSize():
                return sum(one.bytes for one in events) >= (leaf.bytes or 0) and sum(one.rows for one in events) >= (
                    leaf.rows or 0
                )
            case Happened() | ProgramStatus():
                return len(events) >= leaf.count
            case Elapsed():
                at = self.elapsed_at(node, leaf)
                return at is not None and self.now >= at
            case At() | Interval():
                return self.latched_since(node) is not None
            case _:
                return False

    def names(self, leaf: Partition, events: Sequence[Came]) -> tuple[str, ...]:
        found: list[str] = []
        for event in events:
            found += event.added
            found += event.changed if leaf.changed else ()
        return tuple(dict.fromkeys(found))

    def forget(self, node: int) -> None:
        inside = self.inside(node)
        self.came = [(place, one) for place, one in self.came if place not in inside]
        self.ticked = [(place, at) for place, at in self.ticked if place not in inside]
        for memory in (self.since, self.decided):
            for place in [place for place in memory if place in inside]:
                del memory[place]

    def evidence(self, pos: int | None) -> Evidence:
        tallies = {node: self.tally(node) for node in range(len(self.nodes))}
        kept: Mapping[int, Tally] = {node: tally for node, tally in tallies.items() if tally is not None}
        ticks = [tally.tick for tally in kept.values() if tally.tick is not None]
        return Evidence(
            at=self.now,
            pos=pos,
            fire_time=max(ticks, default=None),
            tallies=kept,
            timed_out="forced" in self.decided.values(),
        )

    def tally(self, node: int) -> Tally | None:
        leaf, events = self.nodes[node], [event for place, event in self.came if place == node]
        if isinstance(leaf, Elapsed):
            held = self.leaf_holds(node)
            return Tally(first_at=self.elapsed_at(node, leaf), last_at=self.heard.get(node)) if held else None
        if isinstance(leaf, At | Interval):
            since = self.latched_since(node)
            newest = max((at for place, at in self.ticked if place == node), default=None)
            return None if since is None else Tally(first_at=since, last_at=newest, tick=newest)
        if not events:
            return None
        return Tally(
            amount=Amount(n=len(events), rows=sum(one.rows for one in events), bytes=sum(one.bytes for one in events)),
            first_at=events[0].at,
            last_at=events[-1].at,
            names=self.names(leaf, events)[: leaf.count] if isinstance(leaf, Partition) else (),
        )
