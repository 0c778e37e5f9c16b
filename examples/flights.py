"""Flights land day by day in an Iceberg table, and what is made of them follows.

    tidegate deploy examples/flights.py          # this file
    tidegate apply -f examples/flights.yaml      # the same, as YAML

Change a schedule below and deploy again: only what differs is replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flights_data import day_of, file_of, landing

from tidegate import App, Run, cron, every

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = App("flights", namespace="demo")


@app.pyspark
def ingest(run: Run, spark: SparkSession, seconds: int) -> None:
    """Append one day's file to lake.raw.flights: the day that this fire stands for, whenever it happens to start."""
    from pyspark.sql import functions as f

    assert run.fire_time is not None, "which day to land follows from the fire time; rerun an old run to repeat one"
    day = day_of(run.fire_time, seconds)
    flights = (
        spark.read.csv(str(file_of(day)), header=True, nullValue="NA", inferSchema=False)
        .select(
            f.lit(day).alias("flight_date"),
            "carrier",
            f.col("flight").cast("int").alias("flight"),
            "tailnum",
            "origin",
            "dest",
            f.col("dep_delay").cast("double").alias("dep_delay"),
            f.col("arr_delay").cast("double").alias("arr_delay"),
            f.col("distance").cast("int").alias("distance"),
        )
        .withColumn("fire_time", f.lit(run.fire_time))
    )
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.raw")
    spark.sql(
        "CREATE TABLE IF NOT EXISTS lake.raw.flights (flight_date DATE, carrier STRING, flight INT, tailnum STRING, "
        "origin STRING, dest STRING, dep_delay DOUBLE, arr_delay DOUBLE, distance INT, fire_time TIMESTAMP)"
    )
    flights.writeTo("lake.raw.flights").append()
    run.log.info("landed the flights of %s", day)


delays = app.sql(
    "delays",
    """
    CREATE NAMESPACE IF NOT EXISTS lake.raw;
    CREATE NAMESPACE IF NOT EXISTS lake.mart;
    CREATE TABLE IF NOT EXISTS lake.raw.flights (flight_date DATE, carrier STRING, flight INT, tailnum STRING,
        origin STRING, dest STRING, dep_delay DOUBLE, arr_delay DOUBLE, distance INT, fire_time TIMESTAMP);
    CREATE OR REPLACE TABLE lake.mart.delays AS
        SELECT carrier, count(*) AS flights, round(avg(dep_delay), 1) AS mean_delay, max(flight_date) AS up_to
        FROM lake.raw.flights GROUP BY carrier
    """,
)


@app.python
def check_landing(run: Run) -> None:
    """Say how many files wait in the landing folder."""
    print(f"{run.fire_time:%H:%M:%S} {sum(1 for _ in landing().iterdir())} files")


disk = app.command("disk", "df", "-h", "/")

app.schedule("ingest", ingest.bind(seconds=5), when=every("5s"), catch_up="all", retry=3, enabled=True)
app.schedule("delays", delays, when=cron("*/15 * * * * *", seconds=True), enabled=True)
app.schedule("landing", check_landing, when=every("2s"), enabled=True)
app.schedule("disk", disk, when=every("3s"), enabled=True)
