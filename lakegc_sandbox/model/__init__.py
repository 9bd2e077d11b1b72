"""The state of the sandbox lakeFS: repositories, branches, commits, objects."""
