"""Publishing from inside a program: the event is left in the worker's outbox, from where its courier publishes it."""

from __future__ import annotations

import json
import os
import time
import uuid
from typing import Any

from tidegate.domain import events
from tidegate.domain.errors import Fault, Invalid, Refused
from tidegate.domain.instants import from_datetime
from tidegate.domain.jsonable import json_faults
from tidegate.sdk.data import Event

OUTBOX = "TIDEGATE_OUTBOX"


def publish(event: Event, *, namespace: str) -> str:
    """Leave an event in the outbox; its id. Raises Invalid for a wrong one, Refused where there is no outbox."""
    document = event.document()
    document["key"] = events.qualified(event.type, event.key, namespace)
    document["id"] = str(event.id or uuid.uuid4().hex)
    document["source"] = document["key"].partition("/")[0]
    moment = None if event.time is None else from_datetime(event.time)
    now = time.time_ns() // 1000  # only how far ahead `time` may lie hangs on it
    faults = _unstorable(document) or list(events.faults(event.type, document["key"], document["payload"], moment, now))
    if len(document["id"]) > events.MOST_ID:
        faults.append(Fault("id", f"must have at most {events.MOST_ID} characters"))
    if faults:
        raise Invalid(faults, what="the event")
    directory = os.environ.get(OUTBOX)
    if not directory:
        raise Refused(
            "There is no outbox to publish to: this program was not started by a worker.",
            remedy=f"In a test use world.publish, or name a directory in {OUTBOX}.",
        )
    name = f"{time.time_ns():020d}-{uuid.uuid4().hex}"
    draft, final = os.path.join(directory, f"{name}.draft"), os.path.join(directory, f"{name}.json")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(json.dumps(document, ensure_ascii=False))
        file.flush()
        os.fsync(file.fileno())
    os.rename(draft, final)
    return str(document["id"])


def _unstorable(document: dict[str, Any]) -> list[Fault]:
    """What no database can hold, or is no JSON. Keys are looked at as JSON has them: 7 is "7"."""
    try:
        said = json.loads(json.dumps(document))
    except (TypeError, ValueError, RecursionError):
        said = document
    return list(json_faults(said))
