"""Stage 2: what is staged."""
