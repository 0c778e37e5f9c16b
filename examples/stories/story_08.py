"""A program joins two tables. It should run when both have new data; but if one gets none, after two hours with what
there is, reading the existing data of the other."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidegate import App, Run, table

app = App("story-08", namespace="stories")
orders, customers = table("lake.stories.orders_08"), table("lake.stories.customers_08")


@app.pyspark
def join(run: Run, spark: SparkSession) -> None:
    """Join the new orders with all customers; note whether somebody was missing."""
    new_orders = run.inputs[orders].read(spark)
    joined = new_orders.join(run.inputs[customers].table(spark), "customer", "left")
    joined.selectExpr("order", "customer", "name", f"{run.timed_out_waiting} AS partial").writeTo(
        "lake.stories.joined_08"
    ).append()


app.schedule("join", join, when=(orders.new() & customers.new()).max_wait("2h", then="run"), enabled=True)
