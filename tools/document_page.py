"""Prints docs/reference/documents.md from the models: every kind and field with type, default, meaning and example.

A field without a meaning, or one that no example shows, is an error here; so is an example that is refused.
"""

from __future__ import annotations

import io
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tidegate.documents import kinds, parsing
from tidegate.documents.yaml import read
from tidegate.domain.errors import Invalid

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE / "document_examples.yaml"
PLUGGED = "custom"  # stands for every type that a package provides; people write the package's word
EMPTY: dict[str, Any] = {}
HEAD = """# Documents

Made from the code by `make reference`; a test keeps it equal.

What `tidegate apply` reads from a file, and REST from a body: one model for both. A file holds any number of documents,
separated by `---`; all are written, or none. YAML is read by the 1.2 core rules: `22:00`, `NO` and `on` are text. A
key that is not known is an error that suggests the nearest one; every fault of a file is told at once, with its place.

| Written as | Means |
| --- | --- |
| duration | ISO 8601 or short: `PT4H`, `4h`, `P1D`, `PT0.5S`; to the millisecond |
| instant | RFC 3339 with its offset: `2026-03-29T00:00:00Z` |
| date | `"2026-12-25"` |
| time of day | `"06:30"`, from `"00:00"` up to `"24:00"` |
| zone | an IANA name: `Europe/Berlin` |
| size | bytes: `1 GB` is 10^9, `1 GiB` is 2^30, a bare number is bytes |
| name | 1 to 100 letters, digits, `.`, `_` or `-`; begins with a letter or digit |
| mapping | `{key: value}`, values of any kind |

Every document has `apiVersion: tidegate/v1`, `kind`, `metadata` and `spec`. A `status`, as answers have one, is read
over, so that an answer can be edited and sent back."""

PACKAGES = """A package may provide types of triggers and constraints (entry points of the groups `tidegate.triggers`
and `tidegate.constraints`). Its word is then the `type`, its parameters stand beside it (and beside `unmet`), and its
own sentences say what is wrong with them. `examples/plugin` has one of each."""


class Section:
    """One model, and where in the documents it stands."""

    def __init__(self, model: type[BaseModel], title: str, key: str, path: tuple[str, ...]) -> None:
        self.model, self.title, self.key, self.path = model, title, key, path


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every model that an annotation names, however deep."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    for part in get_args(annotation):
        yield from models_in(part)


def sections(kind: str) -> list[Section]:
    """The models of a kind, outermost first, each once."""
    found: dict[type[BaseModel], Section] = {}

    def walk(model: type[BaseModel], path: tuple[str, ...], within: str) -> None:
        for name, field in model.model_fields.items():
            inner = list(dict.fromkeys(models_in(field.annotation)))
            for one in inner:
                tag = tag_of(one)
                if one in found or tag == PLUGGED:
                    continue
                word = {"trigger": "Trigger", "triggers": "Trigger", "constraints": "Constraint"}.get(name, kind)
                title = f"{word} `type: {tag}`" if tag else f"`{'.'.join((*path, name))}`"
                key = f"{word} {tag}" if tag else within
                found[one] = Section(one, title, key, () if tag else (*path, name))
                walk(one, () if tag else (*path, name), key)

    walk(kinds.MODELS[kind], (), kind)
    return sorted(found.values(), key=lambda one: bool(tag_of(one.model)))


def tag_of(model: type[BaseModel]) -> str | None:
    """The word of its `type`, for models of which one is chosen."""
    field = model.model_fields.get("type")
    return str(get_args(field.annotation)[0]) if field and get_args(field.annotation) else None


def written(name: str, field: FieldInfo) -> str:
    return field.alias or name


