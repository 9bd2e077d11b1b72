"""The REST API of the sandbox lakeFS."""
