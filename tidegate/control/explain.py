"""Explain: why a schedule has not run, or why a run did or did not, by the engine's own decision.

A waiting run is judged here and now with `domain.admission.questions`, by which the admitter decides too, on facts read
without locks (`control.held`): what is said holds at this moment and promises nothing.
"""

from __future__ import annotations

from tidegate.control import held, progress, punctuality, runs, schedules
from tidegate.control.nodes import Explanation, Node, attempt_nodes
from tidegate.control.progress import Gathered
from tidegate.control.sentences import cause_of, end_of
from tidegate.documents.event_shapes import measured
from tidegate.domain.backfills import BackfillState, identity
from tidegate.domain.explaining import Explained
from tidegate.domain.instants import Instant, format_instant
from tidegate.domain.naming import command
from tidegate.domain.runs import ENDS, LIVE, State
from tidegate.domain.schedules import Mode
from tidegate.domain.triggers import AfterFinish, Never, collects
from tidegate.ports.backfills import BackfillRecord
from tidegate.ports.control import ControlStore
from tidegate.ports.records import Freeze, RunRecord, ScheduleRecord

# ── a schedule ─────────────────────────────────────────────────────────────────────────────────────────────────────


_RESTS = {
    Mode.DROP: "It is disabled{why}, since {since}. Nothing of it is due.",
    Mode.KEEP: "It is disabled{why}, since {since}. What it had collected is kept; nothing new comes to it.",
    Mode.BACKLOG: "It is suspended{why}, since {since}. Runs are made and wait until it is enabled; none has been yet.",
    Mode.HOLD: "It is suspended{why}, since {since}. All that comes waits in one run until it is enabled; none yet.",
}


async def of_schedule(store: ControlStore, namespace: str, name: str) -> Explanation:
    """Why it does not run at this moment, or when it will. Raises NotFound."""
    record = await schedules.get(store, namespace, name)
    now = await store.now()
    live, _ = await store.runs(namespace, schedule=name, states=LIVE, since=None, before=None, limit=10)
    alive = {one.role for one in await store.instances()}
    scheduler = "scheduler" in alive or "all" in alive
    gathered = await progress.of_schedule(store, namespace, name) if collects(record.spec.trigger) else None
    tree = Node(
        node="schedule",
        satisfied=record.mode is Mode.ENABLED and bool(live),
        value=len(live),
        threshold=None,
        why=f"{len(live)} live runs" if len(live) != 1 else "1 live run",
        children=(
            _enabled(record),
            _trigger(record, now) if gathered is None or gathered.tree is None else _tree(gathered.tree),
            _lives("scheduler", scheduler),
            _lives("worker", "worker" in alive or "all" in alive),
            *_frozen(await store.frozen()),
            *await _backfilled(store, namespace, name),
            *punctuality.of_schedule(record, schedules.next_fire(record), now),
        ),
    )
    if record.mode is not Mode.ENABLED and not live:
        why = f" ({record.reason})" if record.reason else ""
        told = _RESTS[record.mode].format(why=why, since=format_instant(record.valid_from))
        return Explanation(
            verdict="disabled",
            summary=told,
            blocker="disabled",
            earliest=None,
            release=command(f"enable {name}", namespace),
            tree=tree,
        )
    if live:
        return await _by_its_run(store, min(live, key=_oldest_waiting), tree)
    if gathered is not None:
        return _by_its_tree(record, gathered, tree, scheduler_alive=scheduler)
    return _by_its_clock(record, tree, now, scheduler_alive=scheduler)


