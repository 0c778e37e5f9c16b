"""How the Spark launcher, the warm drivers and the children that run user programs speak to each other.

They are separate processes, and the launcher never imports what runs on Spark: what they share is on this page. It is
a specification file (`SparkSettings` and the catalog's address, 0600 under the home, never on a command line, since
those are visible to every user of the machine), a status file per driver, and JSON lines over a Unix socket.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tidegate.domain.instants import MINUTE, SECOND, Duration

SPEC = "spec.json"
"""Under `HOME/drivers`: what every driver and child builds its session from."""
STATUS = "status.json"
"""Under `HOME/drivers/<id>`: what a driver says of itself."""
PROGRESS = "spark.json"
"""In an attempt's directory: how far a Spark attempt has come (`{"phase": ..., "driver": ...}`)."""
VERDICT = "verdict.json"
"""In an attempt's directory: how it ended, where more is known than an exit status: `{outcome, error}`."""

RUN_KEY = "tidegate.run-key"
FENCE = "tidegate.fence"
ATTEMPT = "tidegate.attempt"
"""The summary properties of every Iceberg snapshot that an attempt commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """The `[spark]` section of the settings."""

    master: str = "local[*]"
    """Where Spark runs: `local[*]`, `spark://…`, `yarn`, `k8s://…`."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Any Spark property; wins over ours, except for the catalog's address and the Connect server."""
    driver_memory: str = "1g"
    """Heap of each driver's JVM."""
    drivers: int = 1
    """At most this many warm drivers at a time."""
    attempts_per_driver: int = 4
    """A further driver is started, up to `drivers`, when each has this many attempts."""
    idle: Duration = 10 * MINUTE
    """A driver with nothing to do for this long ends."""
    start_timeout: Duration = 180 * SECOND
    """How long a driver may take to come up, the first download of the jars included."""
    patience: Duration = 2 * MINUTE
    """A driver that does not answer for this long, or whose JVM does not, hangs: it is killed."""
    catalog: str = "lake"
    """Name of the Iceberg catalog, in Spark and in PyIceberg."""
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Further Iceberg catalogs by name: their `type` (`rest`, `jdbc`) and Iceberg's own properties. One of the name
    of `catalog` adds properties to that."""
    catalog_schema: str = "lake"
    """PostgreSQL schema that holds the catalog's tables; made when missing."""
    warehouse: str = ""
    """Where new tables go; empty: `HOME/warehouse`."""
    java_home: str = ""
    """Java 17 or 21 to use; empty: JAVA_HOME, `java` on PATH, else the one that comes as a package."""
    jars_dir: str = ""
    """Where the jars are kept; empty: `HOME/jars`. Jars placed there by hand are used if their hash is right."""
    trust_store: str = ""
    """A Java trust store (JKS or PKCS12) for downloading jars; empty: made from the system's CA set."""
    trust_store_password: str = "changeit"
    ivy_settings: str = ""
    """An Ivy settings file, for a company mirror; empty: Ivy's own."""
    log_level: str = "WARN"

    def to_json(self) -> dict[str, Any]:
        catalogs = {name: dict(properties) for name, properties in self.catalogs.items()}
        return asdict(self) | {"conf": dict(self.conf), "catalogs": catalogs}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> SparkSettings:
        known = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in given.items() if name in known})


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSpec:
    """All that a session is built from. Secret: `catalog_url` holds a password."""

    home: str
    catalog_url: str
    settings: SparkSettings

    def dump(self) -> str:
        given = {"home": self.home, "catalog_url": self.catalog_url, "settings": self.settings.to_json()}
        return json.dumps(given, sort_keys=True)

    @classmethod
    def load(cls, text: str) -> DriverSpec:
        given = json.loads(text)
        return cls(
            home=given["home"],
            catalog_url=given["catalog_url"],
            settings=SparkSettings.from_json(given["settings"]),
        )

    def further_catalogs(self) -> Mapping[str, Mapping[str, str]]:
        """Catalogs beside the one of Tidegate's database."""
        return {name: given for name, given in self.settings.catalogs.items() if name != self.settings.catalog}

    @property
    def digest(self) -> str:
        """Drivers of another digest were started under other settings and take nothing new."""
        return hashlib.sha256(self.dump().encode()).hexdigest()[:16]
