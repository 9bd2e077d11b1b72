"""lakegc_core: the collector. It never imports Dagster; lakegc_dagster is how a team runs it."""

__version__ = "0.1.0"
