"""Sentences that refuse a word: with the nearest known one, or with what is declared in its place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MADE_BY = {"maintenance": "MaintenancePolicy"}
"""Types of programs that nobody declares -> the kind of document that makes them."""


def made_by(type_: str, available: Iterable[str]) -> str:
    """The sentence for such a type."""
    kind = MADE_BY[type_]
    return f"programs of type {type_!r} are made by policies: declare a {kind}; available here: {', '.join(available)}"


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word, or nothing."""
    words = {one.lower(): one for one in known}
    near = difflib.get_close_matches(word.lower(), list(words), 1, 0.6)
    return f"; did you mean {words[near[0]]!r}?" if near else ""


def unknown(word: str, what: str, known: Iterable[str]) -> str:
    """The sentence for a word that is none of the known ones."""
    words = list(known)
    return f"{word!r} is not {what}{nearest(word, words)} (known: {', '.join(words)})"
