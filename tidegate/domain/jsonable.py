"""What every JSON document, and every database, can hold; and how a value and its place are told to a person."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence

from tidegate.domain.errors import Fault

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_DEEPEST = 64


def path_of(parts: Sequence[str | int]) -> str:
    """`("spec", "constraints", 1, "max")` as `spec.constraints[1].max`."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return text


def json_faults(value: object, at: tuple[str | int, ...] = ()) -> Iterable[Fault]:
    """What no JSON document and no database can hold: non-text keys, NaN, NUL characters, half characters, bottomless
    nesting. Also things that are no JSON at all (dates that some YAML reader made)."""
    if len(at) > _DEEPEST:
        yield Fault(path_of(at[:6]) + "...", f"is nested more than {_DEEPEST} levels deep")
        return
    match value:
        case None | bool():
            return
        case str():
            if reason := _bad_text(value):
                yield Fault(path_of(at), reason)
        case int():
            if abs(value) >= 1 << 63:
                yield Fault(path_of(at), "is a whole number too large to keep (64 bits); write it as text")
        case float():
            if not math.isfinite(value):
                yield Fault(path_of(at), f"must be a finite number, not {value}")
        case list() | tuple():
            for index, item in enumerate(value):
                yield from json_faults(item, (*at, index))
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    yield Fault(
                        path_of((*at, str(key))), f'a key must be text, not {say(key)}; put it in quotes: "{key}"'
                    )
                elif reason := _bad_text(key):
                    yield Fault(path_of(at), f"has a key that {reason}")
                else:
                    yield from json_faults(item, (*at, key))
        case _:
            yield Fault(path_of(at), f"must be text, a number, true, false, a list or a mapping, not {say(value)}")


def _bad_text(text: str) -> str:
    if "\0" in text:
        return "contains a NUL character, which cannot be stored"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains half a character (a lone surrogate), which cannot be stored"
    return ""


def say(value: object) -> str:
    """A value as a person would recognise it in a sentence: what kind of thing it is, and short ones as written."""
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {shortened(value)}"
        case int() | float():
            return f"the number {value}"
        case list() | tuple():
            return "a list"
        case dict():
            return "a mapping"
    return f"a {type(value).__name__}"


def shortened(text: str) -> str:
    """Text in quotes, of which a long one only begins."""
    return json.dumps(text if len(text) <= 60 else text[:57] + "...", ensure_ascii=False)
