"""Tables kept healthy for two weeks of nights at an equal budget: by scripts, by debt rules of another, and by ours.

In a model: two hundred tables with writers that go on at night, files as sizes, Iceberg's planner as it is computed for
predictions. `everything` rewrites all files of all tables, night after night, going on where the budget ended.
`script` calls Iceberg's rewrite on every table with its usual options, in the order of their names. `debt` follows the
rules of a scheduler that is described elsewhere: conditions, the worst debt first, a pause after three failures, half
as often after five runs without a change, a budget that is looked at before a launch. `ours` is what the product
decides (`decide_all`, rank: value), with its small steps and smaller retries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter

from bench.figures import Figure, Say, at_least, at_most
from bench.peer_lake import RATE, STARTS, Group, Table, lake, plan, replace
from tidegate.domain.instants import DAY, HOUR, SECOND, Instant, parse_instant
from tidegate.domain.maintenance.budget import Spend
from tidegate.domain.maintenance.choosing import decide_all
from tidegate.domain.maintenance.clock import Clock
from tidegate.domain.maintenance.debt import debt
from tidegate.domain.maintenance.decision import Table as Known
from tidegate.domain.maintenance.decision import Terms, Verdict
from tidegate.domain.maintenance.health import GIB
from tidegate.domain.maintenance.issues import DEFAULT_THRESHOLDS, issues
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.maintenance.options import Options
from tidegate.domain.maintenance.patterns import TablePattern
from tidegate.domain.maintenance.policy import Budget, Policy, Rank, Rule, Schedule
from tidegate.domain.maintenance.state import History, TableState, began, ended, held, skipped
from tidegate.domain.maintenance.value import HOT, predictions, step_bytes
from tidegate.domain.triggers import Cron
from tidegate.lake.estimating import in_steps

START = parse_instant("2026-11-01T00:00:00Z")
OPENS, WINDOW = HOUR, 5 * HOUR
REWRITE = Operation.REWRITE_DATA_FILES
TRIES, SMALLER = 3, 8
"""As the product has them: how often a run is tried, and how much smaller each time."""


@dataclass
class Night:
    """One night of one keeper: the time, what is left of its budget, and what is counted over all nights."""

    now: Instant
    ends: Instant
    left: int
    sums: Sums

    def over(self) -> bool:
        return self.now >= self.ends or self.left <= 0

    def rewrite(self, table: Table, options: Options, *, steps: bool = False) -> tuple[bool, bool, int, float]:
        """One run: whether it succeeded, whether it changed anything, the bytes it wrote, and its seconds.

        Without steps everything is committed at the end, and one conflict loses all of it."""
        began_at, self.sums.launches = self.now, self.sums.launches + 1
        self.now += int(STARTS * SECOND)
        table.until(self.now)
        groups = list(plan(table, options))
        batches = [[one] for one in groups] if steps else [groups]
        wrote, fine, changed = 0, True, False
        for batch in batches:
            size = sum(one.bytes for one in batch)
            self.now += int(size / RATE * SECOND)
            wrote += size
            touched = {id(one) for one in table.until(self.now)}
            if any(id(file) in touched for one in batch for file in one.files):
                self.sums.conflicts += 1
                self.sums.wasted += size
                fine = False
                continue
            for one in batch:
                self._commit(table, one)
                changed = True
        self.left -= wrote
        self.sums.bytes += wrote
        self.sums.noops += not groups
        took = (self.now - began_at) / SECOND
        self.sums.seconds += took
        return fine, changed, wrote, took

    def _commit(self, table: Table, group: Group) -> None:
        before = table.opened
        replace(table, group)
        self.sums.removed += before - table.opened


@dataclass
class Sums:
    """`removed`: files that a scan of everything need not open any more; `opened`: what scans opened on the mornings,
    by how often a table is read."""

    removed: int = 0
    bytes: int = 0
    wasted: int = 0
    conflicts: int = 0
    launches: int = 0
    noops: int = 0
    overshot: int = 0
    seconds: float = 0.0
    opened: list[float] = field(default_factory=list)


Keeper = Callable[[dict[str, Table], Night], None]


# ── scripts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _script(options: Options) -> Keeper:
    """Every table in the order of names, going on the next night where the budget ended."""
    place = [0]

    def night(tables: dict[str, Table], night: Night) -> None:
        names = sorted(tables)
        for _ in range(len(names)):
            if night.over():
                return
            night.rewrite(tables[names[place[0] % len(names)]], options)
            place[0] += 1

    return night


# ── the rules of another ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Record:
    last: Instant | None = None
    recent: tuple[bool, ...] = ()
    failures: int = 0
    unchanged: int = 0


def _debt() -> Keeper:
    records: dict[str, _Record] = {}

    def night(tables: dict[str, Table], night: Night) -> None:
        worst = []
        for name, table in tables.items():
            health, record = table.health(night.now), records.setdefault(name, _Record())
            small, deletes = health.small_file_percent or 0, health.delete_files or 0
            if small < 20 and (health.small_files or 0) < 100 and deletes < 50:
                continue
            found = issues(health, DEFAULT_THRESHOLDS, night.now)
            worst.append((-debt(health, found, record.recent, record.failures, night.now).score, name))
        for _, name in sorted(worst):
            record = records[name]
            since = night.now - record.last if record.last is not None else None
            wait = 6 * HOUR if record.failures >= 3 else 0
            wait = max(wait, 2 * DAY - WINDOW if record.unchanged >= 5 else 0)
            if night.over() or (since is not None and since < wait):
                continue
            record.last = night.now
            fine, changed, _, _ = night.rewrite(tables[name], {})
            record.recent = (fine, *record.recent)[:10]
            record.failures = 0 if fine else record.failures + 1
            record.unchanged = 0 if changed else record.unchanged + 1

    return night


# ── ours ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _ours(budget: int) -> Keeper:
    rule = Rule(operation=REWRITE, schedule=Schedule(trigger=Cron(expression="0 1 * * *", timezone="UTC")))
    limits = Budget(bytes=budget, per=20 * HOUR)
    policy = Policy(
        name="lake", tables=TablePattern("lake.**"), operations={REWRITE: rule}, budget=limits, rank=Rank.VALUE
    )
    histories: dict[str, History] = {}
    spent: list[Spend] = []

    def night(tables: dict[str, Table], night: Night) -> None:
        while not night.over():
            known = [_known(one, policy, histories.get(one.name, History()), night.now) for one in tables.values()]
            decided = decide_all(known, Terms(clock=Clock(night.now), spent={"lake": spent}))
            chosen = []
            for name, (one,) in decided.items():
                match one.verdict:
                    case Verdict.RUN:
                        chosen.append(name)
                    case Verdict.SKIP:
                        histories[name] = skipped(histories.get(name, History()), tables[name].seen + 1, night.now)
                    case Verdict.HOLD:
                        histories[name] = held(histories.get(name, History()), night.now)
            if not chosen:
                return
            for name in chosen:
                if night.over():
                    break
                at = night.now
                histories[name] = began(histories.get(name, History()), name, at)
                fine, changed, wrote, took = _careful(tables[name], night)
                spent.append(Spend(at=at, table=name, bytes=wrote, open=False))
                told = {"outcome": "succeeded" if fine else "failed", "succeeded": fine, "changed": changed}
                histories[name] = ended(histories[name], at=night.now, took=int(took * SECOND), bytes=wrote, **told)  # type: ignore[arg-type]

    return night


def _known(table: Table, policy: Policy, history: History, now: Instant) -> Known:
    health = table.health(now)
    state = TableState(
        table=table.name,
        since=START - DAY,
        health=health,
        histories={REWRITE: history},
        predictions=predictions(policy, health, now),
    )
    return Known(state=state, policy=policy)


def _careful(table: Table, night: Night) -> tuple[bool, bool, int, float]:
    """As an attempt of the product does it: in small steps where rows are deleted often; and what a writer defeats is
    tried again in smaller ones."""
    commits = sum(at > night.now - DAY for at in table.deleted_at)
    options: Options = in_steps({}, step_bytes(commits)) if commits >= HOT else {}
    total, seconds, any_change = 0, 0.0, False
    launches = night.sums.launches
    for _ in range(TRIES):
        size = sum(one.bytes for one in plan(table, options))
        fine, changed, wrote, took = night.rewrite(table, options, steps=bool(options))
        total, seconds, any_change = total + wrote, seconds + took, any_change or changed
        if fine or night.over():
            break
        given = options.get("max-file-group-size-bytes", size)
        group = max(1 << 20, (given if isinstance(given, int) else size) // SMALLER)
        options = in_steps({"max-file-group-size-bytes": group}, group)
    night.sums.launches = launches + 1  # tries within a run are no launches
    return fine or any_change, any_change, total, seconds


# ── side by side ───────────────────────────────────────────────────────────────────────────────────────────────────


def measure(say: Say, tables: int = 200, nights: int = 14, budget_gib: int = 100, seed: int = 5) -> list[Figure]:
    """`budget_gib`: what may be rewritten in a night."""
    budget = budget_gib * GIB
    keepers: Mapping[str, Keeper] = {
        "nobody": lambda tables, night: None,
        "everything": _script({"rewrite-all": True}),
        "script": _script({}),
        "debt": _debt(),
        "ours": _ours(budget),
    }
    sums = {}
    for name, keeper in keepers.items():
        began_at = perf_counter()
        sums[name] = _kept(keeper, tables, nights, budget, seed)
        for line in _lines(name, sums[name], perf_counter() - began_at):
            say(line)
    return list(_figures(sums, f"{tables} tables, {nights} nights of {budget_gib} GiB, in the model"))


def _kept(keeper: Keeper, tables: int, nights: int, budget: int, seed: int) -> Sums:
    made = {one.name: one for one in lake(tables, nights, START, seed)}
    sums = Sums()
    for number in range(1, nights + 1):
        opens = START + number * DAY + OPENS
        for one in made.values():
            one.until(opens)
        night = Night(now=opens, ends=opens + WINDOW, left=budget, sums=sums)
        keeper(made, night)
        sums.overshot = max(sums.overshot, -night.left)
        reads = sum(one.reads for one in made.values())
        sums.opened.append(sum(one.opened * one.reads for one in made.values()) / reads)
    return sums


def _lines(name: str, sums: Sums, seconds: float) -> Iterator[str]:
    yield (
        f"{name}: {sums.removed:,} files fewer, {sums.bytes / GIB:,.0f} GiB written of which {sums.wasted / GIB:,.0f} "
        f"for nothing, {sums.conflicts} conflicts, {sums.launches:,} launches of which {sums.noops} without effect, "
        f"{sums.seconds / 3600:.1f} h; files a scan {sum(sums.opened) / len(sums.opened):,.0f}, on the last morning "
        f"{sums.opened[-1]:,.0f}; overshot {sums.overshot / GIB:.1f} GiB ({seconds:.1f} s)"
    )


def _figures(sums: Mapping[str, Sums], how: str) -> Iterator[Figure]:
    ours = sums["ours"]
    for name in ("everything", "script", "debt"):
        other = sums[name]
        mean = sum(ours.opened) / max(1.0, sum(other.opened))
        yield at_most(f"files a scan, ours / {name}", mean, "of them", 1, how)
        each = (ours.removed / max(1, ours.bytes)) / max(1e-9, other.removed / max(1, other.bytes))
        yield at_least(f"files removed per byte, ours / {name}", each, "times", 1, how)
        yield at_most(f"conflicts, {name}", other.conflicts, f"against {ours.conflicts}", None, how)
    yield at_most("launches without effect, ours", 100 * ours.noops / max(1, ours.launches), "%", 5, how)
    more = "by what came between the decision and the run, and by further tries"
    yield at_most("a night's budget overshot, ours", ours.overshot / GIB, "GiB", None, f"{how}; {more}")
