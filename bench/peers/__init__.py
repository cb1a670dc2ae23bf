"""What the workloads compare Midstream with, and what they share to do it.

Every system of a workload, Midstream too, is a module of its own (`aim_duckdb`, `tpch_spark`, …) and runs in a process
of its own, so that its memory is its own, a crash is its own, and a peer may live in an environment of its own:

    python -m peers.aim_duckdb task.json found.json        # in bench/

The task says what to do; what was found are seconds and answers. The parent compares the answers before it shows any
time.
"""
