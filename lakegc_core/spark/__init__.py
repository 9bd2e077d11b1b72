"""Runs work: session, Java, what executors are sent. Nothing of garbage collection."""
