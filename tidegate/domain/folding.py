"""A tree on its way through what it is fed: what each leaf has, what is satisfied, and when it fires.

`progress.advance` feeds it and reads it out; `looking` asks what can still change it; `explaining` tells people why it
has not fired. So there is one place that says what satisfied means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tidegate.domain.collected import NOTHING, Amount, Arrival, Evidence, Facts, Node, Progress, Tally
from tidegate.domain.fires import count_fires, newest_fire, next_fire, nth_newest
from tidegate.domain.instants import Instant
from tidegate.domain.latches import latched_until, limited
from tidegate.domain.plugins import plugin_of
from tidegate.domain.trees import tree_of
from tidegate.domain.triggers import (
    TIME_TRIGGERS,
    All,
    AnyOf,
    Custom,
    DataSize,
    Elapsed,
    Happened,
    Never,
    NOf,
    Partition,
    ProgramStatus,
    Quiet,
    Since,
    Then,
    TimeTrigger,
    Trigger,
)

MOST_TICKS = 1000
"""So many ticks of one latching leaf are looked at between two things that come; of more, the newest."""


class Fold:
    """A tree on its way through what it is fed. The attributes are those of `Progress`, and what came of it."""

    def __init__(self, trigger: Trigger, progress: Progress, facts: Facts) -> None:
        self.tree = tree_of(trigger)
        self.facts = facts
        self.busy = facts.busy
        self.tallies = dict(progress.tallies)
        self.forced, self.kept = set(progress.forced), set(progress.kept)
        self.settled = dict(progress.settled)
        self.fired_at = progress.fired_at
        self.seen = facts.enabled_at if progress.seen is None else progress.seen
        self.now = self.seen
        self.fires: list[Evidence] = []

    # ── being fed ──────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, node: Node, amount: Amount, first: Instant, last: Instant, event: Arrival | None = None) -> None:
        """Something came for a leaf: one event, or many of which none matters by itself."""
        leaf, before = self.tree.nodes[node], self.tallies.get(node, NOTHING)
        last = last if before.last_at is None else max(before.last_at, last)
        if isinstance(leaf, Elapsed):
            self.tallies[node] = replace(before, last_at=last)
            return
        names, state = before.names, before.state
        if isinstance(leaf, Partition) and event is not None and len(names) < leaf.count:
            new = [*event.payload.get("partitions_added", ())]
            new += event.payload.get("partitions_changed", ()) if leaf.changed else ()
            names = tuple(dict.fromkeys((*names, *new)))[: leaf.count]
        if isinstance(leaf, Custom) and event is not None and not self._custom(leaf, before):
            plugin = plugin_of(leaf.plugin)
            state = plugin.add(leaf.parameters, plugin.start(leaf.parameters) if state is None else state, event)
        self.tallies[node] = Tally(
            amount=Amount(
                n=before.amount.n + amount.n,
                rows=before.amount.rows + amount.rows,
                bytes=before.amount.bytes + amount.bytes,
            ),
            first_at=first if before.first_at is None else min(before.first_at, first),
            last_at=last,
            names=names,
            state=state,
        )

    def tick(self, at: Instant, nodes: Sequence[Node] = ()) -> None:
        """It is `at`: time leaves that have a fire now latch, `nodes` have one besides."""
        fresh = at > self.seen
        self.seen = self.now = max(self.seen, at)
        for node, leaf in self.tree.latching:
            if node in nodes or (fresh and self._next_tick(leaf, at - 1) == at):
                before = self.tallies.get(node, NOTHING)
                held = before.tick is not None and latched_until(leaf, before.tick) >= at - 1
                newest = at if before.tick is None else max(before.tick, at)
                self.tallies[node] = Tally(first_at=before.first_at if held else at, last_at=newest, tick=newest)
        for node, _ in self.tree.alone:
            if node in nodes:
                self.tallies[node] = Tally(first_at=at, last_at=at, tick=at)
        self.decide(self.now, None)

    def silence(self, until: Instant) -> None:
        """Nothing comes up to and including `until`: look wherever time alone may change the answer."""
        if until <= self.seen:
            return
        floors = self._floors(until)
        while True:
            ticks = ((max(at, floors.get(node, at)), node) for at, node in self.ticks())
            at = min((at for at, _ in (*self.moments(), *self._ends(), *ticks) if at <= until), default=None)
            if at is None:
                self.seen = max(self.seen, until)
                self.now = max(self.now, self.seen)
                return
            self.tick(at)

    def _floors(self, until: Instant) -> Mapping[Node, Instant]:
        """Of leaves with more ticks to come than are looked at one by one: the first that is."""
        many = [
            (node, leaf)
            for node, leaf in self.tree.latching
            if limited(leaf) and count_fires(leaf, self.seen, until) > MOST_TICKS
        ]
        return {node: nth_newest(leaf, self.seen, until, MOST_TICKS) or until for node, leaf in many}

    # ── deciding ───────────────────────────────────────────────────────────────────────────────────────────────────

    def decide(self, at: Instant, pos: int | None) -> None:
        """Look at the tree as it is at an instant; if it is satisfied it fires and consumes everything."""
        self.now = max(self.now, at)
        self.seen = max(self.seen, self.now - 1)
        if self.satisfied()[0]:
            self.fires.append(self._evidence(pos))
            self._forget(0)
            self.fired_at = self.now
            self.busy = True

    def satisfied(self) -> list[bool]:
        """Whether each node is satisfied now; longest waits that are over are settled on the way, legs first."""
        answer = [False] * len(self.tree.nodes)
        for node in range(len(answer) - 1, -1, -1):
            answer[node] = self._satisfied(node, answer)
        return answer

    def _satisfied(self, node: Node, answer: list[bool]) -> bool:
        trigger = self.tree.nodes[node]
        inner = [answer[child] for child in self.tree.children[node]]
        match trigger:
            case Quiet():
                if not inner[0]:
                    self.settled.pop(node, None)
                    return False
                self.settled.setdefault(node, self.now)
                return self.now >= self.quiet_at(node, trigger)
            case All():
                if node in self.forced or node in self.kept:
                    return True
                return self._waited(node, trigger, all(inner))
            case AnyOf():
                return any(inner)
            case NOf():
                return sum(inner) >= trigger.n
            case _:
                return self.leaf_satisfied(node)

    def _waited(self, node: Node, trigger: All, complete: bool) -> bool:
        """An `all`: at the end of its longest wait it is decided, until the tree fires or it begins anew."""
        over = self.wait_over(node, trigger)
        if over is None or self.now < over:
            return complete
        if complete:
            self.kept.add(node)
        elif trigger.then is Then.RUN:
            self.forced.add(node)
        else:
            self._forget(node)
        return complete or trigger.then is Then.RUN

    def leaf_satisfied(self, node: Node) -> bool:
        """Whether a leaf has what it waits for."""
        leaf, tally = self.tree.nodes[node], self.tallies.get(node, NOTHING)
        match leaf:
            case Partition():
                return len(tally.names) >= leaf.count
            case DataSize():
                return tally.amount.bytes >= (leaf.bytes or 0) and tally.amount.rows >= (leaf.rows or 0)
            case Happened() | ProgramStatus():
                return tally.amount.n >= leaf.count
            case Elapsed():
                at = self.elapsed_at(node, leaf)
                return at is not None and self.now >= at
            case Custom():
                return self._custom(leaf, tally)
            case Never():
                return False
            case _:
                assert isinstance(leaf, TIME_TRIGGERS)
                return tally.tick is not None and self.now <= latched_until(leaf, tally.tick)

    def _custom(self, leaf: Custom, tally: Tally) -> bool:
        plugin = plugin_of(leaf.plugin)
        return plugin.satisfied(leaf.parameters, plugin.start(leaf.parameters) if tally.state is None else tally.state)

    def elapsed_at(self, node: Node, leaf: Elapsed) -> Instant | None:
        """From when on an `elapsed` is satisfied, if nothing more comes; None: not before something happens."""
        if leaf.since is Since.LAST_RUN:
            if self.busy:
                return None
            at = max(self.facts.enabled_at, self.facts.last_start or 0, self.fired_at or 0) + leaf.after
            return max(at, self.facts.last_end or 0)
        at = max(self.facts.enabled_at, self.tallies.get(node, NOTHING).last_at or 0) + leaf.after
        return None if self.fired_at is not None and self.fired_at >= at else at  # once per silence

    def quiet_at(self, node: Node, trigger: Quiet) -> Instant:
        """From when on a `quiet` whose trigger is satisfied is so itself, if nothing more comes."""
        last = [tally.last_at for _, tally in self.arrived(node) if tally.last_at is not None]
        at = max(last) + trigger.silence if last else self.now
        return at if trigger.max_wait is None else min(at, self.settled[node] + trigger.max_wait)

    def wait_over(self, node: Node, trigger: All) -> Instant | None:
        """When the longest wait of an `all` ends; None: it has none, or nothing came yet."""
        began = self.began(node) if trigger.max_wait is not None else None
        return None if began is None or trigger.max_wait is None else began + trigger.max_wait

    def began(self, node: Node) -> Instant | None:
        """The first of what came for the leaves inside a node and is still there: arrivals, and ticks that hold."""
        inside = range(node, self.tree.ends[node])
        first = [tally.first_at for _, tally in self.arrived(node) if tally.first_at is not None]
        for place, _ in self.tree.latching:
            tally = self.tallies.get(place, NOTHING)
            if place in inside and tally.first_at is not None and self.leaf_satisfied(place):
                first.append(tally.first_at)
        return min(first, default=None)

    def arrived(self, node: Node) -> Iterator[tuple[Node, Tally]]:
        """What events brought to the leaves inside a node; ticks aside."""
        inside = range(node, self.tree.ends[node])
        return ((place, tally) for place, tally in self.tallies.items() if place in inside and tally.tick is None)

    # ── instants at which time alone decides ───────────────────────────────────────────────────────────────────────

    def moments(self) -> Iterator[tuple[Instant, Node]]:
        """When silence changes the answer, by node."""
        for node, trigger in enumerate(self.tree.nodes):
            at: Instant | None = None
            match trigger:
                case Elapsed():
                    at = self.elapsed_at(node, trigger)
                case Quiet() if node in self.settled:
                    at = self.quiet_at(node, trigger)
                case All() if node not in self.forced and node not in self.kept:
                    at = self.wait_over(node, trigger)
                case _:
                    continue
            if at is not None and at > self.now:
                yield at, node

    def ticks(self) -> Iterator[tuple[Instant, Node]]:
        """The next ticks of the time leaves that latch; of one that holds until the tree fires, none."""
        for node, leaf in self.tree.latching:
            if limited(leaf) or self.tallies.get(node, NOTHING).tick is None:
                at = self._next_tick(leaf, self.seen)
                if at is not None:
                    yield at, node

    def _ends(self) -> Iterator[tuple[Instant, Node]]:
        """When ticks that are held cease to be."""
        for node, leaf in self.tree.latching:
            tick = self.tallies.get(node, NOTHING).tick
            if tick is not None and limited(leaf) and (end := latched_until(leaf, tick) + 1) > self.now:
                yield end, node

    def _next_tick(self, leaf: TimeTrigger, after: Instant) -> Instant | None:
        if self.facts.ticks_from is not None:
            after = max(after, self.facts.ticks_from - 1)
        return next_fire(leaf, after, last_fire=self.fired_at)

    # ── what is left ───────────────────────────────────────────────────────────────────────────────────────────────

    def _evidence(self, pos: int | None) -> Evidence:
        found: dict[Node, Tally] = {}
        for node, leaf in enumerate(self.tree.nodes):
            tally = self.tallies.get(node, NOTHING)
            match leaf:
                case Elapsed():
                    if self.leaf_satisfied(node):
                        found[node] = replace(tally, first_at=self.elapsed_at(node, leaf))
                case _ if tally.tick is None:
                    if tally.amount.n:
                        found[node] = tally
                case _ if self.leaf_satisfied(node):
                    found[node] = self.newest_tick(node, tally)
        ticks = [tally.tick for tally in found.values() if tally.tick is not None]
        return Evidence(
            at=self.now,
            pos=pos,
            fire_time=max(ticks, default=None),
            tallies=found,
            timed_out=bool(self.forced),
        )

    def newest_tick(self, node: Node, tally: Tally) -> Tally:
        """A tick that holds until the tree fires is not looked at again: which one is the newest is found here."""
        leaf = self.tree.nodes[node]
        assert isinstance(leaf, TIME_TRIGGERS)
        if limited(leaf) or all(place != node for place, _ in self.tree.latching):
            return tally
        newest = newest_fire(leaf, self.seen)
        if newest is None or tally.tick is None or newest <= max(tally.tick, (self.facts.ticks_from or 0) - 1):
            return tally
        return replace(tally, tick=newest, last_at=newest)

    def _forget(self, node: Node) -> None:
        """Everything that was collected inside a node. When something was last heard of is no progress, and stays."""
        inside = range(node, self.tree.ends[node])
        for place in [place for place in self.tallies if place in inside]:
            if not isinstance(self.tree.nodes[place], Elapsed):
                del self.tallies[place]
        for place in [place for place in self.settled if place in inside]:
            del self.settled[place]
        self.forced.difference_update(inside)
        self.kept.difference_update(inside)

    def progress(self) -> Progress:
        """What is to be kept."""
        over = [
            node
            for node, leaf in self.tree.latching
            if (tick := self.tallies.get(node, NOTHING).tick) is not None and latched_until(leaf, tick) < self.now
        ]
        began = {
            node: self.began(node)
            for node, trigger in enumerate(self.tree.nodes)
            if isinstance(trigger, All) and trigger.max_wait is not None
        }
        return Progress(
            tallies={node: tally for node, tally in sorted(self.tallies.items()) if node not in over},
            began={node: at for node, at in began.items() if at is not None},
            forced=frozenset(self.forced),
            kept=frozenset(self.kept),
            settled=dict(self.settled),
            fired_at=self.fired_at,
            seen=self.seen,
        )
