"""Trigger types that packages add: what such a leaf must be able to say, and which ones are known.

A plug-in is pure: what it has seen is its state, plain JSON that the store keeps; it reads no clock and does no I/O.
It is asked in the transaction that consumes the event, so it must answer in microseconds and keep its state small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tidegate.domain.errors import Refused

if TYPE_CHECKING:
    from tidegate.domain.collected import Arrival, Topic

State: TypeAlias = Mapping[str, Any]


class LeafPlugin(Protocol):
    """A type of leaf. `parameters` is what stands in the trigger beside `type`."""

    def faults(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """What is wrong with the parameters, a sentence each; asked when somebody declares a schedule."""

    def topics(self, parameters: Mapping[str, Any]) -> Sequence[Topic]:
        """What it listens to. Always the same for the same parameters."""

    def start(self, parameters: Mapping[str, Any]) -> State:
        """Its state before anything came, and again after the tree has fired."""

    def add(self, parameters: Mapping[str, Any], state: State, event: Arrival) -> State:
        """The state after one more event; the given one stays as it is."""

    def satisfied(self, parameters: Mapping[str, Any], state: State) -> bool:
        """Whether it is satisfied. Once it is, it stays so until the tree fires and is not asked again."""

    def why(self, parameters: Mapping[str, Any], state: State) -> str:
        """One line for people: what it has and what it still lacks."""


_registered: dict[str, LeafPlugin] = {}


def register(type: str, plugin: LeafPlugin) -> None:
    """Make a type of leaf known (at wiring, before anything is evaluated). The same again replaces it."""
    _registered[type] = plugin


def known() -> Mapping[str, LeafPlugin]:
    """The registered types."""
    return dict(_registered)


def plugin_of(type: str) -> LeafPlugin:
    """The plug-in of a type. Raises Refused where its package is not installed."""
    found = _registered.get(type)
    if found is None:
        raise Refused(
            f"The trigger type {type!r} comes from a plug-in that is not installed here.",
            remedy="Install the package that provides it where schedulers and API servers run.",
            code="plugin.missing",
        )
    return found
