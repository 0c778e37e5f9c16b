"""Files: several documents, faults with their lines, and nothing from a file that has one."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tidegate.documents import declared, files
from tidegate.documents.files import check, raw_documents
from tidegate.domain.errors import Invalid, NotFound

GOOD = """\
# two documents
apiVersion: tidegate/v1
kind: Program
metadata: {name: load}
spec:
  type: command
  argv: [echo, 22:00, NO, 2026-01-01, 0x10]
---
apiVersion: tidegate/v1
kind: Schedule
metadata: {name: nightly}
spec:
  program: load
  arguments: {at: 22:00, country: NO, day: 2026-01-01, on: on, n: 010, f: 1e3, nothing: ~}
  trigger:
    type: cron
    expression: "0 2 * * *"
"""


def faults(text: str) -> list[str]:
    with pytest.raises(Invalid) as refused:
        check(text, "flights.yaml")
    return [str(fault) for fault in refused.value.faults]


@pytest.mark.requirement("OPS-4")
def test_yaml_is_read_by_the_core_rules() -> None:
    with pytest.raises(Invalid) as refused:
        check(GOOD, "flights.yaml")
    assert [str(one) for one in refused.value.faults] == [
        "flights.yaml:7 spec.argv[4]: must be text, not the number 16"
    ]
    _, schedule = check(GOOD.replace(", 0x10", ""), "flights.yaml")
    assert cast(declared.Schedule, schedule).spec.arguments == {
        "at": "22:00",
        "country": "NO",
        "day": "2026-01-01",
        "on": "on",
        "n": 10,
        "f": 1000.0,
        "nothing": None,
    }


def test_a_fault_names_file_and_line() -> None:
    text = GOOD.replace(", 0x10", "").replace('"0 2 * * *"', '"0 99 * * *"')
    (fault,) = faults(text)
    assert fault.startswith("flights.yaml:17 spec.trigger.expression: ")


def test_the_faults_of_every_document_are_told() -> None:
    text = GOOD.replace("kind: Schedule", "kind: Shedule")
    told = faults(text)
    assert told[0].startswith("flights.yaml:7 spec.argv[4]: ")
    assert "did you mean 'Schedule'?" in told[1] and told[1].startswith("flights.yaml:10 kind: ")


@pytest.mark.parametrize(
    ("text", "told"),
    {
        "no_yaml": ("a: [1\n", "flights.yaml:2: is not YAML"),
        "tabs": ("a:\n\t- b\n", "flights.yaml:2: is not YAML"),
        "twice": ("apiVersion: tidegate/v1\nkind: Pool\nkind: Pool\n", "flights.yaml:3 kind: is given twice"),
        "number_key": ("apiVersion: tidegate/v1\n1: 2\n", 'flights.yaml:2: a key must be text; put it in quotes: "1"'),
        "tag": ("apiVersion: !!python/object:os.system x\n", "flights.yaml:1 apiVersion: "),
        "empty": ("# nothing\n", "flights.yaml: holds no document"),
        "control": ("a: \x01\n", "flights.yaml:1: is not YAML"),
        "deep": ("a: " + "[" * 1500, "flights.yaml:1: is not YAML: it is nested too deeply"),
    }.values(),
    ids=["no_yaml", "tabs", "twice", "number_key", "tag", "empty", "control", "deep"],
)
def test_what_is_wrong_with_the_file_itself(text: str, told: str) -> None:
    assert any(fault.startswith(told) for fault in faults(text)), faults(text)


def test_the_same_thing_twice_in_one_file_is_refused() -> None:
    one = GOOD.split("---")[0].replace(", 0x10", "")
    assert faults(f"{one}---\n{one}") == ["flights.yaml: declares the program 'default/load' twice"]


@pytest.mark.slow
def test_aliases_cannot_blow_up() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (fault,) = faults("\n".join(lines))
    assert "says more than" in fault


def test_json_is_read_too(tmp_path: Path) -> None:
    file = tmp_path / "pool.json"
    file.write_text('{"apiVersion": "tidegate/v1", "kind": "Pool", "metadata": {"name": "p"}, "spec": {"slots": 3}}')
    (pool,) = check(file.read_text(), file.name)
    assert cast(declared.Pool, pool).slots == 3
    assert raw_documents(file).values[0]["kind"] == "Pool"


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        raw_documents(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Invalid, match="UTF-8"):
        raw_documents(tmp_path / "bytes.yaml")


@pytest.mark.parametrize("digits", ["9" * 5000, "0x" + "f" * 5000, "0o" + "7" * 5000, "-" + "9" * 41])
def test_a_number_of_any_length_is_a_fault_with_its_line(digits: str) -> None:
    text = f"apiVersion: tidegate/v1\nkind: Pool\nmetadata: {{name: p}}\nspec: {{slots: {digits}}}\n"
    told = faults(text)
    assert told[0] == "flights.yaml:4 spec.slots: is a whole number too large to keep; write it as text, in quotes"


@pytest.mark.parametrize("text", [r'kind: "\ud800"', r'metadata: {name: "\ud800"}', r'spec: {pool: "\ud800"}'])
def test_half_a_character_is_a_fault_wherever_it_stands(text: str) -> None:
    key = text.partition(":")[0]
    lines = [line for line in GOOD.splitlines() if not line.startswith(f"{key}:")]
    told = faults("\n".join([*lines[: lines.index("---")], text]))
    assert told
    assert all(one.encode() for one in told)


def test_more_documents_than_one_request_may_write_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST", 2)
    file = tmp_path / "many.yaml"
    file.write_text("\n---\n".join(f"kind: Pool\nmetadata: {{name: p{number}}}" for number in range(3)))
    with pytest.raises(Invalid, match="many.yaml: holds 3 documents, and at most 2 are written at once: divide it"):
        raw_documents(file)
