"""Marks and sweeps in an external process, by Dagster Pipes: on EMR, Glue, Databricks, Kubernetes or this machine.

`launching` runs in Dagster's step and imports Dagster. `external` runs in the external process and does not. `messages`
is what the two say to one another. docs/pipes.md shows how to launch.
"""
