"""From a raw document (YAML or JSON, already read) to a checked one, or to every fault of it at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import ValidationError

from tidegate.documents import declared, encode, kinds, refusals
from tidegate.documents.calendars import calendar_of
from tidegate.documents.faults import faults_of
from tidegate.documents.others import Borrowing
from tidegate.documents.policies import option_faults, policy_of
from tidegate.documents.programs import program_of
from tidegate.documents.schedules import spec_of, template_faults
from tidegate.documents.sinks import spec_of as sink_spec_of
from tidegate.documents.sources import spec_of as source_spec_of
from tidegate.documents.triggers import contradictions, trigger_of
from tidegate.domain import triggers
from tidegate.domain.errors import Fault, Invalid
from tidegate.domain.jsonable import json_faults, say
from tidegate.domain.naming import DEFAULT_NAMESPACE
from tidegate.domain.schedules import JsonObject
from tidegate.ports.records import Metadata

KNOWN = list(kinds.MODELS)


def parse(
    raw: object,
    *,
    kind: str | None = None,
    namespace: str | None = None,
    name: str | None = None,
    application: str | None = None,
    default_namespace: str = DEFAULT_NAMESPACE,
    at: str = "",
) -> declared.Declaration:
    """The checked document. Raises `Invalid` with every fault.

    `kind`, `namespace`, `name` and `application` are what an address says already: the document may then leave them
    out, and must not say otherwise. `default_namespace` is for documents that name none. `at` goes before every path.
    """
    faults: list[Fault] = []
    document = _filled(raw, faults, kind, namespace, name, application, default_namespace)
    if document is None:
        raise Invalid([_moved(fault, at) for fault in faults])
    model = kinds.MODELS[document["kind"]]
    faults += json_faults(raw)
    checked: Any = None
    try:
        checked = model.model_validate(document)
    except ValidationError as error:
        known = {fault.path for fault in faults}
        faults += [fault for fault in faults_of(error, model) if fault.path not in known]
    else:
        if not faults:
            made = _declared(checked, document, faults)
            if not faults:
                return made
    raise Invalid([_moved(fault, at) for fault in faults], what=_what(document))


def parse_trigger(raw: object, *, at: str = "trigger") -> triggers.Trigger:
    """The checked trigger of a preview. Raises `Invalid` with every fault."""
    holder = {"metadata": {"name": "x"}, "spec": {"program": "x", "trigger": raw}}
    try:
        document = parse(holder, kind="Schedule")
    except Invalid as invalid:
        moved = [Fault(fault.path.replace("spec.trigger", at, 1), fault.reason) for fault in invalid.faults]
        raise Invalid(moved, what="the trigger") from None
    return cast(declared.Schedule, document).spec.trigger


def parse_arguments(raw: object, *, at: str = "arguments") -> JsonObject:
    """Arguments given by hand. Raises `Invalid`."""
    faults = list(json_faults(raw, (at,)))
    if not isinstance(raw, dict):
        faults.append(Fault(at, f"must be a mapping (key: value), not {say(raw)}"))
    if faults:
        raise Invalid(faults, what="the request")
    return cast(dict[str, Any], raw)


def parse_application(
    raw: object, *, namespace: str | None = None, name: str | None = None, default_namespace: str = DEFAULT_NAMESPACE
) -> declared.Application:
    """A deployment: `{programs: [...], schedules: [...]}`, as the REST address and the SDK give it, or the same as a
    whole Application document. Lists that are left out are empty here: whoever deploys says everything."""
    if not isinstance(raw, dict):
        raise Invalid([Fault("", f"must be a mapping with programs and schedules, not {say(raw)}")])
    if "spec" in raw or "kind" in raw or "metadata" in raw:
        made = parse(raw, kind="Application", namespace=namespace, name=name, default_namespace=default_namespace)
        whole = cast(declared.Application, made)
        return declared.Application(
            metadata=whole.metadata, programs=whole.programs or (), schedules=whole.schedules or ()
        )
    said = {key: raw[key] for key in ("namespace", "name") if raw.get(key) is not None}
    spec = {key: value for key, value in raw.items() if key not in ("namespace", "name")}
    document = {
        "metadata": said,
        "spec": {"programs": [], "schedules": []} | {key: value for key, value in spec.items() if value is not None},
    }
    try:
        made = parse(document, kind="Application", namespace=namespace, name=name, default_namespace=default_namespace)
    except Invalid as invalid:
        moved = [Fault(_without(fault.path, "spec.", "metadata."), fault.reason) for fault in invalid.faults]
        raise Invalid(moved, what="the application") from None
    return cast(declared.Application, made)


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396: the target with the patch applied; null takes a key away."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


# ── what the address says already ──────────────────────────────────────────────────────────────────────────────────


def _filled(
    raw: object,
    faults: list[Fault],
    kind: str | None,
    namespace: str | None,
    name: str | None,
    application: str | None,
    default_namespace: str,
) -> dict[str, Any] | None:
    """The raw document with what the address says filled in; None when it is no document of a known kind."""
    if not isinstance(raw, dict):
        faults.append(Fault("", f"a document is a mapping with apiVersion, kind, metadata and spec, not {say(raw)}"))
        return None
    document = dict(raw)
    said = document.get("kind")
    if kind is None:
        if "apiVersion" not in document:
            faults.append(Fault("apiVersion", f"is missing: write apiVersion: {kinds.API_VERSION}"))
        if (reason := _unknown_kind(said)) is not None:
            faults.append(Fault("kind", reason))
            return None
    elif said is not None and said != kind:
        faults.append(Fault("kind", f"must be {kind} here, not {say(said)}"))
    document["kind"] = kind or said
    if document.get("apiVersion", kinds.API_VERSION) != kinds.API_VERSION:
        faults.append(Fault("apiVersion", f"must be {kinds.API_VERSION}, not {say(document['apiVersion'])}"))
    document["apiVersion"] = kinds.API_VERSION
    metadata = document.get("metadata", {} if name is not None else None)
    if isinstance(metadata, dict):
        given: dict[str, str | None] = {"name": name}
        if document["kind"] in kinds.IN_NAMESPACE:
            given |= {"namespace": namespace, "application": application}
        document["metadata"] = _agreed(metadata, given, faults)
        if document["kind"] in kinds.IN_NAMESPACE:
            document["metadata"].setdefault("namespace", default_namespace)
    return document


def _unknown_kind(said: object) -> str | None:
    if said is None:
        return f"is missing: write one of {', '.join(KNOWN)}"
    if not isinstance(said, str):
        return f"must be text, one of {', '.join(KNOWN)}, not {say(said)}"
    if said not in KNOWN:
        return refusals.unknown(said, "a kind of document", KNOWN)
    return None


def _agreed(metadata: Mapping[Any, Any], given: Mapping[str, str | None], faults: list[Fault]) -> dict[Any, Any]:
    filled = {key: value for key, value in metadata.items() if not (key == "namespace" and value is None)}
    for key, value in given.items():
        if value is None:
            continue
        said = filled.get(key)
        if said is not None and said != value:
            faults.append(Fault(f"metadata.{key}", f"is {say(said)}, but this is about {value!r}; make them agree"))
        filled[key] = value
    return filled


# ── checked values ─────────────────────────────────────────────────────────────────────────────────────────────────


def _declared(checked: Any, document: JsonObject, faults: list[Fault]) -> declared.Declaration:
    metadata = _metadata(checked.metadata)
    match checked:
        case kinds.Schedule():
            trigger = trigger_of(checked.spec.trigger, metadata.namespace)
            faults += [
                Fault(f"spec.trigger.{fault.path}" if fault.path else "spec.trigger", fault.reason)
                for fault in contradictions(trigger)
            ]
            more = template_faults(checked.spec, trigger)
            faults += [Fault(f"spec.{fault.path}", fault.reason) for fault in more]
            return declared.Schedule(
                metadata=metadata,
                spec=spec_of(checked.spec, metadata.namespace),
                enabled=checked.spec.enabled,
                document=document["spec"],
            )
        case kinds.Program():
            return declared.Program(metadata=metadata, spec=program_of(checked.spec), document=document["spec"])
        case kinds.Application():
            return _application(checked, metadata, faults)
        case kinds.Namespace():
            said = {"labels": metadata.labels, "owner": metadata.owner, "description": metadata.description}
            return declared.Namespace(metadata=metadata, document={key: value for key, value in said.items() if value})
        case kinds.Dataset():
            said = encode.metadata_of(metadata)
            return declared.Dataset(
                metadata=metadata,
                kind=checked.spec.kind,
                name=checked.spec.name or metadata.name,
                watch=checked.spec.watch,
                document={"metadata": said, "spec": dict(document.get("spec") or {})},
            )
        case kinds.Calendar():
            said = {"metadata": encode.metadata_of(metadata), "spec": dict(document.get("spec") or {})}
            return declared.Calendar(
                metadata=metadata, calendar=calendar_of(metadata.name, checked.spec), document=said
            )
        case kinds.MaintenancePolicy():
            faults += [Fault(f"spec.{fault.path}", fault.reason) for fault in option_faults(checked.spec)]
            said = {"metadata": encode.metadata_of(metadata), "spec": dict(document.get("spec") or {})}
            return declared.MaintenancePolicy(
                metadata=metadata, policy=policy_of(metadata.name, checked.spec), document=said
            )
        case kinds.Sink():
            said = {"metadata": encode.metadata_of(metadata), "spec": dict(document.get("spec") or {})}
            return declared.Sink(metadata=metadata, spec=sink_spec_of(checked.spec), document=said)
        case kinds.Source():
            said = {"metadata": encode.metadata_of(metadata), "spec": dict(document.get("spec") or {})}
            return declared.Source(metadata=metadata, spec=source_spec_of(checked.spec), document=said)
        case kinds.Pool():
            rate = checked.spec.rate
            return declared.Pool(
                metadata=metadata,
                slots=checked.spec.slots,
                rate=(rate.max, rate.per, rate.burst or rate.max) if rate else None,
                borrow=_borrow(checked.spec.borrow, metadata.name, faults),
            )
    raise AssertionError(f"no such document: {type(checked).__name__}")


def _borrow(said: Borrowing | None, pool: str, faults: list[Fault]) -> tuple[str, int] | None:
    if said is None:
        return None
    if said.lender == pool:
        faults.append(Fault("spec.borrow.from", f"is {pool!r} itself; name another pool"))
    return said.lender, said.max


def _application(checked: kinds.Application, metadata: Metadata, faults: list[Fault]) -> declared.Application:
    def items(kind: str, listed: Sequence[Any] | None) -> tuple[Any, ...] | None:
        if listed is None:
            return None
        field = f"{kind.lower()}s"
        made: list[Any] = []
        for index, raw in enumerate(listed):
            at = f"spec.{field}[{index}]"
            try:
                one = parse(raw, kind=kind, namespace=metadata.namespace, application=metadata.name, at=at)
            except Invalid as invalid:
                faults.extend(invalid.faults)
                continue
            if any(other.metadata.name == one.metadata.name for other in made):
                faults.append(
                    Fault(f"{at}.metadata.name", f"{one.metadata.name!r} is declared twice; names are unique")
                )
            made.append(one)
        return tuple(made)

    programs = items("Program", checked.spec.programs)
    schedules = items("Schedule", checked.spec.schedules)
    return declared.Application(metadata=metadata, programs=programs, schedules=schedules)


def _metadata(given: Any) -> Metadata:
    return Metadata(
        namespace=getattr(given, "namespace", ""),
        name=given.name,
        application=getattr(given, "application", None),
        labels=getattr(given, "labels", {}),
        owner=getattr(given, "owner", ""),
        description=getattr(given, "description", ""),
    )


# ── sentences ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _what(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    kind = str(document["kind"]).lower()
    return f"{kind} {name!r}" if isinstance(name, str) else f"the {kind}"


def _moved(fault: Fault, at: str) -> Fault:
    if not at:
        return fault
    return Fault(
        f"{at}.{fault.path}" if fault.path and not fault.path.startswith("[") else at + fault.path, fault.reason
    )


def _without(path: str, *prefixes: str) -> str:
    return next((path.removeprefix(prefix) for prefix in prefixes if path.startswith(prefix)), path)
