"""Who is here: instances, their heartbeats and sessions, takeovers, leases. Each call is a transaction of its own."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.domain.ids import Fence
from tidegate.domain.instants import Duration, Instant
from tidegate.domain.schedules import JsonObject
from tidegate.ports.engine import Instance
from tidegate.sim.memory.data import Data
from tidegate.sim.memory.engine import check_fence
from tidegate.sim.memory.rows import InstanceRow, LeaseRow, copied


class MembershipCalls:
    """The part of the store that `ports.engine.Membership` names. A session ends by `lose_session`."""

    data: Data

    async def register(self, *, role: str, name: str, host: str, pid: int, now: Instant) -> Fence:
        data = self.data
        data.instance_ids += 1
        number = data.instance_ids
        data.instance.rows[number] = InstanceRow(number, role, name, host, pid, 1, now, now)
        data.sessions[number] = None
        data.here[number] = None
        return Fence(number, 1)

    def lose_session(self, instance_id: int) -> None:
        """What the database sees when a process dies or its connection breaks. Who comes before it in the ring of those
        whose sessions live hears of it."""
        sessions = self.data.sessions
        if instance_id in sessions:
            del sessions[instance_id]
            if sessions:
                self.data.told_of_end(max((one for one in sessions if one < instance_id), default=max(sessions)))

    async def beat(self, fence: Fence, now: Instant) -> None:
        check_fence(self.data, fence)
        row = copied(self.data.instance.rows[fence.instance_id])
        row.heartbeat = max(row.heartbeat, now)
        self.data.instance.rows[fence.instance_id] = row

    async def alive(self) -> Sequence[Instance]:
        rows = self.data.instance.rows
        return [as_instance(rows[number]) for number in self.data.here]

    async def report(self, fence: Fence, meters: JsonObject, now: Instant) -> None:
        self.data.reports[fence.instance_id] = (now, meters)

    async def reports(self) -> Sequence[tuple[Instance, Instant, JsonObject]]:
        rows, told = self.data.instance.rows, self.data.reports
        return [(as_instance(rows[number]), *told[number]) for number in self.data.here if number in told]

    async def silent(self, now: Instant, patience: Duration) -> Sequence[Instance]:
        data, patient = self.data, now - patience
        rows, sessions = data.instance.rows, data.sessions
        return [
            as_instance(rows[number])
            for number in data.here
            if number not in sessions or rows[number].heartbeat < patient
        ]

    async def retire(self, instance: Instance, now: Instant) -> bool:
        """Waits for the transactions that share the row, as PostgreSQL does: none of them writes afterwards."""
        data = self.data
        while sharers := data.sharers.get(instance.id):
            await data.wait(next(iter(sharers)))
        row = data.instance.rows.get(instance.id)
        if row is None or row.epoch != instance.epoch or row.ended_at is not None:
            return False
        row = copied(row)
        row.epoch += 1
        row.ended_at = now
        data.instance.rows[instance.id] = row
        data.sessions.pop(instance.id, None)
        del data.here[instance.id]
        for duty, lease in list(data.lease.rows.items()):
            if lease.instance_id == instance.id:
                self._give_up(duty, lease, now)
        return True

    async def leave(self, fence: Fence, now: Instant) -> None:
        data = self.data
        row = data.instance.rows.get(fence.instance_id)
        if row is None or row.epoch != fence.epoch or row.ended_at is not None:
            return
        row = copied(row)
        row.ended_at = now
        data.instance.rows[fence.instance_id] = row
        data.sessions.pop(fence.instance_id, None)
        del data.here[fence.instance_id]
        for duty, lease in list(data.lease.rows.items()):
            if lease.instance_id == fence.instance_id:
                self._give_up(duty, lease, now)

    def _give_up(self, duty: str, lease: LeaseRow, now: Instant) -> None:
        given = copied(lease)
        given.expires = min(lease.expires, now)
        self.data.lease.rows[duty] = given

    async def acquire(self, duty: str, fence: Fence, now: Instant, term: Duration) -> int | None:
        data = self.data
        check_fence(data, fence)
        lease = data.lease.rows.get(duty)
        if lease is not None and lease.expires > now:
            if (lease.instance_id, lease.epoch) != (fence.instance_id, fence.epoch):
                return None
            renewed = copied(lease)
            renewed.expires = now + term
            data.lease.rows[duty] = renewed
            return lease.token
        data.fencing_token += 1
        data.lease.rows[duty] = LeaseRow(duty, fence.instance_id, fence.epoch, data.fencing_token, now + term)
        return data.fencing_token

    async def release(self, duty: str, fence: Fence, token: int) -> None:
        lease = self.data.lease.rows.get(duty)
        if lease is not None and (lease.instance_id, lease.token) == (fence.instance_id, token):
            del self.data.lease.rows[duty]


def as_instance(row: InstanceRow) -> Instance:
    return Instance(
        id=row.id,
        role=row.role,
        name=row.name,
        host=row.host,
        pid=row.pid,
        epoch=row.epoch,
        up_since=row.up_since,
        heartbeat=row.heartbeat,
    )
