"""lakegc as a Dagster code location: how a team runs it. No garbage is found or judged here; `lakegc_core` does that."""
