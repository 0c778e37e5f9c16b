"""Publishing from inside a program: the event is left in the worker's outbox, from where its courier publishes it."""

from __future__ import annotations

import json
import os
import time
import uuid

from tidegate.domain import events
from tidegate.domain.errors import Invalid, Refused
from tidegate.domain.instants import from_datetime
from tidegate.sdk.data import Event

OUTBOX = "TIDEGATE_OUTBOX"


def publish(event: Event, *, namespace: str) -> str:
    """Leave an event in the outbox; its id. Raises Invalid for a wrong one, Refused where there is no outbox."""
    document = event.document()
    document["key"] = events.qualified(event.type, event.key, namespace)
    document["id"] = event.id or uuid.uuid4().hex
    document["source"] = document["key"].partition("/")[0]
    moment = None if event.time is None else from_datetime(event.time)
    now = time.time_ns() // 1000  # only how far ahead `time` may lie hangs on it
    if faults := events.faults(event.type, document["key"], document["payload"], moment, now):
        raise Invalid(list(faults), what="the event")
    directory = os.environ.get(OUTBOX)
    if not directory:
        raise Refused(
            "There is no outbox to publish to: this program was not started by a worker.",
            remedy=f"In a test use world.publish, or name a directory in {OUTBOX}.",
        )
    name = f"{time.time_ns():020d}-{uuid.uuid4().hex}"
    draft, final = os.path.join(directory, f"{name}.draft"), os.path.join(directory, f"{name}.json")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(json.dumps(document, ensure_ascii=False))
        file.flush()
        os.fsync(file.fileno())
    os.rename(draft, final)
    return str(document["id"])
