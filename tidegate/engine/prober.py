"""Reads the resources that `load` constraints ask for, and writes down what it found.

Each probe of the settings is read by its own clock, whether somebody waits for it or not, so that a run which comes
later is judged by a fresh reading. A pool is looked at while somebody waits for it: at once when its use changes, and
else now and then, since what came and went between two looks is seen by nobody. A resource that cannot be read has no
value: what asks for it waits, and says why.

One scheduler does it, under the lease `probes`. What if this process dies: the last readings stay, and the next holder
of the lease reads on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tidegate.domain.constraints import POOL, Gauge
from tidegate.domain.ids import Fence
from tidegate.domain.instants import SECOND, Duration, Instant
from tidegate.engine.outcome import Outcome, Topic
from tidegate.ports.probing import ProberStore, Probes, Reading

DUTY = "probes"
MISSED = 5
"""After so many of its intervals without another reading, one counts as none: nobody reads it, or it hangs."""
UNKNOWN = "there is no probe of that name; add [probes.{name}] to tidegate.toml where schedulers run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProberSettings:
    look: Duration = SECOND
    """How often pools that somebody waits for are looked at."""
    again: Duration = 10 * SECOND
    """How often what has not changed, or what nobody can read, is written down again."""
    term: Duration = 90 * SECOND
    """Of the lease."""


class Prober:
    name = "prober"
    topics: frozenset[Topic] = frozenset()

    def __init__(
        self, store: ProberStore, probes: Probes, fence: Fence, settings: ProberSettings = ProberSettings()
    ) -> None:
        self._store = store
        self._probes = probes
        self._fence = fence
        self._settings = settings
        self._next: Instant = 0
        self._due: dict[str, Instant] = {}
        self._told: dict[str, tuple[Reading, Instant]] = {}

    def hear(self, topic: Topic) -> None:
        """Nothing to hear."""

    async def step(self, now: Instant) -> Outcome:
        """Read what is due, look at the pools, and write down what there is to say."""
        if now < self._next:
            return Outcome(next=self._next)
        if await self._store.acquire(DUTY, self._fence, now, self._settings.term) is None:
            self._next = now + self._settings.again
            self._due, self._told = {}, {}
            return Outcome(next=self._next)

        every = self._probes.every
        due = [name for name in every if self._due.get(name, 0) <= now]
        found = dict(await self._probes.read(due)) if due else {}
        self._due |= {name: now + every[name] for name in due}
        awaited = set(await self._store.awaited())
        found |= await self._pools({one for one in awaited if one.startswith(POOL)}, now)
        found |= self._unknown({one for one in awaited if not one.startswith(POOL)} - every.keys(), now)

        notes = [note for name, reading in found.items() if (note := self._news(name, reading))]
        then = await self._store.now() if due else now  # reading takes a while
        for name, reading in sorted(found.items()):
            fresh = None if name not in every else then + MISSED * max(every[name], self._settings.look)
            await self._store.record_gauge(self._fence, name, Gauge(reading.value, then, reading.error, fresh), then)
            self._told[name] = (reading, now)
        wakes = frozenset({Topic.ADMIT}) if awaited & found.keys() else frozenset[Topic]()
        self._next = min([now + self._settings.look, *(self._due[name] for name in every)])
        return Outcome(did=len(found), next=self._next, wakes=wakes, notes=tuple(notes))

    async def _pools(self, awaited: Collection[str], now: Instant) -> dict[str, Reading]:
        """Pools of which there is something to say."""
        for gone in [name for name in self._told if name.startswith(POOL) and name not in awaited]:
            del self._told[gone]  # whoever waits for it next shall be told in any case
        if not awaited:
            return {}
        used = {f"{POOL}{one.name}": Reading(100.0 * one.used / one.slots) for one in await self._store.pools()}
        return {name: used[name] for name in awaited & used.keys() if self._is_news(name, used[name], now)}

    def _unknown(self, awaited: Collection[str], now: Instant) -> dict[str, Reading]:
        """Resources that no probe reads."""
        found = {name: Reading(None, UNKNOWN.format(name=name)) for name in awaited}
        return {name: reading for name, reading in found.items() if self._is_news(name, reading, now)}

    def _is_news(self, name: str, reading: Reading, now: Instant) -> bool:
        told = self._told.get(name)
        return told is None or told[0] != reading or told[1] + self._settings.again <= now

    def _news(self, name: str, reading: Reading) -> str:
        """What an operator should read: that a probe begins to fail, or works again."""
        before = self._told[name][0].error if name in self._told else ""
        if bool(before) == bool(reading.error):
            return ""
        return f"{name} cannot be read: {reading.error}" if reading.error else f"{name} can be read again."
