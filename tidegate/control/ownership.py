"""Who owns a name: applications. A declaration that names no application stays with the one that owns it already."""

from __future__ import annotations

from typing import Any

from tidegate.domain.errors import Conflict
from tidegate.domain.instants import Instant
from tidegate.domain.schedules import JsonObject
from tidegate.ports.control import ControlTx


def owner(kind: str, name: str, declared: str | None, stored: str | None, *, exists: bool) -> str | None:
    """Whose it is after the write. Raises Conflict when another application owns it."""
    if exists and stored is not None and declared not in (None, stored):
        raise Conflict(
            f"{kind} {name!r} belongs to application {stored!r}, not to {declared!r}",
            remedy=f"Choose another name, or remove it from {stored!r} first.",
        )
    return declared or stored


async def own(tx: ControlTx, namespace: str, application: str, now: Instant, *, program: str | None = None) -> None:
    """Put it on record that an application exists, and that a program is its own. Locks the application: callers do
    this before they lock programs and schedules."""
    document = await tx.lock_application(namespace, application)
    held = programs_of(document)
    if document is None or (program is not None and program not in held):
        listed = sorted({*held, program} - {None})
        await tx.put_application(namespace, application, {**(document or {}), "programs": listed}, now)


async def disown(tx: ControlTx, namespace: str, application: str, now: Instant, *, program: str) -> None:
    """A program of an application is gone."""
    document = await tx.lock_application(namespace, application)
    if document is not None and program in programs_of(document):
        listed = [name for name in programs_of(document) if name != program]
        await tx.put_application(namespace, application, {**document, "programs": listed}, now)


def programs_of(document: JsonObject | None) -> list[Any]:
    """The names of an application's programs."""
    return list((document or {}).get("programs", ()))
