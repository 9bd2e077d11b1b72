"""Stage 4: what the commits refer to."""
