"""The options of an operation, checked: typed values, or every fault by name.

Values are typed here (ages in microseconds, sizes in bytes); whoever makes the call finds in `OPTIONS` where each goes.
What is accepted, and why, stands in `accepted`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, assert_never

from tidegate.domain.errors import Fault
from tidegate.domain.instants import format_duration, parse_duration, parse_size
from tidegate.domain.maintenance.accepted import OPTIONS, ORPHANS_LEAST, Kind, Option, Place
from tidegate.domain.maintenance.operations import Operation

__all__ = ["OPTIONS", "ORPHANS_LEAST", "Kind", "Option", "Options", "Place", "Value", "arrangement", "check", "written"]

Value: TypeAlias = str | bool | int | float | tuple[str, ...] | tuple[int, ...] | dict[str, str]
Options: TypeAlias = Mapping[str, Value]

_CURVES = re.compile(r"\s*(zorder|hilbert)\s*\(", re.IGNORECASE)


def arrangement(options: Options) -> str:
    """How a rewrite of data files arranges rows: binpack, sort, zorder or hilbert."""
    order = options.get("sort_order")
    if isinstance(order, str) and (curve := _CURVES.match(order)):
        return curve[1].lower()
    strategy = options.get("strategy")
    return strategy if isinstance(strategy, str) else "sort" if order else "binpack"


def check(operation: Operation, raw: Mapping[str, Any]) -> tuple[dict[str, Value], list[Fault]]:
    """The typed values of an operation's options, and every fault; a fault's path is the option's name."""
    known = OPTIONS[operation]
    values: dict[str, Value] = {}
    faults: list[Fault] = []
    for name, given in raw.items():
        option = known.get(name)
        if option is None:
            faults.append(Fault(name, _unknown(name, operation)))
            continue
        try:
            values[name] = _read(option, given)
        except ValueError as wrong:
            faults.append(Fault(name, str(wrong)))
    faults += _contradictions(operation, values)
    return values, faults


def written(operation: Operation, options: Options) -> dict[str, Any]:
    """The options as a document says them; `check` reads them back."""
    said: dict[str, Any] = {}
    for name, value in options.items():
        age = OPTIONS[operation][name].kind is Kind.AGE and isinstance(value, int)
        said[name] = format_duration(int(str(value))) if age else list(value) if isinstance(value, tuple) else value
    return said


def _unknown(name: str, operation: Operation) -> str:
    known = OPTIONS[operation]
    alike = name.replace("_", "-"), name.replace("-", "_"), name.removesuffix("-bytes")
    near = [one for one in alike if one in known] or difflib.get_close_matches(name, list(known), 1, 0.6)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"is not an option of {operation.value}{hint} (known: {', '.join(known)})"


def _read(option: Option, given: Any) -> Value:
    value = _READERS[option.kind](given) if not isinstance(given, bool) or option.kind is Kind.BOOL else None
    if value is None:
        raise ValueError(f"must be {option.kind.value}, not {given!r}")
    if option.words:
        word = next((one for one in option.words if one.lower() == str(value).lower()), None)
        if word is None:
            raise ValueError(f"must be one of {', '.join(option.words)}, not {value!r}")
        return word
    least = option.least if option.least is not None else 1 if option.kind in (Kind.BYTES, Kind.AGE) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        if least is not None and value < least:
            raise ValueError(f"must be at least {_shown(option, least)}, not {_shown(option, value)}")
        if option.most is not None and value > option.most:
            raise ValueError(f"must be at most {_shown(option, option.most)}, not {_shown(option, value)}")
    return value


def _shown(option: Option, value: float) -> str:
    return format_duration(int(value)) if option.kind is Kind.AGE else f"{value:g}" if value < 1e6 else str(int(value))


def _text(given: Any) -> Value | None:
    return given if isinstance(given, str) and given.strip() else None


def _bool(given: Any) -> Value | None:
    return given if isinstance(given, bool) else None


def _int(given: Any) -> Value | None:
    return given if isinstance(given, int) else None


def _number(given: Any) -> Value | None:
    return float(given) if isinstance(given, int | float) else None


def _bytes(given: Any) -> Value | None:
    return parse_size(given) if isinstance(given, int | str) else None


def _age(given: Any) -> Value | None:
    return parse_duration(given) if isinstance(given, str) else None


def _texts(given: Any) -> Value | None:
    whole = isinstance(given, list | tuple) and given and all(isinstance(one, str) and one.strip() for one in given)
    return tuple(given) if whole else None


def _ints(given: Any) -> Value | None:
    whole = isinstance(given, list | tuple) and given and all(type(one) is int for one in given)
    return tuple(given) if whole else None


def _map(given: Any) -> Value | None:
    whole = isinstance(given, dict) and all(isinstance(text, str) for pair in given.items() for text in pair)
    return dict(given) if whole else None


_READERS: dict[Kind, Callable[[Any], Value | None]] = {
    Kind.TEXT: _text,
    Kind.BOOL: _bool,
    Kind.INT: _int,
    Kind.NUMBER: _number,
    Kind.BYTES: _bytes,
    Kind.AGE: _age,
    Kind.TEXTS: _texts,
    Kind.INTS: _ints,
    Kind.MAP: _map,
}


def _contradictions(operation: Operation, values: Options) -> list[Fault]:
    """What fits each option alone, and not the others."""
    faults = [Fault(*one) for one in _sizes(values)]
    match operation:
        case Operation.REWRITE_DATA_FILES:
            how = arrangement(values)
            if values.get("strategy") == "binpack" and "sort_order" in values:
                faults.append(Fault("sort_order", "is for strategy: sort; under binpack rows keep their order"))
            for name in values:
                only = OPTIONS[operation][name].only
                if only and only != how and not (only == "sort" and how != "binpack"):
                    faults.append(Fault(name, f"is only known where rows are arranged by {only}, not by {how}"))
        case Operation.REMOVE_ORPHAN_FILES:
            mode = values.get("prefix_mismatch_mode")
            if mode == "DELETE" and not ("equal_schemes" in values or "equal_authorities" in values):
                reason = "DELETE removes files that another spelling of the same storage may need; say with it in "
                faults.append(
                    Fault("prefix_mismatch_mode", reason + "equal_schemes or equal_authorities what is the same")
                )
        case (
            Operation.REWRITE_POSITION_DELETE_FILES
            | Operation.REWRITE_MANIFESTS
            | Operation.EXPIRE_SNAPSHOTS
            | Operation.COMPUTE_PARTITION_STATS
            | Operation.COMPUTE_TABLE_STATS
        ):
            pass
        case _:
            assert_never(operation)
    return faults


def _sizes(values: Options) -> list[tuple[str, str]]:
    least, target, most = (values.get(f"{which}-file-size-bytes") for which in ("min", "target", "max"))
    faults = []
    if isinstance(least, int) and isinstance(target, int) and least >= target:
        faults.append(("min-file-size-bytes", f"must be less than target-file-size-bytes ({target}), not {least}"))
    if isinstance(most, int) and isinstance(target, int) and most <= target:
        faults.append(("max-file-size-bytes", f"must be more than target-file-size-bytes ({target}), not {most}"))
    return faults
