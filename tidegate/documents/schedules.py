"""The Schedule document's spec: constraints and policies as people write them, with SEMANTICS's defaults."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from tidegate.documents.base import Document
from tidegate.documents.constraints import MANY, Concurrency, Constraint, constraint_of, twice
from tidegate.documents.scalars import Duration, JsonMap, Name, PositiveDuration, choice, wrong
from tidegate.documents.triggers import Trigger, trigger_of
from tidegate.domain import schedules, templates, triggers
from tidegate.domain.errors import Fault
from tidegate.domain.evidence import datasets
from tidegate.domain.instants import format_duration
from tidegate.domain.schedules import CatchUpPolicy, DeadlineFrom, ThenFailed, ThenWaiting, Waiting


class CatchUp(Document):
    """What becomes of fires that were due while no scheduler ran."""

    policy: Annotated[Literal["none", "latest", "all"], choice("a catch-up policy", CatchUpPolicy)] = Field(
        default="latest",
        description="none of the missed fires run, the newest of all that is due, or all within limits",
    )
    grace: Duration = Field(default=60_000_000, description="what is late by no more than this simply runs")
    window: PositiveDuration = Field(default=86_400_000_000, description="under `all`: nothing older runs")
    max: int = Field(default=100, ge=1, le=MANY, description="under `all`: at most so many run, the newest")


class WaitingPolicy(Document):
    """Several waiting runs of one schedule, and how long they may wait."""

    runs: Annotated[Literal["all", "merge", "latest"], choice("`waiting.runs`", Waiting)] | None = Field(
        default=None,
        description="all start; or they merge into the oldest; or only the latest starts. "
        "Left out: merge where the trigger waits for data or events, else all",
    )
    max: int = Field(default=1000, ge=1, le=MANY, description="more waiting runs than this: the oldest expire")
    timeout: PositiveDuration | None = Field(default=None, description="how long a run may wait; left out: for ever")
    then: Annotated[Literal["discard", "run"], choice("`waiting.then`", ThenWaiting)] = Field(
        default="discard",
        description="after the timeout: the run ends expired; or it goes, without delay, window, min_interval, rate "
        "and load",
    )


def _waiting(value: object) -> object:
    """The short form: `waiting: all`."""
    return {"runs": value} if isinstance(value, str) else value


class Retry(Document):
    """What follows a failure."""

    max_attempts: int = Field(default=1, ge=1, le=10_000, description="attempts of one run, the first included")
    delay: Duration = Field(default=60_000_000, description="before the second attempt")
    factor: float = Field(default=2.0, ge=1, le=1000, description="by which each further delay grows")
    max_delay: Duration = Field(default=3_600_000_000, description="no delay is longer")
    then: Annotated[Literal["continue", "pause"], choice("`retry.then`", ThenFailed)] = Field(
        default="continue",
        description="after the last attempt failed: continue, the schedule goes on with its next fire; pause, it is "
        "suspended in mode `hold` with the reason, until somebody enables it",
    )

    @field_validator("max_delay")
    @classmethod
    def _not_below_delay(cls, max_delay: int, info: ValidationInfo) -> int:
        delay = info.data.get("delay")
        if delay is not None and max_delay < delay:
            raise wrong(f"must not be shorter than delay ({format_duration(delay)})")
        return max_delay


class Timeout(Document):
    """How long an attempt may run."""

    run: PositiveDuration | None = Field(default=None, description="longest run time of an attempt; left out: no limit")
    grace: Duration = Field(default=30_000_000, description="between the polite stop and the kill")


class Deadline(Document):
    """By when a run must have started and finished; a breach is an event, and so is one at risk."""

    start: PositiveDuration | None = Field(default=None, description="how long after that it must have started")
    finish: PositiveDuration | None = Field(default=None, description="how long after that it must have finished")
    since: Annotated[Literal["due", "arrival"], choice("a beginning of a deadline", DeadlineFrom)] = Field(
        default="due",
        alias="from",
        description="what it counts from: the fire time (without one, when its trigger was satisfied), or the arrival "
        "of the first thing that its trigger collected",
    )

    @field_validator("finish")
    @classmethod
    def _not_before_start(cls, finish: int | None, info: ValidationInfo) -> int | None:
        start = info.data.get("start")
        if finish is not None and start is not None and finish < start:
            raise wrong(f"must not be shorter than start ({format_duration(start)})")
        return finish

    @model_validator(mode="after")
    def _says_something(self) -> Deadline:
        if self.start is None and self.finish is None:
            raise wrong("says neither start nor finish; give at least one of them")
        return self


def _alone() -> list[Constraint]:
    """One run of the schedule at a time."""
    return [Concurrency(type="concurrency", max=1)]


class ScheduleSpec(Document):
    """Program, arguments, trigger, constraints and policies of a schedule."""

    enabled: bool | None = Field(
        default=None, description="whether it works; a new schedule is disabled unless this is true"
    )
    program: Name = Field(description="the name of a program of the same namespace")
    arguments: JsonMap = Field(default_factory=dict, description="given to the program; over the program's own")
    priority: int = Field(default=50, ge=0, le=100, description="0 to 100, higher first")
    groups: list[Name] = Field(default_factory=list, description="what group limits count")
    trigger: Trigger = Field(description='the rule for when, e.g. {type: cron, expression: "0 2 * * *"}')
    constraints: list[Constraint] = Field(default_factory=_alone, description="the rules for may it now")
    waiting: Annotated[WaitingPolicy, BeforeValidator(_waiting)] = Field(default_factory=WaitingPolicy)
    catch_up: CatchUp = Field(default_factory=CatchUp)
    retry: Retry = Field(default_factory=Retry)
    timeout: Timeout = Field(default_factory=Timeout)
    deadline: Deadline | None = Field(default=None, description="by when its runs must have started and finished")

    @field_validator("constraints")
    @classmethod
    def _nothing_twice(cls, constraints: list[Any]) -> list[Any]:
        if (reason := twice(constraints)) is not None:
            raise wrong(reason)
        return constraints


def template_faults(document: ScheduleSpec, trigger: triggers.Trigger) -> list[Fault]:
    """What can be known by now to be wrong with the templates in a schedule's arguments."""
    waits_for = any(isinstance(one, triggers.ProgramStatus) for one in triggers.nodes(trigger))
    return templates.faults(document.arguments, datasets(trigger), upstream=waits_for, at="arguments")


