"""The algebra against a model that keeps all events and looks at every instant."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from progress_model import STEP, Came, Model, ticks_at
from sizes import examples

from tidegate.domain.collected import (
    Advance,
    Amount,
    Arrival,
    Bulk,
    Deadline,
    Evidence,
    Facts,
    Given,
    Subscription,
    Tick,
)
from tidegate.domain.looking import subscriptions
from tidegate.domain.progress import advance, begin
from tidegate.domain.trees import tree_of
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
)

END = 40 * STEP
SPANS = st.sampled_from([1, 2, 3, 5, 8, 13, 20]).map(lambda n: n * STEP)
LATCHES = st.sampled_from([None, None, 0, 1, 2, 4, 9]).map(lambda n: None if n is None else n * STEP)
COUNTS = st.sampled_from([1, 1, 2, 3, 5])
LEAVES = st.one_of(
    st.builds(Happened, event=st.just("user.x"), key=st.sampled_from(["n/a", "n/b", None]), count=COUNTS),
    st.builds(Partition, dataset=st.sampled_from("de"), count=COUNTS, changed=st.booleans()),
    st.builds(DataSize, dataset=st.sampled_from("de"), bytes=st.sampled_from([1, 5, 9])),
    st.builds(DataSize, dataset=st.just("d"), bytes=st.sampled_from([1, 5]), rows=st.sampled_from([2, 7])),
    st.builds(ProgramStatus, program=st.just("n/p"), outcomes=st.just(("succeeded", "failed")), count=COUNTS),
    st.builds(Elapsed, since=st.just(Since.LAST_RUN), after=SPANS),
    st.builds(Elapsed, since=st.just(Since.LAST_EVENT), after=SPANS, event=st.just("user.x"), key=st.just("n/a")),
    st.builds(At, time=st.integers(1, 39).map(lambda n: n * STEP), latch=LATCHES),
    st.builds(Interval, every=st.sampled_from(["PT3S", "PT5S", "PT11S"]), anchor=st.just(0), latch=LATCHES),
)


def trees(inner: st.SearchStrategy[Trigger]) -> st.SearchStrategy[Trigger]:
    some = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(AnyOf, triggers=some),
        st.builds(All, triggers=some, max_wait=st.none() | SPANS, then=st.sampled_from(Then)),
        st.builds(All, triggers=some, max_wait=st.none() | SPANS, then=st.sampled_from(Then)),
        some.flatmap(lambda of: st.builds(NOf, n=st.integers(1, len(of)), triggers=st.just(of))),
        st.builds(Quiet, trigger=inner, silence=SPANS, max_wait=st.none() | SPANS),
    )


TREES: st.SearchStrategy[Trigger] = st.recursive(LEAVES, trees, max_leaves=6)


def listeners(trigger: Trigger, type: str, key: str) -> tuple[Subscription, ...]:
    return tuple(one for one in subscriptions(trigger) if one.topic.type == type and one.topic.key in (key, None))


KINDS = [
    ("user.x", "n/a"),
    ("user.x", "n/b"),
    ("dataset.updated", "d"),
    ("dataset.updated", "e"),
    ("run.succeeded", "n/p"),
    ("run.failed", "n/p"),
]


def story(trigger: Trigger, chance: random.Random, many: int) -> list[tuple[Came, Arrival]]:
    """Events at random instants, as the model and as the algebra are told them."""
    found: list[tuple[Came, Arrival]] = []
    for pos, at in enumerate(sorted(chance.randrange(1, 40) * STEP for _ in range(many))):
        type, key = chance.choice(KINDS)
        reached = listeners(trigger, type, key)
        if not reached:
            continue
        data = type == "dataset.updated"
        rows, size = (chance.randrange(4), chance.randrange(4)) if data else (0, 0)
        added = tuple(chance.choice("pqrstu") for _ in range(chance.randrange(3))) if data else ()
        changed = tuple(chance.choice("pqrstu") for _ in range(chance.randrange(2))) if data else ()
        payload: dict[str, Any] = {"partitions_added": list(added), "partitions_changed": list(changed)}
        came = Came(at, pos, tuple(one.node for one in reached), rows, size, added, changed)
        amount = Amount(n=1, rows=rows, bytes=size)
        found.append((came, Arrival(pos=pos, at=at, subscriptions=reached, amount=amount, payload=payload)))
    return found


def own_ticks(trigger: Trigger, at: int) -> tuple[int, ...]:
    return tuple(node for node, leaf in tree_of(trigger).alone if ticks_at(leaf, at))


@dataclass
class Store:
    """Keeps what came, and looks at a tree only when a need is reached, a deadline is due or a clock ticks."""

    trigger: Trigger
    facts: Facts
    waiting: list[Arrival] = field(default_factory=list)
    fires: list[Evidence] = field(default_factory=list)
    looks: int = 0

    def __post_init__(self) -> None:
        self.state: Advance = begin(self.trigger, self.facts)
        self.extra: list[Deadline] = []

    def first_crossing(self) -> int | None:
        """The place of the first arrival that reaches a need."""
        sums = {one: [0, 0, 0] for one in self.state.needs}
        for place, arrival in enumerate(self.waiting):
            for one in arrival.subscriptions:
                total, need = sums[one], self.state.needs[one]
                for n, more in enumerate((arrival.amount.n, arrival.amount.rows, arrival.amount.bytes)):
                    total[n] += more
                wanted = (need.n, need.rows, need.bytes)
                if any(most is not None and most <= have for most, have in zip(wanted, total, strict=True)):
                    return place
        return None

    def due(self, now: int) -> list[Deadline]:
        return [one for one in (*self.state.deadlines, *self.extra) if one.at <= now]

    def look(self, ticks: Sequence[Tick], due: Sequence[Deadline], *, anyway: bool = False) -> None:
        crossing = self.first_crossing()
        if crossing is None and not ticks and not due and not anyway:
            return
        self.looks += 1
        single = len(self.waiting) if crossing is None else crossing
        timed: list[int] = [tick.at for tick in ticks] + [one.at for one in due]
        # At this very instant, and its time has not passed yet; what the end of a run stored is one of them.
        timed += [one.at for one in (*self.state.deadlines, *self.extra)]
        while single and timed and self.waiting[single - 1].at >= min(timed):
            single -= 1
        sums: dict[Subscription, Bulk] = {}
        for arrival in self.waiting[:single]:
            for one in arrival.subscriptions:
                before = sums.get(one)
                amount = arrival.amount
                if before is not None:
                    amount = Amount(
                        n=before.amount.n + 1,
                        rows=before.amount.rows + amount.rows,
                        bytes=before.amount.bytes + amount.bytes,
                    )
                first = arrival.at if before is None else before.first_at
                sums[one] = Bulk(subscription=one, amount=amount, first_at=first, last_at=arrival.at)
        now: list[Given] = [*self.waiting[single:], *ticks, *due]
        self.state = advance(self.trigger, self.state.progress, tuple(sums.values()), now, self.facts)
        self.waiting, self.extra = [], [one for one in self.extra if one not in due]
        if self.state.fires:
            self.fires += self.state.fires
            self.facts = replace(self.facts, busy=True)
            self.extra = []


def compare(model: Sequence[Evidence], real: Sequence[Evidence]) -> None:
    assert list(real) == list(model)


def batched(trigger: Trigger, seed: int, many: int) -> None:
    """Singly, whatever is taken together: the fires are those of the definition."""
    chance = random.Random(seed)
    model = Model(trigger, 0)
    events = story(trigger, chance, many)
    left = list(events)
    ticks: list[Tick] = []
    for at in range(STEP, END + STEP, STEP):
        while left and left[0][0].at == at:
            model.arrive(left.pop(0)[0])
        model.pass_time(at)
        model.pass_time(at + 1)
        if nodes := own_ticks(trigger, at):
            ticks.append(Tick(at=at, nodes=nodes))
    facts = Facts(enabled_at=0, last_start=None, busy=False)
    progress = begin(trigger, facts).progress
    fires: list[Evidence] = []
    cuts = sorted({chance.randrange(1, 40) * STEP for _ in range(chance.randrange(6))} | {END + 1})
    since = 0
    for cut in cuts:
        arrivals = [arrival for _, arrival in events if since < arrival.at <= cut]
        now = [tick for tick in ticks if since < tick.at <= cut]
        mixed: list[Given] = [*arrivals, *now, Deadline(at=cut, node=0)]
        chance.shuffle(mixed)
        result = advance(trigger, progress, (), mixed, facts)
        progress, since = result.progress, cut
        fires += result.fires
        facts = replace(facts, busy=facts.busy or bool(result.fires))
        assert all(one.at > cut for one in result.deadlines)
    compare(model.fires, fires)


def lazy(trigger: Trigger, seed: int, many: int, *, late: bool) -> int:
    """A store that looks only when it must, in time or late; runs begin at once and end after a while if in time."""
    note(repr(trigger))
    chance = random.Random(seed)
    events = story(trigger, chance, many)
    model = Model(trigger, 0)
    store = Store(trigger, Facts(enabled_at=0, last_start=None, busy=False))
    ends: int | None = None
    ticks: list[Tick] = []
    left = list(events)
    for at in range(STEP, END + STEP, STEP):
        if ends == at:
            model.busy, model.last_end, ends = False, at, None
            store.facts = replace(store.facts, busy=False, last_end=at)
            for node, leaf in enumerate(tree_of(trigger).nodes):
                if isinstance(leaf, Elapsed) and leaf.since is Since.LAST_RUN:
                    base = max(store.facts.last_start or 0, store.state.progress.fired_at or 0) + leaf.after
                    store.extra.append(Deadline(at=max(at, base), node=node))
        before = len(model.fires)
        awake = not late or chance.random() < 0.2 or at == END
        while left and left[0][0].at == at:
            came, arrival = left.pop(0)
            model.arrive(came)
            store.waiting.append(arrival)
            if awake and not late:
                store.look((), ())
        model.pass_time(at)
        if nodes := own_ticks(trigger, at):
            ticks.append(Tick(at=at, nodes=nodes))
        if awake:
            store.look(ticks, store.due(at))
            ticks = []
            while due := store.due(at):
                store.look((), due)
        model.pass_time(at + 1)
        while awake and (due := store.due(at + 1)):
            store.look((), due)
        if not late and len(model.fires) > before and ends is None:
            model.last_start = at
            store.facts = replace(store.facts, last_start=at)
            ends = at + chance.randrange(1, 9) * STEP
    compare(model.fires, store.fires)
    return store.looks


FAST = settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
MANY = settings(deadline=None, max_examples=800, suppress_health_check=[HealthCheck.too_slow])
SEEDS = st.integers(0, 2**32)
LENGTHS = st.integers(0, 25)


@pytest.mark.requirement("DATA-1", "DATA-2", "DATA-3", "DATA-4", "DATA-5", "DATA-6", "DATA-7", "DATA-8", "DATA-9")
@FAST
@given(TREES, SEEDS, LENGTHS)
def test_the_fires_are_those_of_the_definition_however_things_are_batched(tree: Trigger, seed: int, many: int) -> None:
    batched(tree, seed, many)


@pytest.mark.requirement("DATA-5", "DATA-10")
@FAST
@given(TREES, SEEDS, LENGTHS)
def test_a_store_that_looks_only_when_it_must_misses_nothing(tree: Trigger, seed: int, many: int) -> None:
    lazy(tree, seed, many, late=False)


@pytest.mark.requirement("DATA-5", "DATA-10")
@FAST
@given(TREES, SEEDS, LENGTHS)
def test_nor_does_one_that_was_away(tree: Trigger, seed: int, many: int) -> None:
    lazy(tree, seed, many, late=True)


@pytest.mark.slow
@MANY
@given(TREES, SEEDS, LENGTHS)
def test_the_same_with_many_more_trees(tree: Trigger, seed: int, many: int) -> None:
    batched(tree, seed, many)
    lazy(tree, seed, many, late=False)
    lazy(tree, seed, many, late=True)
