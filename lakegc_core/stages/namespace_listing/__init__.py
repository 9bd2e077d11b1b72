"""Stage 1: what lies in the storage namespace."""
