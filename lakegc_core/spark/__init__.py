"""How work runs: session, Java, what executors are sent. Nothing of garbage collection."""
