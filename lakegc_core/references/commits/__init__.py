"""The commits that count."""
