"""What runs at a Spark Connect server of somebody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def count(run: Any, spark: Any) -> None:
    """Tell what it was given."""
    stamp = spark.conf.get("spark.sql.iceberg.snapshot-property.tidegate.run-key")
    print(f"rows {spark.range(5).count()} of {stamp}")


def endless(run: Any, spark: Any, path: str) -> None:
    """A query that does not end by itself."""
    Path(path).touch()
    spark.range(10**14).selectExpr("sum(hash(id))").collect()