def spec_of(document: ScheduleSpec, namespace: str) -> schedules.ScheduleSpec:
    """The domain's value of a schedule's spec (without `enabled`, which is no part of it)."""
    waiting, catch_up, retry = document.waiting, document.catch_up, document.retry
    trigger = trigger_of(document.trigger, namespace)
    return schedules.ScheduleSpec(
        program=document.program,
        trigger=trigger,
        arguments=document.arguments,
        priority=document.priority,
        groups=tuple(document.groups),
        constraints=tuple(map(constraint_of, document.constraints)),
        waiting=schedules.WaitingPolicy(
            runs=Waiting(waiting.runs) if waiting.runs else schedules.waiting_by_default(trigger),
            max=waiting.max,
            timeout=waiting.timeout,
            then=ThenWaiting(waiting.then),
        ),
        catch_up=schedules.CatchUp(
            policy=CatchUpPolicy(catch_up.policy), grace=catch_up.grace, window=catch_up.window, max=catch_up.max
        ),
        retry=schedules.Retry(
            max_attempts=retry.max_attempts,
            delay=retry.delay,
            factor=float(retry.factor),
            max_delay=retry.max_delay if "max_delay" in retry.model_fields_set else max(retry.max_delay, retry.delay),
            then=ThenFailed(retry.then),
        ),
        timeout=schedules.Timeout(run=document.timeout.run, grace=document.timeout.grace),
        deadline=None
        if document.deadline is None
        else schedules.Deadline(
            start=document.deadline.start,
            finish=document.deadline.finish,
            since=DeadlineFrom(document.deadline.since),
        ),
    )
