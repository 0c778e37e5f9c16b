"""Documents that lie in no namespace and have no revisions: how each of them is created, replaced and patched."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from fastapi import Response

from tidegate.control.common import Effect
from tidegate.documents import parsing
from tidegate.documents.declared import Calendar, Namespace, Pool, Sink, Source
from tidegate.ports.control import ControlStore

D = TypeVar("D", Namespace, Pool, Calendar, Sink, Source)
D_contra = TypeVar("D_contra", Namespace, Pool, Calendar, Sink, Source, contravariant=True)
CREATED: dict[int | str, dict[str, Any]] = {201: {"description": "Created"}}


class Put(Protocol[D_contra]):
    """`control.SUBJECT.put`."""

    def __call__(
        self, store: ControlStore, declaration: D_contra, *, who: str, new: bool = ...
    ) -> Awaitable[Effect]: ...


class Show(Protocol):
    """The one of a name as it is answered. Raises NotFound."""

    def __call__(self, store: ControlStore, name: str) -> Awaitable[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Named(Generic[D]):
    """One kind of them."""

    kind: type[D]
    put: Put[D]
    show: Show

    async def created(
        self, store: ControlStore, who: str, response: Response, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A new one. Raises Conflict where the name is taken."""
        return await self._write(store, self._parsed(body), who, response, new=True)

    async def replaced(
        self, store: ControlStore, who: str, response: Response, name: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The one of this name as it is declared, made where there was none."""
        return await self._write(store, self._parsed(body, name), who, response)

    async def patched(
        self, store: ControlStore, who: str, response: Response, name: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What is given replaces, null takes away (RFC 7396). Raises NotFound."""
        merged = parsing.merge_patch(await self.show(store, name), body)
        return await self._write(store, self._parsed(merged, name), who, response)

    def _parsed(self, body: Mapping[str, Any], name: str | None = None) -> D:
        declaration = parsing.parse(body, kind=self.kind.__name__, name=name)
        assert isinstance(declaration, self.kind)
        return declaration

    async def _write(
        self, store: ControlStore, declaration: D, who: str, response: Response, *, new: bool = False
    ) -> dict[str, Any]:
        effect = await self.put(store, declaration, who=who, new=new)
        response.status_code = 201 if effect is Effect.CREATED else 200
        return await self.show(store, declaration.metadata.name)
