"""Maintenance policies of Floe, as its REST interface takes and gives them in JSON, read as ours.

What it says is taken over field by field; what it means differently, or never did, is told in a note. An unknown field
is a fault: nothing is left out silently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tidegate.documents import encode, parsing
from tidegate.domain.errors import Fault, Invalid
from tidegate.domain.jsonable import say
from tidegate.domain.maintenance.operations import Operation
from tidegate.domain.triggers import Weekday

OPERATIONS: Mapping[str, Operation] = {
    "rewriteDataFiles": Operation.REWRITE_DATA_FILES,
    "expireSnapshots": Operation.EXPIRE_SNAPSHOTS,
    "orphanCleanup": Operation.REMOVE_ORPHAN_FILES,
    "rewriteManifests": Operation.REWRITE_MANIFESTS,
}
_BY_NAME: Mapping[str, Operation] = {
    **{operation.value.upper(): operation for operation in OPERATIONS.values()},
    "ORPHAN_CLEANUP": Operation.REMOVE_ORPHAN_FILES,
}
_READ_OVER = frozenset({"id", "createdAt", "updatedAt"})
_CONDITIONS: Mapping[str, str] = {
    "smallFilePercentageAbove": "small_file_percent",
    "smallFileCountAbove": "small_file_count",
    "totalFileSizeAboveBytes": "total_size",
    "deleteFileCountAbove": "delete_file_count",
    "deleteFileRatioAbove": "delete_file_ratio",
    "snapshotCountAbove": "snapshot_count",
    "snapshotAgeAboveDays": "snapshot_age",
    "partitionCountAbove": "partition_count",
    "partitionSkewAbove": "partition_skew",
    "manifestSizeAboveBytes": "manifest_size",
}
_GATES = ("minIntervalMinutes", "perOperationMinIntervalMinutes", "criticalPipeline", "criticalPipelineMaxDelayMinutes")
_SCHEDULE = ("interval", "cronExpression", "windowStart", "windowEnd", "allowedDays", "timeout", "priority", "enabled")
_OPTIONS: Mapping[Operation, Mapping[str, str]] = {
    Operation.REWRITE_DATA_FILES: {
        "targetFileSizeBytes": "target-file-size-bytes",
        "maxFileGroupSizeBytes": "max-file-group-size-bytes",
        "maxConcurrentFileGroupRewrites": "max-concurrent-file-group-rewrites",
        "partialProgressEnabled": "partial-progress.enabled",
        "partialProgressMaxCommits": "partial-progress.max-commits",
        "partialProgressMaxFailedCommits": "partial-progress.max-failed-commits",
        "useStartingSequenceNumber": "use-starting-sequence-number",
        "removeDanglingDeletes": "remove-dangling-deletes",
        "outputSpecId": "output-spec-id",
    },
    Operation.EXPIRE_SNAPSHOTS: {
        "retainLast": "retain_last",
        "maxSnapshotAge": "older_than",
        "cleanExpiredMetadata": "clean_expired_metadata",
    },
    Operation.REMOVE_ORPHAN_FILES: {
        "location": "location",
        "prefixMismatchMode": "prefix_mismatch_mode",
        "equalSchemes": "equal_schemes",
        "equalAuthorities": "equal_authorities",
    },
    Operation.REWRITE_MANIFESTS: {"specId": "spec_id", "sortBy": "sort_by"},
}
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def policies(text: str, name: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The documents of one policy, of a list of them, or of an answer `{policies: [...]}`; and notes for people.

    `name`: of the file, for faults. Raises Invalid with every fault.
    """
    try:
        raw = json.loads(text)
    except ValueError as fault:
        raise Invalid([Fault(name, f"is not JSON: {fault}")], what=name) from None
    except RecursionError:
        raise Invalid([Fault(name, "is nested too deeply")], what=name) from None
    listed = raw.get("policies", raw) if isinstance(raw, dict) else raw
    many = listed if isinstance(listed, list) else [listed]
    made, notes, faults = [], [], []
    for place, one in enumerate(many):
        at = f"{name}[{place}]" if isinstance(listed, list) else name
        reader = _Reader(at)
        document = reader.policy(one)
        notes += reader.notes
        if not reader.faults and document is not None:
            try:
                parsing.parse(document, kind="MaintenancePolicy")
            except Invalid as invalid:
                reader.faults += [Fault(f"{at} {fault.path}", fault.reason) for fault in invalid.faults]
            else:
                made.append(document)
        faults += reader.faults
    if not many:
        faults.append(Fault(name, "holds no policy"))
    if faults:
        raise Invalid(faults, what=name)
    return made, notes


