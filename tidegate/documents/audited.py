"""The proof of the ledger as JSON, and how far it is."""

from __future__ import annotations

from typing import Any

from tidegate.documents.shapes import moment


def audit(result: Any) -> dict[str, Any]:
    """A `control.audit.Audit`."""
    numbers = ("schedules", "owed", "recorded", "lost", "doubled", "unexplained", "not_yet_decided", "late")
    return {
        "holds": result.holds,
        "since": moment(result.since),
        "until": moment(result.until),
        **{name: getattr(result, name) for name in numbers},
        "outcomes": dict(result.outcomes),
        "findings": [
            {
                "kind": one.kind.value,
                "namespace": one.namespace,
                "schedule": one.schedule,
                "first": moment(one.first),
                "last": moment(one.last),
                "count": one.count,
                "why": one.why,
            }
            for one in result.findings
        ],
    }


def progress(told: Any) -> dict[str, Any]:
    """A `control.audit.Progress`."""
    return {"schedules": told.schedules, "fires": told.fires, "findings": told.findings, "at": moment(told.at)}
