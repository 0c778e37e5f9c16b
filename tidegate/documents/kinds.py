"""The documents whole, one model per kind: what OpenAPI shows and `parsing` checks against."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from tidegate.documents.base import Document
from tidegate.documents.calendars import CalendarSpec
from tidegate.documents.others import (
    ApplicationSpec,
    DatasetSpec,
    GlobalMetadata,
    Metadata,
    NamespaceSpec,
    PoolMetadata,
    PoolSpec,
)
from tidegate.documents.policies import PolicySpec
from tidegate.documents.programs import Program as ProgramSpec
from tidegate.documents.schedules import ScheduleSpec
from tidegate.documents.sinks import SinkDocument
from tidegate.documents.sources import SourceSpecification

API_VERSION = "tidegate/v1"


class Envelope(Document):
    """What every document begins with. `status` is what the server answers; it is read over, so that an answer can be
    edited and sent back."""

    apiVersion: Literal["tidegate/v1"] = "tidegate/v1"
    status: Any = Field(default=None, exclude=True)


class Schedule(Envelope):
    """A program, its arguments, and when it may run."""

    kind: Literal["Schedule"] = "Schedule"
    metadata: Metadata
    spec: ScheduleSpec


class Program(Envelope):
    """What runs."""

    kind: Literal["Program"] = "Program"
    metadata: Metadata
    spec: ProgramSpec


class Application(Envelope):
    """Programs and schedules that are deployed together."""

    kind: Literal["Application"] = "Application"
    metadata: Metadata
    spec: ApplicationSpec = Field(default_factory=ApplicationSpec)


class Namespace(Envelope):
    """A tenancy: names are unique within it."""

    kind: Literal["Namespace"] = "Namespace"
    metadata: GlobalMetadata
    spec: NamespaceSpec = Field(default_factory=NamespaceSpec)


class Pool(Envelope):
    """Capacity that programs share."""

    kind: Literal["Pool"] = "Pool"
    metadata: PoolMetadata
    spec: PoolSpec


class Calendar(Envelope):
    """Days and hours in which nothing starts whose schedule names it in a `blackout` constraint."""

    kind: Literal["Calendar"] = "Calendar"
    metadata: GlobalMetadata
    spec: CalendarSpec = Field(default_factory=CalendarSpec)


class Dataset(Envelope):
    """Named data that triggers wait for. Needs no declaration, unless its watching is to be set."""

    kind: Literal["Dataset"] = "Dataset"
    metadata: GlobalMetadata
    spec: DatasetSpec = Field(default_factory=DatasetSpec)


class MaintenancePolicy(Envelope):
    """How tables are kept healthy: those that a pattern matches, by operations that are due, within a budget."""

    kind: Literal["MaintenancePolicy"] = "MaintenancePolicy"
    metadata: GlobalMetadata
    spec: PolicySpec


class Sink(Envelope):
    """Where the event log is delivered to: a Kafka topic, an address or a table."""

    kind: Literal["Sink"] = "Sink"
    metadata: GlobalMetadata
    spec: SinkDocument


class Source(Envelope):
    """Where events come from outside: topics of Kafka, each message exactly one event."""

    kind: Literal["Source"] = "Source"
    metadata: GlobalMetadata
    spec: SourceSpecification


MODELS: dict[str, type[BaseModel]] = {
    "Namespace": Namespace,
    "Application": Application,
    "Program": Program,
    "Schedule": Schedule,
    "Pool": Pool,
    "Calendar": Calendar,
    "Dataset": Dataset,
    "MaintenancePolicy": MaintenancePolicy,
    "Sink": Sink,
    "Source": Source,
}
IN_NAMESPACE = frozenset({"Application", "Program", "Schedule"})
