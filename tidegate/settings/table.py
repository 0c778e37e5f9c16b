"""The one table of all settings, made from the code: docs/reference/settings.md."""

from __future__ import annotations

import dataclasses
from typing import get_args

from tidegate.domain.instants import format_duration
from tidegate.ports.probing import PROBE_KEYS, ProbeSpec
from tidegate.settings.loading import PREFIX, SECTIONS


def _written(value: object, annotation: object) -> str:
    """A default as a person would write it in the file."""
    match value:
        case bool():
            return str(value).lower()
        case int() if "duration" in get_args(annotation) or annotation == "duration":
            return format_duration(value)
        case tuple():
            return ", ".join(map(str, value))
        case "" | {}:
            return ""
        case _:
            return str(value)


def table() -> str:
    """The one table of all settings, as docs/reference/settings.md."""
    lines = [
        "# Settings",
        "",
        "Read from `tidegate.toml` in the home (`--home` or `TIDEGATE_HOME`, default `~/.tidegate`), overridden by the",
        "environment variable named here, overridden by flags. `TIDEGATE_DATABASE_URL` is short for",
        "`TIDEGATE_DATABASE__URL`. An unknown section or key is an error. Durations are ISO 8601 (`PT30S`) or short",
        "(`30s`).",
        "This page is made by `python -m tidegate.settings`.",
        "",
        "| Section | Key | Environment | Default | Meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    for section, model in SECTIONS.items():
        for key, field in model.model_fields.items():
            kind = "duration" if "duration" in field.metadata else ""
            default = _written(field.get_default(call_default_factory=True), kind)
            env = f"{PREFIX}{section.upper()}__{key.upper()}"
            shown = f"`{default}`" if default else ""
            lines.append(f"| {section} | {key} | `{env}` | {shown} | {field.description} |")
    for one in dataclasses.fields(ProbeSpec):
        default = "" if one.default is dataclasses.MISSING else _written(one.default, "duration")
        shown = f"`{default}`" if default not in ("", "()") else ""
        lines.append(f"| probes.NAME | {one.name} | `{PREFIX}PROBES__NAME` (JSON) | {shown} | {PROBE_KEYS[one.name]} |")
    return "\n".join(lines) + "\n"
