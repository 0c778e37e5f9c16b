"""How things are named towards people: the namespace of what names none, and commands to copy."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.domain.errors import Conflict

DEFAULT_NAMESPACE = "default"
NAMED = 5
"""So many of what lives in a namespace are named."""


def command(words: str, namespace: str) -> str:
    """A command to copy: `tidegate enable orders -n sales`; the namespace of what names none is left out."""
    return f"tidegate {words}" if namespace == DEFAULT_NAMESPACE else f"tidegate {words} -n {namespace}"


def inhabited(namespace: str, living: Sequence[tuple[str, str]], count: int) -> Conflict:
    """That a namespace cannot go. `living`: kind and name of the first `NAMED` of the `count` that live in it."""
    named = ", ".join(f"{kind} {name}" for kind, name in living[:NAMED])
    more = f" and {count - NAMED} more" if count > NAMED else ""
    return Conflict(
        f"namespace {namespace} is not empty ({named}{more}).",
        remedy=f"Delete what lives in it first; `{command('delete application NAME', namespace)}` takes along all that "
        "names an application.",
    )
