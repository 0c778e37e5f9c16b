"""Templates in a schedule's arguments: `{{ inputs.flights.partitions }}`, filled in when a run is admitted.

    template  = "{{" path filters "}}"
    path      = name { "." name } | name { "." name } with names in [brackets] where they hold dots or other marks
    filters   = { "|" filter }      filter = name [ ":" argument ], the argument in quotes or bare

A string that is one template becomes the value as it is (a list stays a list); inside other text it becomes text.
In what a program itself is made of (the payload of an event, the body of a call) `arguments.NAME` is known, too.
`{{{{` is a literal `{{`. Nothing is run and nothing is looked up but these names:

    fire_time, previous_fire_time     RFC 3339 in UTC, or null
    cause                             type, by
    timed_out_waiting                 true or false
    inputs.NAME                       a dataset by its whole path or its last name: from_snapshot, to_snapshot, rows,
                                      bytes, events, partitions
    upstream                          id, program, outcome, arguments.NAME; null where no program's end started the run

Filters: `date:"%Y-%m-%d"` (a time, in UTC or in a zone as second argument `date:"%H:%M","Europe/Berlin"`),
`default:VALUE` (instead of null), `join:", "` (a list as text), `first`, `last`, `count`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from tidegate.domain.errors import Fault, Invalid
from tidegate.domain.instants import from_datetime
from tidegate.domain.zones import UnknownZone, Zone, resolve

ROOTS = ("fire_time", "previous_fire_time", "cause", "timed_out_waiting", "inputs", "upstream")
ARGUMENTS = "arguments"
INPUT = ("from_snapshot", "to_snapshot", "rows", "bytes", "events", "partitions")
UPSTREAM = ("id", "program", "outcome", "arguments")
CAUSE = ("type", "by")
MOST = 1_000
"""Characters of one template."""

_TEMPLATE = re.compile(r"\{\{\{\{|\{\{(.*?)\}\}", re.DOTALL)
_NAME = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_-]*)|\[([^\[\]]+)\])\s*")
_FILTER = re.compile(r"\s*\|\s*([a-z]+)\s*(?::\s*((?:\"[^\"]*\"|'[^']*'|[^|\"']+)+))?\s*")
_PART = re.compile(r"\"([^\"]*)\"|'([^']*)'|([^,\"'\s][^,\"']*)")


@dataclass(frozen=True, slots=True)
class Template:
    """One `{{ ... }}`: a path, then filters with their arguments."""

    text: str
    path: tuple[str, ...]
    filters: tuple[tuple[str, tuple[str, ...]], ...]


class BadTemplate(ValueError):
    """What is wrong with a template, and what would be right."""


# ── reading ────────────────────────────────────────────────────────────────────────────────────────────────────────


def parse(text: str) -> Template:
    """Read what stands between the braces. Raises BadTemplate."""
    if len(text) > MOST:
        raise BadTemplate(f"a template has at most {MOST} characters")
    path: list[str] = []
    at = 0
    while True:
        match = _NAME.match(text, at)
        if match is None:
            where = f"after {text[:at].strip()!r}" if at else "here"
            raise BadTemplate(f"a name is missing {where}; write it like {{{{ inputs.flights.partitions }}}}")
        path.append(match[1] or match[2])
        at = match.end()
        if at < len(text) and text[at] == ".":
            at += 1
        elif at >= len(text) or text[at] != "[":
            break
    filters: list[tuple[str, tuple[str, ...]]] = []
    while at < len(text):
        match = _FILTER.match(text, at)
        if match is None:
            raise BadTemplate(f'{text[at:].strip()!r} is not understood: after the path come filters, like | date:"%Y"')
        given = tuple(one[1] or one[2] or (one[3] or "").rstrip() for one in _PART.finditer(match[2] or ""))
        filters.append((match[1], given))
        at = match.end()
    return Template(text.strip(), tuple(path), tuple(filters))


def templates(value: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Every template in a JSON value: its path in the value, and what stands between its braces."""
    match value:
        case str():
            yield from ((at, match[1]) for match in _TEMPLATE.finditer(value) if match[1] is not None)
        case Mapping():
            for key, one in value.items():
                yield from templates(one, f"{at}.{key}" if at else str(key))
        case list() | tuple():
            for number, one in enumerate(value):
                yield from templates(one, f"{at}[{number}]")


