"""Flights and weather land day by day in Iceberg tables, and what is made of them follows as they arrive.

    tidegate deploy examples/flights.py          # this file
    tidegate apply -f examples/flights.yaml      # the same programs, as YAML

Change a schedule below and deploy again: only what differs is replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flights_data import day_of, file_of, landing

from tidegate import App, Run, cron, every, since_last_run, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

app = App("flights", namespace="demo")
flights, weather = table("lake.raw.flights"), table("lake.raw.weather")
AGAIN = {"max_attempts": 3, "delay": "5s"}
COLUMNS = {
    "raw.flights": "flight_date DATE, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "dep_delay DOUBLE, arr_delay DOUBLE, distance INT, fire_time TIMESTAMP",
    "raw.weather": "flight_date DATE, origin STRING, hour INT, wind_speed DOUBLE, fire_time TIMESTAMP",
    "mart.delays": "flight_date DATE, carrier STRING, flights BIGINT, mean_delay DOUBLE",
    "mart.report": "new_flights BIGINT, new_weather BIGINT, partial BOOLEAN",
}


@app.pyspark
def ingest(run: Run, spark: SparkSession, seconds: int) -> None:
    """Append one day's file to lake.raw.flights: the day that this fire stands for, whenever it happens to start."""
    from pyspark.sql import functions as f

    landed = _landed(run, spark, "flights", seconds).select(
        "flight_date",
        "carrier",
        f.col("flight").cast("int").alias("flight"),
        "tailnum",
        "origin",
        "dest",
        f.col("dep_delay").cast("double").alias("dep_delay"),
        f.col("arr_delay").cast("double").alias("arr_delay"),
        f.col("distance").cast("int").alias("distance"),
        "fire_time",
    )
    landed.writeTo("lake.raw.flights").append()


@app.pyspark
def ingest_weather(run: Run, spark: SparkSession, seconds: int) -> None:
    """Append one day's hours of weather to lake.raw.weather."""
    from pyspark.sql import functions as f

    landed = _landed(run, spark, "weather", seconds).select(
        "flight_date",
        "origin",
        f.col("hour").cast("int").alias("hour"),
        f.col("wind_speed").cast("double").alias("wind_speed"),
        "fire_time",
    )
    landed.writeTo("lake.raw.weather").append()


@app.pyspark
def refresh_delays(run: Run, spark: SparkSession) -> None:
    """Add what is new to lake.mart.delays: exactly the days that came since the last refresh."""
    from pyspark.sql import functions as f

    _make(spark, "raw.flights", "mart.delays")
    new = run.inputs[flights].read(spark).groupBy("flight_date", "carrier")
    counted = new.agg(f.count("*").alias("flights"), f.round(f.avg("dep_delay"), 1).alias("mean_delay"))
    counted.writeTo("lake.mart.delays").append()


@app.pyspark
def report(run: Run, spark: SparkSession) -> None:
    """Tell how many flights and how much weather are new, and whether one of them was waited for in vain."""
    _make(spark, "raw.flights", "raw.weather", "mart.report")
    new_flights, new_weather = (run.inputs[one].read(spark).count() for one in (flights, weather))
    line = [(new_flights, new_weather, run.timed_out_waiting)]
    spark.createDataFrame(line, "new_flights BIGINT, new_weather BIGINT, partial BOOLEAN").writeTo(
        "lake.mart.report"
    ).append()


cleanup = app.sql("cleanup", "CALL lake.system.rewrite_manifests('raw.flights')")


@app.python
def check_landing(run: Run) -> None:
    """Say how many files wait in the landing folder."""
    print(f"{run.fire_time:%H:%M:%S} {sum(1 for _ in landing().iterdir())} files")


disk = app.command("disk", "df", "-h", "/")


def _landed(run: Run, spark: SparkSession, kind: str, seconds: int) -> DataFrame:
    """The file of the day that a fire stands for."""
    from pyspark.sql import functions as f

    assert run.fire_time is not None, "which day to land follows from the fire time; rerun an old run to repeat one"
    _make(spark, f"raw.{kind}")
    day = day_of(run.fire_time, seconds)
    run.log.info("landing the %s of %s", kind, day)
    rows = spark.read.csv(str(file_of(kind, day)), header=True, nullValue="NA", inferSchema=False)
    return rows.withColumn("flight_date", f.lit(day)).withColumn("fire_time", f.lit(run.fire_time))


def _make(spark: SparkSession, *names: str) -> None:
    """Whoever comes first makes a table."""
    for name in names:
        by_day = "PARTITIONED BY (flight_date)" if name == "raw.flights" else ""
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{name.partition('.')[0]}")
        spark.sql(f"CREATE TABLE IF NOT EXISTS lake.{name} ({COLUMNS[name]}) USING iceberg {by_day}")


# by the clock
app.schedule("ingest", ingest.bind(seconds=5), when=every("5s"), catch_up="all", retry=AGAIN, enabled=True)
app.schedule("weather", ingest_weather.bind(seconds=20), when=every("20s"), catch_up="all", retry=AGAIN, enabled=True)
app.schedule("landing", check_landing, when=every("2s"), enabled=True)
app.schedule("disk", disk, when=cron("*/3 * * * * *", seconds=True), enabled=True)

# by what arrives
app.schedule(
    "delays", refresh_delays, when=flights.new(partitions=3) | since_last_run("20s"), retry=AGAIN, enabled=True
)
app.schedule(
    "report", report, when=(flights.new() & weather.new()).max_wait("30s", then="run"), retry=AGAIN, enabled=True
)
app.schedule("cleanup", cleanup, when=flights.new().quiet("10s"), retry=AGAIN, enabled=True)