class _Reader:
    """Reads one policy; gathers what is wrong and what is to be known."""

    def __init__(self, at: str) -> None:
        self.at = at
        self.faults: list[Fault] = []
        self.notes: list[str] = []

    def policy(self, raw: Any) -> dict[str, Any] | None:
        if not isinstance(raw, dict):
            self._wrong("", f"must be a policy, not {say(raw)}")
            return None
        known = {"name", "description", "tablePattern", "enabled", "priority", "tags", "healthThresholds"}
        known |= {"triggerConditions", *OPERATIONS, *(f"{one}Schedule" for one in OPERATIONS)} | _READ_OVER
        self._unknown("", raw, known)
        given = {key: value for key, value in raw.items() if value is not None}
        spec: dict[str, Any] = {"tables": self._pattern(given.get("tablePattern", ""))}
        spec |= {key: given[key] for key in ("enabled", "priority", "tags") if key in given}
        if "healthThresholds" in given:
            self._note("healthThresholds are not taken over: say `thresholds` in the new policy.")
        spec["operations"] = dict(self._operations(given))
        said = str(given.get("name", ""))
        name = _NAME.sub("-", said).strip("-") or "policy"
        if name != said:
            self._note(f"its name {said!r} is {name!r} here.")
        metadata: dict[str, Any] = {"name": name}
        if given.get("description"):
            metadata["description"] = given["description"]
        return {
            "apiVersion": encode.API_VERSION,
            "kind": "MaintenancePolicy",
            "metadata": metadata,
            "spec": spec,
        }

    def _operations(self, given: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        conditions = self._mapping(
            "triggerConditions", given.get("triggerConditions"), {*_CONDITIONS, *_GATES, "triggerLogic"}
        )
        for key, operation in OPERATIONS.items():
            config, schedule = given.get(key), given.get(f"{key}Schedule")
            if config is None and schedule is None:
                continue
            said: dict[str, Any] = {}
            if options := self._options(key, operation, config or {}):
                said["options"] = options
            if schedule is not None:
                said["schedule"] = self._schedule(f"{key}Schedule", schedule)
                if conditions:
                    said |= self._when(operation, conditions)
            else:
                self._note(f"{operation.value} has no schedule: it runs by hand only, as before.")
            yield operation.value, said

    def _pattern(self, text: Any) -> Any:
        if not isinstance(text, str):
            return text
        levels = text.split(".")
        if "/" in text or len(levels) >= 3:
            return text
        wider = ".".join([*["*"] * (3 - len(levels)), *levels]) if text not in ("", "*") else "**"
        self._note(f"its pattern {text!r} is {wider!r} here: a pattern begins with the catalog.")
        return wider

    def _schedule(self, at: str, raw: Any) -> dict[str, Any]:
        given = self._mapping(at, raw, set(_SCHEDULE))
        days = self._days(at, given.get("allowedDays"))
        hours: dict[str, Any] = {"start": given.get("windowStart", "00:00"), "end": given.get("windowEnd", "24:00")}
        if hours["start"] == hours["end"]:
            hours["end"] = "24:00"
        said: dict[str, Any] = {}
        if given.get("interval") is not None:
            said["trigger"] = {"type": "window_days", "every_days": given["interval"]}
        elif given.get("cronExpression"):
            said["trigger"] = self._cron(at, str(given["cronExpression"]))
        else:
            self._wrong(at, "has neither cronExpression nor interval")
            return said
        if "windowStart" in given or "windowEnd" in given or days:
            said["window"] = {**hours, **({"days": days} if days else {})}
            self._note(f"{at}: its window is in UTC here; say a timezone. It belongs to the day on which it opens.")
        if given.get("timeout") is not None:
            said["timeout"] = f"PT{given['timeout']}H"
            self._note(f"{at}: its timeout is enforced here.")
        if given.get("enabled") is False:
            said["enabled"] = False
        if given.get("priority"):
            self._note(f"{at}: its priority had no effect and is left out.")
        return said

    def _cron(self, at: str, expression: str) -> dict[str, Any]:
        fields = expression.split()
        if len(fields) == 7:
            self._note(f"{at}: the year of {expression!r} is left out.")
            fields = fields[:6]
        if len(fields) != 6:
            return {"type": "cron", "expression": expression}
        if fields[5].replace(",", "").replace("-", "").isdigit():
            self._note(f"{at}: in {expression!r} days of the week count from SUN = 1; here SUN is 0.")
            fields[5] = re.sub(r"\d", lambda day: str(int(day[0]) - 1), fields[5])
        if fields[0] == "0":
            return {"type": "cron", "expression": " ".join(fields[1:])}
        return {"type": "cron", "seconds": True, "expression": " ".join(fields)}

    def _days(self, at: str, raw: Any) -> list[str]:
        if not raw:
            return []
        if not isinstance(raw, str):
            self._wrong(f"{at}.allowedDays", f"must be text such as MONDAY,FRIDAY, not {say(raw)}")
            return []
        words = [word.strip().upper()[:3] for word in raw.split(",")]
        for word in set(words) - set(Weekday):
            self._wrong(f"{at}.allowedDays", f"{word!r} is not a day")
        return [day.value for day in Weekday if day in words]

    def _when(self, operation: Operation, given: Mapping[str, Any]) -> dict[str, Any]:
        said: dict[str, Any] = {}
        limits = {ours: given[theirs] for theirs, ours in _CONDITIONS.items() if given.get(theirs) is not None}
        if "snapshot_age" in limits:
            limits["snapshot_age"] = f"P{limits['snapshot_age']}D"
        if limits:
            logic = {"OR": "any", "AND": "all"}.get(str(given.get("triggerLogic", "OR")).upper())
            if logic is None:
                self._wrong("triggerConditions.triggerLogic", "must be OR or AND")
            said["when"] = {**({"logic": "all"} if logic == "all" else {}), **limits}
        own = given.get("perOperationMinIntervalMinutes") or {}
        named = {_BY_NAME.get(str(name)): minutes for name, minutes in own.items()} if isinstance(own, dict) else {}
        minutes = named.get(operation, given.get("minIntervalMinutes"))
        if minutes:
            said["min_interval"] = f"PT{minutes}M"
        if given.get("criticalPipeline") is True:
            if given.get("criticalPipelineMaxDelayMinutes") is None:
                self._wrong("triggerConditions.criticalPipelineMaxDelayMinutes", "is missing for a critical pipeline")
            said["critical"] = {"max_delay": f"PT{given.get('criticalPipelineMaxDelayMinutes', 0)}M"}
        return said

    def _options(self, key: str, operation: Operation, raw: Any) -> dict[str, Any]:
        names = _OPTIONS[operation]
        others: Mapping[str, Callable[[Any], dict[str, Any]]] = {
            "strategy": self._strategy,
            "sortOrder": lambda columns: {"sort_order": ", ".join(map(str, columns))},
            "zOrderColumns": lambda columns: {"sort_order": f"zorder({', '.join(map(str, columns))})"},
            "rewriteJobOrder": lambda word: {"rewrite-job-order": str(word).lower().replace("_", "-")},
            "filter": lambda text: {"where": text},
            "expireSnapshotId": lambda number: {"snapshot_ids": [number]},
            "retentionPeriodInDays": lambda days: {"older_than": f"P{days}D"},
        }
        special = {
            Operation.REWRITE_DATA_FILES: ("strategy", "sortOrder", "zOrderColumns", "rewriteJobOrder", "filter"),
            Operation.EXPIRE_SNAPSHOTS: ("expireSnapshotId",),
            Operation.REMOVE_ORPHAN_FILES: ("retentionPeriodInDays",),
        }.get(operation, ())
        given = self._mapping(key, raw, {*names, *special, "enabled"})
        if "filter" in given:
            self._note(f"{key}.filter is a SQL predicate here.")
        said: dict[str, Any] = {}
        for theirs, value in given.items():
            if theirs in names:
                said[names[theirs]] = value
            elif theirs in special and value not in ([], ""):
                said |= others[theirs](value)
        return said

    @staticmethod
    def _strategy(word: Any) -> dict[str, Any]:
        return {"strategy": "sort" if str(word).upper() == "ZORDER" else str(word).lower()}

    def _mapping(self, at: str, raw: Any, known: set[str]) -> dict[str, Any]:
        if raw is None:
            return {}
        if not isinstance(raw, dict):
            self._wrong(at, f"must be a mapping, not {say(raw)}")
            return {}
        self._unknown(at, raw, known)
        return {key: value for key, value in raw.items() if value is not None}

    def _unknown(self, at: str, raw: Mapping[str, Any], known: set[str]) -> None:
        for key in raw:
            if key not in known:
                self._wrong(f"{at}.{key}".strip("."), "is not taken over: no such field is known, or it had no effect")

    def _wrong(self, path: str, reason: str) -> None:
        self.faults.append(Fault(f"{self.at} {path}".strip(), reason))

    def _note(self, text: str) -> None:
        self.notes.append(f"{self.at}: {text}")
