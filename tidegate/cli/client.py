"""What every command speaks to the REST doors through: the connection of the SDK, in plain JSON."""

from __future__ import annotations

from tidegate.sdk.connection import Connection as Client
from tidegate.sdk.connection import Problem, log_pieces, segment

__all__ = ["Client", "Problem", "log_pieces", "nothing_there", "segment"]


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
