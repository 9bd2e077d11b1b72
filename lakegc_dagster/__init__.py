"""lakegc as a Dagster code location: how a team runs it. What is garbage is decided in `lakegc_core` alone."""
