"""Which commits count."""
