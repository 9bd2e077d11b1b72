"""The files that the sandbox lakeFS writes."""
