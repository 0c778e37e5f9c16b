"""The client's side of backfills: looked at beforehand, asked for, paused, resumed, cancelled, waited for."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from tidegate.domain.instants import format_instant, from_datetime
from tidegate.sdk import records
from tidegate.sdk.answers import read
from tidegate.sdk.connection import Connection, segment

LOOK = 0.5  # seconds between two looks at one that is waited for


class Backfills:
    """Backfills of a namespace's schedules; their ids are good in every namespace."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self._inside = f"/namespaces/{segment(namespace)}"

    def preview(
        self,
        schedule: str,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        keys: Iterable[datetime | str] = (),
        order: str | None = None,
        concurrency: int | None = None,
        reprocess: str | None = None,
    ) -> records.BackfillPlan:
        """What it would do: how many runs, which first, how long. Changes nothing."""
        body = _body(start, end, keys, order=order, concurrency=concurrency, reprocess=reprocess, dry_run=True)
        return self._ask(schedule, body, None)

    def create(
        self,
        schedule: str,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        keys: Iterable[datetime | str] = (),
        order: str | None = None,
        concurrency: int | None = None,
        reprocess: str | None = None,
        key: str | None = None,
    ) -> records.BackfillPlan:
        """Run the fire times from `start` up to, not at, `end` (None: now), or those in `keys`. With the same `key` (of
        your own) asking again gives the same backfill, not another one."""
        body = _body(start, end, keys, order=order, concurrency=concurrency, reprocess=reprocess)
        return self._ask(schedule, body, key)

    def _ask(self, schedule: str, body: Mapping[str, Any], key: str | None) -> records.BackfillPlan:
        headers = {} if key is None else {"Idempotency-Key": key}
        path = f"{self._inside}/schedules/{segment(schedule)}:backfill"
        return read(records.BackfillPlan, self._connection.call("POST", path, body=dict(body), headers=headers))

    def get(self, backfill: records.Backfill | str) -> records.Backfill:
        """As it is now."""
        return read(records.Backfill, self._connection.get(_path(backfill)))

    def list(
        self,
        *,
        schedule: str | None = None,
        states: Iterable[str] = (),
        everywhere: bool = False,
        limit: int | None = None,
    ) -> Iterator[records.Backfill]:
        """Backfills, newest first; what each has in hand is told by `get`."""
        path = "/backfills" if everywhere else f"{self._inside}/backfills"
        chosen = [states] if isinstance(states, str) else states
        given: dict[str, Any] = {"schedule": schedule, "state": ",".join(chosen) or None}
        return (read(records.Backfill, one) for one in self._connection.items(path, most=limit, **given))

    def pause(self, backfill: records.Backfill | str, *, reason: str | None = None) -> records.Backfill:
        """Make no further run, and take back those that wait; what runs goes on."""
        return self._verb(backfill, "pause", reason)

    def resume(self, backfill: records.Backfill | str, *, reason: str | None = None) -> records.Backfill:
        """Go on where it stood."""
        return self._verb(backfill, "resume", reason)

    def cancel(self, backfill: records.Backfill | str, *, reason: str | None = None) -> records.Backfill:
        """End it for good: what waits ends at once, what runs is asked to stop."""
        return self._verb(backfill, "cancel", reason)

    def _verb(self, backfill: records.Backfill | str, verb: str, reason: str | None) -> records.Backfill:
        body = {} if reason is None else {"reason": reason}
        return read(records.Backfill, self._connection.call("POST", f"{_path(backfill)}:{verb}", body=body))

    def wait(self, backfill: records.Backfill | str, *, timeout: float | None = None) -> records.Backfill:
        """The backfill once nothing of it is left to do. Raises TimeoutError after `timeout` seconds."""
        begun = time.monotonic()
        while (now := self.get(backfill)).finished_at is None:
            left = LOOK if timeout is None else timeout - (time.monotonic() - begun)
            if left <= 0:
                raise TimeoutError(
                    f"backfill {now.id} is {now.state} at {now.progress.percent:g} % after {timeout:g} s"
                )
            time.sleep(min(LOOK, left))
        return now


def _body(start: datetime | str | None, end: datetime | str | None, keys: Iterable[Any], **said: Any) -> dict[str, Any]:
    given = {"start": _instant(start), "end": _instant(end), "keys": [_instant(one) for one in keys] or None, **said}
    return {name: value for name, value in given.items() if value is not None}


def _instant(given: datetime | str | None) -> str | None:
    return format_instant(from_datetime(given)) if isinstance(given, datetime) else given


def _path(backfill: records.Backfill | str) -> str:
    return f"/backfills/{segment(backfill if isinstance(backfill, str) else backfill.id)}"
