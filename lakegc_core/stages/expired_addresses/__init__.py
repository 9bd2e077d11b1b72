"""The fifth stage: what is listed and that nothing refers to. `stage` is its face."""
