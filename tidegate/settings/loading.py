"""Gather the layers (file, environment, flags), refuse what is unknown, check the rest."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.sources import InitSettingsSource

from tidegate.domain.errors import Fault, Invalid, Refused
from tidegate.ports.probing import ProbeSpec
from tidegate.settings.sections import (
    ApiSettings,
    DatabaseSettings,
    LakeSettings,
    LogSettings,
    MaintenanceSettings,
    RetentionSettings,
    SchedulerSettings,
    Section,
    SparkSettings,
    WorkerSettings,
)
from tidegate.settings.values import read_probes

PREFIX = "TIDEGATE_"
FILE = "tidegate.toml"


class Settings(BaseSettings):
    """All of it, checked. Immutable; build it with `load`."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    home: Path
    database: DatabaseSettings = DatabaseSettings()
    api: ApiSettings = ApiSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    worker: WorkerSettings = WorkerSettings()
    spark: SparkSettings = SparkSettings()
    lake: LakeSettings = LakeSettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    probes: Annotated[dict[str, ProbeSpec], BeforeValidator(read_probes)] = Field(default_factory=dict)
    retention: RetentionSettings = RetentionSettings()
    log: LogSettings = LogSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` gathered: it reads environment and file itself, so that nothing unknown is passed over."""
        assert isinstance(init_settings, InitSettingsSource)
        layers = init_settings.init_kwargs.pop("layers", [])
        return (init_settings, *(InitSettingsSource(settings_cls, layer) for layer in layers))


SECTIONS: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}


PROBES = "probes"


def default_home(environ: Mapping[str, str] = os.environ) -> Path:
    """TIDEGATE_HOME, else ~/.tidegate."""
    return Path(environ.get("TIDEGATE_HOME") or "~/.tidegate").expanduser().absolute()


def load(
    *,
    home: Path | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """Gather and check. Flags that are None count as not given.

    Raises Invalid with every fault at once (each with its key and where it was found), and Refused for a file that
    cannot be read.
    """
    place = home.expanduser().absolute() if home is not None else default_home(environ)
    file = place / FILE
    layers = {
        "flag": {s: {k: v for k, v in keys.items() if v is not None} for s, keys in (flags or {}).items()},
        "environment": _from_environment(environ),
        str(file): _from_file(file),
    }
    faults = [fault for source, layer in layers.items() for fault in _unknown(layer, source)]
    if not faults:
        try:
            return Settings(home=place, layers=list(layers.values()))  # type: ignore[call-arg]
        except ValidationError as error:
            faults = [_fault(dict(one), layers) for one in error.errors()]
    raise Invalid(faults, what="the configuration")


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Every TIDEGATE_SECTION__KEY; other TIDEGATE_ names (home, URL, what a run is given) are not settings."""
    found: dict[str, Any] = {}
    for name, value in sorted(environ.items()):
        if name.startswith(PREFIX) and "__" in name:
            section, _, key = name.removeprefix(PREFIX).lower().partition("__")
            found.setdefault(section, {})[key] = value
    if url := environ.get("TIDEGATE_DATABASE_URL"):
        found.setdefault("database", {})["url"] = url
    return found


def _from_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except tomllib.TOMLDecodeError as error:
        raise Refused(f"{file} is not TOML: {error}.", remedy="Mend it or move it away.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{file} cannot be read: {error}.", remedy="Make it a readable UTF-8 file.") from None


def _unknown(layer: Mapping[str, Any], source: str) -> Iterator[Fault]:
    for section, keys in layer.items():
        if section == PROBES:  # its keys are names of people's own
            continue
        if section not in SECTIONS:
            yield Fault(section, f"there is no such section ({source}); {_nearest(section, [*SECTIONS, PROBES])}")
        elif not isinstance(keys, Mapping):
            yield Fault(section, f"is a section, not a value ({source}); its keys are {', '.join(_keys(section))}")
        else:
            for key in keys:
                if key not in _keys(section):
                    reason = f"there is no such setting ({source}); {_nearest(key, _keys(section))}"
                    yield Fault(f"{section}.{key}", reason)


def _keys(section: str) -> list[str]:
    return list(SECTIONS[section].model_fields)


def _nearest(word: str, known: Mapping[str, Any] | list[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"


SECRET = re.compile(r"url|uri|dsn|password|secret|token|credential|key$", re.IGNORECASE)
"""Names of settings whose values are not repeated in messages."""


def _fault(error: Mapping[str, Any], layers: Mapping[str, Mapping[str, Any]]) -> Fault:
    """One pydantic error in our words, with the layer that the value came from."""
    path = [str(part) for part in error["loc"]]
    if path == [PROBES]:
        return Fault(PROBES, str(error["msg"]).removeprefix("Value error, "))
    section, key = (path + ["", ""])[:2]
    source = next((name for name, layer in layers.items() if key in layer.get(section, {})), "")
    reason = str(error["msg"]).removeprefix("Value error, ")
    if not key:
        return Fault(section, reason)
    given = "not shown here" if SECRET.search(path[-1]) else repr(error.get("input"))
    return Fault(".".join(path[:2]), f"{reason}; given was {given} ({source})")
