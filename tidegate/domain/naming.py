"""How things are named towards people: the namespace of what names none, and commands to copy."""

from __future__ import annotations

DEFAULT_NAMESPACE = "default"


def command(words: str, namespace: str) -> str:
    """A command to copy: `tidegate enable orders -n sales`; the namespace of what names none is left out."""
    return f"tidegate {words}" if namespace == DEFAULT_NAMESPACE else f"tidegate {words} -n {namespace}"
