"""The sweep: a look at all references, the deletes, and what became of each object. `stage` is its face."""