def faults(arguments: Mapping[str, Any], datasets: Sequence[str], *, upstream: bool, at: str) -> list[Fault]:
    """What can be known to be wrong when a schedule is declared. `datasets`: those that its trigger names;
    `upstream`: whether it waits for a program."""
    found = []
    for where, text in templates(arguments, at):
        try:
            template = parse(text)
            _check(template, datasets, upstream)
            for name, given in template.filters:
                _filter(name, given)
        except BadTemplate as wrong:
            found.append(Fault(where, f"{{{{ {text.strip()} }}}}: {wrong}"))
    return found


def program_faults(value: Any, at: str) -> list[Fault]:
    """What can be known to be wrong when a program is declared, which knows no trigger yet."""
    return root_faults(value, at, (*ROOTS, ARGUMENTS))


def root_faults(value: Any, at: str, roots: Sequence[str]) -> list[Fault]:
    """What is wrong with the templates of a value that may name these roots."""
    found = []
    for where, text in templates(value, at):
        try:
            template = parse(text)
            _known(template.path[0], roots, "is not known")
            for name, given in template.filters:
                _filter(name, given)
        except BadTemplate as wrong:
            found.append(Fault(where, f"{{{{ {text.strip()} }}}}: {wrong}"))
    return found


def _check(template: Template, datasets: Sequence[str], upstream: bool) -> None:
    root, *rest = template.path
    _known(root, ROOTS, "is not known")
    match root:
        case "inputs":
            if not rest:
                raise BadTemplate("name a dataset and what of it, like inputs.flights.partitions")
            _, left = dataset_of(rest, datasets)
            if len(left) != 1:
                raise BadTemplate(f"name one thing of the dataset: {', '.join(INPUT)}")
            _known(left[0], INPUT, "is not part of an input")
        case "upstream":
            if not upstream:
                raise BadTemplate("the trigger waits for no program, so there is no upstream run")
            if not rest:
                raise BadTemplate(f"name one thing of the run: {', '.join(UPSTREAM)}")
            _known(rest[0], UPSTREAM, "is not known of the upstream run")
            if rest[0] != "arguments" and len(rest) > 1:
                raise BadTemplate(f"{rest[0]!r} has no parts")
        case "cause":
            if len(rest) != 1:
                raise BadTemplate("name one thing of the cause: type, by")
            _known(rest[0], CAUSE, "is not known of the cause")
        case _:
            if rest:
                raise BadTemplate(f"{root!r} has no parts")