def _by_its_tree(record: ScheduleRecord, gathered: Gathered, tree: Node, *, scheduler_alive: bool) -> Explanation:
    """It waits for data, events, programs or silence: what came and what is missing."""
    name, namespace = record.metadata.name, record.metadata.namespace
    upcoming = [at for at in (gathered.next_check_at, record.next_due) if at is not None]
    release, blocker = command(f"trigger {name}", namespace), "trigger"
    if gathered.unsatisfiable is not None:
        summary = f"Its trigger cannot be satisfied: {gathered.unsatisfiable}"
    elif gathered.satisfied:
        summary, blocker = "Its trigger is satisfied; the matcher makes a run in a moment.", "matcher"
        if not scheduler_alive:
            blocker, release = "scheduler", "start `tidegate up`, or `tidegate scheduler`"
            summary = "Its trigger is satisfied, but no scheduler is alive to see it."
    else:
        summary = f"Its trigger is not satisfied: {gathered.why.rstrip('.')}."
    return Explanation(
        verdict="due" if gathered.satisfied else "idle",
        summary=summary,
        blocker=blocker,
        earliest=min(upcoming, default=None),
        release=release,
        tree=tree,
    )


def _tree(one: Explained) -> Node:
    """A node of a trigger, as the decision itself tells of it."""
    why = one.why if one.decides_at is None else f"{one.why} Looked at again at {format_instant(one.decides_at)}."
    return Node(
        node=f"trigger: {one.type}" if one.node == 0 else one.type,
        satisfied=one.satisfied,
        value=measured(one.type, one.value),
        threshold=measured(one.type, one.threshold),
        why=why,
        children=tuple(_tree(child) for child in one.children),
    )


async def _by_its_run(store: ControlStore, run: RunRecord, tree: Node) -> Explanation:
    of_its_run = await of_run(store, str(run.key))
    return Explanation(
        verdict=of_its_run.verdict,
        summary=f"Run {run.key}: {of_its_run.summary}",
        blocker=of_its_run.blocker,
        earliest=of_its_run.earliest,
        release=of_its_run.release,
        tree=Node(
            node=tree.node,
            satisfied=tree.satisfied,
            value=tree.value,
            threshold=tree.threshold,
            why=tree.why,
            children=(*tree.children, of_its_run.tree),
        ),
    )


def _by_its_clock(record: ScheduleRecord, tree: Node, now: Instant, *, scheduler_alive: bool) -> Explanation:
    def say(verdict: str, summary: str, blocker: str | None = None, release: str | None = None) -> Explanation:
        return Explanation(
            verdict=verdict, summary=summary, blocker=blocker, earliest=record.next_due, release=release, tree=tree
        )

    by_hand = command(f"trigger {record.metadata.name}", record.metadata.namespace)
    due = record.next_due
    if due is None:
        if isinstance(record.spec.trigger, Never):
            return say("idle", "It fires by hand only.", "trigger", by_hand)
        return say("idle", "Its trigger has nothing to come: it has fired for the last time.", "trigger", by_hand)
    if due > now:
        return say("idle", f"Nothing holds it: it is next due at {format_instant(due)}.", "trigger")
    if not scheduler_alive:
        summary = f"It has been due since {format_instant(due)}, but no scheduler is alive to see it."
        return say("due", summary, "scheduler", "start `tidegate up`, or `tidegate scheduler`")
    return say("due", f"It has been due since {format_instant(due)}; a scheduler will decide it in a moment.")


def _enabled(record: ScheduleRecord) -> Node:
    works = record.mode is Mode.ENABLED
    rests = "suspended" if record.mode.works else "disabled"
    why = "It is enabled." if works else f"It is {rests} ({record.reason})." if record.reason else f"It is {rests}."
    return Node(node="enabled", satisfied=works, value=record.mode.value, threshold="enabled", why=why)


