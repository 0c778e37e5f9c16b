"""Datasets at the doors: declared, watched, and what is known of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Served, tidegate

ORDERS = {"spec": {"kind": "iceberg", "name": "lake.raw.orders", "watch": "PT5S"}}


@pytest.mark.requirement("LAKE-2", "EVENT-6")
def test_the_whole_way_of_a_dataset(served_by: Served) -> None:
    made = served_by("PUT", "/datasets/orders", json=ORDERS)
    assert made.status_code == 201, made.text
    assert made.json()["spec"] == {"kind": "iceberg", "name": "lake.raw.orders", "watch": "PT5S"}
    assert served_by("PUT", "/datasets/orders", json=ORDERS).status_code == 200
    for name in ("orders", "lake.raw.orders"):
        assert served_by("GET", f"/datasets/{name}").json()["metadata"]["name"] == "orders"
    patched = served_by("PATCH", "/datasets/orders", json={"spec": {"watch": "PT1M"}}).json()
    assert patched["spec"]["watch"] == "PT1M"
    assert served_by("POST", "/datasets", json={"metadata": {"name": "orders"}, **ORDERS}).status_code == 409
    assert [one["metadata"]["name"] for one in served_by("GET", "/datasets").json()["items"]] == ["orders"]
    assert served_by("DELETE", "/datasets/orders").status_code == 204
    assert served_by("GET", "/datasets/orders").status_code == 404


def test_a_file_declares_datasets_too(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "data.yaml"
    file.write_text(
        "apiVersion: tidegate/v1\nkind: Dataset\nmetadata: {name: clicks}\nspec: {kind: stream}\n", encoding="utf-8"
    )
    assert "Dataset" in tidegate("apply", "-f", str(file), url=served.url).out
    assert tidegate("diff", "-f", str(file), url=served.url).status == 0
    assert "clicks" in tidegate("get", "datasets", url=served.url).out
    wrong = file.with_name("wrong.yaml")
    wrong.write_text(file.read_text().replace("stream", "kafka"))
    refused = tidegate("apply", "-f", str(wrong), url=served.url)
    assert refused.status == 1 and "spec.kind" in refused.err


def test_a_name_stands_for_one_dataset_only(served_by: Served) -> None:
    assert served_by("PUT", "/datasets/orders", json=ORDERS).status_code == 201
    other = {"spec": {**ORDERS["spec"], "name": "lake.raw.other"}}
    refused = served_by("PUT", "/datasets/orders", json=other)
    assert (refused.status_code, "'lake.raw.orders'" in refused.json()["detail"]) == (409, True)
    said = tidegate("get", "datasets", "-o", "json", url=served_by.url)
    assert [one["spec"]["name"] for one in said.json] == ["lake.raw.orders"]
    assert tidegate("delete", "dataset", "orders", url=served_by.url).status == 0
    assert served_by("PUT", "/datasets/orders", json=other).status_code == 201
