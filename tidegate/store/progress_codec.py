"""A tree's progress to text and back: small, and the same for equal progress."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tidegate.domain.collected import Amount, Progress, Tally


def encode_progress(progress: Progress) -> str:
    """What stands in progress.doc; what is empty is left out."""
    found: dict[str, Any] = {
        "tallies": {str(node): _tally(one) for node, one in sorted(progress.tallies.items())},
        "began": {str(node): at for node, at in sorted(progress.began.items())},
        "forced": sorted(progress.forced),
        "kept": sorted(progress.kept),
        "settled": {str(node): at for node, at in sorted(progress.settled.items())},
        "fired_at": progress.fired_at,
        "seen": progress.seen,
    }
    return json.dumps(_said(found), separators=(",", ":"), ensure_ascii=False)


def decode_progress(text: str) -> Progress:
    """The progress behind a text."""
    found = json.loads(text)
    return Progress(
        tallies={int(node): _read(one) for node, one in found.get("tallies", {}).items()},
        began={int(node): at for node, at in found.get("began", {}).items()},
        forced=frozenset(found.get("forced", ())),
        kept=frozenset(found.get("kept", ())),
        settled={int(node): at for node, at in found.get("settled", {}).items()},
        fired_at=found.get("fired_at"),
        seen=found.get("seen"),
    )


def _tally(one: Tally) -> dict[str, Any]:
    return _said(
        {
            "n": one.amount.n,
            "rows": one.amount.rows,
            "bytes": one.amount.bytes,
            "first_at": one.first_at,
            "last_at": one.last_at,
            "names": list(one.names),
            "state": None if one.state is None else dict(one.state),
            "tick": one.tick,
        }
    )


def _read(found: Mapping[str, Any]) -> Tally:
    return Tally(
        amount=Amount(n=found.get("n", 0), rows=found.get("rows", 0), bytes=found.get("bytes", 0)),
        first_at=found.get("first_at"),
        last_at=found.get("last_at"),
        names=tuple(found.get("names", ())),
        state=found.get("state"),
        tick=found.get("tick"),
    )


def _said(found: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty; a plug-in's empty state is kept, since it is one."""
    return {name: value for name, value in found.items() if value or (name == "state" and value is not None)}
