"""What must be true of a history, whatever was done to the processes.

Each law is told from the declarations alone; none knows how Tidegate works, and nothing of it is imported here."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from chaos.history import History, Line, by_schedule
from chaos.workload import CAUGHT_UP, COUNTS, GRIDS, SHARED_LIMIT, TAKES_ALL

Law = Callable[[History], Iterator[str]]


def every_fire_has_one_outcome(history: History) -> Iterator[str]:
    """Each instant of each grid, while its schedule was enabled, is one run or lies in one stretch; nothing else is."""
    runs = by_schedule(history)
    for schedule, width in GRIDS.items():
        since, until = history.reigns[schedule]
        owed = set(range(since // width * width + width, until + 1, width))
        found: Counter[int] = Counter(run.slot for run in runs[schedule] if run.cause == "fire")
        for stretch in history.stretches:
            if stretch.schedule == schedule:
                inside = range(stretch.first, stretch.last + 1, width)
                found.update(inside)
                if len(inside) != stretch.n:
                    yield f"{schedule}: a stretch says {stretch.n} fires where the grid has {len(inside)}"
                if schedule in CAUGHT_UP:
                    yield f"{schedule}: {stretch.n} fires are {stretch.outcome}, and it catches up with all"
        yield from (f"{schedule}: the fire of {at} was lost" for at in sorted(owed - found.keys()))
        yield from (f"{schedule}: a fire at {at} that nobody owed" for at in sorted(found.keys() - owed))
        yield from (f"{schedule}: the fire of {at} is on record {n} times" for at, n in found.items() if n > 1)


def what_began_was_on_record(history: History) -> Iterator[str]:
    """No program ran that the ledger does not know, and none began before its attempt was on record."""
    known = {one.fence: one for one in history.attempts}
    for line in history.journal:
        if line.fence not in known:
            yield f"{line.schedule}: attempt {line.attempt} of {line.run} ran under fence {line.fence}: not on record"
        elif line.what == "B" and line.at < known[line.fence].created_at:
            yield f"{line.schedule}: attempt {line.attempt} of {line.run} began before it was on record"


def an_attempt_begins_once(history: History) -> Iterator[str]:
    begun = Counter((line.run, line.attempt) for line in history.journal if line.what == "B")
    yield from (f"attempt {attempt} of {run} began {n} times" for (run, attempt), n in begun.items() if n > 1)
    fences: dict[int, set[tuple[str, int]]] = defaultdict(set)
    for line in history.journal:
        fences[line.fence].add((line.run, line.attempt))
    yield from (f"fence {fence} was given {len(who)} times" for fence, who in fences.items() if len(who) > 1)


def ends_are_what_programs_did(history: History) -> Iterator[str]:
    """What a program wrote when it ended is what the ledger says of its attempt."""
    wrote: dict[int, set[str]] = defaultdict(set)
    for line in history.journal:
        wrote[line.fence].add(line.what)
    for one in history.attempts:
        said = wrote.get(one.fence, set())
        match one.outcome:
            case "succeeded" if "E" not in said:
                yield f"fence {one.fence} succeeded by the ledger, and its program never came to its end"
            case "failed" if "F" not in said:
                yield f"fence {one.fence} failed by the ledger, and its program did not fail"
            case "lost" | "refused" if said:
                yield f"fence {one.fence} is {one.outcome} by the ledger, and its program ran"
            case "crashed" | "timed_out" | "cancelled":
                yield f"fence {one.fence} is {one.outcome} by the ledger; nobody harmed its program"


def a_run_succeeds_once(history: History) -> Iterator[str]:
    succeeded = Counter(one.key for one in history.attempts if one.outcome == "succeeded")
    ended = {run.key: run for run in history.runs}
    yield from (
        f"{ended[key].schedule}: a run has {n} attempts that succeeded" for key, n in succeeded.items() if n > 1
    )
    for run in history.runs:
        if run.outcome == "succeeded" and not succeeded[run.key]:
            yield f"{run.schedule}: a run succeeded without an attempt that did"
        if run.outcome in ("failed", "crashed", "timed_out", "cancelled", "expired", "skipped"):
            yield f"{run.schedule}: a run ended {run.outcome}, and nothing was done to it"
    last: dict[tuple[int, int, int], int] = {}
    for one in sorted(history.attempts, key=lambda one: (one.key, one.number)):
        if one.fence <= last.get(one.key, 0):
            yield f"{ended[one.key].schedule}: attempt {one.number} has no higher fence than the one before"
        last[one.key] = one.fence


def limits_are_kept(history: History) -> Iterator[str]:
    """By the programs' own times: of each schedule one run at a time, and of the group no more than its limit."""
    ends = {line.fence: line.at for line in history.journal if line.what != "B"}
    recorded = {one.fence: one.finished_at for one in history.attempts}
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for line in history.journal:
        if line.what == "B":
            spans[line.schedule].append((line.at, ends.get(line.fence, recorded.get(line.fence, line.at))))
    for schedule, some in spans.items():
        if (most := _most_at_once(some)) > 1:
            yield f"{schedule}: {most} runs at once, and it allows one"
    group, who, limit = SHARED_LIMIT
    if (most := _most_at_once([span for name in who for span in spans[name]])) > limit:
        yield f"group {group}: {most} runs at once, and it allows {limit}"


