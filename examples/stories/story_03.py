"""New data for a feed arrives once a day, nobody knows when; it must be processed within 3 hours of its arrival.

With cron one asks every three hours and does nothing seven times out of eight. Here the arrival starts the program.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidegate import App, Run, table

app = App("story-03", namespace="stories")
feed = table("lake.stories.feed_03")


@app.pyspark
def process_feed(run: Run, spark: SparkSession) -> None:
    """Append exactly the rows that arrived."""
    run.inputs[feed].read(spark).writeTo("lake.stories.mart_03").append()


app.schedule("process-the-feed", process_feed, when=feed.new(), enabled=True)
