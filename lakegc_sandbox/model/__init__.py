"""What the sandbox lakeFS knows: repositories, branches, commits, objects."""