def _most_at_once(spans: list[tuple[int, int]]) -> int:
    edges = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    most = now = 0
    for _, step in edges:  # at one instant ends come first
        now += step
        most = max(most, now)
    return most


def every_event_counts_once(history: History) -> Iterator[str]:
    """What was acknowledged is in the log once, and so many of it are one run."""
    log = Counter(history.log)
    yield from (f"{id} was acknowledged and is lost" for kind, id in history.published if not log[kind, id])
    yield from (f"{id} is in the log {n} times" for (_, id), n in log.items() if n > 1)
    acknowledged = set(history.published)
    yield from (f"{id} is in the log and was never acknowledged" for kind, id in log if (kind, id) not in acknowledged)
    runs, kinds = by_schedule(history), Counter(kind for kind, _ in log)
    for schedule, (kind, each) in COUNTS.items():
        if (made := len(runs[schedule])) != kinds[kind] // each:
            yield f"{schedule}: {kinds[kind]} events, {each} a run, made {made} runs"
    told: Counter[str] = Counter()
    for run in history.answers:
        told[str(run["schedule"])] += ((run.get("cause") or {}).get("events") or {}).get("count", 0)
    for schedule in TAKES_ALL:
        owed = kinds["user.tock"] + (kinds["user.tick"] if schedule == "pair" else 0)
        if told[schedule] != owed:
            yield f"{schedule}: {owed} events came, and its runs tell of {told[schedule]}"


def what_follows_follows(history: History) -> Iterator[str]:
    """One run for each success upstream, and one for each request of a person."""
    runs = by_schedule(history)
    upstream = sum(run.outcome == "succeeded" for run in runs["each"])
    if len(runs["follows"]) != upstream:
        yield f"follows: {upstream} successes upstream made {len(runs['follows'])} runs"
    if len(runs["by-hand"]) != len(set(history.triggered)):
        yield f"by-hand: {len(set(history.triggered))} requests were answered, {len(runs['by-hand'])} runs made"
    since, until = history.reigns["once"]
    owed = since < history.once_at <= until  # it may have been declared too late for it
    if len(runs["once"]) != owed:
        yield f"once: {len(runs['once'])} runs, {int(owed)} owed"


def nothing_is_left(history: History) -> Iterator[str]:
    yield from (f"{count} {name}" for name, count in history.left.items() if count)
    yield from (f"{run.schedule}: a run has no outcome" for run in history.runs if run.outcome is None)


def everything_is_told_once(history: History) -> Iterator[str]:
    """Each start and each end is one event in the log."""
    for run in history.runs:
        if run.outcome is not None and history.told.get((run.key, f"run.{run.outcome}"), 0) != 1:
            yield f"{run.schedule}: its end is told {history.told.get((run.key, f'run.{run.outcome}'), 0)} times"
        if (times := history.told.get((run.key, "run.started"), 0)) != (run.started_at is not None):
            yield f"{run.schedule}: its start is told {times} times"


def every_event_reaches_the_sink(history: History) -> Iterator[str]:
    """What is in the log arrived in the sink's table, each event once by its id, first in the order of its schedule."""
    owed, came = Counter(history.owed), Counter(history.arrived)
    yield from (f"event {one.pos} ({one.type}) never reached the sink" for one in sorted(owed.keys() - came.keys()))
    yield from (f"the sink has {one.pos} ({one.type}): not in the log" for one in sorted(came.keys() - owed.keys()))
    yield from (f"the sink has event {one.pos} {n} times" for one, n in came.items() if n > 1)
    newest: dict[str, int] = {}
    for one in history.arrived:
        if one.pos < newest.get(one.lane, 0):
            yield f"the sink got event {one.pos} of {one.lane} after {newest[one.lane]}"
        newest[one.lane] = max(one.pos, newest.get(one.lane, 0))


def the_doors_tell_the_same(history: History) -> Iterator[str]:
    """What the API answers is what is in the tables."""
    there = Counter((run.schedule, run.outcome) for run in history.runs)
    answered: Counter[tuple[str, str | None]] = Counter()
    for one in history.answers:
        if one["state"] == "missed" or one.get("fire_time_to"):
            continue  # a stretch
        answered[str(one["schedule"]), str(one["state"])] += 1
    if there != answered:
        yield f"the tables have {there - answered}, the API tells {answered - there}"
    runs = {line.run for line in history.journal} - {str(one["id"]) for one in history.answers}
    yield from (f"{run} ran, and the API does not know it" for run in sorted(runs))


LAWS: tuple[Law, ...] = (
    every_fire_has_one_outcome,
    what_began_was_on_record,
    an_attempt_begins_once,
    ends_are_what_programs_did,
    a_run_succeeds_once,
    limits_are_kept,
    every_event_counts_once,
    what_follows_follows,
    nothing_is_left,
    everything_is_told_once,
    every_event_reaches_the_sink,
    the_doors_tell_the_same,
)


def judge(history: History) -> dict[str, list[str]]:
    """Law -> what breaks it."""
    return {law.__name__: list(law(history)) for law in LAWS}


__all__ = ["LAWS", "Line", "judge"]
