"""How values of settings are written: durations, sizes, names, pairs, probes, catalogs, addresses."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field

from tidegate.domain.instants import Duration, parse_duration, parse_size
from tidegate.ports.probing import ProbeSpec


def read_duration(value: object) -> object:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, int) and not isinstance(value, bool):  # a default, already in microseconds, is not read here
        raise ValueError(f"{value} is not a duration; write it with a unit, like PT30S or 30s")
    return value


def read_size(value: object) -> object:
    return parse_size(value) if isinstance(value, str) else value


def read_names(value: object) -> object:
    """A list, also written `a, b` in an environment variable; never empty."""
    found = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    if found == []:
        raise ValueError("must name at least one")
    return found


def read_pairs(value: object) -> object:
    """A table, also written `k=v, k=v` in an environment variable."""
    if not isinstance(value, str):
        return value
    return {key.strip(): text.strip() for key, _, text in (part.partition("=") for part in _split(value))}


def _probe(value: object, name: str) -> ProbeSpec:
    """A probe, also written as JSON in an environment variable."""
    try:
        return ProbeSpec.of(name, json.loads(value) if isinstance(value, str) else value)
    except json.JSONDecodeError:
        raise ValueError("must be a table with `type`; in the environment as JSON") from None


def read_probes(value: object) -> object:
    if not isinstance(value, Mapping):
        raise ValueError("must be probes by name, each a table of its own: [probes.NAME]")
    found, wrong = {}, []
    for name, given in value.items():
        try:
            found[name] = given if isinstance(given, ProbeSpec) else _probe(given, str(name))
        except ValueError as fault:
            wrong.append(str(fault))
    if wrong:
        raise ValueError("; ".join(wrong))
    return found


def read_catalogs(value: object) -> object:
    """Tables by name, also written as JSON in an environment variable."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError("must be catalogs by name; in the environment as JSON") from None
    if not isinstance(value, Mapping):
        raise ValueError("must be catalogs by name, each a table of its own")
    for name, given in value.items():
        if not isinstance(given, Mapping):
            raise ValueError(f"{name!r} must be a table with at least `type`")
        needs = {"rest": "uri", "jdbc": "type"}
        if given.get("type") not in needs:
            raise ValueError(f"the `type` of catalog {name!r} must be rest or jdbc")
        if needs[given["type"]] not in given:
            raise ValueError(f"catalog {name!r} lacks {needs[given['type']]!r}")
        if not name.isidentifier():
            raise ValueError(
                f"{name!r} is not a catalog's name: letters, digits and '_' (it begins the names of tables)"
            )
    return {name: {key: _plain(one) for key, one in given.items()} for name, given in value.items()}


def _plain(value: object) -> str:
    """A property as Iceberg wants it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _split(value: str) -> list[str]:
    return [part for part in value.split(",") if part.strip()]


def read_database(value: object) -> object:
    """A connection URL that the driver understands."""
    if isinstance(value, str) and value:
        import psycopg  # here: it takes a while, and most settings have none
        from psycopg.conninfo import conninfo_to_dict

        try:
            conninfo_to_dict(value)
        except psycopg.ProgrammingError as error:
            reason = str(error).replace(value, "…").strip().rstrip(".")  # it may hold a password
            raise ValueError(f"is no address of a database ({reason}); write postgresql://USER@HOST/NAME") from None
    return value


Span = Annotated[Duration, BeforeValidator(read_duration), Field(gt=0), "duration"]
Wait = Annotated[Duration, BeforeValidator(read_duration), Field(ge=0), "duration"]
Size = Annotated[int, BeforeValidator(read_size), Field(gt=0), "size"]


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine."""
    name = host.strip().strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
