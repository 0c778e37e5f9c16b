"""Iceberg tables seen from outside Spark: catalogs, and what changed in a table. Reads metadata, never data."""
