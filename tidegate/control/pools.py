"""Pools: capacity that programs share."""

from __future__ import annotations

from collections.abc import Collection

from tidegate.control.common import LIMIT, Effect, Page, changing, nearest, not_found, sliced, taken
from tidegate.documents import encode
from tidegate.documents.declared import Pool
from tidegate.domain.errors import Conflict, Fault, Invalid, Refused
from tidegate.domain.instants import Instant
from tidegate.domain.pools import BUILT_IN
from tidegate.domain.schedules import JsonObject
from tidegate.ports.control import ControlStore, ControlTx
from tidegate.ports.records import Change, PoolRecord


async def put(store: ControlStore, declaration: Pool, *, who: str, dry_run: bool = False, new: bool = False) -> Effect:
    """Create it, or change its slots, its rate and what it borrows. Fewer slots than are taken, or less to borrow than
    is borrowed: nothing new starts until there is room. Raises Invalid when there is no pool to borrow of.
    `new`: raises Conflict where the name is taken."""
    known = {one.name: one for one in await store.pools()}
    refuse_strangers(declaration, known)
    async with changing(store, dry_run=dry_run) as tx:
        effect = await write(tx, declaration, known.get(declaration.metadata.name), who=who, now=await tx.now())
        if new and effect is not Effect.CREATED:
            raise taken("pool", declaration.metadata.name)
        return effect


async def delete(store: ControlStore, name: str, *, who: str) -> None:
    """Raises NotFound; Conflict while it is in use or lends; Refused for those that are always there."""
    if name in BUILT_IN:
        raise Refused(f"pool {name!r} is always there", remedy="Give it fewer slots instead.")
    known = {one.name: one for one in await store.pools()}
    stored = known.get(name)
    borrowers = [one.name for one in known.values() if one.borrow is not None and one.borrow[0] == name]
    if borrowers:
        raise Conflict(f"pool {borrowers[0]!r} borrows of pool {name!r}.", remedy="Take `borrow` out of it first.")
    async with store.changing() as tx:
        if stored is None or not await tx.delete_pool(name):
            raise not_found("pool", name)
        before = encode.pool(stored.slots, rate_of(stored), stored.borrow)
        await tx.record_change(_change(who, "deleted", name, before, None), await tx.now())


async def get(store: ControlStore, name: str) -> PoolRecord:
    """Raises NotFound."""
    known = {one.name: one for one in await store.pools()}
    if name not in known:
        raise not_found("pool", name, known)
    return known[name]


async def page(store: ControlStore, *, cursor: str | None = None, limit: int = LIMIT) -> Page[PoolRecord]:
    """Every pool, by name."""
    return sliced(list(await store.pools()), lambda one: one.name, cursor, limit)


def rate_of(record: PoolRecord) -> tuple[int, int, int] | None:
    """(max, per, burst), or None for no limit."""
    if record.rate_max is None or record.rate_per is None:
        return None
    return record.rate_max, record.rate_per, record.rate_burst or record.rate_max


def refuse_strangers(declaration: Pool, known: Collection[str], path: str = "") -> None:
    """Raises Invalid when it borrows of a pool that is none of these. `path`: of the document among others."""
    of = declaration.borrow[0] if declaration.borrow else None
    if of is not None and of not in known:
        place = f"{path}.spec.borrow.from" if path else "spec.borrow.from"
        raise Invalid([Fault(place, f"there is no pool {of!r}{nearest(of, known)}")], what="the pool")


# ── inside a transaction ───────────────────────────────────────────────────────────────────────────────────────────


async def write(tx: ControlTx, declaration: Pool, stored: PoolRecord | None, *, who: str, now: Instant) -> Effect:
    """Bring it to what is declared; equal ones are not written."""
    name, wanted = declaration.metadata.name, (declaration.slots, declaration.rate, declaration.borrow)
    if stored is not None and (stored.slots, rate_of(stored), stored.borrow) == wanted:
        return Effect.UNCHANGED
    effect = Effect.CREATED if await tx.put_pool(name, *wanted) else Effect.UPDATED
    before = None if stored is None else encode.pool(stored.slots, rate_of(stored), stored.borrow)
    after = encode.pool(*wanted)
    await tx.record_change(_change(who, effect, name, before, after), now)
    return effect


def _change(who: str, action: str, name: str, before: JsonObject | None, after: JsonObject | None) -> Change:
    return Change(who=who, action=str(action), kind="Pool", namespace="", name=name, before=before, after=after)
