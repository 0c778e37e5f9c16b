"""Which tables a policy speaks for: one pattern for each level of a table's path.

A path is `catalog.namespace.table`; namespaces may be nested, so it may have more levels. Each level of a pattern is a
name, a glob (`*` any text, `?` one character), or a regular expression between slashes (`/ord(er)?s/`), and stands for
exactly one level; `**` stands for any number of levels, none included.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

LONGEST = 256
LONGEST_EXPRESSION = 128
ANY_DEPTH = "**"
_NESTED = re.compile(r"[*+}][^()]*\)[*+{]")
"""A repeated group that repeats something: such an expression can take for ever."""


@dataclass(frozen=True, slots=True, order=True)
class Specificity:
    """How narrow a pattern is; the greater one goes before. Levels that are names count first, then that the number of
    levels is known, then how many characters are given."""

    names: int
    fixed_depth: bool
    characters: int


@dataclass(frozen=True, slots=True)
class TablePattern:
    """`text` as people write it. Raises ValueError, saying what would be right, when it is no pattern."""

    text: str

    def __post_init__(self) -> None:
        _compiled(self.text)

    def matches(self, table: str) -> bool:
        """Whether it speaks for a table, given by its path."""
        return _match(_compiled(self.text)[0], table.split("."))

    @property
    def specificity(self) -> Specificity:
        return _compiled(self.text)[1]


@lru_cache(maxsize=4096)
def _compiled(text: str) -> tuple[tuple[re.Pattern[str] | None, ...], Specificity]:
    """The levels of a pattern, None for `**`; and how narrow it is."""
    if not text.strip() or len(text) > LONGEST:
        raise ValueError(f"must have 1 to {LONGEST} characters; write it like lake.raw.* or lake.**")
    levels = _levels(text)
    if ANY_DEPTH not in levels and len(levels) < 3:
        remedy = "for all tables write **" if set(levels) == {"*"} else f"write it like lake.raw.{levels[-1]}"
        raise ValueError(f"{text!r} matches no table: a table is named catalog.namespace.table; {remedy}")
    expressions = tuple(None if level == ANY_DEPTH else re.compile(_level(level)) for level in levels)
    names = [level for level in levels if not (level.startswith("/") or "*" in level or "?" in level)]
    characters = sum(1 if level.startswith("/") else len(re.sub(r"[*?]", "", level)) for level in levels)
    return expressions, Specificity(len(names), ANY_DEPTH not in levels, characters)


def _match(pattern: Sequence[re.Pattern[str] | None], path: Sequence[str]) -> bool:
    """Level by level; `**` takes as many as leave the rest a match."""
    for place, level in enumerate(pattern):
        if level is None:
            rest = pattern[place + 1 :]
            return any(_match(rest, path[taken:]) for taken in range(place, len(path) + 1))
        if place >= len(path) or level.fullmatch(path[place]) is None:
            return False
    return len(path) == len(pattern)


def _levels(text: str) -> list[str]:
    """The levels of a pattern; a dot between slashes belongs to the regular expression."""
    levels: list[str] = []
    rest = text
    while True:
        if rest.startswith("/"):
            end = next((at for at in range(1, len(rest)) if rest[at] == "/" and rest[at + 1 : at + 2] in ("", ".")), 0)
            if not end:
                raise ValueError(f"{rest!r} begins a regular expression that no / ends")
            level, rest = rest[: end + 1], rest[end + 1 :]
        else:
            level = re.split(r"\.", rest, maxsplit=1)[0]
            rest = rest[len(level) :]
        if not level or level == "//":
            raise ValueError(f"{text!r} has an empty level; write it like lake.raw.*")
        levels.append(level)
        if not rest:
            return levels
        rest = rest[1:]
        if not rest:
            raise ValueError(f"{text!r} ends with a dot; write it like lake.raw.*")


def _level(level: str) -> str:
    if not level.startswith("/"):
        if ANY_DEPTH in level:
            raise ValueError(f"{level!r}: ** stands for whole levels; within one write *")
        return "".join({"*": "[^.]*", "?": "[^.]"}.get(one) or re.escape(one) for one in level)
    inner = level[1:-1]
    if len(inner) > LONGEST_EXPRESSION:
        raise ValueError(f"a regular expression may have {LONGEST_EXPRESSION} characters, not {len(inner)}")
    if _NESTED.search(inner):
        raise ValueError(f"{level!r} repeats what repeats already, which can take for ever; write it without that")
    try:
        re.compile(inner)
    except re.error as fault:
        raise ValueError(f"{level!r} is not a regular expression: {fault}") from None
    return inner
