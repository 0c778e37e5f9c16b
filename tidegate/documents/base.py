"""What all document models share."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from tidegate.domain.instants import format_duration


def _as_written(schema: dict[str, Any]) -> None:
    """Defaults in the JSON schema as a person would write them: PT1M, "24:00"; not as the integers behind them."""
    for field in schema.get("properties", {}).values():
        default = field.get("default")
        if not isinstance(default, int) or field.get("type") != "string":
            continue
        duration = field.get("format") == "duration"
        field["default"] = format_duration(default) if duration else f"{default // 60:02}:{default % 60:02}"


class Document(BaseModel):
    """Strict (no conversion between JSON types), closed (an unknown key is an error) and immutable."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, json_schema_extra=_as_written
    )
