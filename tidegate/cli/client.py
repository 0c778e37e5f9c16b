"""What every command speaks to the REST doors through: the connection of the SDK, in plain JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.domain.errors import Fault, Invalid, TidegateError
from tidegate.sdk.connection import Connection as Client
from tidegate.sdk.connection import Problem, log_pieces, segment

__all__ = ["Client", "Problem", "by_options", "log_pieces", "nothing_there", "segment"]


@contextmanager
def by_options(**options: str) -> Iterator[None]:
    """What the server finds wrong, told by the options that say it: `keys="--key"` for the field `keys`."""
    try:
        yield
    except Problem as problem:
        faults = [Fault(options.get(one.path.partition("[")[0], one.path), one.reason) for one in problem.errors]
        if not any(one.path in options.values() for one in faults):
            raise
        if len(faults) == 1:
            raise TidegateError(str(faults[0]), code=problem.code) from None
        raise Invalid(faults, what="the command") from None


def nothing_there(client: Client, namespace: str | None, schedule: str | None = None) -> str | None:
    """Why a list may be empty: there is no such namespace, or no such schedule in it. None: it is just empty."""
    places = [f"/namespaces/{segment(namespace)}"] if namespace not in (None, "default") else []
    if namespace is not None and schedule is not None:
        places.append(f"/namespaces/{segment(namespace)}/schedules/{segment(schedule)}")
    for place in places:
        try:
            client.get(place)
        except Problem as error:
            if error.status == 404:
                return str(error)
    return None
