"""PySpark programs that the tests run. They are read by path, in processes of their own."""

from __future__ import annotations

import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def noop(run, spark):
    pass


def tell(run, spark, region, limit=3):
    rows = spark.range(limit).count()
    print(f"run {run.id} attempt {run.attempt} fence {run.fence} at {run.fire_time} region {region} rows {rows}")
    assert SparkSession.builder.getOrCreate() is spark or spark.sparkContext is not None


def udf(run, spark):
    double = f.udf(lambda value: helper(value), "long")
    assert [row[0] for row in spark.range(3).select(double("id")).collect()] == [0, 2, 4]


def helper(value):
    return value * 2


def fail(run, spark):
    raise ValueError("no such feed")


def fail_in_java(run, spark):
    spark.sql("SELECT java_method('java.lang.Integer', 'parseInt', 'x')").collect()


def fail_in_sql(run, spark):
    spark.sql("SELECT * FROM nowhere_at_all").collect()


def slow(run, spark):
    try:
        spark.sql("SELECT count(*) FROM range(1000000000000) WHERE sqrt(id) * id < 0").collect()
    finally:
        print("tidied up", run.cancelled, flush=True)


def stubborn(run, spark):
    while True:
        try:
            spark.sql("SELECT count(*) FROM range(1000000000000) WHERE sqrt(id) * id < 0").collect()
        except BaseException as asked:
            print(type(asked).__name__, flush=True)


def write(run, spark, table):
    """Every way of writing that a Connect program has."""
    spark.sql(f"CREATE TABLE {table} (id bigint, day int) USING iceberg PARTITIONED BY (day)")
    spark.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3), (4, 3)")
    spark.range(5).select("id", f.lit(4).alias("day")).writeTo(table).append()
    spark.sql(f"UPDATE {table} SET id = 20 WHERE id = 2")
    spark.sql(f"MERGE INTO {table} t USING (SELECT 3L id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET day = 5")
    spark.sql(f"DELETE FROM {table} WHERE id = 4 AND day = 3")
    spark.sql(f"DELETE FROM {table} WHERE day = :day", args={"day": 4})
    spark.sql(f"TRUNCATE TABLE {table}")


def append(run, spark, table):
    spark.sql(f"INSERT INTO {table} VALUES ({run.attempt})")
    print("appended", flush=True)


def append_and_hang(run, spark, table):
    append(run, spark, table)
    time.sleep(600)


def call_procedure(run, spark):
    spark.sql("CALL lake.system.rewrite_data_files('raw.nothing')")


def use_context(run, spark):
    assert spark.sparkContext.parallelize([1, 2, 3]).sum() == 6
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.own")
    spark.sql("CREATE OR REPLACE TABLE lake.own.jvm USING iceberg AS SELECT 1 AS id")
    for number in range(6):
        spark.sql(f"INSERT INTO lake.own.jvm VALUES ({number})")
    spark.sql("CALL lake.system.rewrite_data_files('own.jvm')")
    spark.sql("TRUNCATE TABLE lake.own.jvm")


def leave(run, spark):
    sys.exit(3)


def nap(run, spark):
    time.sleep(6)
    print("rows", spark.range(2).count())


def inputs(run, spark, ranges=()):
    """Says what each input of the run reads, and each of these ranges of the same dataset."""
    import json

    from tidegate.sdk.inputs import Input

    def told(one):
        try:
            rows = sorted([list(row) for row in one.read(spark).collect()], key=str)
        except Exception as fault:
            rows = f"{getattr(fault, 'code', type(fault).__name__)}: {fault}"
        try:
            whole = one.table(spark).count()
        except Exception as fault:
            whole = getattr(fault, "code", type(fault).__name__)
        return {"rows": rows, "whole": whole, "columns": one.read(spark).columns if isinstance(rows, list) else None}

    for one in run.inputs.values():
        found = [one, *(Input(dataset=one.dataset, from_snapshot=a, to_snapshot=b) for a, b in ranges)]
        print("INPUTS", json.dumps([told(each) for each in found]))
