"""Spark: the only package that imports pyspark. It runs pieces of SQL as Spark jobs, on either kernel.

`engine` is what the database sees; `session` starts Spark and stops it; `lanes` are the threads that talk to the
JVM; `kernel` runs DuckDB inside a task (`duckdb_inputs` and `duckdb_connection` serve it); `spark_sql` runs the
same as Spark SQL; `written` describes Parquet files that were written; `plain` gives both
kernels' tables the same types; `errors` gives every failure our name.
"""
