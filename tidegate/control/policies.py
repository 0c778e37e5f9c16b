"""Maintenance policies: declared, changed, deleted; and whether maintenance starts by itself at all."""

from __future__ import annotations

from tidegate.control.common import LIMIT, Effect, Page, changing, check_revision, not_found, sliced
from tidegate.documents.deciding import policies_of
from tidegate.documents.declared import MaintenancePolicy
from tidegate.domain.instants import Instant
from tidegate.domain.maintenance.policy import Reach, reach_warning, reaches
from tidegate.domain.schedules import JsonObject
from tidegate.ports.control import ControlStore, ControlTx
from tidegate.ports.records import Change
from tidegate.ports.tables import PolicyRecord, Switch, TablesReads

KIND = MaintenancePolicy.KIND


async def put(
    store: ControlStore,
    declaration: MaintenancePolicy,
    *,
    who: str,
    expected: int | None = None,
    dry_run: bool = False,
) -> tuple[Effect, PolicyRecord]:
    """Create it or add a revision. What was decided by the one before stays; from now on this one decides.
    `expected`: the revision of If-Match (0: it must not exist yet). Raises Conflict, Stale."""
    async with changing(store, dry_run=dry_run) as tx:
        await tx.lock_maintenance()
        stored = (await known(tx)).get(declaration.metadata.name)
        check_revision("policy", declaration.metadata.name, expected, stored.rev if stored else None)
        return await write(tx, declaration, stored, who=who, now=await tx.now())


async def delete(store: ControlStore, name: str, *, who: str, expected: int | None = None) -> None:
    """Nothing is started by it any more; what runs ends by itself. Raises NotFound, Stale."""
    async with store.changing() as tx:
        await tx.lock_maintenance()
        stored, now = await get(tx, name), await tx.now()
        check_revision("policy", name, expected, stored.rev)
        if not await tx.delete_policy(name, who, now):
            raise not_found("policy", name)
        await tx.record_change(_change(who, "deleted", name, stored.document, None), now)


async def get(store: TablesReads, name: str) -> PolicyRecord:
    """Raises NotFound, with the nearest name."""
    found = await known(store)
    if name not in found:
        raise not_found("policy", name, found)
    return found[name]


async def page(store: ControlStore, *, cursor: str | None = None, limit: int = LIMIT) -> Page[PolicyRecord]:
    """Every policy, by name."""
    return sliced(list(await store.policies()), lambda one: one.name, cursor, limit)


async def reach(store: ControlStore) -> dict[str, tuple[Reach, str]]:
    """By policy, how far it reaches among the tables that are known, and a warning where it keeps none."""
    policies = policies_of(await store.policies())
    found = reaches(policies.values(), await store.table_names())
    return {name: (found[name], reach_warning(policies[name], found[name])) for name in policies}


async def revisions(store: ControlStore, name: str) -> tuple[tuple[int, JsonObject | None, str, Instant], ...]:
    """(revision, document, author, valid from), newest first; those of a deleted policy, too. Raises NotFound."""
    found = tuple(await store.policy_revisions(name))
    if not found:
        raise not_found("policy", name, await known(store))
    return found


async def known(store: TablesReads) -> dict[str, PolicyRecord]:
    """Every policy by its name."""
    return {one.name: one for one in await store.policies()}


async def switch(store: ControlStore, *, on: bool, who: str, reason: str = "") -> Switch:
    """Let maintenance start by itself, or not. What runs ends by itself; by hand it is started in any case."""
    async with store.changing() as tx:
        await tx.lock_maintenance()
        now = await tx.now()
        if await tx.set_automatic(on, who, reason, now):
            after = {"automatic": on, "reason": reason}
            await tx.record_change(_change(who, "enabled" if on else "disabled", "*", None, after), now)
    return await store.maintenance()


# ── inside a transaction ───────────────────────────────────────────────────────────────────────────────────────────


async def write(
    tx: ControlTx, declaration: MaintenancePolicy, stored: PolicyRecord | None, *, who: str, now: Instant
) -> tuple[Effect, PolicyRecord]:
    """Bring it to what is declared; an equal document is not written. The maintenance lock is held."""
    name, document = declaration.metadata.name, declaration.document
    if stored is not None and stored.document == document:
        return Effect.UNCHANGED, stored
    record = await tx.put_policy(name, document, who, now)
    effect = Effect.CREATED if stored is None else Effect.UPDATED
    await tx.record_change(_change(who, effect, name, None if stored is None else stored.document, document), now)
    return effect, record


def _change(who: str, action: str, name: str, before: JsonObject | None, after: JsonObject | None) -> Change:
    return Change(who=who, action=str(action), kind=KIND, namespace="", name=name, before=before, after=after)
