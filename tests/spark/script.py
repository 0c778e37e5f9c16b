"""A program that is a file."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print("script", __name__, run.schedule, spark.range(4).count())  # noqa: F821
