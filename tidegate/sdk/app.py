"""`App`: programs and schedules that are deployed together, declared in Python.

Declaring runs nothing and talks to nobody: `tidegate deploy FILE` reads the declared application as documents and hands
them to the server, which validates and applies them in one transaction.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from tidegate.sdk.constraints import in_zone
from tidegate.sdk.data import Event
from tidegate.sdk.maintenance import Care
from tidegate.sdk.programs import Bound, Program, entry_of
from tidegate.sdk.triggers import When

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.sdk.run import Run

P = ParamSpec("P")
R = TypeVar("R")


class App:
    """An application: what is deployed together.

    `timezone` is the IANA zone of every trigger that names none. Names are unique within the namespace.
    """

    def __init__(self, name: str, *, namespace: str = "default", timezone: str = "UTC") -> None:
        self.name = name
        self.namespace = namespace
        self.timezone = timezone
        self.programs: dict[str, Program[..., Any]] = {}
        self._schedules: dict[str, dict[str, Any]] = {}
        self._policies: dict[str, dict[str, Any]] = {}

    # ── programs ───────────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def pyspark(self, function: Callable[Concatenate[Run, SparkSession, P], R], /) -> Program[P, R]: ...
    @overload
    def pyspark(
        self,
        /,
        *,
        name: str | None = ...,
        pool: str | None = ...,
        groups: Sequence[str] | None = ...,
        conf: Mapping[str, Any] | None = ...,
        isolation: str | None = ...,
        remote: str | None = ...,
        environment: Mapping[str, str] | None = ...,
        arguments: Mapping[str, Any] | None = ...,
    ) -> Callable[[Callable[Concatenate[Run, SparkSession, P], R]], Program[P, R]]: ...
    def pyspark(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Declare a function `(run, spark, ...arguments)` as a PySpark program."""
        return self._declare("pyspark", function, options)

    @overload
    def python(self, function: Callable[Concatenate[Run, P], R], /) -> Program[P, R]: ...
    @overload
    def python(self, function: Callable[P, R], /) -> Program[P, R]: ...
    @overload
    def python(
        self,
        /,
        *,
        name: str | None = ...,
        pool: str | None = ...,
        groups: Sequence[str] | None = ...,
        environment: Mapping[str, str] | None = ...,
        arguments: Mapping[str, Any] | None = ...,
    ) -> Callable[[Callable[..., R]], Program[..., R]]: ...
    def python(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Declare a function `([run,] ...arguments)` that runs in a pooled process, without Spark."""
        return self._declare("python", function, options)

    def sql(self, name: str, sql: str, **options: Any) -> Program[..., None]:
        """Declare Spark SQL: statements separated by `;`, with `{name}` for the run's arguments."""
        return self._add(Program(name, {"type": "spark_sql", "sql": sql, **_told(options)}))

    def command(self, name: str, *argv: str, **options: Any) -> Program[..., None]:
        """Declare a command: a process, found on PATH, never given to a shell."""
        return self._add(Program(name, {"type": "command", "argv": list(argv), **_told(options)}))

    def spark_submit(self, name: str, application: str, **options: Any) -> Program[..., None]:
        """Declare an application on a cluster: `master`, `deploy_mode`, `main_class`, `conf`, `args` as in the
        document."""
        return self._add(Program(name, {"type": "spark_submit", "application": application, **_told(options)}))

    def http(self, name: str, url: str, **options: Any) -> Program[..., None]:
        """Declare a call of another system: `method`, `headers`, `body`, `success`, `secret` as in the document."""
        return self._add(Program(name, {"type": "http", "url": url, **_told(options)}))

    def publish(self, name: str, event: Event, **options: Any) -> Program[..., None]:
        """Declare a program that publishes an event and does nothing else; key and payload may hold templates, e.g.
        `{{ arguments.region }}` or `{{ fire_time | date:"%Y-%m-%d" }}`. Its id and time are the run's."""
        if event.id is not None or event.time is not None:
            raise ValueError(f"program {name!r}: the event's id is the run's and its time the fire time; give neither")
        said = event.document()
        document = {"type": "publish", "event": said["type"], "key": said["key"], "payload": said["payload"]}
        return self._add(Program(name, {**document, **_told(options)}))

    def _declare(self, kind: str, function: Callable[..., Any] | None, options: dict[str, Any]) -> Any:
        if function is None:
            return lambda decorated: self._declare(kind, decorated, options)
        name = options.get("name") or function.__name__
        rest = {key: value for key, value in options.items() if key != "name"}
        return self._add(Program(name, {"type": kind, **_told(rest)}, function))

    def _add(self, program: Program[P, R]) -> Program[P, R]:
        if program.name in self.programs:
            raise ValueError(f"application {self.name!r} declares two programs named {program.name!r}")
        self.programs[program.name] = program
        return program

    # ── schedules ──────────────────────────────────────────────────────────────────────────────────────────────────

    def schedule(
        self,
        name: str,
        program: Program[..., Any] | Bound,
        *,
        when: When,
        only: Sequence[Mapping[str, Any]] | None = None,
        enabled: bool | None = None,
        arguments: Mapping[str, Any] | None = None,
        priority: int | None = None,
        groups: Sequence[str] | None = None,
        catch_up: str | Mapping[str, Any] | None = None,
        waiting: str | Mapping[str, Any] | None = None,
        retry: int | Mapping[str, Any] | None = None,
        timeout: str | Mapping[str, Any] | None = None,
        deadline: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        owner: str | None = None,
        description: str | None = None,
    ) -> None:
        """Declare a schedule of this application.

        `catch_up` is a policy (`"all"`) or the whole mapping; `retry` a number of attempts or the mapping; `timeout`
        the longest run time or the mapping; `only` the constraints (`only=[between("22:00", "06:00")]`; left out: one
        run of the schedule at a time); `waiting` what becomes of several waiting runs (`"merge"`) or the mapping;
        `groups` what limits of groups count; `deadline` by when runs must have started and finished
        (`{"finish": "3h"}`). A new schedule starts disabled unless `enabled`
        is true.
        """
        if name in self._schedules:
            raise ValueError(f"application {self.name!r} declares two schedules named {name!r}")
        bound = program if isinstance(program, Bound) else Bound(program.name)
        if bound.program not in self.programs:
            raise ValueError(
                f"schedule {name!r}: program {bound.program!r} is not declared by application {self.name!r}"
            )
        spec = _told(
            {
                "enabled": enabled,
                "program": bound.program,
                "arguments": {**bound.arguments, **(arguments or {})} or None,
                "priority": priority,
                "groups": list(groups) if groups is not None else None,
                "trigger": when.in_zone(self.timezone),
                "constraints": [in_zone(one, self.timezone) for one in only] if only is not None else None,
                "waiting": waiting,
                "catch_up": {"policy": catch_up} if isinstance(catch_up, str) else catch_up,
                "retry": {"max_attempts": retry} if isinstance(retry, int) else retry,
                "timeout": {"run": timeout} if isinstance(timeout, str) else timeout,
                "deadline": deadline,
            }
        )
        metadata = _told({"name": name, "labels": labels, "owner": owner, "description": description})
        self._schedules[name] = {"metadata": metadata, "spec": spec}

    # ── tables ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def maintain(
        self,
        name: str,
        *,
        tables: str,
        operations: Sequence[Care],
        priority: int | None = None,
        rank: str | None = None,
        budget: Mapping[str, Any] | None = None,
        thresholds: Mapping[str, Any] | None = None,
        weights: Mapping[str, float] | None = None,
        tags: Mapping[str, str] | None = None,
        enabled: bool | None = None,
    ) -> None:
        """Declare a maintenance policy: what `operations` are done to the tables that a pattern matches, and when.

        `priority` decides between policies that match one table; `budget` is the most that is spent in a rolling span
        (`{"bytes": "50 GB", "per": "1d"}`), `rank` who goes first under it (`"debt"` or `"value"`); `thresholds` and
        `weights` are what issues and the debt score go by. Policies belong to no namespace: `name` is unique among all.
        """
        if name in self._policies:
            raise ValueError(f"application {self.name!r} declares two policies named {name!r}")
        twice = sorted(
            {one.operation for one in operations if [x.operation for x in operations].count(one.operation) > 1}
        )
        if twice:
            raise ValueError(f"policy {name!r} names {', '.join(twice)} twice")
        spec = _told(
            {
                "tables": tables,
                "enabled": enabled,
                "priority": priority,
                "tags": tags,
                "rank": rank,
                "budget": budget,
                "thresholds": thresholds,
                "weights": weights,
                "operations": {one.operation: one.document(self.timezone) for one in operations},
            }
        )
        self._policies[name] = {"metadata": {"name": name}, "spec": spec}

    # ── what is deployed ───────────────────────────────────────────────────────────────────────────────────────────

    def application(self) -> dict[str, Any]:
        """The application as the documents that `tidegate deploy` sends: {namespace, name, programs, schedules}."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "programs": [self._program_document(program) for program in self.programs.values()],
            "schedules": [dict(schedule) for schedule in self._schedules.values()],
        }

    def policies(self) -> list[dict[str, Any]]:
        """What `maintain` declared, as whole documents."""
        head = {"apiVersion": "tidegate/v1", "kind": "MaintenancePolicy"}
        return [{**head, **one} for one in self._policies.values()]

    def documents(self) -> list[dict[str, Any]]:
        """All of it as a list of whole documents, as a YAML file would hold them."""
        application = self.application()
        kinds = (("Program", application["programs"]), ("Schedule", application["schedules"]))
        return [
            {
                "apiVersion": "tidegate/v1",
                "kind": kind,
                "metadata": {"namespace": self.namespace, "application": self.name, **item["metadata"]},
                "spec": item["spec"],
            }
            for kind, items in kinds
            for item in items
        ] + self.policies()

    def _program_document(self, program: Program[..., Any]) -> dict[str, Any]:
        spec = dict(program.document)
        if program.function is not None:
            module = sys.modules.get(program.function.__module__)
            spec["entry"] = entry_of(program.function, getattr(module, "__tidegate_path__", None))
        return {"metadata": {"name": program.name}, "spec": spec}


def _told(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}
