"""Checked documents: what `parsing` gives and `control` takes. Plain values, no framework."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from tidegate.domain.calendars import Calendar as ClosedDays
from tidegate.domain.instants import Duration
from tidegate.domain.maintenance.policy import Policy
from tidegate.domain.programs import ProgramSpec
from tidegate.domain.schedules import JsonObject, ScheduleSpec
from tidegate.domain.sinks import SinkSpec
from tidegate.domain.sources import SourceSpec
from tidegate.ports.records import Metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """`enabled` is what the document says: None when it says nothing. `document` is its spec as the person wrote it."""

    KIND: ClassVar[str] = "Schedule"
    metadata: Metadata
    spec: ScheduleSpec
    enabled: bool | None
    document: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    KIND: ClassVar[str] = "Program"
    metadata: Metadata
    spec: ProgramSpec
    document: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """`programs` or `schedules` None: the document does not list them, so what is deployed stays as it is."""

    KIND: ClassVar[str] = "Application"
    metadata: Metadata
    programs: tuple[Program, ...] | None
    schedules: tuple[Schedule, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    KIND: ClassVar[str] = "Namespace"
    metadata: Metadata  # namespace is empty
    document: JsonObject = field(default_factory=dict)  # its metadata without the name


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """`rate`: (max, per, burst), or None for no limit. `borrow`: (of which pool, how many slots at most), or None."""

    KIND: ClassVar[str] = "Pool"
    metadata: Metadata  # namespace is empty
    slots: int
    rate: tuple[int, Duration, int] | None
    borrow: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """`name`: as triggers name it; `document`: its metadata and spec as the person wrote them."""

    KIND: ClassVar[str] = "Dataset"
    metadata: Metadata  # namespace is empty
    kind: str
    name: str
    watch: Duration | None
    document: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """`document`: its metadata and spec as the person wrote them."""

    KIND: ClassVar[str] = "Calendar"
    metadata: Metadata  # namespace is empty
    calendar: ClosedDays
    document: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """`document`: its metadata and spec as the person wrote them. The policy's revision is 0: the store counts."""

    KIND: ClassVar[str] = "MaintenancePolicy"
    metadata: Metadata  # namespace is empty
    policy: Policy
    document: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """`document`: its metadata and spec as the person wrote them."""

    KIND: ClassVar[str] = "Sink"
    metadata: Metadata  # namespace is empty
    spec: SinkSpec
    document: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """`document`: its metadata and spec as the person wrote them."""

    KIND: ClassVar[str] = "Source"
    metadata: Metadata  # namespace is empty
    spec: SourceSpec
    document: JsonObject


Declaration: TypeAlias = (
    Schedule | Program | Application | Namespace | Pool | Dataset | Calendar | MaintenancePolicy | Sink | Source
)
