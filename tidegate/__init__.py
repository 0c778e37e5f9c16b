"""Tidegate: a data-aware scheduler for Spark lakehouses."""