def dataset_of(path: Sequence[str], datasets: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The dataset that a path begins with (whole, or by its last name), and the rest. Raises BadTemplate."""
    for end in range(len(path), 0, -1):
        name = ".".join(path[:end])
        if name in datasets:
            return name, path[end:]
    last = [one for one in datasets if one.rpartition(".")[2] == path[0]]
    if len(last) == 1:
        return last[0], path[1:]
    if last:
        raise BadTemplate(f"{path[0]!r} is the last name of {' and '.join(last)}; write the whole path")
    names = [one.rpartition(".")[2] for one in datasets]
    raise BadTemplate(_unknown(path[0], names, "is no dataset of the trigger"))


def _known(name: str, known: Sequence[str], what: str) -> None:
    if name not in known:
        raise BadTemplate(_unknown(name, known, what))


def _unknown(name: str, known: Sequence[str], what: str) -> str:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}" if known else "it names none"
    return f"{name!r} {what}; {hint}"


# ── filling in ─────────────────────────────────────────────────────────────────────────────────────────────────────


def render(
    arguments: Mapping[str, Any], context: Mapping[str, Any], at: str = f"{ARGUMENTS}.", what: str = "the arguments"
) -> dict[str, Any]:
    """The arguments with every template filled in from a context (see `context`). `at` begins the paths of faults.

    Raises Invalid, naming every fault with its place: a name that is not there, or a filter that does not fit."""
    found: list[Fault] = []

    def fill(value: Any, at: str) -> Any:
        match value:
            case str() if "{{" in value:
                try:
                    return _text(value, context)
                except BadTemplate as wrong:
                    found.append(Fault(at, str(wrong)))
                    return value
            case Mapping():
                return {key: fill(one, f"{at}.{key}") for key, one in value.items()}
            case list() | tuple():
                return [fill(one, f"{at}[{number}]") for number, one in enumerate(value)]
            case _:
                return value

    done = {key: fill(value, f"{at}{key}") for key, value in arguments.items()}
    if found:
        raise Invalid(found, what=f"the templates in {what}")
    return done


def context(
    *,
    fire_time: str | None,
    previous_fire_time: str | None,
    cause: str,
    by: str,
    inputs: Mapping[str, Mapping[str, Any]],
    upstream: Mapping[str, Any] | None,
    timed_out_waiting: bool = False,
) -> dict[str, Any]:
    """What templates see of a run. Times are RFC 3339 in UTC."""
    return {
        "fire_time": fire_time,
        "previous_fire_time": previous_fire_time,
        "cause": {"type": cause, "by": by},
        "timed_out_waiting": timed_out_waiting,
        "inputs": {name: {key: one.get(key) for key in INPUT} for name, one in inputs.items()},
        "upstream": None if upstream is None else {key: upstream.get(key) for key in UPSTREAM},
    }


def _text(text: str, context: Mapping[str, Any]) -> Any:
    whole = _TEMPLATE.fullmatch(text)
    if whole is not None and whole[1] is not None and "{{" not in whole[1]:
        return _value(whole[1], context)
    return _TEMPLATE.sub(lambda one: "{{" if one[1] is None else _as_text(_value(one[1], context)), text)


def _value(text: str, context: Mapping[str, Any]) -> Any:
    template = parse(text)
    try:
        value = _look(template.path, context)
        for name, given in template.filters:
            value = _filter(name, given)(value)
    except BadTemplate as wrong:
        raise BadTemplate(f"{{{{ {template.text} }}}}: {wrong}") from None
    return value


def _look(path: tuple[str, ...], context: Mapping[str, Any]) -> Any:
    root, *rest = path
    _known(root, list(context), "is not known")
    value = context[root]
    if root == "inputs" and rest:
        dataset, left = dataset_of(rest, list(value))
        value, rest = value[dataset], list(left)
    for name in rest:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise BadTemplate(f"there is no {name!r} in it")
        if name not in value:
            raise BadTemplate(_unknown(name, list(value), "is not there"))
        value = value[name]
    return value


def _as_text(value: Any) -> str:
    match value:
        case str():
            return value
        case None:
            return ""
        case list() | tuple():
            return ",".join(map(_as_text, value))
        case _:
            return json.dumps(value)


# ── filters ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _filter(name: str, given: tuple[str, ...]) -> Callable[[Any], Any]:
    """Raises BadTemplate for one that there is not, or that lacks its argument."""
    least_most = {"date": (1, 2), "default": (1, 1), "join": (1, 1), "first": (0, 0), "last": (0, 0), "count": (0, 0)}
    _known(name, list(least_most), "is no filter")
    least, most = least_most[name]
    if not least <= len(given) <= most:
        needs = "one argument" if most else "no argument"
        if name == "date":
            needs = "a format, like date:'%Y-%m-%d', and perhaps a zone"
        raise BadTemplate(f"the filter {name!r} takes {needs}")
    if name == "date" and len(given) == 2:
        _zone(given[1])
    return lambda value: _apply(name, given, value)


def _apply(name: str, given: tuple[str, ...], value: Any) -> Any:
    match name:
        case "default":
            return given[0] if value is None else value
        case "date":
            return None if value is None else _date(value, given)
    if not isinstance(value, list | tuple):
        raise BadTemplate(f"the filter {name!r} takes a list, not {_as_text(value) or 'null'!r}")
    match name:
        case "join":
            return given[0].join(map(_as_text, value))
        case "count":
            return len(value)
        case _:
            return (value[0] if name == "first" else value[-1]) if value else None


def _date(value: Any, given: tuple[str, ...]) -> str:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise BadTemplate(f"the filter 'date' takes a time, not {_as_text(value)!r}") from None
    if len(given) == 2:
        offset = _zone(given[1]).offset_at(from_datetime(moment))
        moment = moment.astimezone(timezone(timedelta(microseconds=offset)))
    return moment.strftime(given[0])


def _zone(name: str) -> Zone:
    try:
        return resolve(name)
    except UnknownZone as wrong:
        raise BadTemplate(str(wrong)) from None
