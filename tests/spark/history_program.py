"""What the tests of history ask on Spark, in one process."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import functions as f

from tidegate import history

URL = "TIDEGATE_HISTORY_URL"


def ask(run, spark, page, archive, day):
    """Everything, told as one line of JSON."""
    told: dict[str, Any] = {}
    told["pages"] = pages(spark, Path(page).read_text())
    told |= counted(spark, day)
    told |= archived(spark, archive, day)
    print("HISTORY " + json.dumps(told, default=str))


def pages(spark, text):
    """What the page shows in Python, as it stands there."""
    seen: dict[str, Any] = {"spark": spark}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:3]:
        exec(block, seen)
    return {name: [row.asDict() for row in seen[name].collect()] for name in ("worst", "pace", "rewritten")}


def delivered(frame):
    """How many rows the data source handed to Spark."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    return sum(_scanned(plan.executedPlan() if "Adaptive" in plan.nodeName() else plan))


def _scanned(plan):
    if plan.nodeName().startswith("BatchScan"):
        yield plan.metrics().apply("numOutputRows").value()
    if "QueryStage" in plan.nodeName():
        yield from _scanned(plan.plan())
    children = plan.children()
    for place in range(children.size()):
        yield from _scanned(children.apply(place))


def counted(spark, day):
    chosen = history.read(spark, "runs", from_day=day, to_day=day, schedule="report", state="failed")
    pushed = history.read(spark, "runs", pushdown=True).where(f"day = '{day}' AND schedule = 'report'")
    runs = history.read(spark, "runs")
    failed, rest = runs.where("state = 'failed'"), runs.where("state <> 'failed' OR duration_seconds > 1000")
    return {
        "whole": delivered(runs),
        "chosen": delivered(chosen),
        "pushed": delivered(pushed.where("state IN ('failed', 'crashed')").select("run_id")),
        "twice": [failed.count(), rest.count(), failed.unionByName(rest).count()],
        "secret": URL in os.environ and os.environ[URL] in runs._jdf.queryExecution().toString(),
    }


def archived(spark, folder, day):
    """Archives of both kinds, before and after PostgreSQL has lost a day."""
    every = [(one.run_id, one.day) for one in history.read(spark, "runs").collect()]
    first = history.archive(spark, folder, tables=["runs", "attempts", "health"])
    again = history.archive(spark, folder, tables=["runs"])
    lake = history.archive(spark, "lake.history", tables=["runs", "maintenance"])
    stale = history.read(spark, "runs", archive=folder)
    with psycopg.connect(os.environ[URL], autocommit=True) as connection:
        for table in ("run", "attempt"):
            connection.execute(f"DROP TABLE {table}_p{day.replace('-', '')}")
    try:
        message = f"answered {stale.count()}"
    except Exception as fault:
        message = str(fault)
    both = {}
    for place in (folder, "lake.history"):
        rows = history.read(spark, "runs", archive=place).collect()
        both[place] = sorted((one.run_id, one.day) for one in rows) == sorted(every)
    only = history.read(spark, "runs", archive=folder, from_day=day, to_day=day, state="failed", columns=["run_id"])
    redone = history.archive(spark, "lake.history", tables=["runs"], first=None, last=None)
    snapshots = spark.sql("SELECT count(*) AS n FROM lake.history.runs.snapshots").collect()[0].n
    kept = spark.read.table("lake.history.runs").groupBy("day").agg(f.count("*").alias("n")).collect()
    return {
        "first": [[one.table, one.day, one.rows, one.left] for one in first],
        "again": [[one.table, one.day, one.left] for one in again],
        "lake": [[one.table, one.day, one.rows, one.left] for one in lake],
        "live": history.read(spark, "runs").count(),
        "stale": message,
        "both": list(both.values()),
        "only": [row.asDict() for row in only.collect()],
        "redone": [[one.table, one.left] for one in redone],
        "snapshots": snapshots,
        "kept": [row.n for row in kept],
    }
