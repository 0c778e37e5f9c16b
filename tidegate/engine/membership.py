"""Says that this process is alive, and finds out who no longer is.

A dead process is seen at once where the database can tell (its session lock is gone: the next in the ring of instances
waits for just that), a frozen one by the silence of its heartbeat. Either way it is retired: its epoch rises, so that
nothing it may still want to write is taken, its attempts are free to be adopted, and everybody looks at once for what
it had in hand: runs that it recorded and did not admit, or admitted and told nobody. A process that was retired itself
learns it from its next heartbeat: `Fenced` leaves this part, ends the loop, and whoever started the process starts a
new one under a new registration.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.domain.ids import Fence
from tidegate.domain.instants import SECOND, Duration, Instant
from tidegate.engine.outcome import SHARED, Outcome, Topic
from tidegate.ports import engine as ports


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipSettings:
    heartbeat: Duration = SECOND
    """How often this process says that it is alive."""
    look: Duration = SECOND
    """How often it looks for others that died or froze, should nothing have told it."""
    patience: Duration = 5 * SECOND
    """How long a heartbeat may be silent. Longer than any pause that a healthy process makes."""


class Membership:
    name = "membership"
    topics = frozenset({Topic.GONE})

    def __init__(
        self, store: ports.Membership, fence: Fence, settings: MembershipSettings = MembershipSettings()
    ) -> None:
        self._store = store
        self._fence = fence
        self._settings = settings
        self._beat_at: Instant = 0

    def hear(self, topic: Topic) -> None:
        """Every step looks anyway."""

    async def step(self, now: Instant) -> Outcome:
        """One heartbeat if it is time, one look round."""
        if now >= self._beat_at:
            await self._store.beat(self._fence, now)
            self._beat_at = now + self._settings.heartbeat

        notes = []
        for one in await self._store.silent(now, self._settings.patience):
            if one.id != self._fence.instance_id and await self._store.retire(one, now):
                silence = f"{max(0, now - one.heartbeat) / SECOND:.1f} s"
                notes.append(f"{one.role} {one.name} (pid {one.pid}) is gone, last heard {silence} ago: fenced.")

        return Outcome(
            did=len(notes),
            next=min(self._beat_at, now + self._settings.look),
            wakes=SHARED if notes else frozenset(),
            notes=tuple(notes),
        )
