"""Stage 3: which commits count."""
