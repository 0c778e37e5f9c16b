"""What is spoken of in the interface and belongs to a later version: refused by name, never silently accepted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

KINDS: frozenset[str] = frozenset()
TRIGGERS: frozenset[str] = frozenset()
PROGRAMS = frozenset({"maintenance"})
KEYS: frozenset[str] = frozenset()


def not_yet(what: str, available: Iterable[str]) -> str:
    """The sentence that refuses something of a later version, e.g. `not_yet("'data_size' triggers", [...])`."""
    return f"{what} are not in this version yet; available: {', '.join(available)}"


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word, or nothing."""
    words = {one.lower(): one for one in known}
    near = difflib.get_close_matches(word.lower(), list(words), 1, 0.6)
    return f"; did you mean {words[near[0]]!r}?" if near else ""


def unknown(word: str, what: str, known: Iterable[str]) -> str:
    """The sentence for a word that is none of the known ones."""
    words = list(known)
    return f"{word!r} is not {what}{nearest(word, words)} (known: {', '.join(words)})"
