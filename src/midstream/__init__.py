"""Midstream: a streaming database in SQL on Apache Spark."""