def _trigger(record: ScheduleRecord, now: Instant) -> Node:
    trigger, due = record.spec.trigger, record.next_due if record.mode.works else None
    if due is not None:
        why = f"It is {'due since' if due <= now else 'next due at'} {format_instant(due)}."
    elif not record.mode.works:
        why = "A disabled schedule is never due, and collects nothing."
    elif isinstance(trigger, AfterFinish):
        why = "It is due again after its run has ended."
    else:
        why = "It fires by hand only." if isinstance(trigger, Never) else "Nothing is to come."
    last = None if record.last_fire is None else format_instant(record.last_fire)
    return Node(
        node=f"trigger: {trigger.TYPE}",
        satisfied=due is not None and due <= now,
        value=last,
        threshold=None if due is None else format_instant(due),
        why=why,
    )


def _lives(role: str, there: bool) -> Node:
    why = f"A {role} is alive." if there else f"No {role} is alive; start `tidegate up`, or `tidegate {role}`."
    return Node(node=role, satisfied=there, value=there, threshold=True, why=why)


def _frozen(freeze: Freeze | None) -> tuple[Node, ...]:
    if freeze is None:
        return ()
    why = f"Everything is frozen by {freeze.who} since {format_instant(freeze.since)}"
    why += f": {freeze.reason}" if freeze.reason else "."
    return (Node(node="freeze", satisfied=False, value=True, threshold=False, why=why),)


async def _backfilled(store: ControlStore, namespace: str, name: str) -> tuple[Node, ...]:
    """Its backfills that are not over: what they wait for stands with their runs, and a paused one has none."""
    open_ones = (BackfillState.RUNNING, BackfillState.PAUSED)
    found = await store.backfills(namespace, schedule=name, states=open_ones, before=None, limit=10)
    return tuple(_backfill(one) for one in found)


def _backfill(one: BackfillRecord) -> Node:
    which, far = identity(one.id), f"{one.counts.settled:,} of {one.total:,} fire times are settled."
    if one.state is BackfillState.PAUSED:
        said = f"It is paused ({one.reason})" if one.reason else "It is paused"
        why = f"{said}, and makes no run until it is resumed: `tidegate backfill resume {which}`. {far}"
    else:
        why = f"It is under way: `tidegate backfill show {which}`. {far}"
    satisfied = False if one.state is BackfillState.PAUSED else None
    return Node(node=f"backfill {which}", satisfied=satisfied, value=one.counts.settled, threshold=one.total, why=why)


def _oldest_waiting(run: RunRecord) -> tuple[bool, Instant]:
    return run.state is not State.WAITING, run.created_at


# ── a run ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def of_run(store: ControlStore, run_id: str) -> Explanation:
    """Why it ran, waits, or never started. Raises NotFound."""
    record = await runs.get(store, run_id)
    because = Node(node="cause", satisfied=True, value=record.cause.value, threshold=None, why=cause_of(record))
    if record.state is State.WAITING:
        return await _waiting(store, record, because)
    summary = f"{cause_of(record)} {end_of(record)}"
    tree = Node(
        node="run",
        satisfied=record.state is State.SUCCEEDED if record.state in ENDS else None,
        value=record.state.value,
        threshold=None,
        why=end_of(record),
        children=(because, *attempt_nodes(record)),
    )
    blocker, release = None, None
    if record.state is State.READY and not await _worker_lives(store):
        blocker, release = "worker", "start `tidegate up`, or `tidegate worker`"
        summary += " No worker is alive to start it."
    return Explanation(
        verdict=record.state.value, summary=summary, blocker=blocker, earliest=None, release=release, tree=tree
    )


async def _worker_lives(store: ControlStore) -> bool:
    return any(one.role in ("worker", "all") for one in await store.instances())


async def _waiting(store: ControlStore, record: RunRecord, because: Node) -> Explanation:
    schedule = await store.schedule(record.namespace, record.schedule)
    if schedule is None or schedule.id != record.key.schedule_id:
        why = "Its schedule was deleted; it will be ended."
        tree = Node(node="run", satisfied=False, value="waiting", threshold=None, why=why, children=(because,))
        return Explanation(verdict="waiting", summary=why, blocker="deleted", earliest=None, release=None, tree=tree)
    return await held.explained(store, record, schedule, because)
