"""`distinct`: fires when so many different values of a payload's field have come.

    trigger: {type: distinct, event: user.store_closed, field: store, count: 40}

fires once all of 40 stores have reported, however often each of them did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.domain.collected import Arrival, Topic

Parameters = Mapping[str, Any]
KNOWN = frozenset({"event", "key", "field", "count"})


class Distinct:
    """What has been seen is its state: {"seen": [...]}, small because `count` is."""

    def faults(self, parameters: Parameters) -> Sequence[str]:
        """What is wrong with a declaration."""
        found = [f"{name!r} is not a key here (known: {', '.join(sorted(KNOWN))})" for name in set(parameters) - KNOWN]
        if not isinstance(parameters.get("event"), str):
            found.append("`event` is missing: the type of event, e.g. user.store_closed")
        if not isinstance(parameters.get("field"), str):
            found.append("`field` is missing: the field of the payload whose values are counted")
        count = parameters.get("count")
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 1000:
            found.append("`count` must be a whole number from 1 to 1000")
        return found

    def topics(self, parameters: Parameters) -> Sequence[Topic]:
        """What it listens to."""
        return [Topic(parameters["event"], parameters.get("key"))]

    def start(self, parameters: Parameters) -> Parameters:
        """Nothing seen."""
        return {"seen": []}

    def add(self, parameters: Parameters, state: Parameters, event: Arrival) -> Parameters:
        """The state after one more event."""
        value = event.payload.get(parameters["field"])
        if value is None or value in state["seen"]:
            return state
        return {"seen": [*state["seen"], value]}

    def satisfied(self, parameters: Parameters, state: Parameters) -> bool:
        """Whether enough different ones came."""
        return len(state["seen"]) >= parameters["count"]

    def why(self, parameters: Parameters, state: Parameters) -> str:
        """One line for people."""
        return f"{len(state['seen'])} of {parameters['count']} different values of {parameters['field']!r} came."