def kind_of(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """A JSON schema in words."""
    if "$ref" in schema:
        return f"[mapping](#{anchors[schema['$ref'].rpartition('/')[2]]})"
    if "oneOf" in schema:
        return f"a {'constraint' if 'blackout' in schema['discriminator']['mapping'] else 'trigger'}, by its `type`"
    if "anyOf" in schema and schema.get("examples", [""])[0] == "1 GB":
        return "size"
    if "anyOf" in schema:
        return " or ".join(kind_of(one, definitions) for one in schema["anyOf"] if one.get("type") != "null")
    if words := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return ", ".join(f"`{word}`" for word in words)
    shown = schema.get("examples", [""])[0]
    match schema.get("type"), schema.get("format"):
        case "string", "duration":
            return "duration"
        case "string", "date-time":
            return "instant"
        case "string", "date":
            return "date"
        case "string", _:
            kinds = {"Europe/Berlin": "zone", "22:00": "time of day", "schedule": "`schedule`, `program`, `group:NAME`"}
            return kinds.get(shown, "name" if "pattern" in schema else "text")
        case "array", _:
            items = schema.get("items") or EMPTY
            return f"list of {kind_of(items, definitions)}" if items else "list"
        case "object", _:
            return "mapping"
        case "boolean", _:
            return "`true`, `false`"
        case ("integer" | "number") as number, _:
            low, high = schema.get("minimum"), schema.get("maximum")
            return ("whole number" if number == "integer" else "number") + (
                f", {low:,} to {high:,}" if low is not None and high is not None else ""
            )
        case _:
            return "anything"


def default_of(field: FieldInfo, schema: Mapping[str, Any]) -> str:
    if field.is_required():
        return "required"
    value = schema.get("default")
    if "default" not in schema and field.default_factory is not None:
        made: Any = field.default_factory()  # type: ignore[call-arg]
        if isinstance(made, BaseModel):
            return "as below"
        value = [one.model_dump(exclude_unset=True) if isinstance(one, BaseModel) else one for one in made] or made
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"`[{', '.join(_flow(one) for one in value)}]`"
    return f"`{_flow(value)}`" if value != "" else "empty"


def _flow(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "{" + ", ".join(f"{key}: {_flow(one)}" for key, one in value.items()) + "}"
        case str() if ":" in value:
            return f'"{value}"'
        case _:
            return str(value)


# ── examples ───────────────────────────────────────────────────────────────────────────────────────────────────────


def examples() -> dict[str, list[tuple[str, Any]]]:
    """Title of an example -> its text and its value. The file's comments `# === TITLE` begin each."""
    found: defaultdict[str, list[tuple[str, Any]]] = defaultdict(list)
    for part in EXAMPLES.read_text().split("\n# === ")[1:]:
        title, _, text = part.partition("\n")
        [document], _ = read(text, title)
        found[title.strip()].append((text.strip("\n"), document.value))
    return found


def check(key: str, value: Any) -> None:
    """Raises Invalid when Tidegate would refuse the example."""
    word, _, tag = key.partition(" ")
    if not tag:
        parsing.parse(value)
    elif word == "Trigger":
        within = {"type": "all", "triggers": [value, {"type": "event", "event": "user.x"}]}
        parsing.parse_trigger(within if "latch" in value else value)
    elif word == "Constraint":
        spec = {"program": "x", "trigger": {"type": "never"}, "constraints": [value]}
        parsing.parse({"metadata": {"name": "x"}, "spec": spec}, kind="Schedule")
    else:
        parsing.parse({"metadata": {"name": "x"}, "spec": value}, kind=word)


def fields_shown(section: Section, shown: Mapping[str, list[tuple[str, Any]]]) -> set[str]:
    """The fields of a section that its examples write."""
    names: set[str] = set()
    for _, example in shown.get(section.key, ()):
        value: Any = example
        for part in section.path:
            value = value.get(part, {}) if isinstance(value, dict) else {}
        names |= set(value if isinstance(value, dict) else ())
    return names


# ── the page ───────────────────────────────────────────────────────────────────────────────────────────────────────

anchors: dict[str, str] = {}


def anchor(title: str) -> str:
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def table(section: Section, definitions: Mapping[str, Any]) -> list[str]:
    lines = ["| Field | Type | Default | Meaning |", "| --- | --- | --- | --- |"]
    schema = section.model.model_json_schema()
    properties = (schema["$defs"][section.model.__name__] if "$ref" in schema else schema)["properties"]
    needed_first = sorted(section.model.model_fields.items(), key=lambda item: not item[1].is_required())
    for name, field in needed_first:
        key = written(name, field)
        if name == "type" and tag_of(section.model):
            continue
        meaning = field.description or next(
            (one.__doc__ or "" for one in models_in(field.annotation) if one.__name__ in anchors), ""
        )
        if not meaning:
            raise SystemExit(f"{section.model.__name__}.{name} has no description: say in the model what it means.")
        said = " ".join(meaning.split()).replace("|", "\\|")
        kind = kind_of(properties[key], definitions)
        lines.append(f"| `{key}` | {kind} | {default_of(field, properties[key])} | {said} |")
    return lines if len(lines) > 2 else []


def page() -> str:
    """The whole page."""
    shown = examples()
    used: set[str] = set()
    everything = {kind: sections(kind) for kind in kinds.MODELS}
    for kind, found in everything.items():
        for section in found:
            anchors.setdefault(
                section.model.__name__, anchor(section.title if tag_of(section.model) else f"{kind} {section.title}")
            )
    lines = [HEAD, ""]
    done: set[type[BaseModel]] = set()
    for kind, found in everything.items():
        lines += [f"## {kind}", "", sentence(kinds.MODELS[kind]), ""]
        lines += [*example(kind, shown), ""]
        used.add(kind)
        for section in found:
            if section.model in done:
                continue
            done.add(section.model)
            missing = {written(*item) for item in section.model.model_fields.items()} - fields_shown(section, shown)
            if missing:
                raise SystemExit(
                    f"No example of {section.key!r} shows {', '.join(sorted(missing))} of {section.model.__name__}: "
                    f"add it to {EXAMPLES.relative_to(HERE.parent)}."
                )
            title = section.title if tag_of(section.model) else f"{kind} {section.title}"
            lines += [f"### {title}", "", sentence(section.model), ""]
            if tag_of(section.model):
                lines += [*example(section.key, shown), ""]
                used.add(section.key)
            if rows := table(section, {}):
                lines += [*rows, ""]
    if strange := set(shown) - used:
        raise SystemExit(f"Examples of nothing: {', '.join(sorted(strange))}.")
    lines += ["## Types of packages", "", PACKAGES, ""]
    return "\n".join(lines).rstrip() + "\n"


def sentence(model: type[BaseModel]) -> str:
    said = " ".join((model.__doc__ or "").split())
    if not said:
        raise SystemExit(f"{model.__name__} has no docstring: say what it is.")
    return said


def example(key: str, shown: Mapping[str, list[tuple[str, Any]]]) -> list[str]:
    if key not in shown:
        raise SystemExit(f"There is no example of {key!r}: add it to {EXAMPLES.relative_to(HERE.parent)}.")
    out = io.StringIO()
    for text, value in shown[key]:
        try:
            check(key, value)
        except Invalid as error:
            raise SystemExit(f"The example of {key!r} is refused: {error}") from None
        out.write(("---\n" if out.tell() else "") + text + "\n")
    return ["```yaml", out.getvalue().rstrip(), "```"]


if __name__ == "__main__":
    sys.stdout.write(page())
